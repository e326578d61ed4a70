# SPDX-License-Identifier: Apache-2.0
"""Element types, as users name them; `dtype_info` has their facts.

In: a name, a DLPack triple or a Python scalar type. Out: one `DType` object per type, compared by identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, Optional

from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from weft.types.dtype_info import DTypeInfo


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
    def is_float8(self) -> bool:
        return self.kind == "float" and self.bits == 8

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

i4: Final = DType("i4")
u4: Final = DType("u4")

PACKED_DTYPES: Final = (i4, u4)
"""Types of elements only: what is loaded computes as i32, and neither an argument nor a variable in memory has one."""

DTYPES: Final = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2)

"""All others."""

_BY_NAME: Final = {dtype.name: dtype for dtype in (*DTYPES, *PACKED_DTYPES)}
_BY_NUMPY: Final = {dtype.info.numpy: dtype for dtype in DTYPES}
_BY_DLPACK: Final = {(dtype.dlpack_code, dtype.bits): dtype for dtype in _BY_NAME.values()}


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
        >>> dtype_of_numpy("bfloat16"), dtype_of_numpy("complex64")
        (weft.bf16, None)
    """
    return _BY_NUMPY.get(name)


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
        >>> dlpack_name(2, 16, 1), dlpack_name(5, 64, 1), dlpack_name(0, 32, 4)
        ('f16', 'complex64', 'i32x4')
    """
    known = dtype_from_dlpack(code, bits, 1)
    stem = {0: "i", 1: "u", 2: "f", 3: "handle", 4: "bf", 5: "complex", 6: "bool"}.get(code)
    name = known.name if known else f"{stem}{bits}" if stem else f"dlpack(code={code}, bits={bits})"
    return name if lanes == 1 else f"{name}x{lanes}"
