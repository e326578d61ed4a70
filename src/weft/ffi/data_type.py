# SPDX-License-Identifier: Apache-2.0
"""Element types as values of the ABI: any DLPack triple, whether or not kernels support it.

In: a name, a triple, or a dtype of weft, NumPy, torch or tvm_ffi. Out: a triple. `Numbers`, the base of
`DataType` and `Device`, resembles a tuple but is not: other bindings would take a tuple for an array.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, cast, overload

from weft import _native
from weft.types.dtype import dtype_from_dlpack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.types.dtype import DType


class Numbers:
    """Fixed numbers that compare, hash and unpack like a tuple."""

    __slots__ = ("_numbers",)
    _numbers: tuple[int, ...]

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        return self._numbers[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbers):
            return self._numbers == other._numbers
        return self._numbers == other if isinstance(other, tuple) else NotImplemented

    def __lt__(self, other: tuple[int, ...] | Numbers) -> bool:
        return self._numbers < tuple(other)

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._numbers)


def as_integer(value: object) -> int | None:
    """An int, also NumPy's; None for anything else, a bool and a class too."""
    if type(value) is int:
        return value
    if isinstance(value, bool | type) or not hasattr(value, "__index__"):
        return None
    try:
        return index(cast("SupportsIndex", value))
    except TypeError:  # an array, of more than one element
        return None


def set_numbers(made: Numbers, numbers: tuple[int, ...]) -> None:
    """Fills a new value."""
    object.__setattr__(made, "_numbers", numbers)


_SCALABLE: Final = -(
    1 << 15
)  # the least number of lanes: those of scalable vectors are negative, in 16 bits


def _checked(name: str, value: object, least: int, most: int) -> int:
    number = as_integer(value)
    if number is None:
        raise TypeError(f"DataType: expected an int as {name}, received {value!r}")
    if not least <= number <= most:
        raise ValueError(
            f"DataType: {name} is {number}, expected at most {most} and at least {least}"
        )
    return number


def _fits(code: int, bits: int, lanes: int) -> bool:
    return 0 <= code <= 255 and 0 <= bits <= 255 and _SCALABLE <= lanes < -_SCALABLE


class DataType(Numbers):
    """An element type: (DLDataTypeCode, bits, lanes). Equal to the tuple of these numbers.

    Args:
        dtype: a name (``"float32"``, ``"int8x4"``, ``"float8_e4m3fn"``), the DLPack code, or a dtype.
        bits: of one lane, with a code.
        lanes: values in one element, with a code; negative where a vector has that multiple of the machine's `vscale`.

    Raises:
        ValueError: if libtvm_ffi knows no such name, or a number does not fit the ABI's eight or sixteen bits.
        TypeError: if `dtype` is not one of the above.

    Example:
        >>> DataType("bfloat16") == (4, 16, 1), DataType(2, 32).name, DataType("float32").weft
        (True, 'float32', weft.f32)
    """

    __slots__ = ()

    def __new__(cls, dtype: object, bits: int | None = None, lanes: int = 1) -> DataType:
        code = as_integer(dtype)
        numbers: tuple[int, ...]
        if (
            code is not None
            and type(bits) is int
            and type(lanes) is int
            and _fits(code, bits, lanes)
        ):
            numbers = code, bits, lanes  # as tensors ask for it
        elif code is not None and bits is not None:
            numbers = tuple(
                _checked(name, value, least, most)
                for name, value, least, most in (
                    ("code", dtype, 0, 255),
                    ("bits", bits, 0, 255),
                    ("lanes", lanes, _SCALABLE, -_SCALABLE - 1),
                )
            )
        elif bits is not None or lanes != 1:
            raise TypeError("DataType: bits and lanes need a DLPack code")
        else:
            numbers = _native.data_type_triple(dtype)
        made = super().__new__(cls)
        set_numbers(made, numbers)
        return made

    @property
    def code(self) -> int:
        """DLDataTypeCode."""
        return self[0]

    @property
    def bits(self) -> int:
        """Bits of one lane."""
        return self[1]

    @property
    def lanes(self) -> int:
        """Values in one element; ``-4`` for ``"int32xvscalex4"``, as in tvm_ffi."""
        return self[2]

    @property
    def itemsize(self) -> int:
        """Bytes of one element, rounded up.

        Raises:
            ValueError: of a scalable vector, whose size is the machine's.
        """
        if self[2] < 0:
            raise ValueError(
                f"{self.name} has as many bytes as the machine's vectors: no fixed number"
            )
        return (self[1] * self[2] + 7) // 8

    @property
    def name(self) -> str:
        """As libtvm_ffi writes it: ``"float32"``, ``"float8_e4m3fn"``, ``"int8x4"``."""
        return _native.data_type_name(*self.__dlpack_data_type__())

    @property
    def weft(self) -> DType | None:
        """The type that kernels know, or None where they have none."""
        return dtype_from_dlpack(self[0], self[1], self[2])

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DataType({self.name!r})"

    def __dlpack_data_type__(self) -> tuple[int, int, int]:
        """The DLPack triple, for other bindings; lanes as the 16 bits that the ABI has."""
        return (self[0], self[1], self[2] % (-2 * _SCALABLE))
