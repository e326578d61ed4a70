# SPDX-License-Identifier: Apache-2.0
"""Exponentials, logarithms, powers, hyperbolic functions and erf.

exp, exp2, expm1: x = n ln 2 + r with |r| ≤ ln 2 / 2, a polynomial in r, and a scaling by 2**n in two steps; at most 1.2
ulp off (expm1 2.5); overflow gives infinity, underflow is gradual. log, log2, log10, log1p: x = 2**k m with m in
[sqrt(1/2), sqrt(2)), and a polynomial in f = m - 1; at most 1.2 ulp off; 0 gives minus infinity, negative numbers NaN.
pow at most 1 ulp off, cbrt 1, rsqrt 2; all special values of C's pow; f32's pow computes in f64, f64's in pairs of
doubles. sinh, cosh, tanh and their inverses, from exp, expm1 and log1p: at most 3 ulp off (cosh, tanh, asinh and atanh
2). erf: a polynomial below 1, one minus the exponential of a polynomial above; at most 2 ulp off. Polynomials:
tools/minimax.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from collections.abc import Callable

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


# log(1 + f) = f - f**2 / 2 + f**3 p(f)
_P_F32: Final = (
    0.06915586181605086,
    -0.11789839220408124,
    0.11872894890699336,
    -0.12384338487975845,
    0.14218668260580455,
    -0.16669251727300016,
    0.20002226110723925,
    -0.2499998657588147,
    0.333333104479505,
)
# log(1 + f) = 2 s + s z r(z), s = f / (2 + f), z = s**2
_R_F64: Final = (
    0.14796000445512925,
    0.1531404915607981,
    0.18183564222663376,
    0.22222198578408475,
    0.28571428742305643,
    0.39999999999415164,
    0.6666666666666734,
)
_SQRT_HALF_BITS: Final = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}
_INFINITY_BITS: Final = {"f32": 0x7F800000, "f64": 0x7FF0000000000000}
_LOWEST_NORMAL: Final = {"f32": 2.0**-126, "f64": 2.0**-1022}
# A logarithm of 2 in two parts; the first has few bits, so that k times it is exact.
_LN2: Final = {
    "f32": (0.693145751953125, 1.4286068203094173e-06),
    "f64": (0.6931471806019545, -4.2009150726810846e-11),
}
_LOG10_2: Final = {
    "f32": (0.301025390625, 4.605038981195214e-06),
    "f64": (0.3010299956658855, -1.9043128467164274e-12),
}
LOG2_E: Final = {
    "f32": (1.4426950216293335, 1.925963033500011e-08),
    "f64": (1.4426950408889634, 2.0355273740931033e-17),
}
_LOG10_E: Final = {
    "f32": (0.4342944920063019, -1.0103049952192578e-08),
    "f64": (0.4342944819032518, 1.098319650216765e-17),
}


def split(f: Formula, x: str) -> tuple[str, str]:
    """k, as a float, and f = m - 1 with x = 2**k m, for a positive finite x."""
    mantissa, start = MANTISSA[f.name], _SQRT_HALF_BITS[f.name]
    tiny = f.compare("olt", x, _LOWEST_NORMAL[f.name])
    normal = f.select(tiny, f.mul(x, 2.0 ** (mantissa + 2)), x)
    offset = f.select(tiny, -float(mantissa + 2), 0.0)
    moved = f.integer_op("sub", f.bits(normal), start)
    exponent = f.integer_op("ashr", moved, mantissa)
    fraction = f.integer_op("and", moved, (1 << mantissa) - 1)
    m = f.from_bits(f.integer_op("add", fraction, start))
    k = f.let(f"sitofp {f.integer} {exponent} to {f.kind}")
    return f.add(k, offset), f.sub(m, 1.0)


def correction(f: Formula, fraction: str) -> str:
    """log(1 + f) - f."""
    square = f.mul(fraction, fraction)
    if f.name == "f32":
        inner = f.fma(fraction, f.horner(fraction, _P_F32), -0.5)
        return f.mul(square, inner)
    half = f.mul(square, 0.5)
    s = f.div(fraction, f.add(fraction, 2.0))
    z = f.mul(s, s)
    r = f.mul(z, f.horner(z, _R_F64))
    return f.neg(f.sub(half, f.mul(s, f.add(half, r))))


def with_special_values(f: Formula, x: str, value: str) -> str:
    """A logarithm of x, including 0, negative numbers, infinity and NaN: all that as bits is not below infinity."""
    infinity = float("inf")
    is_special = f.integer_op("icmp uge", f.bits(x), _INFINITY_BITS[f.name])
    value = f.select(is_special, f.fma(x, infinity, infinity), value)
    return f.select(f.compare("oeq", x, 0.0), -infinity, value)


def _log(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"log.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        k, fraction = split(f, x)
        high, low = _LN2[name]
        small = f.fma(k, low, correction(f, fraction))
        value = f.fma(k, high, f.add(fraction, small))
        return f.finish(with_special_values(f, x, value))

    return entry


def _scaled_log(
    stem: str, name: str, factor: tuple[float, float], power: tuple[float, float]
) -> LibraryEntry:
    """A logarithm to another base: k * power + log(m) * factor, each in two parts."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{stem}.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        k, fraction = split(f, x)
        rest = correction(f, fraction)
        high = f.mul(fraction, factor[0])
        low = f.fma(fraction, factor[0], f.neg(high))
        low = f.fma(fraction, factor[1], low)
        low = f.fma(rest, factor[0], low)
        if power[1]:
            low = f.fma(k, power[1], low)
        value = f.fma(k, power[0], f.add(high, low))
        return f.finish(with_special_values(f, x, value))

    return entry


