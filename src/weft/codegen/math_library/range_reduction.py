# SPDX-License-Identifier: Apache-2.0
"""x modulo π/2, for any x: the argument reduction of sin, cos and tan.

In: a float. Out: r with |r| ≤ π/4 and the quadrant. Up to 2**16 (f64: 2**30) three constants are subtracted with
fma; beyond, x is multiplied with enough bits of 2/π, in integers.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from weft.codegen.llvm.types import f64_text
from weft.codegen.math_library.exponential import KINDS, rounded
from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

_TWO_OVER_PI: Final = 0.6366197723675814
_HALF_PI: Final = {
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
        for part in _HALF_PI[name]:
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
    product = f.let(f"add i64 {f.let(f'add i64 {top}, {middle}')}, {low}")
    quadrant = f.let(f"lshr i64 {f.let(f'add i64 {product}, {1 << 61}')}, 62")
    fraction = f.let(f"sub i64 {product}, {f.let(f'shl i64 {quadrant}, 62')}")
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
    product = f.let(f"add i128 {f.let(f'add i128 {top}, {middle}')}, {low}")
    quadrant = f.let(f"lshr i128 {f.let(f'add i128 {product}, {1 << 125}')}, 126")
    fraction = f.let(f"sub i128 {product}, {f.let(f'shl i128 {quadrant}, 126')}")
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
    high_part, low_part = _HALF_PI["f64"][:2]
    product = f.fma(value, high_part, f.mul(value, low_part))
    r = f.mul(product, power)
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
