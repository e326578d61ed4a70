# SPDX-License-Identifier: Apache-2.0
"""Elementary functions of complex numbers.

In: a number of c64 or c128, and functions of `weft.math` for its parts. Out: a number of the same type. The formulas
keep parts that fit their type from overflowing on the way; cuts are those of Python's `cmath`.
"""

from __future__ import annotations

import cmath
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import arith, math

from weft.errors import TypeMismatchError
from weft.language.ir_types import ir_type
from weft.language.numbers.complex import (
    absolute,
    chosen,
    common_complex,
    complex_absolute,
    complex_constant,
    join,
    negated,
    parts,
    to_complex,
)
from weft.language.numbers.operators import binary
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType

    Functions = Callable[..., Any]
    Formula = Callable[["_Real", Scalar], Scalar]


_INFINITY: Final = float("inf")
_FAR: Final = 22.0
"""From here on ``exp(-2x)`` is less than a unit of f64."""
_MOST_FACTORS: Final = 100


class _Real:
    """Arithmetic and functions of parts."""

    __slots__ = ("builder", "function")

    def __init__(self, builder: Builder, function: Functions) -> None:
        self.builder = builder
        self.function = function

    def multiply(self, *factors: object) -> Scalar:
        result: Any = factors[0]
        for factor in factors[1:]:
            result = binary(self.builder, "*", result, factor)
        return result

    def add(self, x: object, y: object) -> Scalar:
        return binary(self.builder, "+", x, y)

    def divide(self, x: object, y: object) -> Scalar:
        return binary(self.builder, "/", x, y)

    def call(self, name: str, *values: object) -> Scalar:
        return self.function(self.builder, name, *values)

    def compare(self, x: Scalar, predicate: str, number: float) -> Any:
        constant = self.builder.constant(ir_type(x.dtype), number)
        return self.builder.emit(arith.CmpfOp(x.ssa, constant, predicate)).result

    def choose(self, condition: Any, first: Scalar, second: Scalar) -> Scalar:
        return chosen(self.builder, condition, first, second)

    def is_all(self, *conditions: Any) -> Any:
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.builder.compute(arith.AndIOp, result, condition)
        return result

    def is_infinite(self, x: Scalar) -> Any:
        return self.compare(absolute(self.builder, x), "oeq", _INFINITY)

    def is_unbounded(self, x: Scalar) -> Any:
        """Infinite or NaN."""
        return self.compare(absolute(self.builder, x), "uge", _INFINITY)

    def constant(self, number: float, like: Scalar) -> Scalar:
        return Scalar(self.builder.constant(ir_type(like.dtype), number), like.dtype)

    def signed(self, x: Scalar, like: Scalar) -> Scalar:
        """A magnitude with another number's sign."""
        return Scalar(self.builder.emit(math.CopySignOp(x.ssa, like.ssa)).result, x.dtype)


def complex_function(
    builder: Builder, name: str, value: object, keywords: Mapping[str, object], real: Functions
) -> Scalar | complex:
    """``weft.math.<name>(value)`` of a complex number; of a constant a Python complex number.

    Args:
        builder: where operations go.
        name: of `FORMULAS`.
        value: complex.
        keywords: of the call.
        real: emits a function of real numbers: ``real(builder, "exp", x)``.

    Raises:
        TypeMismatchError: for ``approx=True``.
    """
    if keywords.get("approx"):
        raise TypeMismatchError(
            "MATH_APPROX",
            f"math.{name}: approx=True is for real numbers, received a complex one",
            hint="leave approx out",
        )
    if not isinstance(value, Scalar):
        return getattr(cmath, name)(value)
    return FORMULAS[name](_Real(builder, real), value)


def _exp(of: _Real, z: Scalar) -> Scalar:
    a, b = parts(of.builder, z)
    half = of.call("exp", of.multiply(a, 0.5))
    real = of.multiply(half, of.call("cos", b), half)
    imaginary = of.multiply(half, of.call("sin", b), half)
    imaginary = of.choose(of.compare(b, "oeq", 0.0), b, imaginary)
    # Of an infinite real part and an angle that is infinite or NaN, C's 0 or infinity.
    is_odd = of.is_all(of.is_infinite(a), of.is_unbounded(b))
    is_zero = of.is_all(is_odd, of.compare(a, "olt", 0.0))
    zero = of.constant(0.0, a)
    real = of.choose(is_zero, zero, of.choose(is_odd, a, real))
    return join(of.builder, real, of.choose(is_zero, zero, imaginary))


