# SPDX-License-Identifier: Apache-2.0
"""Functions on a GPU's special function units: ``approx=True``, and ``--math fast``, the default, for f32.

Out: `units(machine)`, library functions of one instruction or two: `rsqrt`; `approx.<function>`; `unit.<instruction>`,
which others are made of; conversions of 8-bit floats. Errors are those of the PTX ISA; `unit.ex2`, `unit.rcp` and
`unit.rsqrt` flush subnormal numbers. `FAST`, functions `fast.<name>` of them, without divisions and f64, with the
special values of the portable ones; docs/mathematics.md has their errors. Polynomials: tools/minimax.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from weft.codegen.math_library.exponential import (
    ERF,
    ERFC_EXPONENT,
    LARGEST_ERF,
    LOG2_E,
    TANH,
    TANH_BOUNDARY,
    clamped,
    log1p_of,
    powers,
    rounded,
    scaled,
    split,
)
from weft.codegen.math_library.formula import Formula
from weft.codegen.math_library.trigonometric import ASIN
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter
    from weft.types.capabilities import Capabilities


_INFINITY: Final = float("inf")
# Factors of π/2: multiplied in a fused multiply-add, they have twice a float's digits.
_HALF_PI: Final = (1.2532951831817627, 1.2533330917358398)
# atan(x) = x + x z b(z), z = x**2 ≤ 1
_ATAN: Final = (
    0.0029207430319016007,
    -0.016368106654878457,
    0.043212103897730086,
    -0.07552229953591855,
    0.10666009030619887,
    -0.14211055402488348,
    0.19993772665359652,
    -0.33333152716496683,
)
# atanh(s) = s + s z c(z), z = s**2, |s| ≤ 0.1716
_ATANH: Final = (
    0.1179116227205483,
    0.14268650227599355,
    0.20000167649074294,
    0.33333332822532996,
)
_POWER_LIMIT: Final = 200.0


def _exp(f: Formula) -> str:
    """2**n 2**r with n = floor(x log2(e)) and 0 ≤ r < 1; beyond -126 ≤ n ≤ 126, r and not n grows."""
    (x,) = f.arguments
    steps = 252.0
    position = f.library("unit.fma_saturated", x, LOG2_E["f64"][0] / steps, 0.5)
    marked = f.library("unit.fma_down", position, steps, 1.5 * 2.0**23 + 1)
    n = f.sub(marked, 1.5 * 2.0**23 + 127)
    r = f.fma(x, LOG2_E["f32"][1], f.fma(x, LOG2_E["f32"][0], f.neg(n)))
    power = f.from_bits(f.integer_op("shl", f.bits(marked), 23))
    return f.mul(f.library("unit.ex2", r), power)


def _exp2(f: Formula) -> str:
    """Subnormal results, and those that an error would make so, are 2**64 times as large until the last step."""
    (x,) = f.arguments
    is_tiny = f.compare("olt", x, -125.0)
    power = f.library("unit.ex2", f.select(is_tiny, f.add(x, 64.0), x))
    return f.select(is_tiny, f.mul(power, 2.0**-64), power)


def _log1p(f: Formula) -> str:
    return log1p_of(f, lambda lost, u: f.mul(lost, f.library("unit.rcp", u)))


def _tanh(f: Formula) -> str:
    (x,) = f.arguments
    a = f.fabs(x)
    z = f.mul(a, a)
    small = f.fma(f.mul(a, z), f.horner(z, TANH["f32"]), a)
    power = f.library("unit.ex2", f.mul(a, 2 * LOG2_E["f64"][0]))
    large = f.fma(f.library("unit.rcp", f.add(power, 1.0)), -2.0, 1.0)
    return f.copysign(f.select(f.compare("olt", a, TANH_BOUNDARY), small, large), x)


def _erf(f: Formula) -> str:
    """One polynomial, its coefficients chosen: a + a e(a**2) below 1, 1 - 2**p(a) above."""
    (x,) = f.arguments
    a = f.fabs(x)
    is_small = f.compare("olt", a, 1.0)
    capped = f.select(f.compare("ogt", a, LARGEST_ERF["f32"]), LARGEST_ERF["f32"], a)
    argument = f.select(is_small, f.mul(a, a), capped)
    powers_of_two = [-LOG2_E["f64"][0] * coefficient for coefficient in ERFC_EXPONENT["f32"]]
    chosen = zip((0.0, *ERF["f32"]), powers_of_two, strict=True)
    value = f.text(0.0)
    for index, (small, large) in enumerate(chosen):
        coefficient = f.select(is_small, small, large)
        value = f.fma(value, argument, coefficient) if index else coefficient
    near, far = f.fma(a, value, a), f.sub(1.0, f.library("unit.ex2", value))
    return f.copysign(f.select(is_small, near, far), x)


def _asin(f: Formula) -> str:
    (x,) = f.arguments
    is_large, angle = _short_arcsine(f, f.fabs(x))
    rest = f.fma(_HALF_PI[0], _HALF_PI[1] / 2, f.neg(angle))
    return f.copysign(f.select(is_large, f.add(rest, rest), angle), x)


def _acos(f: Formula) -> str:
    """π/2 - asin(x) up to 1/2; above, 2 angle for positive and 2 (π/2 - angle) for negative numbers."""
    (x,) = f.arguments
    is_large, angle = _short_arcsine(f, f.fabs(x))
    taken = f.neg(f.select(is_large, angle, f.copysign(angle, x)))
    rest = f.fma(_HALF_PI[0], _HALF_PI[1], taken)
    is_near_one = f.compare("ogt", x, 0.5)
    value = f.select(is_near_one, angle, rest)
    return f.select(is_large, f.add(value, value), value)


def _short_arcsine(f: Formula, a: str) -> tuple[str, str]:
    """Whether a > 1/2, and asin(a) or asin(sqrt((1 - a) / 2)), with one Newton step for the root."""
    is_large = f.compare("ogt", a, 0.5)
    rest = f.fma(a, -0.5, 0.5)
    inverse = f.library("unit.rsqrt", rest)
    root = f.mul(rest, inverse)
    error = f.fma(f.neg(root), root, rest)
    root = f.fma(error, f.mul(inverse, 0.5), root)
    root = f.select(f.compare("oeq", rest, 0.0), 0.0, root)
    z, w = f.select(is_large, rest, f.mul(a, a)), f.select(is_large, root, a)
    return is_large, f.fma(f.mul(w, z), f.horner(z, ASIN["f32"]), w)


def _atan(f: Formula) -> str:
    (x,) = f.arguments
    a = f.fabs(x)
    is_large = f.compare("ogt", a, 1.0)
    t = f.select(is_large, f.library("unit.rcp", a), a)
    angle = _short_arctangent(f, t)
    rest = f.fma(_HALF_PI[0], _HALF_PI[1], f.neg(angle))
    return f.copysign(f.select(is_large, rest, angle), x)


def _short_arctangent(f: Formula, t: str) -> str:
    z = f.mul(t, t)
    return f.fma(f.mul(t, z), f.horner(z, _ATAN), t)


def _atan2(f: Formula) -> str:
    """The arctangent of the smaller over the larger coordinate, with one Newton step for the quotient."""
    y, x = f.arguments
    ay, ax = f.fabs(y), f.fabs(x)
    is_steep = f.compare("ogt", ay, ax)
    larger, smaller = f.select(is_steep, ay, ax), f.select(is_steep, ax, ay)
    # Two zeros are 0 / 1, two infinities 1 / 1, and a number over infinity 0 / 1.
    before = f.integer_op("sub", f.bits(larger), 1)
    unusual = f.integer_op("icmp uge", before, 0x7F800000 - 1)
    whole = f.select(f.compare("oeq", smaller, _INFINITY), 1.0, 0.0)
    larger, smaller = f.select(unusual, 1.0, larger), f.select(unusual, whole, smaller)
    # Powers of two keep the reciprocal and the remainder of a division normal numbers.
    scale = f.select(f.compare("ogt", larger, 2.0**125), 0.25, 1.0)
    scale = f.select(f.compare("olt", larger, 1.0), 2.0**64, scale)
    larger, smaller = f.mul(larger, scale), f.mul(smaller, scale)
    inverse = f.library("unit.rcp", larger)
    quotient = f.mul(smaller, inverse)
    quotient = f.fma(f.fma(f.neg(quotient), larger, smaller), inverse, quotient)
    angle = _short_arctangent(f, quotient)
    angle = f.select(is_steep, f.fma(_HALF_PI[0], _HALF_PI[1], f.neg(angle)), angle)
    is_left = f.integer_op("icmp slt", f.bits(x), 0)
    mirrored = f.fma(_HALF_PI[0], 2 * _HALF_PI[1], f.neg(angle))
    angle = f.copysign(f.select(is_left, mirrored, angle), y)
    return f.select(f.compare("uno", x, y), float("nan"), angle)


def _pow(f: Formula) -> str:
    return powers(f, _magnitude)


def _magnitude(f: Formula, x: str, y: str) -> str:
    """|x| ** y for a positive finite x: 2 ** (y log2(x)), the logarithm and the exponent in two floats."""
    k, fraction = split(f, x)
    inverse = f.library("unit.rcp", f.add(fraction, 2.0))
    s = f.mul(fraction, inverse)
    left = f.fma(f.neg(s), fraction, f.fma(s, -2.0, fraction))
    s_low = f.mul(left, inverse)
    z = f.mul(s, s)
    z_low = f.fma(f.add(s, s), s_low, f.fma(s, s, f.neg(z)))
    factor, factor_low = (2 * part for part in LOG2_E["f32"])
    high = f.mul(s, factor)
    low = f.fma(s, factor, f.neg(high))
    low = f.fma(s, factor_low, low)
    low = f.fma(s_low, factor, low)
    cube = f.mul(high, z)
    cube_low = f.fma(low, z, f.fma(high, z_low, f.fma(high, z, f.neg(cube))))
    series = f.horner(z, _ATANH)
    low = f.fma(cube, series, f.fma(cube_low, series, low))
    log = f.add(k, high)
    low = f.add(f.add(f.sub(k, log), high), low)
    whole = f.add(log, low)
    low = f.add(f.sub(log, whole), low)
    exponent = f.mul(y, whole)
    exponent_low = f.fma(y, low, f.fma(y, whole, f.neg(exponent)))
    bounded = clamped(f, exponent, -_POWER_LIMIT, _POWER_LIMIT)
    exponent_low = f.select(f.compare("oeq", bounded, exponent), exponent_low, 0.0)
    number, n = rounded(f, bounded, 1.0)
    r = f.add(f.sub(bounded, number), exponent_low)
    return scaled(f, f.library("unit.ex2", r), n)


def _entry(stem: str, count: int, body: Callable[[Formula], str]) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"fast.{stem}.f32", "float", *("float",) * count)
        return f.finish(body(f))

    return entry


FAST: Final[dict[str, LibraryEntry]] = {
    f"fast.{stem}.f32": _entry(stem, count, body)
    for stem, count, body in (
        ("exp", 1, _exp),
        ("exp2", 1, _exp2),
        ("log1p", 1, _log1p),
        ("tanh", 1, _tanh),
        ("erf", 1, _erf),
        ("asin", 1, _asin),
        ("acos", 1, _acos),
        ("atan", 1, _atan),
        ("atan2", 2, _atan2),
        ("pow", 2, _pow),
    )
}


_LOG2_E: Final = 1.4426950408889634
_LN2: Final = 0.6931471805599453
# 8-bit float with conversions in PTX → PTX's name of two.
BYTE_PAIRS: Final = {
    name: info.ptx_pair
    for name, info in INFO.items()
    if info.ptx_pair and info.bits == 8 and info.format is not None and not info.format.is_scale
}


class NarrowPair(NamedTuple):
    """Conversions of two floats of at most 8 bits by one instruction.

    Attributes:
        feature: of the architectures that have it.
        bits: of one.
        narrows, widens: the intrinsics.
        wide: LLVM's type of one that is widened, which holds all values.
    """

    feature: str
    bits: int
    narrows: str
    widens: str
    wide: str


def _narrow_pair(name: str) -> NarrowPair:
    info = INFO[name]
    pair = info.ptx_pair
    assert info.format is not None
    if name in BYTE_PAIRS:
        return NarrowPair("cvt_f8", 8, f"ff.to.{pair}.rn", f"{pair}.to.f16x2.rn", "half")
    if info.format.is_scale:
        narrows = f"ff.to.{pair}.rp.satfinite"
        return NarrowPair("cvt_f4", 8, narrows, f"{pair}.to.bf16x2", "bfloat")
    narrows = f"ff.to.{pair}.rn.satfinite"
    return NarrowPair("cvt_f4", info.bits, narrows, f"{pair}.to.f16x2.rn", "half")


NARROW_PAIRS: Final = {
    name: _narrow_pair(name) for name, info in INFO.items() if info.ptx_pair and info.bits <= 8
}
# Elements of a matrix operand → PTX's name; of 32-bit floats the tensor cores read the highest 19 bits.
OPERANDS: Final = {**{name: info.ptx for name, info in INFO.items()}, "f32": "tf32"}

# name → instruction, number of operands
_INSTRUCTIONS: Final = {
    "approx.exp2": ("ex2.approx.ftz.f32", 1),
    "approx.log2": ("lg2.approx.f32", 1),
    "approx.sqrt": ("sqrt.approx.f32", 1),
    "approx.sin": ("sin.approx.f32", 1),
    "approx.cos": ("cos.approx.f32", 1),
    "approx.tanh": ("tanh.approx.f32", 1),
    "approx.divide": ("div.full.f32", 2),
    "approx.rcp": ("rcp.approx.f32", 1),
    "unit.ex2": ("ex2.approx.ftz.f32", 1),
    "unit.rcp": ("rcp.approx.ftz.f32", 1),
    "unit.rsqrt": ("rsqrt.approx.ftz.f32", 1),
    "unit.fma_down": ("fma.rm.f32", 3),
    "unit.fma_saturated": ("fma.rn.sat.f32", 3),
}


def _instruction(name: str, instruction: str, count: int) -> LibraryEntry:
    operands = ", ".join(f"${number}" for number in range(count + 1))
    constraints = ",".join(("=f", *"f" * count))

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{name}.f32", "float", *("float",) * count)
        listed = ", ".join(f"float {argument}" for argument in f.arguments)
        text = f'call float asm "{instruction} {operands};", "{constraints}"({listed})'
        return f.finish(f.let(text))

    return entry


def _approximate_exp(module: ModulePrinter) -> str:
    f = Formula(module, "approx.exp.f32", "float", "float")
    return f.finish(f.library("approx.exp2", f.mul(f.arguments[0], _LOG2_E)))


def _log(module: ModulePrinter) -> str:
    f = Formula(module, "approx.log.f32", "float", "float")
    return f.finish(f.mul(f.library("approx.log2", f.arguments[0]), _LN2))


def _rsqrt(module: ModulePrinter) -> str:
    f = Formula(module, "rsqrt.f32", "float", "float")
    callee = module.intrinsic("llvm.nvvm.rsqrt.approx.f")
    return f.finish(f.let(f"call float {callee}(float {f.arguments[0]})"))


_UNITS: Final[dict[str, LibraryEntry]] = {
    "rsqrt.f32": _rsqrt,
    "approx.exp.f32": _approximate_exp,
    "approx.log.f32": _log,
    **{f"{name}.f32": _instruction(name, *row) for name, row in _INSTRUCTIONS.items()},
}


def _narrows(name: str, pair: NarrowPair) -> LibraryEntry:
    """One of the two that the instruction rounds; those too large, infinity too, to the largest, as weft does."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"f32_to_{name}", f"i{pair.bits}", "float")
        callee = module.intrinsic(f"llvm.nvvm.{pair.narrows}")
        both = f.let(f"call i16 {callee}(float 0.0, float {f.arguments[0]})")
        return f.finish(f.let(f"trunc i16 {both} to i{pair.bits}"))

    return entry


