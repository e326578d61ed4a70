# SPDX-License-Identifier: Apache-2.0
"""log, log2, log10, log1p: x = 2**k m with m in [sqrt(1/2), sqrt(2)), and a polynomial in f = m - 1.

In: a float. Out: at most 1.2 ulp off; 0 gives minus infinity, negative numbers NaN.
Polynomials: tools/minimax.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.exponential import KINDS, MANTISSA
from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

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
