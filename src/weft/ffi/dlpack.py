# SPDX-License-Identifier: Apache-2.0
"""DLPack's structures, and tensors over memory that something else keeps alive.

In: an address, a shape, strides, an element type and a device. Out: an object with `__dlpack__`, which any array
library reads. Nothing is checked: fields may be wrong on purpose.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Sequence

_CAPSULE: Final = b"dltensor"


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class Borrowed:
    """A tensor over borrowed memory, which must outlive everything made of it.

    Args:
        data: the address.
        shape: in elements.
        strides: in elements; None: a null pointer, which means row-major.
        dtype: DLPack's code, bits and lanes.
        device: DLPack's device type and ordinal.
        byte_offset: from the address to the first element.
    """

    def __init__(
        self,
        data: int,
        shape: Sequence[int],
        strides: Sequence[int] | None,
        dtype: tuple[int, int, int],
        device: tuple[int, int] = (1, 0),
        byte_offset: int = 0,
    ) -> None:
        self.data, self.shape, self.strides = data, shape, strides
        self.dtype, self.device, self.byte_offset = dtype, device, byte_offset

    def __dlpack__(self, **_: object) -> object:
        """A capsule with a structure of its own, in a block of the C library, which its deleter frees."""
        malloc, new_capsule, free = _library()
        rank, head = len(self.shape), ctypes.sizeof(_DLManagedTensor)
        block = malloc(head + 16 * rank)
        if block is None:
            raise MemoryError
        numbers = (ctypes.c_int64 * (2 * rank)).from_address(block + head)
        numbers[:] = [*self.shape, *(self.strides or [0] * rank)]
        pointers = (ctypes.c_int64 * rank).from_address
        shape, strides = pointers(block + head), pointers(block + head + 8 * rank)
        managed = _DLManagedTensor.from_address(block)
        managed.tensor = DLTensor(
            self.data, *self.device, rank, *self.dtype, shape, strides, self.byte_offset
        )
        if self.strides is None:
            managed.tensor.strides = None
        managed.context, managed.deleter = None, free
        return new_capsule(block, _CAPSULE, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def tensor_at(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: tuple[int, int, int],
    device: tuple[int, int],
) -> Any:
    """A tensor over memory that the caller keeps alive; arguments as for `Borrowed`."""
    return _native.from_dlpack(Borrowed(address, shape, strides, dtype, device).__dlpack__())


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
