# SPDX-License-Identifier: Apache-2.0
"""Conversions between float and the small formats, of 16, 8, 6 and 4 bits, in integer code.

Rounding is to nearest even. Those of at most 8 bits are OCP's, saturating as in hardware: values too large, including
infinity, become the largest finite value; NaN stays NaN, and in 4 and 6 bits, which have none, becomes the largest
value. f8e8m0, an exponent, is rounded up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.math_library.formula import Formula
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter


def bf16_to_f32(module: ModulePrinter) -> str:
    """bf16 is the upper half of a float."""
    f = Formula(module, "bf16_to_f32", "float", "i16")
    wide = f.let("zext i16 %x0 to i32")
    return f.finish(f.from_bits(f.integer_op("shl", wide, 16)))


def f32_to_bf16(module: ModulePrinter) -> str:
    """Adds half a unit of the last place, less one if the value is even, and truncates; NaN stays a quiet NaN."""
    f = Formula(module, "f32_to_bf16", "i16", "float")
    bits = f.bits("%x0")
    upper = f.integer_op("lshr", bits, 16)
    odd = f.integer_op("and", upper, 1)
    half = f.integer_op("add", odd, 0x7FFF)
    rounded = f.integer_op("lshr", f.integer_op("add", bits, half), 16)
    quiet = f.integer_op("or", upper, 0x40)
    is_nan = f.compare("uno", "%x0", "%x0")
    chosen = f.let(f"select i1 {is_nan}, i32 {quiet}, i32 {rounded}")
    return f.finish(f.let(f"trunc i32 {chosen} to i16"))


def f16_to_f32(module: ModulePrinter) -> str:
    """Moves the fields; one multiplication normalizes subnormal values."""
    f = Formula(module, "f16_to_f32", "float", "i16")
    wide = f.let("zext i16 %x0 to i32")
    sign = f.integer_op("shl", f.integer_op("and", wide, 0x8000), 16)
    magnitude = f.integer_op("shl", f.integer_op("and", wide, 0x7FFF), 13)
    finite = f.bits(f.mul(f.from_bits(magnitude), 2.0**112))
    special = f.integer_op("or", magnitude, 0x7F800000)
    is_special = f.integer_op("icmp uge", magnitude, 0x1F << 23)
    chosen = f.let(f"select i1 {is_special}, i32 {special}, i32 {finite}")
    return f.finish(f.from_bits(f.integer_op("or", chosen, sign)))


def _rounded_magnitude(f: Formula, magnitude: str, explicit: int, bias: int) -> str:
    """Bits of a non-negative float in a format with `explicit` mantissa bits, in an i32.

    Normal values are rounded by adding; for subnormal ones, adding a power of two makes the machine round at the right
    bit.
    """
    shift = 23 - explicit
    odd = f.integer_op("and", f.integer_op("lshr", magnitude, shift), 1)
    half = f.integer_op("add", odd, (1 << (shift - 1)) - 1)
    moved = f.integer_op("sub", magnitude, (127 - bias) << 23)
    normal = f.integer_op("lshr", f.integer_op("add", moved, half), shift)
    magic = (127 - bias + shift + 1) << 23
    aligned = f.add(f.from_bits(magnitude), f.from_bits(f.integer_op("add", magic, 0)))
    subnormal = f.integer_op("sub", f.bits(aligned), magic)
    is_subnormal = f.integer_op("icmp ult", magnitude, (128 - bias) << 23)
    return f.let(f"select i1 {is_subnormal}, i32 {subnormal}, i32 {normal}")


def f32_to_f16(module: ModulePrinter) -> str:
    """Values too large become infinity, as in IEEE 754."""
    f = Formula(module, "f32_to_f16", "i16", "float")
    bits = f.bits("%x0")
    sign = f.integer_op("lshr", f.integer_op("and", bits, -(1 << 31)), 16)
    magnitude = f.integer_op("and", bits, 0x7FFFFFFF)
    rounded = _rounded_magnitude(f, magnitude, explicit=10, bias=15)
    is_large = f.integer_op("icmp uge", magnitude, 0x47800000)
    large = f.let(f"select i1 {is_large}, i32 {0x7C00}, i32 {rounded}")
    is_nan = f.integer_op("icmp ugt", magnitude, 0x7F800000)
    chosen = f.let(f"select i1 {is_nan}, i32 {0x7E00}, i32 {large}")
    return f.finish(f.let(f"trunc i32 {f.integer_op('or', chosen, sign)} to i16"))


def _narrows(name: str) -> LibraryEntry:
    info = INFO[name]
    kind = info.format
    assert kind is not None
    if kind.is_scale:
        return _rounded_up(name)
    # Without saturation the limit is the power of two beyond the largest value, which has the bits of infinity.
    most = kind.largest if kind.saturates else 2.0 ** (kind.bias + 1)

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"f32_to_{name}", info.llvm, "float")
        bits = f.bits("%x0")
        sign = f.integer_op("and", f.integer_op("lshr", bits, 32 - info.bits), kind.sign_bit)
        magnitude = f.integer_op("and", bits, 0x7FFFFFFF)
        limit = f.bits(most)
        is_large = f.integer_op("icmp ugt", magnitude, limit)
        clamped = f.let(f"select i1 {is_large}, i32 {limit}, i32 {magnitude}")
        rounded = _rounded_magnitude(f, clamped, kind.mantissa_bits, kind.bias)
        is_nan = f.integer_op("icmp ugt", magnitude, 0x7F800000)
        chosen = f.let(f"select i1 {is_nan}, i32 {kind.nan_bits}, i32 {rounded}")
        if not kind.has_nan:
            sign = f.let(f"select i1 {is_nan}, i32 0, i32 {sign}")
        return f.finish(f.let(f"trunc i32 {f.integer_op('or', chosen, sign)} to {info.llvm}"))

    return entry


def _rounded_up(name: str) -> LibraryEntry:
    """The exponent of the next power of two from the absolute value on; at least 2**-127, at most 2**127."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"f32_to_{name}", "i8", "float")
        magnitude = f.integer_op("and", f.bits("%x0"), 0x7FFFFFFF)
        above = f.integer_op("lshr", f.integer_op("add", magnitude, 0x7FFFFF), 23)
        is_small = f.integer_op("icmp ule", magnitude, 0x400000)
        above = f.let(f"select i1 {is_small}, i32 0, i32 {above}")
        is_large = f.integer_op("icmp ugt", above, 0xFE)
        above = f.let(f"select i1 {is_large}, i32 {0xFE}, i32 {above}")
        is_nan = f.integer_op("icmp ugt", magnitude, 0x7F800000)
        chosen = f.let(f"select i1 {is_nan}, i32 {0xFF}, i32 {above}")
        return f.finish(f.let(f"trunc i32 {chosen} to i8"))

    return entry


