# SPDX-License-Identifier: Apache-2.0
"""``weft.math``, exact functions: rounding, signs, extremes, classification, and bits: `popcount`, `clz`, `mulhi`.

In: numbers. Out: scalars; a Python number for constants alone. Integers pass through the rounding functions unchanged.
Bit functions take integers, a constant alone as i32 (i64 if it does not fit), and return a count, i32; `mulhi` the
operands' type.
"""

from __future__ import annotations

import builtins
import math as python
from numbers import Real
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, math

from weft.errors import TypeMismatchError
from weft.language.ir_types import integer_type, ir_type
from weft.language.numbers.complex import complex_absolute
from weft.language.numbers.convert import (
    arithmetic_dtype,
    article,
    common_dtype,
    convert,
    default_dtype,
    to_common,
)
from weft.language.numbers.elementary import (
    computation_dtype,
    emit_float,
    math_operation,
    of_constants,
    operands_of,
)
from weft.language.numbers.operators import binary
from weft.language.values import Scalar, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation as IROperation

    from weft.dialects.builder import Builder
    from weft.language.numbers.convert import Operand

    Number = object
    Result = Scalar | float


def emit_rounding(
    builder: Builder,
    name: str,
    kind: Callable[..., IROperation],
    function: Callable[[float], float],
    x: object,
) -> Scalar | float | int:
    """A rounding function: floats keep their type, integers are returned unchanged.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    number = operands_of(builder, name, (x,))[0]
    if isinstance(number, Scalar) and not number.dtype.is_float:
        return to_common(builder, number, arithmetic_dtype(number.dtype))
    if isinstance(number, int):
        return int(number)
    return emit_float(builder, name, kind, function, number)


@math_operation
def floor(builder: Builder, x: Number) -> Result:
    """The largest whole number that is not above `x`, as a float of the same type.

    Example:
        ``cell = weft.i32(weft.math.floor(x))``
    """
    return emit_rounding(builder, "floor", math.FloorOp, _whole(python.floor), x)


@math_operation
def ceil(builder: Builder, x: Number) -> Result:
    """The smallest whole number that is not below `x`, as a float of the same type.

    Example:
        ``b[i] = weft.math.ceil(a[i])``
    """
    return emit_rounding(builder, "ceil", math.CeilOp, _whole(python.ceil), x)


@math_operation
def trunc(builder: Builder, x: Number) -> Result:
    """`x` without its fraction, as a float of the same type.

    Example:
        ``b[i] = x - weft.math.trunc(x)``
    """
    return emit_rounding(builder, "trunc", math.TruncOp, _whole(python.trunc), x)


@math_operation
def round_(builder: Builder, x: Number) -> Result:
    """The nearest whole number, as a float of the same type; halves round to even.

    Python's ``round(x)`` gives an integer.

    Example:
        ``b[i] = weft.math.round(a[i] * 255)``
    """
    return emit_rounding(builder, "round", math.RoundEvenOp, _whole(builtins.round), x)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    def rounded(x: float) -> float:
        return python.copysign(float(function(x)), x) if python.isfinite(x) else x

    return rounded


@math_operation
def abs_(builder: Builder, x: Number) -> Result:
    """The absolute value; the smallest signed integer wraps to itself.

    Example:
        ``b[i] = weft.math.abs(a[i])``
    """
    return emit_absolute(builder, x)


def emit_absolute(builder: Builder, x: object) -> Scalar | float | int:
    """``abs(x)`` in the operand's arithmetic type.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    number = operands_of(builder, "abs", (x,))[0]
    if not isinstance(number, Scalar):
        return builtins.abs(number)
    if number.dtype.is_complex:
        return complex_absolute(builder, number, binary)
    value = to_common(builder, number, arithmetic_dtype(number.dtype))
    if value.dtype.kind == "uint":
        return value
    kind = math.AbsFOp if value.dtype.is_float else math.AbsIOp
    return Scalar(builder.emit(kind(value.ssa)).result, value.dtype)


@math_operation
def min_(builder: Builder, x: Number, y: Number, *, nan: bool = False) -> Result:
    """The smaller of two numbers in their common type; with one NaN the other number, or NaN with ``nan=True``.

    This is C's fmin and IEEE's minNum, as computed by GPUs; Python's result would depend on the order. Whether it
    yields 0.0 or −0.0 is unspecified.

    Example:
        ``b[i] = weft.math.min(a[i], limit)``
    """
    return emit_extreme(builder, "min", x, y, nan=nan)


