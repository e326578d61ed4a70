# SPDX-License-Identifier: Apache-2.0
"""The argument kind of numbers: one per element type.

In: a dtype (or `int`, `float`, `bool`) as an annotation, a Python number or a NumPy scalar. Out: `ScalarKind`;
never the value itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from weft.arguments.base import MISSING, ArgumentKind, annotation_text, describe
from weft.types.dtype import DType, bool_, dtype_of_numpy, f32, i32, i64, u64

if TYPE_CHECKING:
    from weft.arguments.base import Place, Symbols

# Python's own types, as annotations and as examples.
_PYTHON_TYPES: Final = {bool: bool_, int: i32, float: f32}


def numpy_scalar_dtype(value: Any) -> DType | None:
    """The dtype of a NumPy scalar (`np.int64(3)`), or None for anything else; imports nothing."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic):
        return None
    return numpy_dtype(value.dtype)


def numpy_dtype(dtype: object) -> DType | None:
    """weft's element type for a dtype of NumPy or ml_dtypes, or None where weft has none; imports nothing."""
    return dtype_of_numpy(str(dtype))


class ScalarKind(ArgumentKind):
    """A number passed at each call; a new value never recompiles.

    Attributes:
        dtype: its type.
    """

    title = "bool, int, float or a NumPy scalar"

    dtype: DType

    @property
    def key(self) -> tuple[Any, ...]:
        return ("ScalarKind", self.dtype.name)

    @property
    def text(self) -> str:
        return self.dtype.name

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        if isinstance(annotation, DType):
            return not annotation.is_complex
        return annotation in (bool, int, float)

    @classmethod
    def recognizes(cls, value: object) -> bool:
        own = numpy_scalar_dtype(value)
        return isinstance(value, bool | int | float) or (own is not None and not own.is_complex)

    @classmethod
    def infer(cls, annotation: object, value: object, place: Place, symbols: Symbols) -> ScalarKind:
        if isinstance(annotation, DType):
            dtype = annotation
            if dtype.is_packed or dtype.is_scale:
                raise place.error(
                    "ARGUMENT_PACKED",
                    f"it is annotated {dtype}, which is a type of a tensor's elements only",
                    hint=f"annotate {'weft.f32' if dtype.is_float else 'weft.i8 or weft.u8'}",
                )
        elif annotation is MISSING or value is not MISSING:
            dtype = _own_dtype(annotation, value, place)
        else:
            dtype = _PYTHON_TYPES[annotation]  # pyright: ignore[reportArgumentType]
        if value is not MISSING:
            check_scalar(dtype, value, annotation, place, symbols)
        is_weak = not isinstance(annotation, DType) and dtype is f32
        if is_weak and (value is MISSING or numpy_scalar_dtype(value) is None):
            return PythonFloatKind(dtype)
        return cls(dtype)


class PythonFloatKind(ScalarKind):
    """A Python float whose type nothing determines: f32, or f64 beside arguments of f64."""

    def resolved(self, symbols: Symbols) -> ScalarKind:
        return ScalarKind(symbols.default_float)


def _own_dtype(annotation: object, value: object, place: Place) -> DType:
    """The dtype of a value whose parameter is not annotated with one."""
    own = numpy_scalar_dtype(value)
    if own is None:
        kinds = [kind for kind in _PYTHON_TYPES if isinstance(value, kind)]
        own = _PYTHON_TYPES[kinds[0]] if kinds else None
    if annotation is MISSING and own is not None:
        return own
    asked = _PYTHON_TYPES.get(annotation)  # pyright: ignore[reportArgumentType, reportCallIssue]
    if asked is None or own is None or not _converts(own, asked):
        raise _kind_error(annotation, value, place)
    # `int` fixes the kind of number, not its width: a NumPy integer keeps its own.
    return own if own.kind == asked.kind or (own.is_integer and asked.is_integer) else asked


def _converts(source: DType, target: DType) -> bool:
    if target.is_bool or source.is_bool:
        return source.is_bool
    return target.is_float or source.is_integer


def _kind_error(annotation: object, value: object, place: Place) -> Exception:
    return place.error(
        "ARGUMENT_NOT_SCALAR",
        f"it is annotated {annotation_text(annotation)}, received {describe(value)}",
    )


def check_scalar(
    dtype: DType, value: Any, annotation: object, place: Place, symbols: Symbols
) -> None:
    """Checks that an example is a number that `dtype` holds.

    Raises:
        SignatureError: if it is not a number of that kind, or out of range.
    """
    own = numpy_scalar_dtype(value)
    is_float = own.is_float if own else isinstance(value, float)
    is_number = own is not None or isinstance(value, bool | int | float)
    if not is_number or (is_float and not dtype.is_float):
        raise _kind_error(annotation if annotation is not MISSING else dtype, value, place)
    number = 0 if is_float else int(value)
    if dtype.is_float:
        if not -(1 << 63) <= number < 1 << 63:
            raise place.value_error(
                "ARGUMENT_OUT_OF_RANGE",
                f"expected {dtype.name}, received {number}, which needs more than 64 bits",
                hint="pass a float",
            )
        return
    if not dtype.minimum <= number <= dtype.maximum:
        is_annotated = isinstance(annotation, DType)
        if is_annotated and symbols.is_refused_by_the_call(number):
            return
        wider = next((one for one in (i64, u64) if one.minimum <= number <= one.maximum), None)
        raise place.value_error(
            "ARGUMENT_OUT_OF_RANGE",
            f"value is {number}, expected {dtype.minimum} to {dtype.maximum} ({dtype.name})",
            hint="" if is_annotated or wider is None else f"annotate {place.name}: weft.{wider}",
        )
