# SPDX-License-Identifier: Apache-2.0
"""Trigonometric functions and their inverses.

sin, cos, tan, of a float of any size: polynomials on |r| ≤ π/4, chosen by the quadrant; at most 2 ulp off; infinity
gives NaN. x modulo π/2: up to 2**16 (f64: 2**30) three constants are subtracted with fma; beyond, x is multiplied with
enough bits of 2/π, in integers. asin, acos, atan, atan2: polynomials on a short interval, reached by identities; at
most 1.7 ulp off; outside [-1, 1] asin and acos give NaN. Polynomials: tools/minimax.py.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from weft.codegen.llvm.types import f64_text
from weft.codegen.math_library.exponential import KINDS, rounded
from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter


# sin(r) = r + r z s(z), z = r**2
_S: Final = {
    "f32": (
        2.7177482545486014e-06,
        -0.00019839273252492975,
        0.008333329184262337,
        -0.16666666639763883,
    ),
    "f64": (
        -7.577853706102755e-13,
        1.605834945047956e-10,
        -2.505210477529843e-08,
        2.755731921366008e-06,
        -0.00019841269841254028,
        0.008333333333333321,
        -0.16666666666666666,
    ),
}
# cos(r) = 1 - z / 2 + z**2 c(z)
_C: Final = {
    "f32": (2.4434853897810435e-05, -0.0013887337320470233, 0.04166664627970125),
    "f64": (
        4.7377185797726236e-14,
        -1.1470284687522302e-11,
        2.087675429130271e-09,
        -2.755731921504709e-07,
        2.480158730157074e-05,
        -0.0013888888888888874,
        0.041666666666666664,
    ),
}
# tan(r) = r + r z t(z)
_T: Final = {
    "f32": (
        0.00443055914392125,
        -1.8068665565585135e-05,
        0.010918674688148606,
        0.021251038598464344,
        0.054065782311366474,
        0.13332613117110306,
        0.33333351166617553,
    ),
    "f64": (
        4.6433439991406e-06,
        -1.3097355970072516e-05,
        2.6864102596026993e-05,
        -1.9777445882662075e-05,
        3.545601530717022e-05,
        2.8817558584079916e-05,
        0.00010102882059596443,
        0.000237931520970372,
        0.0005902850666811663,
        0.0014557939038738498,
        0.0035921325829721897,
        0.008863235177693303,
        0.02186948855396087,
        0.053968253967717185,
        0.13333333333334155,
        0.3333333333333333,
    ),
}


def _has_bit(f: Formula, quadrant: str, bit: int) -> str:
    return f.integer_op("icmp ne", f.integer_op("and", quadrant, bit), 0)


def _sine_or_cosine(stem: str, name: str) -> LibraryEntry:
    """cos(x) is sin one quadrant later."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{stem}.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        r, quadrant = reduced(f, x)
        if stem == "cos":
            quadrant = f.integer_op("add", quadrant, 1)
        z = f.mul(r, r)
        sine = f.fma(f.mul(r, z), f.horner(z, _S[name]), r)
        cosine = f.fma(f.mul(z, z), f.horner(z, _C[name]), f.fma(z, -0.5, 1.0))
        value = f.select(_has_bit(f, quadrant, 1), cosine, sine)
        value = f.select(_has_bit(f, quadrant, 2), f.neg(value), value)
        if stem == "sin":
            value = f.select(f.compare("oeq", x, 0.0), x, value)
        return f.finish(value)

    return entry