@math_operation
def max_(builder: Builder, x: Number, y: Number, *, nan: bool = False) -> Result:
    """The larger of two numbers in their common type; with one NaN the other number, or NaN with ``nan=True``.

    This is C's fmax and IEEE's maxNum, as computed by GPUs; Python's result would depend on the order. Whether it
    yields 0.0 or −0.0 is unspecified.

    Example:
        ``relu = weft.math.max(x, 0)``
    """
    return emit_extreme(builder, "max", x, y, nan=nan)


# Name → operation on floats, on signed integers, on unsigned ones; and on Python numbers.
_EXTREMES = {
    "min": (arith.MinnumfOp, arith.MinSIOp, arith.MinUIOp, builtins.min),
    "max": (arith.MaxnumfOp, arith.MaxSIOp, arith.MaxUIOp, builtins.max),
}


def emit_extreme(
    builder: Builder, name: str, x: object, y: object, *, nan: bool = False
) -> Scalar | float | int:
    """``min`` or ``max`` of two numbers in their common type; with `nan` NaN if one is.

    Raises:
        TypeMismatchError: if an argument is not a number, or the types have no common type.
        ValueRangeError: for a constant that does not fit the common type.
    """
    first, second = operands_of(builder, name, (x, y))
    if not isinstance(first, Scalar) and not isinstance(second, Scalar):
        missing = [one for one in (first, second) if one != one]
        return missing[0] if nan and missing else extreme_of_constants(name, (first, second))
    floating, signed, unsigned, _ = _EXTREMES[name]
    dtype = common_dtype(first, second)
    left, right = to_common(builder, first, dtype), to_common(builder, second, dtype)
    kind = floating if dtype.is_float else signed if dtype.is_signed else unsigned
    found = builder.emit(kind(left.ssa, right.ssa)).result
    if nan and dtype.is_float:
        has_nan = builder.emit(arith.CmpfOp(left.ssa, right.ssa, "uno")).result
        missing = builder.constant(ir_type(dtype), float("nan"))
        found = builder.emit(arith.SelectOp(has_nan, missing, found)).result
    return Scalar(found, dtype)


def extreme_of_constants(name: str, values: Sequence[Any]) -> Any:
    """Python's ``min`` or ``max``, but a number wins over NaN in any position, as at run time."""
    wanted = [value for value in values if not (isinstance(value, Real) and value != value)]
    return _EXTREMES[name][3](wanted or values)


@math_operation
def copysign(builder: Builder, x: Number, y: Number) -> Result:
    """The magnitude of `x` with the sign of `y`, zeros and NaN included.

    Example:
        ``step = weft.math.copysign(1.0, gradient)``
    """
    return emit_float(builder, "copysign", math.CopySignOp, python.copysign, x, y)


@math_operation
def isnan(builder: Builder, x: Number) -> Scalar | bool:
    """Whether `x` is not a number, as a ``bool_``; false for integers.

    Example:
        ``if weft.math.isnan(a[i]): b[i] = 0``
    """
    return _classify(builder, "isnan", x, python.isnan, "uno", integers=False)


@math_operation
def isinf(builder: Builder, x: Number) -> Scalar | bool:
    """Whether `x` is an infinity, as a ``bool_``; false for integers.

    Example:
        ``if weft.math.isinf(a[i]): b[i] = 0``
    """
    return _classify(builder, "isinf", x, python.isinf, "oeq", integers=False)


@math_operation
def isfinite(builder: Builder, x: Number) -> Scalar | bool:
    """Whether `x` is neither an infinity nor NaN, as a ``bool_``; true for integers.

    Example:
        ``if weft.math.isfinite(a[i]): b[i] = a[i]``
    """
    return _classify(builder, "isfinite", x, python.isfinite, "olt", integers=True)


def _classify(
    builder: Builder,
    name: str,
    x: object,
    function: Callable[[float], bool],
    predicate: str,
    *,
    integers: bool,
) -> Scalar | bool:
    number = operands_of(builder, name, (x,))[0]
    if not isinstance(number, Scalar):
        return bool(of_constants(name, function, [number]))
    if not number.dtype.is_float:
        return integers
    value = to_common(builder, number, computation_dtype([number]))
    if predicate == "uno":
        compared = arith.CmpfOp(value.ssa, value.ssa, predicate)
    else:
        infinity = builder.constant(ir_type(value.dtype), python.inf)
        magnitude = builder.emit(math.AbsFOp(value.ssa)).result
        compared = arith.CmpfOp(magnitude, infinity, predicate)
    return Scalar(builder.emit(compared).result, types.bool_)


