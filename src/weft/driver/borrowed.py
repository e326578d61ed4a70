# SPDX-License-Identifier: Apache-2.0
"""Tensors over borrowed memory, made through DLPack capsules.

In: an address, a shape, an element type, a device. Out: a tensor that does not own the memory.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor, in a block of the C library, which its deleter frees."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_CAPSULE: Final = b"dltensor"


@kept
def _library() -> tuple[Any, Any, int]:
    """The C library's `malloc`, Python's `PyCapsule_New`, and the address of `free`."""
    c = ctypes.CDLL(None)
    c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    address = ctypes.cast(c.free, ctypes.c_void_p).value
    assert address is not None
    return c.malloc, new, address


def tensor_at(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: tuple[int, int, int],
    device: tuple[int, int],
) -> Any:
    """A tensor over memory that the caller keeps alive.

    Args:
        address: of the first element.
        shape, strides: in elements.
        dtype: DLPack's code, bits and lanes.
        device: DLPack's type and ordinal.
    """
    malloc, new_capsule, free = _library()
    rank, head = len(shape), ctypes.sizeof(_Managed)
    block = malloc(head + 16 * rank)
    if block is None:
        raise MemoryError
    numbers = (ctypes.c_int64 * (2 * rank)).from_address(block + head)
    numbers[:] = [*shape, *strides]
    managed = _Managed.from_address(block)
    managed.data, (managed.device_type, managed.device_id) = address, device
    managed.ndim = rank
    managed.code, managed.bits, managed.lanes = dtype
    managed.shape, managed.strides = block + head, block + head + 8 * rank
    managed.byte_offset, managed.context, managed.deleter = 0, None, free
    return _native.from_dlpack(new_capsule(block, _CAPSULE, None))
