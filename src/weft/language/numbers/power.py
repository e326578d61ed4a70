# SPDX-License-Identifier: Apache-2.0
"""``**``: by multiplication for small constant exponents, else by `math.powf`.

In: base and exponent, at least one of them staged. Out: a `Scalar`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith, math

from weft.errors import TypeMismatchError
from weft.language.numbers.convert import constant, to_common
from weft.language.numbers.promotion import arithmetic_dtype, common_dtype
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder
    from weft.language.numbers.promotion import Operand

    Multiply = Callable[[Builder, str, Operand, Operand], Scalar]

LARGEST_UNROLLED: Final = 16
"""Above this |exponent| a float goes through `math.powf`, whose error does not grow with the exponent."""


def power(builder: Builder, base: Operand, exponent: Operand, *, multiply: Multiply) -> Scalar:
    """``base ** exponent``.

    An integer base takes a constant exponent of 0 or more, and wraps. A float base takes any exponent:
    up to 16 by repeated multiplication, others by `math.powf`.

    Args:
        builder: where operations go.
        base: a staged scalar or a Python number.
        exponent: likewise.
        multiply: emits a product; passed in by operators, which imports this module.

    Raises:
        TypeMismatchError: for an integer base with another exponent.
    """
    if isinstance(exponent, Scalar):
        return _run_time_exponent(builder, base, exponent)
    assert isinstance(base, Scalar)
    dtype = common_dtype(base, exponent)
    number = to_common(builder, base, dtype)
    if dtype.is_float:
        whole = abs(exponent) <= LARGEST_UNROLLED and float(exponent).is_integer()
        if not whole:
            return _powf(builder, number, to_common(builder, exponent, dtype))
        product = _product(builder, number, abs(int(exponent)), multiply)
        if exponent >= 0:
            return product
        one = constant(builder, 1.0, dtype)
        return Scalar(builder.emit(arith.DivfOp(one.ssa, product.ssa)).result, dtype)
    if exponent < 0:
        raise TypeMismatchError(
            "POWER_NEGATIVE",
            f"an integer to the power of {exponent} is not an integer",
            hint="convert the base: weft.f32(x) ** -n",
        )
    return _product(builder, number, int(exponent), multiply)


def _run_time_exponent(builder: Builder, base: Operand, exponent: Scalar) -> Scalar:
    dtype = common_dtype(base, exponent)
    if dtype.is_float:
        first, second = to_common(builder, base, dtype), to_common(builder, exponent, dtype)
        return _powf(builder, first, second)
    hint = "convert the base: weft.f32(x) ** n"
    if isinstance(base, int) and base == 2:
        hint = "write 1 << n"
    raise TypeMismatchError(
        "POWER_INTEGER",
        f"an integer to a power known only at run time ({arithmetic_dtype(exponent.dtype)}) could be a fraction",
        hint=hint,
    )


def _powf(builder: Builder, base: Scalar, exponent: Scalar) -> Scalar:
    return Scalar(builder.emit(math.PowFOp(base.ssa, exponent.ssa)).result, base.dtype)


def _product(builder: Builder, base: Scalar, exponent: int, multiply: Multiply) -> Scalar:
    """base**exponent by squaring, for exponent ≥ 0; pow(x, 0) is 1, for NaN too."""
    if exponent == 0:
        return constant(builder, 1, base.dtype)
    result: Scalar | None = None
    square = base
    while True:
        if exponent & 1:
            result = square if result is None else multiply(builder, "*", result, square)
        exponent >>= 1
        if exponent == 0:
            assert result is not None
            return result
        square = multiply(builder, "*", square, square)
