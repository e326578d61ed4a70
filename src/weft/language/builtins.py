# SPDX-License-Identifier: Apache-2.0
"""Python's builtins on staged values: ``abs min max divmod pow round len range int float bool``.

In: staged and compile-time values. Out: Python's result, in weft's types.
"""

from __future__ import annotations

import builtins
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import math

from weft.errors import TypeMismatchError
from weft.language.control import make_range, range_dtype
from weft.language.debug import print_
from weft.language.memory.access import dim
from weft.language.numbers.complex import complex as complex_
from weft.language.numbers.convert import convert, expect_scalar, float_dtype, truth
from weft.language.numbers.operators import binary
from weft.language.numbers.rounding import (
    emit_absolute,
    emit_extreme,
    emit_rounding,
    extreme_of_constants,
)
from weft.language.operation import Operation, operation
from weft.language.values import Scalar, Tensor, describe, is_staged
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
    from weft.language.control import StagedRange
    from weft.types.dtype import DType


@operation(name="abs", on_host=True, takes_complex=True, elementwise=True)
def abs_(builder: Builder, x: Any) -> Any:
    """``abs(x)`` in the operand's type; the smallest signed integer wraps to itself.

    Example:
        ``b[i] = abs(a[i])``
    """
    return emit_absolute(builder, x) if is_staged(x) else builtins.abs(x)


@operation(name="min", on_host=True, takes_complex=True, elementwise=True)
def min_(builder: Builder, *values: Any) -> Any:
    """The smallest of its arguments, or of one tuple or list, in their common type.

    With NaN it is IEEE's minNum: the number wins (`weft.math.min`).

    Raises:
        TypeMismatchError: without values, and for incompatible types.

    Example:
        ``end = min(start + 64, n)``
    """
    return _extreme(builder, "min", values)


@operation(name="max", on_host=True, takes_complex=True, elementwise=True)
def max_(builder: Builder, *values: Any) -> Any:
    """The largest of its arguments, or of one tuple or list, in their common type.

    With NaN it is IEEE's maxNum: the number wins (`weft.math.max`).

    Raises:
        TypeMismatchError: without values, and for incompatible types.

    Example:
        ``b[i] = max(a[i], 0)``
    """
    return _extreme(builder, "max", values)


def _extreme(builder: Builder, name: str, values: tuple[Any, ...]) -> Any:
    if len(values) == 1 and isinstance(values[0], builtins.tuple | builtins.list):
        values = builtins.tuple(cast("builtins.tuple[Any, ...]", values[0]))
    if not any(is_staged(value) for value in values):
        return extreme_of_constants(name, values)
    first: Any = expect_scalar(builder, values[0], f"{name}: an argument")
    return reduce(lambda one, other: emit_extreme(builder, name, one, other), values[1:], first)


@operation(name="divmod", on_host=True)
def divmod_(builder: Builder, dividend: Any, divisor: Any) -> Any:
    """``(dividend // divisor, dividend % divisor)``, both floored.

    Example:
        ``row, column = divmod(i, width)``
    """
    if not is_staged(dividend) and not is_staged(divisor):
        return builtins.divmod(dividend, divisor)
    return binary(builder, "//", dividend, divisor), binary(builder, "%", dividend, divisor)


@operation(name="pow", on_host=True, elementwise=True)
def pow_(builder: Builder, base: Any, exponent: Any, mod: Any = None) -> Any:
    """``base ** exponent``; with `mod` only for constants.

    Raises:
        TypeMismatchError: for a staged value with `mod`; as ``**``.

    Example:
        ``b[i] = pow(a[i], 3)``
    """
    if not any(is_staged(value) for value in (base, exponent, mod)):
        return cast("Any", builtins.pow)(base, exponent, mod)
    if mod is not None:
        raise TypeMismatchError(
            "POW_MODULUS", "pow with a modulus takes constants only", hint="write (a ** n) % m"
        )
    return binary(builder, "**", base, exponent)


