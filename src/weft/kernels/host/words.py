# SPDX-License-Identifier: Apache-2.0
"""Elements of types that kernels do not have, such as complex numbers, as unsigned integers of the same bits.

In: an array of such a type. Out: an array of words over its memory, and one for a result, for kernels that only move
elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import weft
from weft import _native
from weft.kernels.annotations import Array
from weft.kernels.host.arrays import checked_output, describe, refuse_overlap, tensor_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS: Final = {8: weft.u8, 16: weft.u16, 32: weft.u32, 64: weft.u64}
_UNSIGNED: Final = 1  # DLPack's code
_HALVED: Final = 128  # bits of an element that is two words


class Words(NamedTuple):
    """An array of another element type as words.

    Attributes:
        array: the words, with a last dimension of 2 where an element has 128 bits.
        shape: the array's.
        dtype: of the array.
        bits: of a word.
    """

    array: weft.ffi.Tensor
    shape: tuple[int, ...]
    dtype: weft.ffi.DataType
    bits: int

    @property
    def rank(self) -> int:
        """The number of dimensions of the array."""
        return len(self.shape)

    def output(
        self, shape: Sequence[int], out: Array, x: Array, *, may_be_same: bool
    ) -> tuple[Any, weft.ffi.Tensor]:
        """Validates the user's output, or allocates one of x's library; returns it and its words.

        Raises:
            TypeError, ValueError: as `weft.kernels.host.arrays.output`.
        """
        whole = tuple(shape)
        if out is None:
            pair: tuple[int, ...] = self.array.shape[self.rank :]
            words = weft.empty([*whole, *pair], _WORDS[self.bits], str(self.array.device))
            code, bits, _ = self.dtype
            made = weft.ffi.from_dlpack(_native.export_as(words, code, bits, max_version=(1, 1)))
            kind = cast("type[Any]", type(x))
            return made if isinstance(made, kind) else made.to(kind), words
        source = describe(self.array, "x")
        found = words_of(out, "out")
        if found is None or found.dtype != self.dtype:
            raise TypeError(
                f"out has elements of {weft.ffi.DataType(tensor_of(out, 'out').dtype).name}, expected {self.dtype.name}"
            )
        if found.shape != whole:
            raise ValueError(f"out has shape {found.shape}, expected {whole}")
        target = checked_output(
            source, found.array.shape, source.dtype, source.type_name, found.array
        )
        refuse_overlap(source, target, may_be_same=may_be_same)
        return out, found.array


def words_of(array: Array, name: str) -> Words | None:
    """Views an array as words; None if kernels have its element type.

    Raises:
        TypeError: if it is not an array, or its elements are vectors or parts of bytes.
        ValueError: if it has no dimension.
    """
    tensor = tensor_of(array, name)
    dtype = weft.ffi.DataType(tensor.dtype)
    if dtype.weft is not None and not dtype.weft.is_complex:
        return None
    bits = dtype.bits
    size = bits // 2 if bits == _HALVED else bits
    if size not in _WORDS or dtype.lanes != 1:
        raise TypeError(
            f"{name} has elements of {dtype.name}, expected single ones of 8 to 128 bits"
        )
    if not tensor.shape:
        raise ValueError(f"{name} has no dimension, expected one or more")
    words = weft.ffi.from_dlpack(_native.export_as(tensor, _UNSIGNED, size, max_version=(1, 1)))
    return Words(words, tensor.shape, dtype, size)
