# SPDX-License-Identifier: Apache-2.0
"""asin, acos, atan, atan2: polynomials on a short interval, reached by identities.

In: floats. Out: at most 1.7 ulp off; outside [-1, 1] asin and acos give NaN. Polynomials: tools/minimax.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.exponential import KINDS
from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

# asin(x) = x + x z a(z), z = x**2 ≤ 1/4
ASIN: Final = {
    "f32": (
        0.03752462742273007,
        0.014433654610468135,
        0.03180878592699243,
        0.04451685598082757,
        0.0750050457096329,
        0.16666659986360177,
    ),
    "f64": (
        0.032655062516914454,
        -0.02104045276432777,
        0.021736066069174897,
        0.003694905264068605,
        0.010783229783944375,
        0.011398393238093224,
        0.013980882509476232,
        0.017351606964867258,
        0.02237221526229071,
        0.030381942698245717,
        0.044642857174807066,
        0.07499999999970597,
        0.1666666666666676,
    ),
}
# atan(x) = x + x z b(z), |x| ≤ tan(π/8)
_B: Final = {
    "f32": (
        -0.060553055459008694,
        0.10585178286365708,
        -0.1424242743013086,
        0.19998416737974756,
        -0.33333314366645744,
    ),
    "f64": (
        0.015056526117913166,
        -0.033337026163637054,
        0.04497602766065495,
        -0.05216930300764767,
        0.05876790836138095,
        -0.06666202952582961,
        0.07692281130485121,
        -0.09090908071742075,
        0.11111111086136838,
        -0.14285714285354845,
        0.199999999999974,
        -0.33333333333333326,
    ),
}
_HALF_PI: Final = {
    "f32": (1.5707963705062866, -4.371138828673793e-08),
    "f64": (1.5707963267948966, 6.123233995736766e-17),
}
_TAN_EIGHTH: Final = 0.4142135623730950  # tan(π/8)
_TAN_THREE_EIGHTHS: Final = 2.414213562373095  # tan(3π/8)


def _asin_or_acos(stem: str, name: str) -> LibraryEntry:
    """Above 1/2, asin(x) = π/2 - 2 asin(sqrt((1 - x) / 2)); the root and its correction stay separate."""
    high, low = _HALF_PI[name]

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{stem}.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        is_large = f.compare("ogt", a, 0.5)
        rest = f.mul(f.sub(1.0, a), 0.5)
        z = f.select(is_large, rest, f.mul(a, a))
        root = f.sqrt(rest)
        w = f.select(is_large, root, a)
        cube, polynomial = f.mul(w, z), f.horner(z, ASIN[name])
        small = f.fma(cube, polynomial, w)
        # The rounding error of the square root; none for sqrt(0).
        lost = f.div(f.fma(f.neg(root), root, rest), f.add(root, root))
        lost = f.select(f.compare("oeq", root, 0.0), 0.0, lost)
        tail = f.fma(cube, polynomial, lost)
        twice, twice_tail = f.add(root, root), f.add(tail, tail)
        if stem == "asin":
            value = f.sub(f.sub(high, twice), f.sub(twice_tail, low))
            return f.finish(f.copysign(f.select(is_large, value, small), x))
        negative = f.compare("olt", x, 0.0)
        mirrored = f.sub(f.sub(2 * high, twice), f.sub(twice_tail, 2 * low))
        outer = f.select(negative, mirrored, f.add(twice, twice_tail))
        inner = f.sub(high, f.sub(f.copysign(small, x), low))
        return f.finish(f.select(is_large, outer, inner))

    return entry


def _arctangent(f: Formula, numerator: str, denominator: str) -> str:
    """atan(numerator / denominator) of non-negative numbers, not both 0 or both infinite.

    One division: with steps of π/8, the tangent of the rest is a quotient of the same two numbers. Their rounding
    errors are added at the end.
    """
    high, low = _HALF_PI[f.name]
    large = f.compare("ogt", numerator, f.mul(denominator, _TAN_THREE_EIGHTHS))
    middle = f.compare("ogt", numerator, f.mul(denominator, _TAN_EIGHTH))
    difference, total = f.sub(numerator, denominator), f.add(numerator, denominator)
    top = f.select(middle, difference, numerator)
    top = f.select(large, f.neg(denominator), top)
    bottom = f.select(middle, total, denominator)
    bottom = f.select(large, numerator, bottom)
    t = f.div(top, bottom)
    inverse = f.div(1.0, total)
    lost = f.fma(f.neg(t), total, difference)
    lost = f.add(lost, _lost_by_sum(f, numerator, f.neg(denominator), difference))
    lost = f.fma(f.neg(t), _lost_by_sum(f, numerator, denominator, total), lost)
    extra = f.mul(lost, inverse)
    only_middle = f.let(f"and i1 {middle}, {f.let(f'xor i1 {large}, true')}")
    base = f.select(large, high, f.select(middle, high / 2, 0.0))
    rest = f.select(large, low, f.select(only_middle, f.add(extra, low / 2), 0.0))
    z = f.mul(t, t)
    tail = f.fma(f.mul(t, z), f.horner(z, _B[f.name]), rest)
    # base + t is rounded too, but the tail is small compared with it.
    near = f.add(base, t)
    return f.add(near, f.add(tail, _lost_by_sum(f, base, t, near)))


def _lost_by_sum(f: Formula, a: str, b: str, total: str) -> str:
    """The exact rounding error of a + b as `total`."""
    of_b = f.sub(total, a)
    of_a = f.sub(total, of_b)
    return f.add(f.sub(a, of_a), f.sub(b, of_b))


def _atan(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"atan.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        return f.finish(f.copysign(_arctangent(f, f.fabs(x), f.text(1.0)), x))

    return entry


def _atan2(name: str) -> LibraryEntry:
    """The angle of (x, y); zeros and infinities have the angles of C's atan2."""
    high, low = _HALF_PI[name]
    # Scaling by a power of two keeps sums below infinity and quotients above underflow.
    huge, down = (2.0**126, 0.25) if name == "f32" else (2.0**1022, 0.25)
    tiny, up = (2.0**-100, 2.0**24) if name == "f32" else (2.0**-900, 2.0**100)

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"atan2.{name}", KINDS[name], KINDS[name], KINDS[name])
        y, x = f.arguments
        ay, ax = f.fabs(y), f.fabs(x)
        larger = f.select(f.compare("ogt", ay, ax), ay, ax)
        scale = f.select(f.compare("ogt", larger, huge), down, 1.0)
        scale = f.select(f.compare("olt", larger, tiny), up, scale)
        angle = _arctangent(f, f.mul(ay, scale), f.mul(ax, scale))
        angle = f.select(f.compare("oeq", ay, 0.0), 0.0, angle)
        infinity = float("inf")
        both = f.let(f"and i1 {f.compare('oeq', ay, infinity)}, {f.compare('oeq', ax, infinity)}")
        angle = f.select(both, high / 2, angle)
        negative = f.integer_op("icmp slt", f.bits(x), 0)
        mirrored = f.sub(2 * high, f.sub(angle, 2 * low))
        angle = f.copysign(f.select(negative, mirrored, angle), y)
        is_nan = f.compare("uno", x, y)
        return f.finish(f.select(is_nan, float("nan"), angle))

    return entry


INVERSE_TRIGONOMETRIC: dict[str, LibraryEntry] = {
    **{f"{stem}.{name}": _asin_or_acos(stem, name) for stem in ("asin", "acos") for name in KINDS},
    **{f"atan.{name}": _atan(name) for name in KINDS},
    **{f"atan2.{name}": _atan2(name) for name in KINDS},
}
