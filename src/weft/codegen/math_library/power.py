# SPDX-License-Identifier: Apache-2.0
"""pow, cbrt, rsqrt.

In: floats. Out: pow at most 1 ulp off, cbrt 1, rsqrt 2; all special values of C's pow. f32's pow computes in f64,
f64's in pairs of doubles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.exponential import KINDS, MANTISSA, clamped, exp2_of_sum
from weft.codegen.math_library.formula import Formula
from weft.codegen.math_library.logarithm import LOG2_E, correction, split

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

# log(1 + f) = 2 s + s z (2/3 + z t(z)), s = f / (2 + f), z = s**2
_TAIL: Final = (
    0.10763424191140654,
    0.10456209522350834,
    0.11766818754353207,
    0.1333329639410692,
    0.15384615763106407,
    0.1818181817964242,
    0.22222222222228483,
    0.28571428571428564,
    0.4,
)
_TWO_THIRDS: Final = (0.6666666666666666, 3.700743415417188e-17)
_EXPONENT_LIMIT: Final = 1100.0

Pair = tuple[str, str]


def _log2_pair(f: Formula, x: str) -> Pair:
    """log2 of a positive finite double as an unevaluated sum, to about 2**-63."""
    k, fraction = split(f, x)
    base = f.add(fraction, 2.0)
    base_low = f.sub(fraction, f.sub(base, 2.0))
    s = f.div(fraction, base)
    rest = f.fma(f.neg(s), base, fraction)
    s_low = f.div(f.fma(f.neg(s), base_low, rest), base)
    z = f.mul(s, s)
    z_low = f.fma(f.add(s, s), s_low, f.fma(s, s, f.neg(z)))
    tail = f.mul(z, f.horner(z, _TAIL))
    a = f.add(_TWO_THIRDS[0], tail)
    a_low = f.add(f.add(f.sub(_TWO_THIRDS[0], a), tail), _TWO_THIRDS[1])
    b = _product(f, (z, z_low), (a, a_low))
    c = f.add(2.0, b[0])
    c_low = f.add(f.add(f.sub(2.0, c), b[0]), b[1])
    log = _product(f, (s, s_low), (c, c_low))
    scaled = _product(f, log, (f.text(LOG2_E["f64"][0]), f.text(LOG2_E["f64"][1])))
    high = f.add(k, scaled[0])
    low = f.add(f.add(f.sub(k, high), scaled[0]), scaled[1])
    return high, low


def _product(f: Formula, a: Pair, b: Pair) -> Pair:
    """The product of two unevaluated sums."""
    high = f.mul(a[0], b[0])
    low = f.fma(a[0], b[0], f.neg(high))
    return high, f.fma(a[1], b[0], f.fma(a[0], b[1], low))


def _magnitude_f64(f: Formula, x: str, y: str) -> str:
    """|x| ** y for a positive finite x."""
    high, low = _log2_pair(f, x)
    exponent = f.mul(y, high)
    exponent_low = f.fma(y, low, f.fma(y, high, f.neg(exponent)))
    bounded = clamped(f, exponent, -_EXPONENT_LIMIT, _EXPONENT_LIMIT)
    inside = f.compare("oeq", bounded, exponent)
    return exp2_of_sum(f, bounded, f.select(inside, exponent_low, 0.0))


def _magnitude_f32(f: Formula, x: str, y: str) -> str:
    """|x| ** y for a positive finite x, through doubles."""
    wide = Formula(f.module, "", "double", kind="double")
    wide.share(f)
    x = f.let(f"fpext float {x} to double")
    y = f.let(f"fpext float {y} to double")
    k, fraction = split(wide, x)
    log = wide.fma(wide.add(fraction, correction(wide, fraction)), LOG2_E["f64"][0], k)
    exponent = clamped(wide, wide.mul(y, log), -_EXPONENT_LIMIT / 2, _EXPONENT_LIMIT / 2)
    return f.let(f"fptrunc double {exp2_of_sum(wide, exponent, None)} to float")


def powers(f: Formula, magnitude: Callable[[Formula, str, str], str]) -> str:
    """x ** y of the arguments, from |x| ** y for a positive finite |x|."""
    infinity = float("inf")
    x, y = f.arguments
    ax = f.fabs(x)
    value = magnitude(f, ax, y)
    y_negative = f.compare("olt", y, 0.0)
    is_zero, is_infinite = f.compare("oeq", ax, 0.0), f.compare("oeq", ax, infinity)
    value = f.select(is_zero, f.select(y_negative, infinity, 0.0), value)
    value = f.select(is_infinite, f.select(y_negative, 0.0, infinity), value)
    # 1 ** anything, anything ** 0, and (-1) ** infinity
    value = f.select(f.compare("oeq", ax, 1.0), 1.0, value)
    whole = f.compare("oeq", f.call("llvm.trunc", y), y)
    half = f.mul(y, 0.5)
    halved = f.compare("une", f.call("llvm.trunc", half), half)
    odd = f.let(f"and i1 {whole}, {halved}")
    negative = f.integer_op("icmp slt", f.bits(x), 0)
    flip = f.let(f"and i1 {negative}, {odd}")
    value = f.select(flip, f.neg(value), value)
    below_zero = f.compare("olt", x, 0.0)
    finite = f.compare("olt", ax, infinity)
    fractional = f.let(f"xor i1 {whole}, true")
    bad = f.let(f"and i1 {f.let(f'and i1 {below_zero}, {finite}')}, {fractional}")
    bad = f.let(f"or i1 {bad}, {f.compare('uno', x, y)}")
    value = f.select(bad, float("nan"), value)
    value = f.select(f.compare("oeq", x, 1.0), 1.0, value)
    return f.select(f.compare("oeq", y, 0.0), 1.0, value)


def _pow(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"pow.{name}", KINDS[name], KINDS[name], KINDS[name])
        return f.finish(powers(f, _magnitude_f32 if name == "f32" else _magnitude_f64))

    return entry


def _cbrt(name: str) -> LibraryEntry:
    """Starts from a third of the exponent; three steps of Halley's, and one of Newton's with the exact residue."""
    bits, bias_third = (32, 0x2A555555) if name == "f32" else (64, 0x2A9F7893782DA1CE)
    mantissa = MANTISSA[name]
    tiny, huge = (2.0**-126, 2.0**120) if name == "f32" else (2.0**-1022, 2.0**1000)
    # Powers of eight: their cube roots are exact.
    up, root = (2.0**24, 2.0**8) if name == "f32" else (2.0**54, 2.0**18)

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"cbrt.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        is_tiny, is_huge = f.compare("olt", a, tiny), f.compare("ogt", a, huge)
        a = f.mul(a, f.select(is_tiny, up, f.select(is_huge, 1 / up, 1.0)))
        third = f.let(f"udiv i{bits} {f.bits(a)}, 3")
        y = f.from_bits(f.integer_op("add", third, bias_third))
        for _ in range(2 if mantissa == 23 else 3):
            cube = f.mul(f.mul(y, y), y)
            y = f.mul(y, f.div(f.add(f.add(a, a), cube), f.add(f.add(cube, cube), a)))
        square = f.mul(y, y)
        square_low = f.fma(y, y, f.neg(square))
        residue = f.fma(square_low, y, f.fma(square, y, f.neg(a)))
        y = f.sub(y, f.div(residue, f.mul(square, 3.0)))
        y = f.mul(y, f.select(is_tiny, 1 / root, f.select(is_huge, root, 1.0)))
        ordinary = f.compare("olt", f.fabs(x), float("inf"))
        nonzero = f.compare("one", x, 0.0)
        good = f.let(f"and i1 {ordinary}, {nonzero}")
        return f.finish(f.select(good, f.copysign(y, x), f.add(x, x)))

    return entry


def _rsqrt(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"rsqrt.{name}", KINDS[name], KINDS[name])
        return f.finish(f.div(1.0, f.sqrt(f.arguments[0])))

    return entry


POWER: dict[str, LibraryEntry] = {
    f"{stem}.{name}": make(name)
    for stem, make in (("pow", _pow), ("cbrt", _cbrt), ("rsqrt", _rsqrt))
    for name in KINDS
}
