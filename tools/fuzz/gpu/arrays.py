# SPDX-License-Identifier: Apache-2.0
"""Arrays of any type, strides and address, alike in a host's memory and a device's.

In: an `Array`, the seed of its numbers. Out: bytes; an object that weft reads by DLPack, on either side.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import weft
from weft.ffi.tensor import Borrowed

ALIGNMENT = 256
_MARGIN = 4096  # bytes before and after an array, which nothing may change; a multiple of ALIGNMENT
_CANARY = 0x5A
_HOST, _DEVICE = 1, 2
NUMPY = {
    "bool_": np.bool_,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
NUMPY |= {f"{kind}{bits}": f"{kind}{bits // 8}" for kind in "iu" for bits in (8, 16, 32, 64)}


@dataclass(frozen=True)
class Array:
    """An array of a case.

    Attributes:
        dtype: its name in weft.
        shape, strides: in elements.
        offset: bytes from a multiple of 256.
        numbers: its numbers, given; None for small whole numbers at random, of which sums of some hundred are exact.
        seed: of these.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    numbers: tuple[object, ...] | None = None
    seed: int = 0

    @property
    def origin(self) -> int:
        """The first element's place in the array's memory, in bytes."""
        return _MARGIN + self.offset

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(NUMPY[self.dtype]).itemsize

    def memory(self) -> np.ndarray:
        """The bytes that hold it, and those around it."""
        span = sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        count = (span + 1) * self.itemsize if all(self.shape) else 0
        size = self.origin + count + _MARGIN
        raw = np.full(ALIGNMENT + size, _CANARY, np.uint8)
        first = -raw.ctypes.data % ALIGNMENT
        memory = raw[first : first + size]
        self.view(memory)[...] = self._numbers()
        return memory

    def outside(self, memory: np.ndarray) -> int | None:
        """Find a changed byte that belongs to no element; its distance from the first element."""
        untouched = np.full_like(memory, _CANARY)
        self.view(untouched)[...] = self.view(memory)
        changed = np.flatnonzero(untouched != memory)
        return int(changed[0]) - self.origin if changed.size else None

    def view(self, memory: np.ndarray) -> np.ndarray:
        """Its elements in such bytes."""
        steps = [step * self.itemsize for step in self.strides]
        return np.ndarray(self.shape, NUMPY[self.dtype], memory, self.origin, steps)

    def _numbers(self) -> np.ndarray:
        if self.numbers is not None:
            return np.array(self.numbers, NUMPY[self.dtype]).reshape(self.shape)
        low = 0 if self.dtype[0] in "ub" else -4
        found = np.random.default_rng(self.seed).integers(low, 5, math.prod(self.shape))
        return found.reshape(self.shape).astype(NUMPY[self.dtype])


def row_major(shape: tuple[int, ...], pitch: int | None = None) -> tuple[int, ...]:
    """Strides of rows one after the other, so many elements apart."""
    steps, step = [1] * len(shape), 1
    for dimension in reversed(range(len(shape))):
        steps[dimension] = step
        step *= shape[dimension]
        if pitch is not None and dimension == len(shape) - 1:
            step = pitch
    return tuple(steps)


class Placed(Borrowed):
    """An array in a host's memory or in a device's, which weft reads by DLPack; it outlives the calls.

    Args:
        array: what lies there.
        on_device: whether in the first device's memory.
    """

    def __init__(self, array: Array, *, on_device: bool) -> None:
        self.array, self.host = array, array.memory()
        self.bytes = None
        address = self.host.ctypes.data
        if on_device:
            self.bytes = weft.empty(len(self.host), weft.u8, "cuda:0")
            weft.copy(self.bytes, self.host)
            # The first field of a DLTensor, which follows the object's header.
            address = ctypes.c_uint64.from_address(self.bytes.address + 24).value
        dtype = getattr(weft, array.dtype)
        where = (_DEVICE if on_device else _HOST, 0)
        kind = dtype.dlpack_code, dtype.bits, 1
        address += array.origin
        super().__init__(address, array.shape, array.strides, kind, where)

    def fetch(self) -> np.ndarray:
        """The bytes as they are now."""
        if self.bytes is not None:
            weft.synchronize()
            weft.copy(self.host, self.bytes)
        return self.host
