# SPDX-License-Identifier: Apache-2.0
"""Bit operations and shifts: ``& | ^ ~ << >>``.

In: an operator and operands, at least one of them staged. Out: a `Scalar`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith

from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_type
from weft.language.numbers.constants import article
from weft.language.numbers.convert import constant, convert, to_common
from weft.language.numbers.promises import factor_of
from weft.language.numbers.promotion import arithmetic_dtype, common_dtype, dtype_of
from weft.language.values import Scalar, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
    from weft.language.numbers.promotion import Operand
    from weft.types.dtype import DType

_BITWISE: Final = {"&": arith.AndIOp, "|": arith.OrIOp, "^": arith.XOrIOp}


def bitwise(builder: Builder, operator: str, left: Operand, right: Operand) -> Scalar:
    """``& | ^`` on integers in their common type; two bools give a ``bool_``.

    Raises:
        TypeMismatchError: for a float.
    """
    dtype = types.bool_ if _is_bool(left) and _is_bool(right) else common_dtype(left, right)
    if dtype.is_float:
        raise _no_bits(operator, left, right)
    first, second = to_common(builder, left, dtype), to_common(builder, right, dtype)
    if operator == "&" and not dtype.is_bool:
        for number, mask in ((first, second), (second, first)):
            masked = _masked(builder, number, mask)
            if masked is not None:
                return masked
    return Scalar(builder.compute(_BITWISE[operator], first.ssa, second.ssa), dtype)


def _masked(builder: Builder, number: Scalar, mask: Scalar) -> Scalar | None:
    """``n & mask`` where it takes all bits that a multiple of a power of two may have, or none."""
    if mask.constant is None:
        return None
    low = factor_of(builder, number.ssa) - 1
    every = (1 << number.dtype.bits) - 1
    bits = int(mask.constant) & every
    if bits & ~low == 0:
        return constant(builder, 0, number.dtype)
    return number if bits | low == every else None


def invert(builder: Builder, value: Operand) -> Scalar:
    """``~value`` of an integer.

    Raises:
        TypeMismatchError: for a float, and for a ``bool_``: Python's ``~True`` is −2, which is true.
    """
    if _is_bool(value):
        raise TypeMismatchError(
            "TYPE_INVERT_BOOL",
            "~ of a bool_ would be −1 or −2, as in Python; both are true",
            hint="write `not x`, or weft.i32(x) to invert the bits of a number",
        )
    dtype = common_dtype(value, 0)
    if dtype.is_float:
        raise _no_bits("~", value)
    ones = builder.constant(ir_type(dtype), (1 << dtype.bits) - 1)
    number = to_common(builder, value, dtype)
    return Scalar(builder.compute(arith.XOrIOp, number.ssa, ones), dtype)


def shift(builder: Builder, operator: str, left: Operand, right: Operand) -> Scalar:
    """``<<`` and ``>>``; the result has the left operand's type, whatever the count's type.

    A constant on the left is weak and takes the count's type. A count of the type's width or more gives
    0, or for ``>>`` of a negative number −1, as in Python. A negative run-time count acts as a large one.

    Raises:
        TypeMismatchError: for floats.
        ValueRangeError: for a negative constant count.
    """
    dtype, count_dtype = _shift_dtypes(operator, left, right)
    number = to_common(builder, left, dtype)
    count = right.constant if isinstance(right, Scalar) else right
    if count is not None:
        return _shift_by_constant(builder, operator, number, int(count))
    assert isinstance(right, Scalar)
    staged = convert(builder, right, count_dtype)
    if _is_masked_below(staged, dtype.bits):
        amount = convert(builder, staged, dtype)
        return Scalar(builder.compute(_shift_kind(operator, dtype), number.ssa, amount.ssa), dtype)
    if (
        operator == ">>" and dtype.is_signed
    ):  # the sign fills; a negative count is large when unsigned
        amount = convert(builder, _at_most(builder, staged, dtype.bits - 1), dtype)
        return Scalar(builder.compute(arith.ShRSIOp, number.ssa, amount.ssa), dtype)
    kind = arith.ShLIOp if operator == "<<" else arith.ShRUIOp
    return _zero_beyond_width(builder, kind, number, staged)


def _shift_dtypes(operator: str, left: Operand, right: Operand) -> tuple[DType, DType]:
    left_dtype, right_dtype = dtype_of(left), dtype_of(right)
    if _is_float(left) or _is_float(right):
        raise _no_bits(operator, left, right)
    count_dtype = types.i32 if right_dtype is None else arithmetic_dtype(right_dtype)
    dtype = count_dtype if left_dtype is None else arithmetic_dtype(left_dtype)
    return dtype, count_dtype


def _shift_by_constant(builder: Builder, operator: str, number: Scalar, count: int) -> Scalar:
    dtype = number.dtype
    if count < 0:
        raise ValueRangeError(
            "SHIFT_NEGATIVE",
            f"a shift by {count}; expected 0 or more",
            hint=f"shift the other way: {'>>' if operator == '<<' else '<<'} {-count}",
        )
    if count == 0:
        return number
    if count >= dtype.bits:
        if operator == "<<" or not dtype.is_signed:
            return constant(builder, 0, dtype)
        count = dtype.bits - 1
    amount = builder.constant(ir_type(dtype), count)
    return Scalar(builder.compute(_shift_kind(operator, dtype), number.ssa, amount), dtype)


def _shift_kind(operator: str, dtype: DType) -> type[arith.ShLIOp | arith.ShRSIOp | arith.ShRUIOp]:
    if operator == "<<":
        return arith.ShLIOp
    return arith.ShRSIOp if dtype.is_signed else arith.ShRUIOp


def _is_masked_below(count: Scalar, width: int) -> bool:
    """Whether the count is masked, as in ``x & 31``, below the width."""
    owner = count.ssa.owner
    if not isinstance(owner, arith.AndIOp):
        return False
    masks = (Scalar(operand, count.dtype).constant for operand in owner.operands)
    return any(mask is not None and 0 <= mask < width for mask in masks)


def _zero_beyond_width(
    builder: Builder, kind: type[arith.ShLIOp | arith.ShRUIOp], number: Scalar, count: Scalar
) -> Scalar:
    dtype = number.dtype
    width = builder.constant(ir_type(count.dtype), dtype.bits)
    inside = builder.emit(arith.CmpiOp(count.ssa, width, "ult")).result
    # Beyond the width the shift is poison, which select ignores.
    shifted = builder.compute(kind, number.ssa, convert(builder, count, dtype).ssa)
    zero = builder.constant(ir_type(dtype), 0)
    return Scalar(builder.emit(arith.SelectOp(inside, shifted, zero)).result, dtype)


def _at_most(builder: Builder, count: Scalar, limit: int) -> Scalar:
    last = builder.constant(ir_type(count.dtype), limit)
    return Scalar(builder.compute(arith.MinUIOp, count.ssa, last), count.dtype)


def _is_bool(value: Operand) -> bool:
    return isinstance(value, bool) or (isinstance(value, Scalar) and value.dtype.is_bool)


def _is_float(value: Operand) -> bool:
    return isinstance(value, float) or (isinstance(value, Scalar) and value.dtype.is_float)


def _no_bits(operator: str, *values: Operand) -> TypeMismatchError:
    value = next(value for value in values if _is_float(value))
    found = article(value.dtype) if isinstance(value, Scalar) else describe(value)
    return TypeMismatchError(
        "TYPE_NO_BITS",
        f"{operator} takes integers and bools, received {found}",
        hint="convert to an integer first, such as weft.i32(x)",
    )
