# SPDX-License-Identifier: Apache-2.0
"""Complex numbers: construction, parts, arithmetic, comparison.

In: complex and real numbers, staged or Python's. Out: scalars of c64 or c128, or their parts. The IR knows no complex
numbers: a value is one integer with the bits of both parts, which LLVM takes apart again, so that memory, shuffles,
loops and choices treat it as they treat any integer.
"""

from __future__ import annotations

import builtins
import struct
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import arith, math

from weft.errors import NameResolutionError, TypeMismatchError
from weft.language.ir_types import float_type, integer_type, ir_type
from weft.language.numbers import convert as conversions
from weft.language.operation import operation
from weft.language.values import Scalar, StagedNamespace, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType

    Parts = tuple[Scalar, Scalar]
    Arithmetic = Callable[[Builder, str, object, object], Scalar]

_COMPLEX_OF = {types.f32: types.c64, types.f64: types.c128}


def is_complex(value: object) -> bool:
    """Whether a value is complex: staged, or Python's."""
    return (
        value.dtype.is_complex if isinstance(value, Scalar) else isinstance(value, builtins.complex)
    )


def parts(builder: Builder, value: Scalar) -> Parts:
    """The real and the imaginary part."""
    part = value.dtype.part
    made = _made_of(value)
    if made is not None:
        return made
    half = integer_type(part.bits)
    shift = builder.constant(ir_type(value.dtype), part.bits)
    low = builder.compute(arith.TruncIOp, value.ssa, to=half)
    upper = builder.compute(arith.ShRUIOp, value.ssa, shift)
    high = builder.compute(arith.TruncIOp, upper, to=half)
    real, imaginary = (
        Scalar(builder.emit(arith.BitcastOp(bits, float_type(part))).result, part)
        for bits in (low, high)
    )
    return real, imaginary


def _made_of(value: Scalar) -> Parts | None:
    """The parts a value was made of, if it was made in this function."""
    owner: Any = value.ssa.owner
    if not isinstance(owner, arith.OrIOp):
        return None
    low, high = (operand.owner for operand in owner.operands)
    if not isinstance(low, arith.ExtUIOp) or not isinstance(high, arith.ShLIOp):
        return None
    high = high.operands[0].owner
    if not isinstance(high, arith.ExtUIOp):
        return None
    bits = [extended.operands[0].owner for extended in (low, high)]
    if not all(isinstance(one, arith.BitcastOp) for one in bits):
        return None
    real, imaginary = (Scalar(cast("Any", one).operands[0], value.dtype.part) for one in bits)
    return real, imaginary


def join(builder: Builder, real: Scalar, imaginary: Scalar) -> Scalar:
    """The number with these parts, both f32 or both f64."""
    part = real.dtype
    dtype = _COMPLEX_OF[part]
    whole, half = ir_type(dtype), integer_type(part.bits)
    low, high = (
        builder.compute(
            arith.ExtUIOp, builder.emit(arith.BitcastOp(one.ssa, half)).result, to=whole
        )
        for one in (real, imaginary)
    )
    shifted = builder.compute(arith.ShLIOp, high, builder.constant(whole, part.bits))
    return Scalar(builder.compute(arith.OrIOp, low, shifted), dtype)


def complex_constant(builder: Builder, value: builtins.complex | float, dtype: DType) -> Scalar:
    """A Python number as a complex constant."""
    real, imaginary = (conversions.constant_of(x, dtype.part) for x in (value.real, value.imag))
    bits = struct.pack("<2f" if dtype is types.c64 else "<2d", real, imaginary)
    return Scalar(builder.constant(ir_type(dtype), int.from_bytes(bits, "little")), dtype)


def to_complex(builder: Builder, value: object, dtype: DType) -> Scalar:
    """A number, complex or real, in a complex type."""
    if isinstance(value, builtins.complex):
        return complex_constant(builder, value, dtype)
    number = conversions.operand(builder, value)
    if not isinstance(number, Scalar):
        return complex_constant(builder, number, dtype)
    if number.dtype is dtype:
        return number
    if number.dtype.is_complex:
        real, imaginary = parts(builder, number)
        return join(
            builder,
            conversions.convert(builder, real, dtype.part),
            conversions.convert(builder, imaginary, dtype.part),
        )
    real = conversions.convert(builder, number, dtype.part)
    return join(builder, real, conversions.constant(builder, 0.0, dtype.part))


