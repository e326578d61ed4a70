# SPDX-License-Identifier: Apache-2.0
"""Element types, as users name them, and their facts: bits, formats, names in other languages and libraries.

In: a name, a DLPack triple or a Python scalar type. Out: one `DType` object per type, compared by identity; `INFO`, a
row per type, from which every other table of types is made. `tests/types/test_dtype_info.py` compares the columns with
who decides them: dlpack.h and the extension, NumPy, ml_dtypes, torch, XLA, MLIR.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Optional

if TYPE_CHECKING:
    from collections.abc import Mapping


class FloatFormat(NamedTuple):
    """A binary float format: sign, exponent and mantissa, from the highest bit on.

    A value is ``1.mantissa * 2**(exponent - bias)``; one with exponent 0 is subnormal.

    Attributes:
        exponent_bits, mantissa_bits: of the fields; the leading 1 is not stored.
        has_infinity: whether the largest exponent means infinities and NaNs, as in IEEE 754; else NaN has all bits set.
        saturates: whether conversions clamp values beyond the range, as instructions with `.satfinite`.
        has_nan: whether there is a NaN; else a NaN converts to the largest value, as by those instructions.
        is_scale: whether values are powers of two alone: exponents without a sign or a zero. Conversions drop the sign
            and round up, so that a block divided by its largest element's scale fits.
    """

    exponent_bits: int
    mantissa_bits: int
    has_infinity: bool = True
    saturates: bool = False
    has_nan: bool = True
    is_scale: bool = False

    @property
    def precision(self) -> int:
        """Bits of the significand with the leading 1: integers up to ``2**precision`` are exact."""
        return self.mantissa_bits + 1

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def smallest_exponent(self) -> int:
        """Exponent of the smallest positive value, a power of two: subnormal but for a scale."""
        return 1 - self.bias - self.mantissa_bits - self.is_scale

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def infinity_bits(self) -> int | None:
        return self.sign_bit - (1 << self.mantissa_bits) if self.has_infinity else None

    @property
    def largest_bits(self) -> int:
        """Bits of the largest finite value."""
        return (self.infinity_bits or self.sign_bit - 1) - self.has_nan

    @property
    def nan_bits(self) -> int:
        """Bits of the quiet NaN; without one, of the largest value, which a NaN becomes."""
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
        if self.is_scale:
            return math.ldexp(1.0, magnitude - self.bias)
        exponent, mantissa = magnitude >> self.mantissa_bits, magnitude
        if exponent:
            mantissa = magnitude & ((1 << self.mantissa_bits) - 1) | 1 << self.mantissa_bits
        return sign * math.ldexp(float(mantissa), max(exponent, 1) - 1 + self.smallest_exponent)

    def bits_of(self, value: float) -> int:
        """Bits of the nearest value, ties to even; of a scale, of the next one from the absolute value on.

        Example:
            >>> hex(INFO["f16"].format.bits_of(0.1)), hex(INFO["f8e5m2"].format.bits_of(1e9))
            ('0x2e66', '0x7b')
        """
        sign = self.sign_bit if math.copysign(1.0, value) < 0 else 0
        if math.isnan(value):
            return (sign if self.has_nan and not self.is_scale else 0) | self.nan_bits
        if self.is_scale:
            return self._scale_of(abs(value))
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

    def _scale_of(self, value: float) -> int:
        if math.isinf(value):
            return self.largest_bits
        mantissa, exponent = math.frexp(value)
        above = exponent - (mantissa == 0.5) + self.bias
        return min(max(above, 0), self.largest_bits) if value else 0


class DTypeInfo(NamedTuple):
    """One element type.

    Attributes:
        kind: ``"bool"``, ``"int"`` (signed), ``"uint"``, ``"float"`` or ``"complex"``.
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
    def in_whole_bytes(self) -> int:
        """The smallest number of elements that takes whole bytes.

        Example:
            >>> INFO["f32"].in_whole_bytes, INFO["f4e2m1"].in_whole_bytes, INFO["f6e2m3"].in_whole_bytes
            (1, 2, 4)
        """
        return 8 // math.gcd(8, self.bits)

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
_E2M1: Final = FloatFormat(2, 1, has_infinity=False, saturates=True, has_nan=False)
_E2M3: Final = FloatFormat(2, 3, has_infinity=False, saturates=True, has_nan=False)
_E3M2: Final = FloatFormat(3, 2, has_infinity=False, saturates=True, has_nan=False)
_E8M0: Final = FloatFormat(8, 0, has_infinity=False, saturates=True, is_scale=True)

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
    "f8e8m0": DTypeInfo("float", 8, 14, "float8_e8m0fnu", "float8_e8m0fnu", 33, "f8E8M0FNU", "i8", "ue8m0", _E8M0, "",
                        "ue8m0x2", tensor_map=0, aliases=("float8_e8m0fnu", "float8e8")),
    "f4e2m1": DTypeInfo("float", 4, 17, "float4_e2m1fn", "float4_e2m1fn_x2", None, "f4E2M1FN", "i4", "e2m1", _E2M1,
                        "", "e2m1x2", aliases=("float4_e2m1fn",)),
    "f6e2m3": DTypeInfo("float", 6, 15, "float6_e2m3fn", "",         None, "f6E2M3FN", "i6", "e2m3", _E2M3, "",
                        "e2m3x2", aliases=("float6_e2m3fn",)),
    "f6e3m2": DTypeInfo("float", 6, 16, "float6_e3m2fn", "",         None, "f6E3M2FN", "i6", "e3m2", _E3M2, "",
                        "e3m2x2", aliases=("float6_e3m2fn",)),
    # In registers the bits of both parts, the real one first, are one integer.
    "c64":   DTypeInfo("complex", 64, 5, "complex64", "complex64", 15, "i64", "i64", "b64",
                       aliases=("complex64", "cufloatcomplex")),
    "c128":  DTypeInfo("complex", 128, 5, "complex128", "complex128", 18, "i128", "i128", "b128",
                       aliases=("complex128", "cudoublecomplex")),
}
# fmt: on


