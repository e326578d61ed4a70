# SPDX-License-Identifier: Apache-2.0
"""``weft.math``, bit functions of integers: `popcount`, `clz`, `ctz`, `ffs`, `mulhi`.

In: integers; a constant alone counts as i32 (i64 if it does not fit). Out: a count, i32; for `mulhi` the
operands' type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, math

from weft.errors import TypeMismatchError
from weft.language.ir_types import integer_type, ir_type
from weft.language.numbers.constants import article, default_dtype
from weft.language.numbers.convert import convert, to_common
from weft.language.numbers.elementwise import math_operation, operands_of
from weft.language.numbers.promotion import arithmetic_dtype, common_dtype
from weft.language.values import Scalar, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import Operation as IROperation

    from weft.dialects.builder import Builder
    from weft.language.numbers.promotion import Operand

    Number = object


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
    """The upper half of the product of two integers, in their common type.

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
    product = builder.emit(arith.MuliOp(left, right)).result
    shifted = builder.emit(arith.ShRUIOp(product, builder.constant(wide, dtype.bits))).result
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
