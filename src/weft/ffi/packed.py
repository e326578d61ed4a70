# SPDX-License-Identifier: Apache-2.0
"""Arrays of bytes as tensors of packed elements: `weft.packed`.

In: an array of any library. Out: an argument with twice as many elements along the last dimension; the memory stays the
array's, whose library decides the stream.
"""

from __future__ import annotations

from typing import Any

from weft import _native
from weft.types.dtype import DType, dtype_from_dlpack


class Packed(_native.Packed):
    """An array of bytes as elements of less than a byte, an argument of compiled functions.

    Attributes:
        array: that was packed.
        shape: dims, in elements.
    """

    __slots__ = ()

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        found = dtype_from_dlpack(self.code, self.bits, 1)
        assert found is not None
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return packed, (self.array, self.dtype)

    def __repr__(self) -> str:
        return (
            f"<weft packed {self.dtype.name}, shape={self.shape}, of {type(self.array).__name__}>"
        )


def packed(array: Any, dtype: object) -> Packed:
    """`weft.packed` outside compiled code.

    Raises:
        TypeError: `array` is not one of bytes, or `dtype` not a packed type.
        ValueError: the bytes are not adjacent along the last dimension.
    """
    if not isinstance(dtype, DType) or not dtype.is_packed:
        raise TypeError(f"packed: expected weft.i4 or weft.u4, received {dtype!r}")
    return Packed(array, dtype.dlpack_code, dtype.bits)
