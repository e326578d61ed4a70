# SPDX-License-Identifier: Apache-2.0
"""Accesses of 16 bytes in kernels of arrays whose alignment is known at the call only.

In: arrays of any library. Out: how many elements an access may have; an annotation for host functions that are told so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.arguments.tensor_spec import TensorSpec
from weft.language.memory.vectors import load_vector, store_vector

BYTES: Final = 16

if TYPE_CHECKING:
    Aligned = Any
else:
    Aligned = TensorSpec(alignment_bytes=BYTES)


def vector_width(*arrays: Any) -> int:
    """Elements of an access that suits the rows of all arrays, each of which begins at a multiple of 16 bytes; or 1.

    It is for 16 bytes of the widest elements.
    """
    widest = 1
    for array in arrays:
        info = _native.tensor_info(array)
        if info is None or (info.data + info.byte_offset) % BYTES:
            return 1
        size = (info.dtype_bits + 7) // 8
        strides = info.strides
        if strides is None:
            strides = info.shape[-1:] * (len(info.shape) - 1) + (1,)  # multiples of a row's length
        inner = (stride for stride, length in zip(strides, info.shape, strict=True) if length > 1)
        if strides[-1] != 1 and info.shape[-1] > 1:
            return 1
        if any(stride != 1 and stride * size % BYTES for stride in inner):
            return 1
        widest = size if size > widest else widest
    return BYTES // widest


def read(a: Any, index: Any, width: Any) -> Any:
    """A tuple of so many neighbors; traced in kernels."""
    return load_vector(a, index, width) if width > 1 else (a[index],)


def write(a: Any, index: Any, values: Any) -> None:
    """Writes a tuple of neighbors; traced in kernels."""
    if len(values) > 1:
        store_vector(a, index, values)
    else:
        a[index] = values[0]
