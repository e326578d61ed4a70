# SPDX-License-Identifier: Apache-2.0
"""Elementary functions of complex numbers.

In: a number of c64 or c128, and functions of `weft.math` for its parts. Out: a number of the same type. The formulas
keep parts that fit their type from overflowing on the way; cuts are those of Python's `cmath`.
"""

from __future__ import annotations

import cmath
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith, math

from weft.errors import TypeMismatchError
from weft.language.ir_types import ir_type
from weft.language.numbers.complex import absolute, chosen, complex_absolute, join, negated, parts
from weft.language.numbers.operators import binary
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.dialects.builder import Builder

    Functions = Callable[..., Any]
    Formula = Callable[["_Real", Scalar], Scalar]


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
    return join(of.builder, real, of.choose(of.compare(b, "oeq", 0.0), b, imaginary))


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
    for number in (0.0, float("inf")):
        smaller = of.choose(of.compare(size, "oeq", number), size, smaller)
    is_positive = of.compare(a, "oge", 0.0)
    real, imaginary = (
        of.choose(is_positive, larger, smaller),
        of.choose(is_positive, smaller, larger),
    )
    signed = builder.emit(math.CopySignOp(imaginary.ssa, b.ssa)).result
    return join(builder, real, Scalar(signed, b.dtype))


def _products(first: tuple[str, str], second: tuple[str, str], *, is_negated: bool) -> Formula:
    """A function whose parts are products of functions of the parts."""

    def formula(of: _Real, z: Scalar) -> Scalar:
        a, b = parts(of.builder, z)
        real = of.multiply(of.call(first[0], a), of.call(first[1], b))
        imaginary = of.multiply(of.call(second[0], a), of.call(second[1], b))
        return join(of.builder, real, negated(of.builder, imaginary) if is_negated else imaginary)

    return formula


FORMULAS: Final[dict[str, Formula]] = {
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _products(("sin", "cosh"), ("cos", "sinh"), is_negated=False),
    "cos": _products(("cos", "cosh"), ("sin", "sinh"), is_negated=True),
    "sinh": _products(("sinh", "cos"), ("cosh", "sin"), is_negated=False),
    "cosh": _products(("cosh", "cos"), ("sinh", "sin"), is_negated=False),
}
"""The functions of `weft.math` that have complex values, by name."""