def _log(of: _Real, z: Scalar) -> Scalar:
    """Near 1 the magnitude's logarithm is one of the square's distance from 1."""
    builder = of.builder
    a, b = parts(builder, z)
    magnitude = complex_absolute(builder, z, binary)
    x, y = absolute(builder, a), absolute(builder, b)
    is_larger = builder.emit(arith.CmpfOp(x.ssa, y.ssa, "oge")).result
    x, y = of.choose(is_larger, x, y), of.choose(is_larger, y, x)
    excess = of.multiply(of.add(x, -1.0), of.add(x, 1.0))
    near = of.multiply(of.call("log1p", of.add(excess, of.multiply(y, y))), 0.5)
    is_near = builder.compute(
        arith.AndIOp, of.compare(magnitude, "ogt", 0.5), of.compare(magnitude, "olt", 2.0)
    )
    real = of.choose(is_near, near, of.call("log", magnitude))
    return join(builder, real, of.call("atan2", b, a))


def _sqrt(of: _Real, z: Scalar) -> Scalar:
    builder = of.builder
    a, b = parts(builder, z)
    size = absolute(builder, b)
    magnitude = complex_absolute(builder, z, binary)
    halves = of.multiply(absolute(builder, a), 0.5), of.multiply(magnitude, 0.5)
    larger = of.call("sqrt", of.add(*halves))
    smaller = of.divide(size, of.add(larger, larger))
    # Of 0, and of an infinite imaginary part, both quotients would be NaN.
    smaller = of.choose(of.compare(larger, "oeq", 0.0), size, smaller)
    is_infinite = of.compare(size, "oeq", _INFINITY)
    larger, smaller = (of.choose(is_infinite, size, one) for one in (larger, smaller))
    is_positive = of.compare(a, "oge", 0.0)
    real, imaginary = (
        of.choose(is_positive, larger, smaller),
        of.choose(is_positive, smaller, larger),
    )
    return join(builder, real, of.signed(imaginary, b))


def _hyperbolic(of: _Real, x: Scalar, y: Scalar, name: str) -> tuple[Scalar, Scalar]:
    """The parts of ``sinh`` or ``cosh`` of ``x + i·y``.

    Far from 0 both are half an exponential, which is multiplied in two steps, so that neither overflows early.
    """
    builder = of.builder
    size = absolute(builder, x)
    is_far = of.compare(size, "ogt", _FAR)
    half = of.call("exp", of.multiply(size, 0.5))

    def product(function: str, factor: Scalar) -> Scalar:
        far = of.multiply(half, of.multiply(factor, 0.5), half)
        if function == "sinh":
            far = of.choose(of.compare(x, "olt", 0.0), negated(builder, far), far)
        return of.choose(is_far, far, of.multiply(of.call(function, x), factor))

    other = "cosh" if name == "sinh" else "sinh"
    real = product(name, of.call("cos", y))
    imaginary = product(other, of.call("sin", y))
    # An exact 0 stays one beside an infinity or a NaN, and so does an infinity beside an angle of that kind.
    is_unbounded, is_zero = of.is_unbounded(y), of.compare(x, "oeq", 0.0)
    is_odd = of.is_all(of.is_infinite(x), is_unbounded)
    signed = y if name == "sinh" else of.multiply(of.signed(of.constant(1.0, x), x), y)
    imaginary = of.choose(of.compare(y, "oeq", 0.0), signed, imaginary)
    if name == "sinh":
        real = of.choose(of.is_all(is_zero, is_unbounded), x, real)
        return of.choose(is_odd, x, real), imaginary
    imaginary = of.choose(of.is_all(is_zero, is_unbounded), x, imaginary)
    return of.choose(is_odd, size, real), imaginary


