# SPDX-License-Identifier: Apache-2.0
"""A launch's arguments, checked against the kernel's parameters.

In: an annotation and the value that the host function gives. Out: the value that is passed: a Python number becomes a
scalar, a `weft.static` value stays a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from weft.arguments.base import MISSING
from weft.arguments.constant import ConstantAnnotation, Constexpr
from weft.arguments.pointer import PointerSpec
from weft.arguments.records import is_record, record_of
from weft.arguments.scalar import numpy_scalar_dtype
from weft.arguments.tensor_spec import Tensor as TensorAnnotation
from weft.arguments.tensor_spec import TensorMap as TensorMapAnnotation
from weft.arguments.tensor_spec import TensorSpec
from weft.arguments.tensor_spec import tensor_text as spec_text
from weft.errors import TypeMismatchError, ValueRangeError
from weft.frontend.structure import Shape, children, contains_staged, flatten, rebuild
from weft.language.control import StaticValue
from weft.language.numbers.convert import constant, default_dtype, materialize, operand
from weft.language.numbers.promises import dim_divisor, divides
from weft.language.values import Scalar, Tensor, TensorMap, describe, tensor_text
from weft.types.dims import Dim
from weft.types.dtype import DType, i32, i64

if TYPE_CHECKING:
    from weft.arguments.base import DeclaredParameter
    from weft.dialects.builder import Builder
    from weft.frontend.context import Frame
    from weft.frontend.source import FunctionSource


@dataclass(slots=True, eq=False)
class TypedConstant:
    """A `weft.static` number for a parameter annotated with an element type, which it keeps."""

    value: Any
    dtype: DType


def checked_argument(
    caller: Frame,
    source: FunctionSource,
    parameter: DeclaredParameter,
    value: Any,
    callee: str = "kernel",
) -> Any:
    """The value checked against the parameter's annotation.

    Raises:
        TypeMismatchError: if it does not fit.
    """
    annotation = parameter.annotation
    is_static = isinstance(value, StaticValue)
    if is_static:
        value = value.value
    where = f"{callee} '{source.name}': argument '{parameter.name}'"
    if isinstance(annotation, DType):
        if isinstance(value, Scalar | bool | int | float):
            number = _materialized(caller, value, annotation, where)
            return TypedConstant(value, annotation) if is_static else number
        raise _misfit(where, str(annotation), value)
    if isinstance(annotation, Dim):
        return _multiple(caller, where, annotation, value)
    if annotation is TensorAnnotation or isinstance(annotation, TensorSpec):
        if not isinstance(value, Tensor) or value.type.is_pointer:
            raise _misfit(where, "a tensor", value)
        if isinstance(annotation, TensorSpec):
            _check_tensor(where, annotation, value)
            _check_promises(caller.builder, where, annotation, value)
    if annotation is TensorMapAnnotation and not isinstance(value, TensorMap):
        raise _misfit(where, "a tensor map, which weft.tensor_map(a, box=...) makes", value)
    if isinstance(annotation, PointerSpec):
        is_pointer = isinstance(value, Tensor) and value.type.is_pointer
        if not is_pointer or value.dtype is not annotation.dtype:
            raise _misfit(where, str(annotation), value)
    if annotation is Constexpr or isinstance(annotation, ConstantAnnotation):
        if contains_staged(value):
            raise _misfit(where, "a value known at compile time", value)
        expected = annotation.type if isinstance(annotation, ConstantAnnotation) else object
        if isinstance(expected, type) and not isinstance(value, expected):
            raise _misfit(where, f"a compile-time {expected.__name__}", value)
        return value
    return value if is_static else _at_run_time(caller.builder, value, annotation)


def _multiple(caller: Frame, where: str, dim: Dim, value: Any) -> Scalar:
    """A size that is known to be a multiple of what its annotation promises.

    Raises:
        ValueRangeError: for a constant that is not.
        TypeMismatchError: for a number without known divisors, and for other types than integers.
    """
    number = _materialized(caller, value, i32 if dim.width == 32 else i64, where)
    known = number.constant
    if known is not None and known % dim.divisibility:
        raise ValueRangeError(
            "KERNEL_ARGUMENT",
            f"{where} is {known}, expected a multiple of {dim.divisibility}",
        )
    if known is None and not divides(caller.builder, dim.divisibility, number):
        raise TypeMismatchError(
            "KERNEL_ARGUMENT",
            f"{where} must be known to be a multiple of {dim.divisibility}",
            hint=f'annotate it in the host function: weft.sym("n", divisibility={dim.divisibility})',
        )
    return number


def _at_run_time(builder: Builder, value: Any, annotation: object) -> Any:
    """A value whose Python numbers are run-time values, as those given to a host function; enum members are not.

    Raises:
        ValueRangeError, TypeMismatchError: if a number does not fit the annotation of its field.
    """
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if _is_number(value):
        number = operand(builder, value)
        if isinstance(annotation, DType):
            return materialize(builder, number, annotation)
        is_typed = isinstance(number, Scalar)
        return number if is_typed else constant(builder, number, default_dtype(number))
    found = children(value)
    if found is None or not any(map(_is_number, flatten(value)[1])):
        return value
    labels, items = found
    if is_record(kind):
        annotations = record_of(kind).annotations
    else:
        said = get_args(annotation)
        annotations = said if len(said) == len(items) else (MISSING,) * len(items)
    made = [
        item
        if said is Constexpr or isinstance(said, ConstantAnnotation)
        else _at_run_time(builder, item, said)
        for item, said in zip(items, annotations, strict=True)
    ]
    return rebuild(Shape(kind, labels, (None,) * len(made)), iter(made))


def _is_number(value: object) -> bool:
    return type(value) in (int, float, bool) or numpy_scalar_dtype(value) is not None


def _materialized(caller: Frame, value: Any, dtype: DType, where: str) -> Scalar:
    try:
        return materialize(caller.builder, value, dtype)
    except TypeMismatchError as error:
        raise TypeMismatchError(error.code, f"{where}: {error.message}", hint=error.hint) from None


def _misfit(where: str, expected: str, value: Any) -> TypeMismatchError:
    return TypeMismatchError(
        "KERNEL_ARGUMENT", f"{where} must be {expected}, received {describe(value)}"
    )


def _check_tensor(where: str, expected: TensorSpec, tensor: Tensor) -> None:
    """Checks a tensor's static properties: type, rank, static dims, layout class."""
    dims = tensor.type.dims
    layout = tensor.type.layout.data
    fits = expected.dtype in (None, tensor.dtype)
    if expected.dims is not None:
        fits = fits and len(expected.dims) == len(dims)
        pairs = zip(expected.dims, dims, strict=False)
        fits = fits and all(not isinstance(dim, int) or dim == given for dim, given in pairs)
    if expected.layout is not None:
        order = ("contiguous", "inner", "strided")
        fits = fits and order.index(layout) <= order.index(expected.layout)
    if not fits:
        raise TypeMismatchError(
            "KERNEL_ARGUMENT",
            f"{where} must be {spec_text(expected)}, received {tensor_text(tensor)}",
        )


def _check_promises(builder: Builder, where: str, expected: TensorSpec, tensor: Tensor) -> None:
    """Checks that alignment and dims of an annotation are known facts, since no call of a kernel checks them."""
    alignment = tensor.type.alignment_bytes.data
    if alignment % (expected.alignment_bytes or 1):
        raise TypeMismatchError(
            "KERNEL_ARGUMENT",
            f"{where} must be known to be aligned to {expected.alignment_bytes} bytes, received one of {alignment}",
            hint=f"annotate it in the host function: weft.fake_tensor(..., alignment_bytes={expected.alignment_bytes})",
        )
    for dimension, dim in enumerate(expected.dims or ()):
        factor = dim.divisibility if isinstance(dim, Dim) else 1
        if dim_divisor(builder, tensor.ssa, dimension) % factor:
            raise TypeMismatchError(
                "KERNEL_ARGUMENT",
                f"{where}: its shape[{dimension}] must be known to be a multiple of {factor}",
                hint=f'annotate it in the host function: weft.sym("n", divisibility={factor})',
            )