def log1p_of(f: Formula, divide: Callable[[str, str], str]) -> str:
    """log(u) of the argument, with u = 1 + x rounded, plus the rounding error divided by u."""
    (x,) = f.arguments
    u = f.add(x, 1.0)
    lost_small = f.sub(x, f.sub(u, 1.0))
    lost_large = f.sub(1.0, f.sub(u, x))
    lost = divide(f.select(f.compare("oge", x, 1.0), lost_large, lost_small), u)
    k, fraction = split(f, u)
    high, low = _LN2[f.name]
    small = f.fma(k, low, f.add(correction(f, fraction), lost))
    value = f.fma(k, high, f.add(fraction, small))
    value = with_special_values(f, u, value)
    return f.select(f.compare("oeq", x, 0.0), x, value)


def _log1p(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"log1p.{name}", KINDS[name], KINDS[name])
        return f.finish(log1p_of(f, f.div))

    return entry


LOGARITHM: dict[str, LibraryEntry] = {
    **{f"log.{name}": _log(name) for name in KINDS},
    **{f"log1p.{name}": _log1p(name) for name in KINDS},
    **{f"log2.{name}": _scaled_log("log2", name, LOG2_E[name], (1.0, 0.0)) for name in KINDS},
    **{
        f"log10.{name}": _scaled_log("log10", name, _LOG10_E[name], _LOG10_2[name])
        for name in KINDS
    },
}


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


# tanh(x) = x + x z t(z), z = x**2, |x| ≤ 0.625
TANH: Final = {
    "f32": (
        0.002141998108365348,
        -0.008176401940833583,
        0.021700325536003047,
        -0.05394669910414351,
        0.1333320554232322,
        -0.3333333079174565,
    ),
    "f64": (
        8.532847682596374e-07,
        -4.599588012137014e-06,
        1.4628363980267873e-05,
        -3.865557002002752e-05,
        9.670128767552932e-05,
        -0.00023907590709407365,
        0.0005900178507043133,
        -0.0014558331424652136,
        0.003592127922411973,
        -0.008863235522738589,
        0.021869488535863613,
        -0.05396825396824692,
        0.13333333333333325,
        -0.3333333333333333,
    ),
}
TANH_BOUNDARY: Final = 0.625
_LN2_ALONE: Final = 0.6931471805599453
# Beyond it a square would overflow, and adding 1 no longer matters.
_LARGE: Final = {"f32": 2.0**28, "f64": 2.0**500}