def _tangent(of: _Real, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The parts of ``tanh`` of ``x + i·y``, by Kahan's formula; far from 0 the real part is 1 to all digits."""
    builder = of.builder
    size = absolute(builder, x)
    is_far = of.compare(size, "ogt", _FAR)
    tangent, sine = of.call("tan", y), of.call("sinh", of.choose(is_far, of.constant(0.0, x), x))
    squares, scale = of.multiply(sine, sine), of.add(of.multiply(tangent, tangent), 1.0)
    divisor = of.add(of.multiply(scale, squares), 1.0)
    root = of.call("sqrt", of.add(squares, 1.0))
    real = of.divide(of.multiply(scale, root, sine), divisor)
    imaginary = of.divide(tangent, divisor)
    decay = of.call("exp", of.multiply(size, -2.0))
    swing = of.multiply(of.call("sin", y), of.call("cos", y), 4.0, decay)
    is_odd = of.is_all(of.is_infinite(x), of.is_unbounded(y))
    swing = of.choose(is_odd, of.constant(0.0, x), swing)
    limit = of.add(of.signed(of.constant(1.0, x), x), of.multiply(swing, 0.0))  # or NaN
    real = of.choose(is_far, limit, real)
    imaginary = of.choose(is_far, swing, imaginary)
    real = of.choose(of.compare(x, "oeq", 0.0), x, real)
    return real, of.choose(of.compare(y, "oeq", 0.0), y, imaginary)


def _sinh(of: _Real, z: Scalar) -> Scalar:
    return join(of.builder, *_hyperbolic(of, *parts(of.builder, z), "sinh"))


def _cosh(of: _Real, z: Scalar) -> Scalar:
    return join(of.builder, *_hyperbolic(of, *parts(of.builder, z), "cosh"))


def _tanh(of: _Real, z: Scalar) -> Scalar:
    return join(of.builder, *_tangent(of, *parts(of.builder, z)))


def _sin(of: _Real, z: Scalar) -> Scalar:
    """``-i · sinh(i · z)``."""
    a, b = parts(of.builder, z)
    imaginary, real = _hyperbolic(of, b, a, "sinh")
    return join(of.builder, real, imaginary)


def _cos(of: _Real, z: Scalar) -> Scalar:
    """``cosh(i · z)``."""
    a, b = parts(of.builder, z)
    real, imaginary = _hyperbolic(of, b, a, "cosh")
    return join(of.builder, real, negated(of.builder, imaginary))


def _tan(of: _Real, z: Scalar) -> Scalar:
    """``-i · tanh(i · z)``."""
    a, b = parts(of.builder, z)
    imaginary, real = _tangent(of, b, a)
    return join(of.builder, real, imaginary)


def complex_power(builder: Builder, base: object, exponent: object, real: Functions) -> Any:
    """``base ** exponent``, one of them complex; of constants a Python complex number.

    A small constant integer multiplies, as NumPy does; other exponents take the exponential of a logarithm.

    Args:
        builder: where operations go.
        base, exponent: numbers.
        real: as of `complex_function`.
    """
    if not isinstance(base, Scalar) and not isinstance(exponent, Scalar):
        return cast("Any", base) ** cast("Any", exponent)
    dtype = common_complex(base, exponent)
    z = to_complex(builder, base, dtype)
    number = cast("Any", exponent)
    is_real = not isinstance(exponent, Scalar) and number.imag == 0
    if is_real and abs(number.real) < _MOST_FACTORS and number.real == int(number.real):
        return _whole_power(builder, z, int(number.real), dtype)
    of = _Real(builder, real)
    w = to_complex(builder, exponent, dtype)
    found = _exp(of, binary(builder, "*", exponent if is_real else w, _log(of, z)))
    a, b = parts(builder, z)
    c, d = parts(builder, w)
    zero, nan = of.constant(0.0, a), of.constant(float("nan"), a)
    is_zero = of.is_all(of.compare(a, "oeq", 0.0), of.compare(b, "oeq", 0.0))
    is_positive = of.compare(c, "ogt", 0.0)
    edge = of.choose(is_positive, zero, nan)
    first, second = (of.choose(is_zero, edge, one) for one in parts(builder, found))
    is_one = of.is_all(of.compare(c, "oeq", 0.0), of.compare(d, "oeq", 0.0))
    one = of.constant(1.0, a)
    return join(builder, of.choose(is_one, one, first), of.choose(is_one, zero, second))


def _whole_power(builder: Builder, z: Scalar, count: int, dtype: DType) -> Scalar:
    result: Scalar | None = None
    square, left = z, abs(count)
    while left:
        if left & 1:
            result = square if result is None else binary(builder, "*", result, square)
        left >>= 1
        if left:
            square = binary(builder, "*", square, square)
    one = complex_constant(builder, complex(1.0), dtype)
    if result is None:
        return one
    return binary(builder, "/", one, result) if count < 0 else result


FORMULAS: Final[dict[str, Formula]] = {
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
}
"""The functions of `weft.math` that have complex values, by name."""