@operation(name="round", on_host=True)
def round_(builder: Builder, x: Any, digits: Any = None) -> Any:
    """The nearest integer, halves to even: i32, or i64 for an f64. Integers are returned unchanged.

    Out of range it saturates, and NaN gives 0, as ``weft.i32(x)`` does. `weft.math.round` gives a float.

    Raises:
        TypeMismatchError: for a number of digits.

    Example:
        ``level = round(x * 255)``
    """
    if not is_staged(x) and not is_staged(digits):
        return cast("Any", builtins.round)(x, digits)
    if digits is not None:
        raise TypeMismatchError(
            "ROUND_DIGITS",
            "round to a number of digits takes constants only",
            hint="write weft.math.round(x * 100) / 100",
        )
    rounded = emit_rounding(builder, "round", math.RoundEvenOp, builtins.round, x)
    return _integer(builder, rounded)


@operation(name="int", on_host=True)
def int_(builder: Builder, x: Any = 0) -> Any:
    """The integer part of a number: i32, i64 for an f64, i64 or u32, and u64 for a u64.

    Every integer keeps its value. Floats out of range saturate, and NaN gives 0. To choose the type write
    ``weft.i64(x)``.

    Example:
        ``cell = int(x)``
    """
    if not is_staged(x):
        return builtins.int(x)
    number = _integer(builder, x)
    return convert(builder, number, range_dtype(number))


def _integer(builder: Builder, x: object) -> Scalar:
    number = convert_scalar(builder, x, "int")
    return number if number.dtype.is_integer else convert(builder, number, _whole_dtype(number))


def _whole_dtype(number: Scalar) -> DType:
    return types.i64 if number.dtype is types.f64 else types.i32


@operation(name="float", on_host=True)
def float_(builder: Builder, x: Any = 0.0) -> Any:
    """A number as a float: floats are returned unchanged, integers become f32 or f64, as in a division.

    Example:
        ``mean = float(total) / n``
    """
    if not is_staged(x):
        return builtins.float(x)
    number = convert_scalar(builder, x, "float")
    if number.dtype.is_float:
        return number
    return convert(builder, number, float_dtype(number.dtype))


@operation(name="bool", on_host=True, takes_complex=True)
def bool_(builder: Builder, x: Any = False) -> Any:
    """``x != 0`` as a ``bool_``; NaN is true, as in Python.

    Example:
        ``mask[i] = bool(a[i])``
    """
    return truth(builder, x) if is_staged(x) else builtins.bool(x)


def convert_scalar(builder: Builder, value: object, name: str) -> Scalar:
    """The value if it is a staged number.

    Raises:
        TypeMismatchError: for a tensor or a stream.
    """
    number = expect_scalar(builder, value, f"{name}: the argument")
    assert isinstance(number, Scalar)
    return number


@operation(name="len", on_host=True, packed=True, takes_complex=True)
def len_(builder: Builder, x: Any) -> Any:
    """The first dimension of a tensor; the length of a tuple, list or string.

    Raises:
        TypeMismatchError: for a tensor of rank 0, and for a value without a length.

    Example:
        ``if i < len(a): b[i] = a[i]``
    """
    if isinstance(x, Tensor) and x.rank > 0:
        return dim(builder, x, 0)
    if is_staged(x):
        raise TypeMismatchError("TYPE_NO_LENGTH", f"{describe(x)} has no length")
    return builtins.len(cast("Any", x))


@operation(name="range", on_host=True)
def range_(builder: Builder, *arguments: Any) -> range | StagedRange:
    """``range(stop)``, ``range(start, stop)``, ``range(start, stop, step)``: a loop at run time.

    Its variable is i32 if that holds all argument types, else i64; u64 if an argument is u64.

    Raises:
        TypeMismatchError: for a non-integer, and for a signed integer with u64.
        ValueRangeError: for a constant step of 0, and for a negative end with u64.

    Example:
        ``for k in range(a.shape[1]): total += a[i, k]``
    """
    return make_range(builder, *arguments)


BUILTINS: Final[dict[object, Operation[...]]] = {
    builtins.abs: abs_,
    builtins.min: min_,
    builtins.max: max_,
    builtins.divmod: divmod_,
    builtins.pow: pow_,
    builtins.round: round_,
    builtins.len: len_,
    builtins.range: range_,
    builtins.int: int_,
    builtins.float: float_,
    builtins.bool: bool_,
    builtins.complex: complex_,
    builtins.print: print_,
}
"""Python's builtin → its implementation for staged arguments."""