class DType:
    """An element type of tensors and scalars.

    Attributes:
        name: the name users type, such as ``"f32"``.
        kind: ``"bool"``, ``"int"`` (signed), ``"uint"`` or ``"float"``.
        bits: width of a value in memory, in bits; a ``bool_`` takes 8.
        dlpack_code: DLDataTypeCode of dlpack.h.

    Inside a kernel or host function a call converts: ``weft.f32(x)``.

    Example:
        >>> weft.bf16.name, weft.bf16.kind, weft.bf16.bits
        ('bf16', 'float', 16)
    """

    __slots__ = ("bits", "dlpack_code", "info", "kind", "name")

    name: str
    kind: str
    bits: int
    dlpack_code: int
    info: DTypeInfo

    def __init__(self, name: str) -> None:
        info = INFO[name]
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "kind", info.kind)
        object.__setattr__(self, "bits", info.bits)
        object.__setattr__(self, "dlpack_code", info.dlpack_code)
        object.__setattr__(self, "info", info)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"weft.{self.name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"weft.{self.name} cannot be changed")

    def __repr__(self) -> str:
        return f"weft.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        # Types are compared by identity: copying and unpickling give the same object.
        return (dtype_named, (self.name,))

    def __call__(self, value: object) -> NoReturn:
        raise TypeError(
            f"weft.{self.name}(...) converts a value inside a kernel or host function; "
            f"outside, annotate the parameter with weft.{self.name}"
        )

    def __or__(self, other: object) -> object:
        """``weft.f32 | None``, the annotation of an argument that may be absent."""
        return Optional[self] if other is None else NotImplemented  # noqa: UP045  no type's `|`

    __ror__ = __or__

    @property
    def is_packed(self) -> bool:
        """Whether several values lie in one byte, the first one in its lowest bits."""
        return self.bits < 8

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory.

        Raises:
            ValueError: for a packed type; `storage_bytes` says how many bytes several elements take.
        """
        if self.is_packed:
            raise ValueError(
                f"{self!r} takes {self.bits} bits, less than a byte; storage_bytes(n) are those of n elements"
            )
        return self.bits // 8

    def storage_bytes(self, count: int) -> int:
        """Bytes of `count` adjacent elements in memory.

        Example:
            >>> weft.f32.storage_bytes(3), weft.i4.storage_bytes(8), weft.u4.storage_bytes(3)
            (12, 4, 2)
        """
        return self.info.storage_bytes(count)

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer; ``bool_`` is not."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """Whether it is a pair of floats, the real part first."""
        return self.kind == "complex"

    @property
    def part(self) -> DType:
        """The type of a complex number's parts; any other type itself."""
        return {"c64": f32, "c128": f64}.get(self.name, self)

    @property
    def is_float8(self) -> bool:
        """Whether it is a float of 8 bits with a sign; `f8e8m0` is not."""
        return self.is_narrow_float and self.bits == 8 and not self.is_scale

    @property
    def is_narrow_float(self) -> bool:
        """Whether it is a float of at most 8 bits, which computes as f32."""
        return self.kind == "float" and self.bits <= 8

    @property
    def is_scale(self) -> bool:
        """Whether values are powers of two alone."""
        return self.info.format is not None and self.info.format.is_scale

    @property
    def minimum(self) -> int:
        """Smallest value of an integer or bool type."""
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def maximum(self) -> int:
        """Largest value of an integer or bool type."""
        if self.is_bool:
            return 1
        return (1 << (self.bits - 1)) - 1 if self.is_signed else (1 << self.bits) - 1


bool_: Final = DType("bool_")

i8: Final = DType("i8")

i16: Final = DType("i16")

i32: Final = DType("i32")

i64: Final = DType("i64")

u8: Final = DType("u8")

u16: Final = DType("u16")

u32: Final = DType("u32")

u64: Final = DType("u64")

f16: Final = DType("f16")

bf16: Final = DType("bf16")

f32: Final = DType("f32")

f64: Final = DType("f64")

f8e4m3: Final = DType("f8e4m3")

f8e5m2: Final = DType("f8e5m2")

