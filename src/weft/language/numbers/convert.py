# SPDX-License-Identifier: Apache-2.0
"""Conversions between scalar types, explicit and implicit, the truth of a value, and ``bitcast``.

In: a staged scalar or a Python constant, and a target type. Out: a scalar of that type.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType

from weft.arguments.scalar import numpy_scalar_dtype
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import float_type, ir_type
from weft.language.numbers.constants import article, constant_of, default_dtype, round_to
from weft.language.numbers.promotion import holds, not_a_number, wide_dtype
from weft.language.operation import operation
from weft.language.values import Scalar, describe
from weft.types import dtype as types
from weft.types.dtype import DType

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
    from weft.language.numbers.promotion import Operand


def constant(builder: Builder, value: int | float | bool, dtype: DType) -> Scalar:
    """The constant as a scalar of that type.

    Raises:
        ValueRangeError: if it does not fit.
        TypeMismatchError: for a float where an integer is needed.
    """
    return Scalar(builder.constant(ir_type(dtype), constant_of(value, dtype)), dtype)


def operand(builder: Builder, value: object) -> Operand:
    """A value as an operand: a scalar or a Python number.

    A captured NumPy scalar has its own type and becomes a typed constant.

    Raises:
        TypeMismatchError: for anything else.
    """
    if isinstance(value, Scalar) or type(value) in (int, float, bool):
        return value  # pyright: ignore[reportReturnType]
    dtype = numpy_scalar_dtype(value)
    if dtype is not None:
        return constant(builder, cast("Any", value).item(), dtype)
    if isinstance(value, bool | int):  # an IntEnum, say
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise not_a_number(value)


def materialize(builder: Builder, value: object, dtype: DType) -> Scalar:
    """The value converted without loss; the implicit conversion of atomics and calls.

    A constant must fit (a float is rounded). A scalar must have the type, or one whose values all fit it, such as i32
    for i64, f16 for f32 or ``bool_`` for any integer.

    Raises:
        ValueRangeError: if a constant does not fit.
        TypeMismatchError: if the conversion could change the value, so that it must be explicit.

    Example:
        Passing an i32 for an f64 converts; for an f32 it is ``weft.f32(x)``.
    """
    value = operand(builder, value)
    if not isinstance(value, Scalar):
        return constant(builder, value, dtype)
    if value.dtype is dtype:
        return value
    if not holds(dtype, value.dtype):
        raise TypeMismatchError(
            "TYPE_NARROWING",
            f"expected {article(dtype)}, received {article(value.dtype)}, whose values {dtype} may not hold",
            hint=f"write weft.{dtype}(...) to convert",
        )
    return convert(builder, value, dtype)


def stored(builder: Builder, value: object, dtype: DType) -> Scalar:
    """The value for an element: as `materialize`, but it also takes the wide type of the element's (`wide_dtype`).

    An f32 rounds to a smaller float, and an i32 wraps to a smaller integer.

    Raises:
        ValueRangeError, TypeMismatchError: as `materialize`.
    """
    is_wide = isinstance(value, Scalar) and value.dtype is wide_dtype(dtype)
    return (convert if is_wide else materialize)(builder, value, dtype)


def accumulator(builder: Builder, value: object, term: object) -> object:
    """A literal to which `term` is added, in the wide type if the term's is narrow; anything else unchanged.

    Example:
        ``s = 0.0`` becomes an f32 in ``s += x`` if x is an f16.
    """
    if not isinstance(term, Scalar) or type(value) not in (int, float):
        return value
    wide = wide_dtype(term.dtype)
    if wide is term.dtype or (wide.is_integer and isinstance(value, float)):
        return value
    return constant(builder, cast("int | float", value), wide)


def convert(builder: Builder, value: object, dtype: DType) -> Scalar:
    """An explicit conversion, such as ``weft.f32(x)``.

    Between integers the value wraps. A float becomes an integer toward zero; one out of range becomes the
    nearest limit, and NaN becomes 0, on every target. To a float type the value is rounded once, to nearest,
    ties to even; beyond the largest finite number it becomes an infinity, and for the f8 types that number.
    To ``bool_`` is ``x != 0``. A constant is converted at once, and must fit.

    Raises:
        ValueRangeError: for a constant out of range, such as ``weft.u8(-1)``.
        TypeMismatchError: if an argument is not a number.
    """
    value = operand(builder, value)
    if not isinstance(value, Scalar):
        return _converted_constant(builder, value, dtype)
    if value.dtype is dtype:
        return value
    known = value.constant
    if known is not None and (folded := _fold(known, dtype)) is not None:
        return Scalar(builder.constant(ir_type(dtype), folded), dtype)
    if dtype.is_bool:
        return truth(builder, value)
    if dtype.is_float:
        return _to_float(builder, value, dtype)
    return _to_integer(builder, value, dtype)


def _converted_constant(builder: Builder, value: int | float | bool, dtype: DType) -> Scalar:
    if dtype.is_bool:
        return constant(builder, bool(value), dtype)
    if isinstance(value, float) and not dtype.is_float:
        if not math.isfinite(value):
            raise ValueRangeError(
                "CONSTANT_OUT_OF_RANGE", f"the constant {value} does not fit {dtype}"
            )
        value = math.trunc(value)
    return constant(builder, value, dtype)


def _fold(known: int | float | bool, dtype: DType) -> int | float | bool | None:
    """A typed constant in another type, by the run-time rules; None if left to run time."""
    if dtype.is_bool:
        return known != 0
    if dtype.is_float:
        if isinstance(known, float) and not math.isfinite(known):
            return None
        try:
            return constant_of(round_to(known, dtype), dtype)
        except ValueRangeError:
            return None
    if not isinstance(known, float):
        return int(known)  # the builder wraps it
    if math.isnan(known):
        return 0
    return int(max(min(known, dtype.maximum), dtype.minimum))


def truth(builder: Builder, value: object) -> Scalar:
    """The truth of a value as a ``bool_``: not zero. NaN is true, as in Python.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    value = operand(builder, value)
    if not isinstance(value, Scalar):
        return constant(builder, bool(value), types.bool_)
    if value.dtype.is_bool:
        return value
    known = value.constant
    if known is not None:
        return constant(builder, known != 0, types.bool_)
    if value.dtype.is_float8:
        value = _to_float(builder, value, types.f32)
    zero = builder.constant(ir_type(value.dtype), 0.0 if value.dtype.is_float else 0)
    compared = (
        arith.CmpfOp(value.ssa, zero, "une")
        if value.dtype.is_float
        else arith.CmpiOp(value.ssa, zero, "ne")
    )
    return Scalar(builder.emit(compared).result, types.bool_)