def _widens(name: str, pair: NarrowPair) -> LibraryEntry:
    """One of the two that the instruction makes f16, or bf16 of exponents, which holds them all."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{name}_to_f32", "float", f"i{pair.bits}")
        callee = module.intrinsic(f"llvm.nvvm.{pair.widens}")
        both = f.let(f"zext i{pair.bits} {f.arguments[0]} to i16")
        halves = f.let(f"call <2 x {pair.wide}> {callee}(i16 {both})")
        half = f.let(f"extractelement <2 x {pair.wide}> {halves}, i32 0")
        return f.finish(f.let(f"fpext {pair.wide} {half} to float"))

    return entry


def _conversions(name: str) -> dict[str, LibraryEntry]:
    pair = NARROW_PAIRS[name]
    return {f"f32_to_{name}": _narrows(name, pair), f"{name}_to_f32": _widens(name, pair)}


def units(machine: Capabilities) -> dict[str, LibraryEntry]:
    """The functions that a GPU of a compute capability, such as 90, has."""
    missing = () if machine.has("tanh") else ("approx.tanh.f32",)
    found = {name: entry for name, entry in _UNITS.items() if name not in missing}
    for name, pair in NARROW_PAIRS.items():
        if machine.has(pair.feature):
            found |= _conversions(name)
    return found
