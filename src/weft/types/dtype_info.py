# SPDX-License-Identifier: Apache-2.0
"""Facts about every element type: bits, formats, and names in other languages and libraries.

In: nothing. Out: `INFO`, a row per type, of which every other table of types is made. `tests/types/test_dtype_info.py`
compares the columns with who decides them: dlpack.h and the extension, NumPy, ml_dtypes, torch, XLA, MLIR.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class FloatFormat(NamedTuple):
    """A binary float format: sign, exponent and mantissa, from the highest bit on.

    A value is ``1.mantissa * 2**(exponent - bias)``; one with exponent 0 is subnormal.

    Attributes:
        exponent_bits, mantissa_bits: of the fields; the leading 1 is not stored.
        has_infinity: whether the largest exponent means infinities and NaNs, as in IEEE 754; else NaN has all bits set.
        saturates: whether conversions give the largest value for what is beyond it, as instructions with `.satfinite`.
    """

    exponent_bits: int
    mantissa_bits: int
    has_infinity: bool = True
    saturates: bool = False

    @property
    def precision(self) -> int:
        """Bits of the significand with the leading 1: integers up to ``2**precision`` are exact."""
        return self.mantissa_bits + 1

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def smallest_exponent(self) -> int:
        """Exponent of the smallest subnormal, a power of two."""
        return 1 - self.bias - self.mantissa_bits

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def infinity_bits(self) -> int | None:
        return self.sign_bit - (1 << self.mantissa_bits) if self.has_infinity else None

    @property
    def largest_bits(self) -> int:
        """Bits of the largest finite value."""
        return (self.infinity_bits or self.sign_bit - 1) - 1

    @property
    def nan_bits(self) -> int:
        """Bits of the quiet NaN."""
        if self.infinity_bits is None:
            return self.sign_bit - 1
        return self.infinity_bits | 1 << (self.mantissa_bits - 1)

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return self.value_of(self.largest_bits)

    def value_of(self, bits: int) -> float:
        """The number with these bits.

        Example:
            >>> INFO["f8e4m3"].format.value_of(0x7E), INFO["bf16"].format.value_of(0x3F80)
            (448.0, 1.0)
        """
        sign = -1.0 if bits & self.sign_bit else 1.0
        magnitude = bits & (self.sign_bit - 1)
        if magnitude == self.infinity_bits:
            return sign * math.inf
        if magnitude > self.largest_bits:
            return math.nan
        exponent, mantissa = magnitude >> self.mantissa_bits, magnitude
        if exponent:
            mantissa = magnitude & ((1 << self.mantissa_bits) - 1) | 1 << self.mantissa_bits
        return sign * math.ldexp(float(mantissa), max(exponent, 1) - 1 + self.smallest_exponent)

    def bits_of(self, value: float) -> int:
        """Bits of the nearest value, ties to even.

        Example:
            >>> hex(INFO["f16"].format.bits_of(0.1)), hex(INFO["f8e5m2"].format.bits_of(1e9))
            ('0x2e66', '0x7b')
        """
        sign = self.sign_bit if math.copysign(1.0, value) < 0 else 0
        if math.isnan(value):
            return sign | self.nan_bits
        beyond = self.infinity_bits if not self.saturates else None
        beyond = self.largest_bits if beyond is None else beyond
        if math.isinf(value):
            return sign | beyond
        if value == 0:
            return sign
        exponent = max(math.frexp(value)[1] - 1, 1 - self.bias)
        units = round(math.ldexp(abs(value), self.mantissa_bits - exponent))
        bits = units + ((exponent + self.bias - 1) << self.mantissa_bits)
        return sign | (bits if bits <= self.largest_bits else beyond)


class DTypeInfo(NamedTuple):
    """One element type.

    Attributes:
        kind: ``"bool"``, ``"int"`` (signed), ``"uint"`` or ``"float"``.
        bits: of a value in memory; below 8, values are packed, the first one in the lowest bits of its byte.
        dlpack_code: DLDataTypeCode of dlpack.h.
        numpy: name of the dtype, as NumPy, ml_dtypes and JAX call it.
        torch: name in torch; empty: it has none.
        xla: number of XLA's PrimitiveType, or None where XLA keeps the values otherwise.
        mlir: name of the type in MLIR, whose integers have no sign.
        llvm: LLVM type of a value. Floats below 32 bits are integers with their bits.
        ptx: name in PTX's instructions.
        format: of a float, or None.
        llvm_float: LLVM's own type of a float below 32 bits, for machines that compute with it, or empty.
        ptx_pair: name in PTX of two values in a register, or empty.
        tensor_map: CUtensorMapDataType, or None.
        aliases: other languages' names, for hints.
    """

    kind: str
    bits: int
    dlpack_code: int
    numpy: str
    torch: str
    xla: int | None
    mlir: str
    llvm: str
    ptx: str
    format: FloatFormat | None = None
    llvm_float: str = ""
    ptx_pair: str = ""
    tensor_map: int | None = None
    aliases: tuple[str, ...] = ()

    @property
    def is_packed(self) -> bool:
        """Whether several values lie in one byte."""
        return self.bits < 8

    def storage_bytes(self, count: int) -> int:
        """Bytes of `count` adjacent elements in memory.

        Example:
            >>> INFO["f32"].storage_bytes(3), INFO["bool_"].storage_bytes(3)
            (12, 3)
        """
        return -(-count * self.bits // 8)

    @property
    def is_of_ml_dtypes(self) -> bool:
        """Whether NumPy has the type from the package ml_dtypes."""
        return self.format is not None and not self.numpy.removeprefix("float").isdecimal()


_F16: Final = FloatFormat(5, 10)
_BF16: Final = FloatFormat(8, 7)
_F32: Final = FloatFormat(8, 23)
_F64: Final = FloatFormat(11, 52)
_E4M3: Final = FloatFormat(4, 3, has_infinity=False, saturates=True)
_E5M2: Final = FloatFormat(5, 2, saturates=True)

# fmt: off
INFO: Final[Mapping[str, DTypeInfo]] = {
    # name              kind   bits code numpy          torch          xla  mlir    llvm   ptx
    "bool_": DTypeInfo("bool",  8, 6, "bool",          "bool",          1, "i1",  "i1",  "pred", tensor_map=0),
    "i4":    DTypeInfo("int",   4, 0, "int4",          "",           None, "i4",  "i4",  "s4"),
    "u4":    DTypeInfo("uint",  4, 1, "uint4",         "",           None, "i4",  "i4",  "u4"),
    "i8":    DTypeInfo("int",   8, 0, "int8",          "int8",          2, "i8",  "i8",  "s8", tensor_map=0),
    "i16":   DTypeInfo("int",  16, 0, "int16",         "int16",         3, "i16", "i16", "s16", tensor_map=1),
    "i32":   DTypeInfo("int",  32, 0, "int32",         "int32",         4, "i32", "i32", "s32", tensor_map=3),
    "i64":   DTypeInfo("int",  64, 0, "int64",         "int64",         5, "i64", "i64", "s64", tensor_map=5),
    "u8":    DTypeInfo("uint",  8, 1, "uint8",         "uint8",         6, "i8",  "i8",  "u8", tensor_map=0,
                       aliases=("uchar",)),
    "u16":   DTypeInfo("uint", 16, 1, "uint16",        "uint16",        7, "i16", "i16", "u16", tensor_map=1),
    "u32":   DTypeInfo("uint", 32, 1, "uint32",        "uint32",        8, "i32", "i32", "u32", tensor_map=2),
    "u64":   DTypeInfo("uint", 64, 1, "uint64",        "uint64",        9, "i64", "i64", "u64", tensor_map=4),
    "f16":   DTypeInfo("float", 16, 2, "float16",      "float16",      10, "f16", "i16", "f16", _F16, "half",
                       "f16x2", tensor_map=6, aliases=("half",)),
    "bf16":  DTypeInfo("float", 16, 4, "bfloat16",     "bfloat16",     16, "bf16", "i16", "bf16", _BF16, "bfloat",
                       "bf16x2", tensor_map=9, aliases=("bfloat16", "nv_bfloat16")),
    "f32":   DTypeInfo("float", 32, 2, "float32",      "float32",      11, "f32", "float", "f32", _F32,
                       tensor_map=7),
    "f64":   DTypeInfo("float", 64, 2, "float64",      "float64",      12, "f64", "double", "f64", _F64,
                       tensor_map=8, aliases=("double",)),
    "f8e4m3": DTypeInfo("float", 8, 10, "float8_e4m3fn", "float8_e4m3fn", 20, "f8E4M3FN", "i8", "e4m3", _E4M3, "",
                        "e4m3x2", tensor_map=0, aliases=("float8_e4m3fn", "float8e4nv")),
    "f8e5m2": DTypeInfo("float", 8, 12, "float8_e5m2",   "float8_e5m2",   19, "f8E5M2", "i8", "e5m2", _E5M2, "",
                        "e5m2x2", tensor_map=0, aliases=("float8_e5m2", "float8e5")),
}
# fmt: on