def _widens(name: str) -> LibraryEntry:
    info = INFO[name]
    kind = info.format
    assert kind is not None
    if kind.is_scale:
        return _power_of_two(name)
    explicit, bias = kind.mantissa_bits, kind.bias
    first_special = kind.largest_bits + 1  # infinity (f8e5m2) or NaN (f8e4m3)

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{name}_to_f32", "float", info.llvm)
        wide = f.let(f"zext {info.llvm} %x0 to i32")
        sign = f.integer_op("shl", f.integer_op("and", wide, kind.sign_bit), 32 - info.bits)
        small = f.integer_op("and", wide, kind.sign_bit - 1)
        magnitude = f.integer_op("shl", small, 23 - explicit)
        finite = f.bits(f.mul(f.from_bits(magnitude), 2.0 ** (127 - bias)))
        if not kind.has_nan:
            return f.finish(f.from_bits(f.integer_op("or", finite, sign)))
        special = f.integer_op("or", magnitude, 0x7F800000)
        is_special = f.integer_op("icmp uge", small, first_special)
        chosen = f.let(f"select i1 {is_special}, i32 {special}, i32 {finite}")
        return f.finish(f.from_bits(f.integer_op("or", chosen, sign)))

    return entry


def _power_of_two(name: str) -> LibraryEntry:
    """A float with this exponent; the smallest one is subnormal."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{name}_to_f32", "float", "i8")
        exponent = f.let("zext i8 %x0 to i32")
        moved = f.integer_op("shl", exponent, 23)
        is_smallest = f.integer_op("icmp eq", exponent, 0)
        moved = f.let(f"select i1 {is_smallest}, i32 {0x400000}, i32 {moved}")
        is_nan = f.integer_op("icmp eq", exponent, 0xFF)
        return f.finish(f.from_bits(f.let(f"select i1 {is_nan}, i32 {0x7FC00000}, i32 {moved}")))

    return entry


def f64_to_f32_odd(module: ModulePrinter) -> str:
    """A double rounded to odd: the adjacent float with an odd last bit, unless exact.

    Rounding the result again, to a format with at most 22 bits, equals rounding the double directly.
    """
    f = Formula(module, "f64_to_f32_odd", "float", "double", kind="float")
    nearest = f.let("fptrunc double %x0 to float")
    back = f.let(f"fpext float {nearest} to double")
    bits = f.bits(nearest)
    magnitude_before = f.let(f"call double {module.intrinsic('llvm.fabs', '.f64')}(double %x0)")
    magnitude_after = f.let(f"call double {module.intrinsic('llvm.fabs', '.f64')}(double {back})")
    grew = f.let(f"fcmp ogt double {magnitude_after}, {magnitude_before}")
    step = f.let(f"select i1 {grew}, i32 -1, i32 1")
    other = f.integer_op("add", bits, step)
    is_odd = f.let(f"trunc i32 {bits} to i1")
    inexact = f.let(f"fcmp one double {back}, %x0")
    even = f.let(f"xor i1 {is_odd}, true")
    use_other = f.let(f"and i1 {inexact}, {even}")
    return f.finish(f.from_bits(f.let(f"select i1 {use_other}, i32 {other}, i32 {bits}")))


_NARROW = [name for name, info in INFO.items() if info.format is not None and info.bits <= 8]

SMALL_FLOATS: dict[str, LibraryEntry] = {
    "bf16_to_f32": bf16_to_f32,
    "f32_to_bf16": f32_to_bf16,
    "f16_to_f32": f16_to_f32,
    "f32_to_f16": f32_to_f16,
    **{f"f32_to_{name}": _narrows(name) for name in _NARROW},
    **{f"{name}_to_f32": _widens(name) for name in _NARROW},
    "f64_to_f32_odd": f64_to_f32_odd,
}