def _tanh(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"tanh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        z = f.mul(a, a)
        small = f.fma(f.mul(a, z), f.horner(z, TANH[name]), a)
        power = f.library("exp", f.add(a, a))
        large = f.sub(1.0, f.div(2.0, f.add(power, 1.0)))
        return f.finish(f.copysign(f.select(f.compare("olt", a, TANH_BOUNDARY), small, large), x))

    return entry


def _sinh(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"sinh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        e = f.library("expm1", a)
        small = f.mul(f.add(e, f.div(e, f.add(e, 1.0))), 0.5)
        half = exp_scaled(f, a, -1)
        large = f.sub(half, f.div(0.25, half))
        return f.finish(f.copysign(f.select(f.compare("olt", a, 1.0), small, large), x))

    return entry


def _cosh(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"cosh.{name}", KINDS[name], KINDS[name])
        half = exp_scaled(f, f.fabs(f.arguments[0]), -1)
        return f.finish(f.add(half, f.div(0.25, half)))

    return entry


def _asinh(name: str) -> LibraryEntry:
    """log(a + sqrt(a**2 + 1)), without cancellation near 0 and without overflow."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"asinh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        square = f.mul(a, a)
        root = f.add(f.sqrt(f.add(square, 1.0)), 1.0)
        is_large = f.compare("ogt", a, _LARGE[name])
        argument = f.select(is_large, a, f.add(a, f.div(square, root)))
        extra = f.select(is_large, _LN2_ALONE, 0.0)
        value = f.add(f.library("log1p", argument), extra)
        return f.finish(f.copysign(value, x))

    return entry


def _acosh(name: str) -> LibraryEntry:
    """log(x + sqrt(x**2 - 1)) through t = x - 1."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"acosh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        t = f.sub(x, 1.0)
        root = f.sqrt(f.fma(t, t, f.add(t, t)))
        is_large = f.compare("ogt", x, _LARGE[name])
        argument = f.select(is_large, x, f.add(t, root))
        extra = f.select(is_large, _LN2_ALONE, 0.0)
        value = f.add(f.library("log1p", argument), extra)
        return f.finish(f.select(f.compare("olt", x, 1.0), float("nan"), value))

    return entry


def _atanh(name: str) -> LibraryEntry:
    """log((1 + a) / (1 - a)) / 2; both forms of log1p's argument are exact where used."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"atanh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        twice, rest = f.add(a, a), f.sub(1.0, a)
        quotient = f.div(f.select(f.compare("olt", a, 0.5), f.mul(twice, a), twice), rest)
        argument = f.select(f.compare("olt", a, 0.5), f.add(twice, quotient), quotient)
        return f.finish(f.copysign(f.mul(f.library("log1p", argument), 0.5), x))

    return entry


HYPERBOLIC: dict[str, LibraryEntry] = {
    f"{stem}.{name}": make(name)
    for stem, make in (
        ("tanh", _tanh),
        ("sinh", _sinh),
        ("cosh", _cosh),
        ("asinh", _asinh),
        ("acosh", _acosh),
        ("atanh", _atanh),
    )
    for name in KINDS
}


# erf(x) = x + x e(x**2) for |x| < 1; the last coefficient is 2 / sqrt(π) - 1.
ERF: Final = {
    "f32": (
        7.858105096131244e-05,
        -0.0008011593438376583,
        0.005188505505453938,
        -0.026853920474421162,
        0.11283588369785875,
        -0.3761262623299732,
        0.1283791658734803,
    ),
    "f64": (
        5.946253618359215e-11,
        -1.1366296267209922e-09,
        1.4658056120126356e-08,
        -1.6350053745997377e-07,
        1.646097576963756e-06,
        -1.4925593711006097e-05,
        0.00012055331046448607,
        -0.0008548326979042036,
        0.005223977624787003,
        -0.02686617064507367,
        0.11283791670954862,
        -0.3761263890318375,
        0.12837916709551257,
    ),
}
# erfc(x) = exp(-q(x)) for 1 ≤ x ≤ 4 (f64: 6)
ERFC_EXPONENT: Final = {
    "f32": (
        2.1686712622209525e-05,
        -0.0004413346746931791,
        0.004204552993488472,
        -0.025208231477891405,
        0.10841853502721104,
        0.6332199348086248,
        1.1295784018291641,
        -0.00018803515181415795,
    ),
    "f64": (
        1.7715529157363948e-13,
        -8.873162153562464e-12,
        2.0935231962117592e-10,
        -3.092804405813393e-09,
        3.205453628610126e-08,
        -2.471937330656904e-07,
        1.4648151626179991e-06,
        -6.764286034373721e-06,
        2.4215984302629957e-05,
        -6.459392811360525e-05,
        0.000110432608674576,
        -2.1413153096382485e-05,
        -0.0005531706417407058,
        0.001675842964485909,
        -0.0002030509838376695,
        -0.019127558062339924,
        0.10277058088874182,
        0.6366208131077503,
        1.1283788992391384,
        2.9411499540387755e-08,
    ),
}
LARGEST_ERF: Final = {"f32": 4.0, "f64": 6.0}


def _erf(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"erf.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        small = f.fma(a, f.horner(f.mul(a, a), ERF[name]), a)
        capped = f.select(f.compare("ogt", a, LARGEST_ERF[name]), LARGEST_ERF[name], a)
        exponent = f.neg(f.horner(capped, ERFC_EXPONENT[name]))
        large = f.sub(1.0, f.library("exp", exponent))
        return f.finish(f.copysign(f.select(f.compare("olt", a, 1.0), small, large), x))

    return entry


ERROR_FUNCTION: dict[str, LibraryEntry] = {f"erf.{name}": _erf(name) for name in KINDS}
