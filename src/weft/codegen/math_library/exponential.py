# SPDX-License-Identifier: Apache-2.0
"""exp, exp2, expm1: x = n ln 2 + r with |r| ≤ ln 2 / 2, a polynomial in r, and a scaling by 2**n in two steps.

In: a float. Out: at most 1.2 ulp off (expm1 2.5); overflow gives infinity, underflow is gradual. Polynomials:
tools/minimax.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

KINDS: Final = {"f32": "float", "f64": "double"}

# exp(r) = 1 + r + r**2 q(r)
_Q: Final = {
    "f32": (
        0.0013942162426006765,
        0.008363779058856014,
        0.04166636344554231,
        0.16666573334262424,
        0.5000000028582172,
    ),
    "f64": (
        2.511120397630789e-08,
        2.7621340825620834e-07,
        2.7557239244458533e-06,
        2.480151863611152e-05,
        0.00019841269889351839,
        0.0013888888918943214,
        0.008333333333321294,
        0.04166666666662063,
        0.16666666666666674,
        0.5000000000000001,
    ),
}
_LOG2_E: Final = 1.4426950408889634
LN2: Final = {
    "f32": (0.6931471824645996, -1.9046542121259336e-09),
    "f64": (0.6931471805599453, 2.3190468138462996e-17),
}
# Adding it to a float leaves the nearest integer in the low bits of the mantissa.
ROUNDER: Final = {"f32": 1.5 * 2.0**23, "f64": 1.5 * 2.0**52}
MANTISSA: Final = {"f32": 23, "f64": 52}
BIAS: Final = {"f32": 127, "f64": 1023}
# Arguments beyond which the result is 0 or infinity anyway; keeps n in range.
_EXP_RANGE: Final = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
_EXP2_RANGE: Final = {"f32": (-151.0, 129.0), "f64": (-1076.0, 1025.0)}
_EXPM1_LOWEST: Final = {"f32": -30.0, "f64": -60.0}


def clamped(f: Formula, x: str, low: float, high: float) -> str:
    """x within [low, high]; NaN stays."""
    below = f.select(f.compare("olt", x, low), low, x)
    return f.select(f.compare("ogt", x, high), high, below)


def rounded(f: Formula, x: str, factor: float) -> tuple[str, str]:
    """The integer nearest to x * factor, as a float and as an integer of the float's width."""
    rounder = ROUNDER[f.name]
    marked = f.fma(x, factor, rounder)
    number = f.sub(marked, rounder)
    return number, f.integer_op("sub", f.bits(marked), f.bits(rounder))


def scaled(f: Formula, value: str, exponent: str) -> str:
    """value * 2**exponent, rounded once even if the result is subnormal or infinite."""
    mantissa, bias = MANTISSA[f.name], BIAS[f.name]
    half = f.integer_op("ashr", exponent, 1)
    rest = f.integer_op("sub", exponent, half)
    for part in (half, rest):
        power = f.integer_op("shl", f.integer_op("add", part, bias), mantissa)
        value = f.mul(value, f.from_bits(power))
    return value


def reduced(f: Formula, x: str) -> tuple[str, str]:
    """r and n with x = n ln 2 + r."""
    high, low = LN2[f.name]
    number, exponent = rounded(f, x, _LOG2_E)
    r = f.fma(number, -high, x)
    return f.fma(number, -low, r), exponent


def exp_minus_one(f: Formula, r: str) -> str:
    """exp(r) - 1 for |r| ≤ ln 2 / 2."""
    return f.fma(f.horner(r, _Q[f.name]), f.mul(r, r), r)


def exp_scaled(f: Formula, x: str, shift: int) -> str:
    """exp(x) * 2**shift, without overflow before the scaling."""
    low, high = _EXP_RANGE[f.name]
    r, exponent = reduced(f, clamped(f, x, low, high + 1.0))
    moved = f.integer_op("add", exponent, shift) if shift else exponent
    return scaled(f, f.add(exp_minus_one(f, r), 1.0), moved)


def _exp(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"exp.{name}", KINDS[name], KINDS[name])
        return f.finish(exp_scaled(f, f.arguments[0], 0))

    return entry


def exp2_of_sum(f: Formula, x: str, low: str | None) -> str:
    """2**(x + low), where `low` is far smaller than x, or None; x is within the range of the type."""
    number, exponent = rounded(f, x, 1.0)
    r = f.sub(x, number)
    if low is not None:
        r = f.add(r, low)
    return scaled(f, f.add(exp_minus_one(f, f.mul(r, LN2[f.name][0])), 1.0), exponent)


def _exp2(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"exp2.{name}", KINDS[name], KINDS[name])
        x = clamped(f, f.arguments[0], *_EXP2_RANGE[name])
        return f.finish(exp2_of_sum(f, x, None))

    return entry


def _expm1(name: str) -> LibraryEntry:
    """2**n (exp(r) - 1) + (2**n - 1), at half the scale so that 2**n itself does not overflow."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"expm1.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        r, exponent = reduced(f, clamped(f, x, _EXPM1_LOWEST[name], _EXP_RANGE[name][1]))
        power = f.integer_op("add", exponent, BIAS[name] - 1)
        half = f.from_bits(f.integer_op("shl", power, MANTISSA[name]))
        value = f.mul(f.fma(half, exp_minus_one(f, r), f.sub(half, 0.5)), 2.0)
        return f.finish(f.select(f.compare("oeq", x, 0.0), x, value))

    return entry


EXPONENTIAL: dict[str, LibraryEntry] = {
    f"{stem}.{name}": make(name)
    for stem, make in (("exp", _exp), ("exp2", _exp2), ("expm1", _expm1))
    for name in KINDS
}