def common_complex(left: object, right: object) -> DType:
    """The complex type in which two operands meet: c128 if one is f64 or c128, else c64."""
    found = [value.dtype for value in (left, right) if isinstance(value, Scalar)]
    if not found:
        return _COMPLEX_OF[conversions.default_float()]
    if types.f64 in found or types.c128 in found:
        return types.c128
    typed = any(dtype.is_complex or dtype.is_float for dtype in found)
    return types.c64 if typed else _COMPLEX_OF[conversions.default_float()]


def complex_binary(
    builder: Builder, operator: str, left: object, right: object, of_floats: Arithmetic
) -> Scalar:
    """``left operator right`` for ``+ - * /``, one of them complex; a real operand has no imaginary part.

    Raises:
        TypeMismatchError: for another operator.
    """
    if operator not in ("+", "-", "*", "/"):
        raise TypeMismatchError(
            "COMPLEX_OPERATOR",
            f"complex numbers have no operator {operator!r}",
            hint="compute with x.real and x.imag",
        )
    dtype = common_complex(left, right)

    def real_of(value: object) -> Scalar | float | int:
        number = conversions.operand(builder, value)
        return (
            conversions.convert(builder, number, dtype.part)
            if isinstance(number, Scalar)
            else number
        )

    def emit(sign: str, x: object, y: object) -> Scalar:
        return of_floats(builder, sign, x, y)

    if not is_complex(right):
        scale = real_of(right)
        a, b = parts(builder, to_complex(builder, left, dtype))
        if operator in ("*", "/"):
            return join(builder, emit(operator, a, scale), emit(operator, b, scale))
        return join(builder, emit(operator, a, scale), b)
    c, d = parts(builder, to_complex(builder, right, dtype))
    if not is_complex(left) and operator != "/":
        scale = real_of(left)
        if operator == "*":
            return join(builder, emit("*", scale, c), emit("*", scale, d))
        imaginary = d if operator == "+" else negated(builder, d)
        return join(builder, emit(operator, scale, c), imaginary)
    a, b = parts(builder, to_complex(builder, left, dtype))
    if operator == "*":
        real = emit("-", emit("*", a, c), emit("*", b, d))
        return join(builder, real, emit("+", emit("*", a, d), emit("*", b, c)))
    if operator == "/":
        return _quotient(builder, (a, b), (c, d), emit)
    return join(builder, emit(operator, a, c), emit(operator, b, d))


def negated(builder: Builder, value: Scalar) -> Scalar:
    """A float with the other sign."""
    return Scalar(builder.emit(arith.NegfOp(value.ssa)).result, value.dtype)


def absolute(builder: Builder, value: Scalar) -> Scalar:
    """A float without its sign."""
    return Scalar(builder.emit(math.AbsFOp(value.ssa)).result, value.dtype)


def chosen(builder: Builder, condition: Any, first: Scalar, second: Scalar) -> Scalar:
    """One of two floats, by an i1."""
    made = builder.emit(arith.SelectOp(condition, first.ssa, second.ssa))
    return Scalar(made.result, first.dtype)


def _quotient(
    builder: Builder, dividend: Parts, divisor: Parts, emit: Callable[[str, object, object], Scalar]
) -> Scalar:
    """Smith's algorithm, which scales by the larger part, so that squares cannot overflow."""
    (a, b), (c, d) = dividend, divisor
    magnitudes = absolute(builder, c), absolute(builder, d)
    is_real = builder.emit(arith.CmpfOp(magnitudes[0].ssa, magnitudes[1].ssa, "oge")).result
    larger, smaller = chosen(builder, is_real, c, d), chosen(builder, is_real, d, c)
    x, y = chosen(builder, is_real, a, b), chosen(builder, is_real, b, a)
    ratio = emit("/", smaller, larger)
    scale = emit("+", larger, emit("*", smaller, ratio))
    imaginary = emit("-", y, emit("*", x, ratio))
    imaginary = chosen(builder, is_real, imaginary, negated(builder, imaginary))
    real = emit("/", emit("+", x, emit("*", y, ratio)), scale)
    return join(builder, real, emit("/", imaginary, scale))


