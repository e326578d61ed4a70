# SPDX-License-Identifier: Apache-2.0
"""Compile-time numbers: their default type, range checks, rounding.

In: a Python int, float or bool, and a `DType`. Out: the number in that type, or an error with both numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.errors import TypeMismatchError, ValueRangeError, brief
from weft.types import dtype as types
from weft.types.dtype import DType

if TYPE_CHECKING:
    from weft.types.dtype_info import FloatFormat


def _format(dtype: DType) -> FloatFormat:
    found = dtype.info.format
    assert found is not None, f"{dtype} is not a float type"
    return found


def significand_bits(dtype: DType) -> int:
    """Bits of a float type's significand, including the hidden one: integers up to 2**bits are exact.

    Example:
        >>> significand_bits(types.f32)
        24
    """
    return _format(dtype).precision


def default_dtype(constant: object) -> DType:
    """The default type of a constant.

    An int is i32, i64 if it does not fit, u64 if only that holds it; a float is f32; a bool is ``bool_``.

    Raises:
        ValueRangeError: for an int beyond 64 bits.
        TypeMismatchError: if an argument is not a number.

    Example:
        >>> default_dtype(1), default_dtype(1 << 40), default_dtype(1.5)
        (weft.i32, weft.i64, weft.f32)
    """
    if isinstance(constant, bool):
        return types.bool_
    if isinstance(constant, int):
        for dtype in (types.i32, types.i64, types.u64):
            if dtype.minimum <= constant <= dtype.maximum:
                return dtype
        raise ValueRangeError(
            "CONSTANT_OUT_OF_RANGE",
            f"the constant {brief(constant)} does not fit 64 bits",
            hint=f"integers range from {types.i64.minimum} (i64) to {types.u64.maximum} (u64)",
        )
    if isinstance(constant, float):
        return types.f32
    raise TypeMismatchError(
        "TYPE_NOT_A_NUMBER",
        f"expected a number, received {constant!r} of type {type(constant).__name__}",
    )


def constant_of(constant: int | float | bool, dtype: DType) -> int | float | bool:
    """The constant in `dtype`: range-checked, a float rounded to nearest, ties to even.

    Raises:
        ValueRangeError: if it lies outside the type's range; the message has the range.
        TypeMismatchError: for a float instead of an integer.

    Example:
        >>> constant_of(3, types.f16), constant_of(0.1, types.bf16)
        (3.0, 0.10009765625)
    """
    if dtype.is_float:
        return _float_constant(constant, dtype)
    if isinstance(constant, float):
        raise TypeMismatchError(
            "TYPE_FLOAT_CONSTANT",
            f"expected {article(dtype)}, received the constant {constant!r}",
            hint=f"write weft.{dtype}({constant!r}) to drop the fraction",
        )
    number = int(constant)
    if not dtype.minimum <= number <= dtype.maximum:
        raise _out_of_range(constant, dtype, dtype.minimum, dtype.maximum)
    return bool(number) if dtype.is_bool else number


def _float_constant(constant: int | float | bool, dtype: DType) -> float:
    maximum, has_infinity = _format(dtype).largest, _format(dtype).has_infinity
    if isinstance(constant, float) and not math.isfinite(constant):
        if math.isnan(constant) or has_infinity:
            return constant
        raise _out_of_range(constant, dtype, -maximum, maximum)
    rounded = round_to(constant, dtype)
    if abs(rounded) > maximum:
        raise _out_of_range(constant, dtype, -maximum, maximum)
    return rounded


def _out_of_range(
    constant: int | float | bool, dtype: DType, minimum: int | float, maximum: int | float
) -> ValueRangeError:
    return ValueRangeError(
        "CONSTANT_OUT_OF_RANGE",
        f"the constant {brief(constant)} does not fit {dtype}, which holds {minimum} to {maximum}",
        hint="convert the other operand to a wider type, or change the constant",
    )


def round_to(constant: int | float | bool, dtype: DType) -> float:
    """A finite number rounded to a float type in one step, to nearest, ties to even.

    The result may exceed the type's largest value, which the caller checks.

    Example:
        >>> round_to(16777217, types.f32), round_to(1e-9, types.f16)
        (16777216.0, 0.0)
    """
    precision, smallest_exponent = _format(dtype).precision, _format(dtype).smallest_exponent
    if not isinstance(constant, float):
        return _round_integer(int(constant), precision)
    if constant == 0.0:
        return constant
    exponent = max(math.frexp(constant)[1] - precision, smallest_exponent)
    # Scaling by a power of two is exact here, and round() of a float rounds half to even.
    return math.copysign(_scaled(float(round(_scaled(constant, -exponent))), exponent), constant)


def _round_integer(number: int, precision: int) -> float:
    excess = abs(number).bit_length() - precision
    if excess <= 0:
        return float(number)
    quotient, remainder = divmod(abs(number), 1 << excess)
    half = 1 << (excess - 1)
    if remainder > half or (remainder == half and quotient & 1):
        quotient += 1
    return _scaled(float(quotient if number > 0 else -quotient), excess)


def _scaled(number: float, exponent: int) -> float:
    try:
        return math.ldexp(number, exponent)
    except OverflowError:
        return math.copysign(math.inf, number)


def article(dtype: DType) -> str:
    """A type with its article, for messages.

    Example:
        >>> article(types.i32), article(types.u8), article(types.bool_)
        ('an i32', 'a u8', 'a bool_')
    """
    return f"{'an' if dtype.name[0] in 'if' else 'a'} {dtype}"