def _tangent(name: str) -> LibraryEntry:
    """tan in even quadrants, -1 / tan in odd ones."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"tan.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        r, quadrant = reduced(f, x)
        z = f.mul(r, r)
        cube, polynomial = f.mul(r, z), f.horner(z, _T[name])
        tangent = f.fma(cube, polynomial, r)
        # -1 / tangent, with one Newton step that corrects the tangent's rounding error.
        inverse = f.div(-1.0, tangent)
        lost = f.fma(cube, polynomial, f.sub(r, tangent))
        error = f.fma(inverse, lost, f.fma(inverse, tangent, 1.0))
        cotangent = f.fma(inverse, error, inverse)
        value = f.select(_has_bit(f, quadrant, 1), cotangent, tangent)
        return f.finish(f.select(f.compare("oeq", x, 0.0), x, value))

    return entry


TRIGONOMETRIC: dict[str, LibraryEntry] = {
    **{f"{stem}.{name}": _sine_or_cosine(stem, name) for stem in ("sin", "cos") for name in KINDS},
    **{f"tan.{name}": _tangent(name) for name in KINDS},
}


_TWO_OVER_PI: Final = 0.6366197723675814
_HALF_PI_PARTS: Final = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
_NEAR: Final = {"f32": 2.0**16, "f64": 2.0**30}
# The first 1216 bits of 2/π after the binary point.
_TWO_OVER_PI_BITS: Final = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424D"
    "D2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639"
    "835339F49C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F46"
    "3F669E5FEA2D7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BAB",
    16,
)
_BIT_COUNT: Final = 1216


def _words(bits: int) -> list[int]:
    """Words of 2/π, the highest first, after one word of zeros."""
    count = _BIT_COUNT // bits
    mask = (1 << bits) - 1
    return [0] + [
        (_TWO_OVER_PI_BITS >> (_BIT_COUNT - bits * (index + 1))) & mask for index in range(count)
    ]


def reduced(f: Formula, x: str) -> tuple[str, str]:
    """r and the quadrant (modulo 4) of x."""
    callee = f.module.library(f"modulo_half_pi.{f.name}")
    pair = f.let(f"call {{ {f.kind}, {f.integer} }} {callee}({f.kind} {x})")
    return (
        f.let(f"extractvalue {{ {f.kind}, {f.integer} }} {pair}, 0"),
        f.let(f"extractvalue {{ {f.kind}, {f.integer} }} {pair}, 1"),
    )


def _modulo_half_pi(name: str) -> LibraryEntry:
    kind = KINDS[name]

    def entry(module: ModulePrinter) -> str:
        integer = "i32" if name == "f32" else "i64"
        pair = f"{{ {kind}, {integer} }}"
        f = Formula(module, f"modulo_half_pi.{name}", pair, kind, kind=kind)
        (x,) = f.arguments
        number, quadrant = rounded(f, x, _TWO_OVER_PI)
        r = x
        for part in _HALF_PI_PARTS[name]:
            r = f.fma(number, -part, r)
        near = f.compare("ult", f.fabs(x), _NEAR[name])
        f.raw(f"  br i1 {near}, label %end, label %far")
        f.raw("far:")
        far_r, far_quadrant = (_far_f32 if name == "f32" else _far_f64)(f, x)
        f.raw("  br label %end\nend:")
        r = f.let(f"phi {kind} [ {r}, %entry ], [ {far_r}, %far ]")
        quadrant = f.let(f"phi {integer} [ {quadrant}, %entry ], [ {far_quadrant}, %far ]")
        first = f.let(f"insertvalue {pair} poison, {kind} {r}, 0")
        return f.finish(f.let(f"insertvalue {pair} {first}, {integer} {quadrant}, 1"))

    return entry


def _far_f32(f: Formula, x: str) -> tuple[str, str]:
    """24 bits of x times the 96 relevant bits of 2/π, modulo 4.

    The bits are picked by selects, not loaded, so that the code vectorizes.
    """
    bits = f.bits(x)
    exponent = f.integer_op("and", f.integer_op("lshr", bits, 23), 0xFF)
    mantissa = f.integer_op("or", f.integer_op("and", bits, 0x7FFFFF), 0x800000)
    # Bit 0 of the words is 31 places before the point; the first relevant bit gives 2**1.
    position = f.integer_op("sub", exponent, 150 - 30)
    shift = f.integer_op("and", position, 31)
    chosen = _picked_words(f, f.integer_op("lshr", position, 5))
    fshl = f.module.intrinsic("llvm.fshl", ".i32")
    window = [
        f.let(f"call i32 {fshl}(i32 {high}, i32 {low}, i32 {shift})")
        for high, low in itertools.pairwise(chosen)
    ]
    wide = [f.let(f"zext i32 {word} to i64") for word in (mantissa, *window)]
    top = f.let(f"shl i64 {f.let(f'mul i64 {wide[0]}, {wide[1]}')}, 32")
    middle = f.let(f"mul i64 {wide[0]}, {wide[2]}")
    low = f.let(f"lshr i64 {f.let(f'mul i64 {wide[0]}, {wide[3]}')}, 32")
    turns = f.let(f"add i64 {f.let(f'add i64 {top}, {middle}')}, {low}")
    quadrant = f.let(f"lshr i64 {f.let(f'add i64 {turns}, {1 << 61}')}, 62")
    fraction = f.let(f"sub i64 {turns}, {f.let(f'shl i64 {quadrant}, 62')}")
    exact = f.let(f"sitofp i64 {fraction} to double")
    scaled = f.let(f"fmul double {exact}, {f64_text(1.5707963267948966 * 2.0**-62)}")
    r = f.let(f"fptrunc double {scaled} to float")
    return _signed(f, x, r, f.let(f"trunc i64 {quadrant} to i32"))


def _picked_words(f: Formula, index: str) -> list[str]:
    """Four consecutive 32-bit words of 2/π, the first number `index` (0 to 4)."""
    words = [word - (1 << 32) if word >> 31 else word for word in _words(32)]
    picked = [str(words[offset]) for offset in range(4)]
    for start in range(1, 5):
        here = f.let(f"icmp eq i32 {index}, {start}")
        picked = [
            f.let(f"select i1 {here}, i32 {words[start + offset]}, i32 {text}")
            for offset, text in enumerate(picked)
        ]
    return picked


def _far_f64(f: Formula, x: str) -> tuple[str, str]:
    """The same with 53 bits of x and 192 bits of 2/π from memory."""
    words = [word - (1 << 64) if word >> 63 else word for word in _words(64)] + [0]
    listed = ", ".join(f"i64 {word}" for word in words)
    pointer = f.module.target.pointer("constant")
    table = f.module.add_global(
        f"private unnamed_addr {pointer[4:]} constant [{len(words)} x i64] [{listed}]",
        "two_over_pi",
    )
    bits = f.bits(x)
    exponent = f.integer_op("and", f.integer_op("lshr", bits, 52), 0x7FF)
    mantissa = f.integer_op("or", f.integer_op("and", bits, (1 << 52) - 1), 1 << 52)
    position = f.integer_op("sub", exponent, 1075 - 62)
    shift = f.integer_op("and", position, 63)
    # Infinity and NaN have the largest exponent, whose index is still inside the table.
    index = f.integer_op("lshr", position, 6)
    chosen: list[str] = []
    for offset in range(4):
        place = f.integer_op("add", index, offset)
        address = f.let(f"getelementptr inbounds i64, {pointer} {table}, i64 {place}")
        chosen.append(f.let(f"load i64, {pointer} {address}, align 8"))
    fshl = f.module.intrinsic("llvm.fshl", ".i64")
    window = [
        f.let(f"call i64 {fshl}(i64 {high}, i64 {low}, i64 {shift})")
        for high, low in itertools.pairwise(chosen)
    ]
    wide = [f.let(f"zext i64 {word} to i128") for word in (mantissa, *window)]
    top = f.let(f"shl i128 {f.let(f'mul i128 {wide[0]}, {wide[1]}')}, 64")
    middle = f.let(f"mul i128 {wide[0]}, {wide[2]}")
    low = f.let(f"lshr i128 {f.let(f'mul i128 {wide[0]}, {wide[3]}')}, 64")
    turns = f.let(f"add i128 {f.let(f'add i128 {top}, {middle}')}, {low}")
    quadrant = f.let(f"lshr i128 {f.let(f'add i128 {turns}, {1 << 125}')}, 126")
    fraction = f.let(f"sub i128 {turns}, {f.let(f'shl i128 {quadrant}, 126')}")
    r = _normalized(f, fraction)
    return _signed(f, x, r, f.let(f"trunc i128 {quadrant} to i64"))


def _normalized(f: Formula, fraction: str) -> str:
    """A fraction of a quadrant in units of 2**-126, signed, times π/2, as a double."""
    negative = f.let(f"icmp slt i128 {fraction}, 0")
    opposite = f.let(f"sub i128 0, {fraction}")
    magnitude = f.let(f"select i1 {negative}, i128 {opposite}, i128 {fraction}")
    high = f.let(f"trunc i128 {f.let(f'lshr i128 {magnitude}, 64')} to i64")
    zeros = f.let(f"call i64 {f.module.intrinsic('llvm.ctlz', '.i64')}(i64 {high}, i1 false)")
    moved = f.let(f"shl i128 {magnitude}, {f.let(f'zext i64 {zeros} to i128')}")
    leading = f.let(f"trunc i128 {f.let(f'lshr i128 {moved}, 64')} to i64")
    value = f.let(f"uitofp i64 {leading} to double")
    exponent = f.integer_op("sub", 1023 - 62, zeros)
    power = f.from_bits(f.integer_op("shl", exponent, 52))
    high_part, low_part = _HALF_PI_PARTS["f64"][:2]
    turns = f.fma(value, high_part, f.mul(value, low_part))
    r = f.mul(turns, power)
    return f.select(negative, f.neg(r), r)


def _signed(f: Formula, x: str, r: str, quadrant: str) -> tuple[str, str]:
    """The result for |x|, given the sign of x; infinity and NaN give NaN."""
    negative = f.compare("olt", x, 0.0)
    opposite = f.integer_op("sub", 0, quadrant)
    signed = f.select(negative, f.neg(r), r)
    finite = f.compare("olt", f.fabs(x), float("inf"))
    return (
        f.select(finite, signed, float("nan")),
        f.let(f"select i1 {negative}, {f.integer} {opposite}, {f.integer} {quadrant}"),
    )


RANGE_REDUCTION: dict[str, LibraryEntry] = {
    f"modulo_half_pi.{name}": _modulo_half_pi(name) for name in KINDS
}


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