f8e8m0: Final = DType("f8e8m0")

f4e2m1: Final = DType("f4e2m1")

f6e2m3: Final = DType("f6e2m3")

f6e3m2: Final = DType("f6e3m2")

i4: Final = DType("i4")

u4: Final = DType("u4")

c64: Final = DType("c64")

c128: Final = DType("c128")

COMPLEX_DTYPES: Final = (c64, c128)
"""Types of elements, and of values in kernels."""

SCALE_DTYPES: Final = (f8e8m0,)
"""Types of elements, and of values in kernels: scales of blocks."""

PACKED_DTYPES: Final = (i4, u4, f4e2m1, f6e2m3, f6e3m2)
"""Types of elements only, which compute as i32 or f32: neither arguments nor variables in memory have them."""

DTYPES: Final = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2)

"""All others."""

WHOLE_DTYPES: Final = (*DTYPES, *COMPLEX_DTYPES, *SCALE_DTYPES)
"""Types whose elements take whole bytes."""

ALL_DTYPES: Final = (*WHOLE_DTYPES, *PACKED_DTYPES)

_BY_NAME: Final = {dtype.name: dtype for dtype in ALL_DTYPES}

_BY_NUMPY: Final = {dtype.info.numpy: dtype for dtype in WHOLE_DTYPES}

_BY_TORCH: Final = {dtype.info.torch: dtype for dtype in ALL_DTYPES if dtype.info.torch}

_BY_DLPACK: Final = {(dtype.dlpack_code, dtype.bits): dtype for dtype in _BY_NAME.values()}


def packed_names() -> str:
    """The packed types, for messages."""
    *names, last = (repr(dtype) for dtype in PACKED_DTYPES)
    return f"{', '.join(names)} or {last}"


def dtype_named(name: str) -> DType:
    """The type with that name.

    Raises:
        KeyError: if there is none; the message lists all names.

    Example:
        >>> dtype_named("f32")
        weft.f32
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise KeyError(
            f"unknown element type {name!r}, expected one of {', '.join(_BY_NAME)}"
        ) from None


def dtype_of_numpy(name: str) -> DType | None:
    """The type that NumPy, ml_dtypes and JAX call by that name, or None where weft has none.

    Example:
        >>> dtype_of_numpy("bfloat16"), dtype_of_numpy("complex64"), dtype_of_numpy("datetime64")
        (weft.bf16, weft.c64, None)
    """
    return _BY_NUMPY.get(name)


_PYTHON_TYPES: Final = {float: f32, int: i32, bool: bool_}


def as_dtype(value: Any) -> Any:
    """The element type that an object names: Python's `float`, `int`, `bool`, or a dtype of a library or a tensor.

    Anything else is returned unchanged.

    Example:
        >>> as_dtype(float), as_dtype(int), as_dtype("f32")
        (weft.f32, weft.i32, 'f32')
    """
    if isinstance(value, DType):
        return value
    if value is float or value is int or value is bool:
        return _PYTHON_TYPES[value]
    return library_dtype(value) or value


def library_dtype(value: Any) -> DType | None:
    """The element type of a dtype of NumPy, ml_dtypes, torch or `weft.ffi`, or None; imports nothing."""
    module = str(type(value).__module__)  # a program may set it to anything
    if module == "weft.ffi.data_type":  # of `weft.ffi.Tensor.dtype`
        return value.weft
    if module == "torch" and type(value).__name__ == "dtype":
        return _BY_TORCH.get(str(value).rpartition(".")[2])
    if module.startswith("numpy") and hasattr(value, "itemsize") and hasattr(value, "newbyteorder"):
        return _BY_NUMPY.get(value.name) if getattr(value, "isnative", False) else None
    if isinstance(value, type) and str(value.__module__).partition(".")[0] in (
        "numpy",
        "ml_dtypes",
    ):
        return _BY_NUMPY.get(value.__name__.rstrip("_"))
    return None


def dlpack_bits(dtype: DType) -> int:
    """A DLDataType as a number of 32 bits."""
    return dtype.dlpack_code | dtype.bits << 8 | 1 << 16


def dtype_from_dlpack(code: int, bits: int, lanes: int) -> DType | None:
    """The type with that DLPack triple, or None where weft has no such type.

    Example:
        >>> dtype_from_dlpack(2, 32, 1)
        weft.f32
    """
    return _BY_DLPACK.get((code, bits)) if lanes == 1 else None


def dlpack_name(code: int, bits: int, lanes: int) -> str:
    """The name of a DLPack triple in messages, known to weft or not.

    Example:
        >>> dlpack_name(2, 16, 1), dlpack_name(5, 32, 1), dlpack_name(0, 32, 4)
        ('f16', 'complex32', 'i32x4')
    """
    known = dtype_from_dlpack(code, bits, 1)
    stem = {0: "i", 1: "u", 2: "f", 3: "handle", 4: "bf", 5: "complex", 6: "bool"}.get(code)
    name = known.name if known else f"{stem}{bits}" if stem else f"dlpack(code={code}, bits={bits})"
    return name if lanes == 1 else f"{name}x{lanes}"
