# SPDX-License-Identifier: Apache-2.0
"""Reinterpreting bits: ``bitcast``.

In: a scalar or a constant, and an element type of its width. Out: a scalar of that type with the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith

from weft.errors import TypeMismatchError
from weft.language.ir_types import ir_type
from weft.language.numbers.constants import default_dtype
from weft.language.numbers.convert import constant, expect_scalar
from weft.language.operation import operation
from weft.language.values import Scalar, describe
from weft.types.dtype import DType

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


@operation(on_host=True)
def bitcast(builder: Builder, value: object, dtype: object) -> Scalar:
    """The bits of `value` as a number of another type, like CUDA's ``__float_as_uint``.

    Args:
        builder: where operations go; users leave it out.
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