def complex_compare(builder: Builder, operator: str, left: object, right: object) -> Scalar:
    """``==`` or ``!=``, one of the operands complex.

    Raises:
        TypeMismatchError: for an order, which complex numbers do not have.
    """
    if operator not in ("==", "!="):
        raise TypeMismatchError(
            "COMPLEX_OPERATOR",
            f"complex numbers have no order, so {operator!r} is not defined",
            hint="compare abs(x), x.real or x.imag",
        )
    dtype = common_complex(left, right)
    first, second = (parts(builder, to_complex(builder, x, dtype)) for x in (left, right))
    predicate, kind = ("oeq", arith.AndIOp) if operator == "==" else ("une", arith.OrIOp)
    compared = [
        builder.emit(arith.CmpfOp(one.ssa, other.ssa, predicate)).result
        for one, other in zip(first, second, strict=True)
    ]
    return Scalar(builder.compute(kind, *compared), types.bool_)


def complex_negative(builder: Builder, value: Scalar) -> Scalar:
    """``-value``."""
    real, imaginary = parts(builder, value)
    return join(builder, negated(builder, real), negated(builder, imaginary))


def complex_absolute(builder: Builder, value: Scalar, of_floats: Arithmetic) -> Scalar:
    """The magnitude, scaled by the larger part, so that squares cannot overflow; an infinity if a part is."""
    real, imaginary = (absolute(builder, one) for one in parts(builder, value))
    is_larger = builder.emit(arith.CmpfOp(real.ssa, imaginary.ssa, "oge")).result
    larger = chosen(builder, is_larger, real, imaginary)
    smaller = chosen(builder, is_larger, imaginary, real)
    ratio = of_floats(builder, "/", smaller, larger)
    squares = of_floats(builder, "+", of_floats(builder, "*", ratio, ratio), 1.0)
    root = Scalar(builder.emit(math.SqrtOp(squares.ssa)).result, squares.dtype)
    found = of_floats(builder, "*", larger, root)
    zero = builder.constant(ir_type(larger.dtype), 0.0)
    infinity = builder.constant(ir_type(larger.dtype), float("inf"))
    is_zero = builder.emit(arith.CmpfOp(larger.ssa, zero, "oeq")).result
    # Zero, or NaN where the larger part is unknown because the other is NaN.
    found = chosen(builder, is_zero, of_floats(builder, "+", real, imaginary), found)
    infinite = [
        builder.emit(arith.CmpfOp(one.ssa, infinity, "oeq")).result for one in (real, imaginary)
    ]
    either = builder.compute(arith.OrIOp, *infinite)
    return chosen(builder, either, Scalar(infinity, larger.dtype), found)


def complex_attribute(builder: Builder, value: Scalar, name: str) -> object:
    """``real``, ``imag``, ``conj`` or ``conjugate`` of a complex number.

    Raises:
        NameResolutionError: for another name.
    """
    if name == "dtype":
        return value.dtype
    if name in ("real", "imag"):
        return parts(builder, value)[name == "imag"]
    if name in ("conj", "conjugate"):
        return Conjugate(value)
    raise NameResolutionError(
        "UNKNOWN_ATTRIBUTE",
        f"{describe(value)} has no attribute {name!r}",
        hint="there are real, imag, conj(), conjugate(), dtype",
    )


class Conjugate(StagedNamespace):
    """``x.conj``, to be called."""

    __slots__ = ("value",)

    def __init__(self, value: Scalar) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "the method conj of a complex number"

    def call(self, frame: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Scalar:
        """The conjugate.

        Raises:
            TypeMismatchError: if an argument is given.
        """
        if arguments or keywords:
            raise TypeMismatchError("CALL_ARGUMENTS", "conj of a complex number takes no arguments")
        builder = frame.builder
        real, imaginary = parts(builder, self.value)
        return join(builder, real, negated(builder, imaginary))


@operation
def complex(builder: Builder, real: object, imag: object = 0.0) -> Scalar:
    """A complex number of its parts: c128 if one is f64, else c64.

    Args:
        real, imag: real numbers.

    Raises:
        TypeMismatchError: for anything else.

    Example:
        ``a[i] = abs(weft.complex(x, y))``
    """
    given = [conversions.expect_scalar(builder, x, "complex: a part") for x in (real, imag)]
    floats = [x.dtype for x in given if isinstance(x, Scalar) and x.dtype.is_float]
    part = (
        conversions.default_float()
        if not floats
        else types.f64
        if types.f64 in floats
        else types.f32
    )
    first, second = (conversions.convert(builder, x, part) for x in given)
    return join(builder, first, second)