def _to_integer(builder: Builder, value: Scalar, dtype: DType) -> Scalar:
    source = value.dtype
    target = IntegerType(dtype.bits)
    if source.is_float:
        kind = arith.FPToSIOp if dtype.is_signed else arith.FPToUIOp
        return Scalar(builder.compute(kind, value.ssa, to=target), dtype)
    width = 1 if source.is_bool else source.bits
    if width == dtype.bits:
        return Scalar(value.ssa, dtype)
    if width > dtype.bits:
        return Scalar(builder.compute(arith.TruncIOp, value.ssa, to=target), dtype)
    extend = arith.ExtSIOp if source.is_signed else arith.ExtUIOp
    return Scalar(builder.compute(extend, value.ssa, to=target), dtype)


def _to_float(builder: Builder, value: Scalar, dtype: DType) -> Scalar:
    """To a float type, rounded once, in one operation that every target supports.

    `arith` has no cast between floats of equal width; these go through f32, which holds both.
    """
    source = value.dtype
    target = float_type(dtype)
    if not source.is_float:
        step = arith.SIToFPOp if source.is_signed else arith.UIToFPOp
        return Scalar(builder.compute(step, value.ssa, to=target), dtype)
    if source.bits == dtype.bits:
        return _to_float(builder, _to_float(builder, value, types.f32), dtype)
    kind = arith.ExtFOp if dtype.bits > source.bits else arith.TruncFOp
    return Scalar(builder.compute(kind, value.ssa, to=target), dtype)


def expect_scalar(builder: Builder, value: object, what: str) -> Operand:
    """The value as an operand, or an error naming its role.

    Example:
        ``expect_scalar(builder, value, "atomic_add: value")``
    """
    try:
        return operand(builder, value)
    except TypeMismatchError:
        raise TypeMismatchError(
            "TYPE_NOT_A_NUMBER", f"{what} must be a number, received {describe(value)}"
        ) from None


def to_common(builder: Builder, value: Operand, dtype: DType) -> Scalar:
    """An operand in the common type: a constant must fit, a scalar is converted."""
    if isinstance(value, Scalar):
        return convert(builder, value, dtype)
    return constant(builder, value, dtype)


@operation(on_host=True)
def bitcast(builder: Builder, value: object, dtype: object) -> Scalar:
    """The bits of `value` as a number of another type, like CUDA's ``__float_as_uint``.

    Args:
        value: a number. A constant has its default type: i32, f32.
        dtype: an element type of the same width, except ``bool_``.

    Raises:
        TypeMismatchError: for a type of another width, ``bool_``, or a non-type.

    Example:
        ``exponent = (weft.bitcast(x, weft.u32) >> 23) & 0xFF``
    """
    if not isinstance(dtype, DType):
        raise TypeMismatchError(
            "BITCAST_TYPE",
            f"bitcast: the second argument must be an element type, received {describe(dtype)}",
            hint="write bitcast(x, weft.u32)",
        )
    number = expect_scalar(builder, value, "bitcast: the first argument")
    if not isinstance(number, Scalar):
        number = constant(builder, number, default_dtype(number))
    source = number.dtype
    if source.is_bool or dtype.is_bool:
        raise TypeMismatchError(
            "BITCAST_TYPE",
            "bitcast: a bool_ has no bits of its own",
            hint="write x != 0, or weft.i32(x)",
        )
    if source.bits != dtype.bits:
        raise TypeMismatchError(
            "BITCAST_TYPE",
            f"bitcast: {source} has {source.bits} bits and {dtype} has {dtype.bits}",
            hint=f"convert first, such as weft.bitcast(weft.{_of_width(source, dtype.bits)}(x), weft.{dtype})",
        )
    if ir_type(source) == ir_type(dtype):
        return Scalar(number.ssa, dtype)
    return Scalar(builder.emit(arith.BitcastOp(number.ssa, ir_type(dtype))).result, dtype)


def _of_width(dtype: DType, bits: int) -> str:
    """The type of that kind and width."""
    if dtype.is_float and bits > 8:
        return f"f{bits}"
    return f"{'i' if dtype.is_signed else 'u'}{bits}"
