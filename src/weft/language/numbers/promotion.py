# SPDX-License-Identifier: Apache-2.0
"""The promotion table: the common type of two operands.

In: element types, staged scalars or Python constants, which are weak. Out: one `DType`, or an error that
says how to write the conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.errors import TypeMismatchError
from weft.language.numbers.constants import default_dtype, significand_bits
from weft.language.values import Fragment, Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.dtype import DType

if TYPE_CHECKING:
    from typing import TypeAlias

    Operand: TypeAlias = Scalar | int | float | bool
    Typed: TypeAlias = DType | Operand


def arithmetic_dtype(dtype: DType) -> DType:
    """The arithmetic type of a value: ``bool_`` and packed types as i32, f8 types as f32.

    The f8 types are for storage: rounding after each operation would lose too much. Every f8 value is exact in f32, and
    ``weft.f8e4m3(x)`` rounds back once.

    Example:
        >>> arithmetic_dtype(types.bool_), arithmetic_dtype(types.f8e4m3), arithmetic_dtype(types.u8)
        (weft.i32, weft.f32, weft.u8)
    """
    if dtype.is_bool or dtype.is_packed:
        return types.i32
    return types.f32 if dtype.is_float8 else dtype


def wide_dtype(dtype: DType) -> DType:
    """The type of a sum of such values that began as a literal: f32 for smaller floats, i32 for smaller integers.

    A variable that begins as a literal has it where values of `dtype` are added or where control flow joins; stored in
    an element of `dtype`, it narrows.

    Example:
        >>> wide_dtype(types.f16), wide_dtype(types.u8), wide_dtype(types.u32), wide_dtype(types.bool_)
        (weft.f32, weft.i32, weft.u32, weft.bool_)
    """
    if dtype.is_float:
        return types.f32 if dtype.bits < 32 else dtype
    return types.i32 if dtype.is_integer and dtype.bits < 32 else dtype


def common_dtype(left: Typed, right: Typed) -> DType:
    """The type in which an arithmetic operation on the two is computed.

    Each operand is a `DType`, a staged scalar, or a Python constant. A constant is weak: an int takes the
    other's type, a float the other's if that is a float, and f32 if it is an integer. Two constants use their default
    types.

    Raises:
        TypeMismatchError: for a signed type with u64, and for a non-number.

    Example:
        >>> common_dtype(types.i8, types.u8), common_dtype(types.f16, types.bf16)
        (weft.i16, weft.f32)
        >>> common_dtype(types.f64, 1.5), common_dtype(types.u8, 3), common_dtype(types.i64, 0.5)
        (weft.f64, weft.u8, weft.f32)
    """
    left_dtype, right_dtype = dtype_of(left), dtype_of(right)
    if left_dtype is None and right_dtype is None:
        left_dtype, right_dtype = default_dtype(left), default_dtype(right)
    if left_dtype is None:
        assert right_dtype is not None
        return _with_constant(arithmetic_dtype(right_dtype), left)
    if right_dtype is None:
        return _with_constant(arithmetic_dtype(left_dtype), right)
    return _common(arithmetic_dtype(left_dtype), arithmetic_dtype(right_dtype))


def dtype_of(operand: Typed) -> DType | None:
    """The operand's own type; None for a weak constant.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    if isinstance(operand, Scalar):
        return operand.dtype
    if isinstance(operand, int | float):
        return None
    if isinstance(operand, DType):
        return operand
    raise not_a_number(operand)


def not_a_number(value: object) -> TypeMismatchError:
    """The error for an operand that is neither a scalar nor a Python number."""
    hint = ""
    if isinstance(value, Tensor):
        hint = "read an element: tensor[index]"
    elif isinstance(value, Fragment):
        hint = "compute with its elements: f.map(lambda x: 2 * x)"
    return TypeMismatchError(
        "TYPE_NOT_A_NUMBER", f"expected a number, received {describe(value)}", hint=hint
    )


def _with_constant(dtype: DType, constant: Typed) -> DType:
    if isinstance(constant, float) and not dtype.is_float:
        return types.f32
    return dtype


def _common(left: DType, right: DType) -> DType:
    if left is right:
        return left
    if left.is_float or right.is_float:
        return _common_float(left, right)
    if left.kind == right.kind:
        return left if left.bits >= right.bits else right
    signed, unsigned = (left, right) if left.is_signed else (right, left)
    if unsigned.bits < signed.bits:
        return signed
    if unsigned.bits < 64:
        return {8: types.i16, 16: types.i32, 32: types.i64}[unsigned.bits]
    raise TypeMismatchError(
        "TYPE_MIXED_SIGN",
        f"{left} with {right} has no common type: no signed integer holds every u64",
        hint=f"convert one operand: weft.u64(x) or weft.{signed}(x)",
    )


def _common_float(left: DType, right: DType) -> DType:
    if not right.is_float:
        return left
    if not left.is_float:
        return right
    if left.bits == right.bits:  # f16 with bf16: neither holds the other
        return types.f32
    return left if left.bits > right.bits else right


def quotient_dtype(left: Typed, right: Typed) -> DType:
    """The type of a true division ``/``: as `common_dtype`, but two integers give f32, or f64.

    f64 if an operand has 64 bits; signs do not matter, so i64 with u64 is allowed here.

    Example:
        >>> quotient_dtype(types.i32, 2), quotient_dtype(types.u64, types.i8)
        (weft.f32, weft.f64)
    """
    dtypes = [found for found in (dtype_of(left), dtype_of(right)) if found is not None]
    weak_float = isinstance(left, float) or isinstance(right, float)
    if weak_float or any(dtype.is_float for dtype in dtypes) or not dtypes:
        found = common_dtype(left, right)
        return found if found.is_float else types.f32
    return float_dtype(*dtypes)


def float_dtype(*integers: DType) -> DType:
    """The float type of an integer in float arithmetic: f64 for 64 bits, else f32."""
    return types.f64 if any(dtype.bits == 64 for dtype in integers) else types.f32


def index_dtype(dtype: DType) -> DType | None:
    """The type of an integer used as an index or loop variable: i32 or i64; None if it is not an integer.

    Types that i32 holds become i32; u32 becomes i64, which holds it; u64 becomes i64 and wraps.

    Example:
        >>> index_dtype(types.u16), index_dtype(types.u32), index_dtype(types.f32)
        (weft.i32, weft.i64, None)
    """
    if not dtype.is_integer:
        return None
    return types.i32 if dtype.bits < 32 or dtype is types.i32 else types.i64


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is exact in `wide`, so that conversion may be implicit.

    Example:
        >>> holds(types.i64, types.u32), holds(types.f32, types.i32), holds(types.f32, types.f16)
        (True, False, True)
    """
    if wide is narrow:
        return True
    if wide.is_bool:
        return False
    if narrow.is_bool:
        return True
    if narrow.is_float:
        return wide.is_float and wide.bits > narrow.bits and wide.bits >= 16
    if wide.is_float:
        return narrow.bits - narrow.is_signed <= significand_bits(wide)
    if wide.is_signed == narrow.is_signed:
        return wide.bits >= narrow.bits
    return wide.is_signed and wide.bits > narrow.bits