@math_operation
def popcount(builder: Builder, x: Number) -> Scalar:
    """Number of bits of `x` that are 1, as an i32.

    Raises:
        TypeMismatchError: for a float.

    Example:
        ``count = weft.math.popcount(mask)``
    """
    value = _integer(builder, "popcount", x)
    return _count(builder, value, math.CtPopOp(value.ssa))


@math_operation
def clz(builder: Builder, x: Number) -> Scalar:
    """Number of 0 bits above the highest 1, as an i32; the type's width for 0.

    Raises:
        TypeMismatchError: for a float.

    Example:
        ``level = 31 - weft.math.clz(n)``
    """
    value = _integer(builder, "clz", x)
    return _count(builder, value, math.CountLeadingZerosOp(value.ssa))


@math_operation
def ctz(builder: Builder, x: Number) -> Scalar:
    """Number of 0 bits below the lowest 1, as an i32; the type's width for 0.

    Raises:
        TypeMismatchError: for a float.

    Example:
        ``lowest = weft.math.ctz(mask)``
    """
    value = _integer(builder, "ctz", x)
    return _count(builder, value, math.CountTrailingZerosOp(value.ssa))


@math_operation
def ffs(builder: Builder, x: Number) -> Scalar:
    """Position of the lowest 1 bit, counted from 1, as an i32; 0 for 0, as in CUDA.

    Raises:
        TypeMismatchError: for a float.

    Example:
        ``leader = weft.math.ffs(mask) - 1``
    """
    value = _integer(builder, "ffs", x)
    zeros = _count(builder, value, math.CountTrailingZerosOp(value.ssa))
    one, zero = builder.constant(ir_type(types.i32), 1), builder.constant(ir_type(types.i32), 0)
    position = builder.emit(arith.AddiOp(zeros.ssa, one)).result
    none = builder.constant(ir_type(value.dtype), 0)
    empty = builder.emit(arith.CmpiOp(value.ssa, none, "eq")).result
    return Scalar(builder.emit(arith.SelectOp(empty, zero, position)).result, types.i32)


@math_operation
def mulhi(builder: Builder, x: Number, y: Number) -> Scalar:
    """The upper half of a multiplication of two integers, in their common type.

    Raises:
        TypeMismatchError: for floats, and for incompatible types.

    Example:
        ``quotient = weft.math.mulhi(n, weft.u32(0xCCCCCCCD)) >> 3`` is n // 10.
    """
    first, second = operands_of(builder, "mulhi", (x, y))
    dtype = common_dtype(first, second)
    if dtype.is_float:
        raise _no_integer("mulhi", first if _is_float(first) else second)
    wide = integer_type(2 * dtype.bits)
    extend = arith.ExtSIOp if dtype.is_signed else arith.ExtUIOp
    left, right = (
        builder.emit(extend(to_common(builder, value, dtype).ssa, wide)).result
        for value in (first, second)
    )
    full = builder.emit(arith.MuliOp(left, right)).result
    shifted = builder.emit(arith.ShRUIOp(full, builder.constant(wide, dtype.bits))).result
    return Scalar(builder.emit(arith.TruncIOp(shifted, integer_type(dtype.bits))).result, dtype)


def _integer(builder: Builder, name: str, x: object) -> Scalar:
    number = operands_of(builder, name, (x,))[0]
    if _is_float(number):
        raise _no_integer(name, number)
    dtype = number.dtype if isinstance(number, Scalar) else default_dtype(number)
    return to_common(builder, number, arithmetic_dtype(dtype))


def _count(builder: Builder, value: Scalar, counting: IROperation) -> Scalar:
    counted = Scalar(builder.emit(counting).results[0], value.dtype)
    return convert(builder, counted, types.i32)


def _is_float(value: Operand) -> bool:
    return isinstance(value, float) or (isinstance(value, Scalar) and value.dtype.is_float)


def _no_integer(name: str, value: Operand) -> TypeMismatchError:
    found = article(value.dtype) if isinstance(value, Scalar) else describe(value)
    return TypeMismatchError(
        "TYPE_NO_BITS",
        f"math.{name} takes integers, received {found}",
        hint="convert to an integer first, such as weft.i32(x)",
    )
