# SPDX-License-Identifier: Apache-2.0
"""The memory that emulated threads reach: arrays in global memory, a block's shared memory.

In: addresses of many threads. Out: bits; an error for what a GPU refuses: an address outside of all arrays, or one that
is not a multiple of the access's size.
"""

from __future__ import annotations

import numpy as np

GLOBAL = 0x7F00_0000_0000
_GAP = 1 << 16
_CANARY = 0xCC
ALIGNMENT = 256


class AddressError(Exception):
    """A GPU would end the kernel here."""


class Memory:
    """One space, of a few pieces.

    Args:
        pieces: bytes; they are copied.
        base: the first one's address.
        gap: between two.
    """

    def __init__(self, pieces: list[np.ndarray], base: int = GLOBAL, gap: int = _GAP) -> None:
        self.base, self.ranges = base, []
        place = 0
        for piece in pieces:
            self.ranges.append((place, place + len(piece)))
            place = -(-(place + len(piece) + gap) // ALIGNMENT) * ALIGNMENT
        self.bytes = np.full(place, _CANARY, np.uint8)
        for (first, last), piece in zip(self.ranges, pieces, strict=True):
            self.bytes[first:last] = piece

    def address(self, number: int) -> int:
        """A piece's."""
        return self.base + self.ranges[number][0]

    def piece(self, number: int) -> np.ndarray:
        """Its bytes now."""
        first, last = self.ranges[number]
        return self.bytes[first:last].copy()

    def _places(self, addresses: np.ndarray, size: int, alignment: int) -> np.ndarray:
        if (addresses % np.uint64(alignment)).any():
            wrong = int(addresses[np.argmax(addresses % np.uint64(alignment) != 0)])
            raise AddressError(f"misaligned address {wrong - self.base:#x} of {alignment} bytes")
        first = (addresses - np.uint64(self.base)).astype(np.int64)
        inside = np.zeros(len(first), bool)
        for low, high in self.ranges:
            inside |= (first >= low) & (first + size <= high)
        if not inside.all():
            wrong = int(first[np.argmin(inside)])
            raise AddressError(f"illegal address, {wrong:#x} from the first array, {size} bytes")
        return first[:, None] + np.arange(size)

    def read(self, addresses: np.ndarray, size: int, count: int = 1) -> list[np.ndarray]:
        """`count` registers of `size` bytes for each thread."""
        places = self._places(addresses, size * count, size * count)
        found = self.bytes[places].reshape(len(addresses), count, size)
        kind = f"<u{size}"
        return [
            np.ascontiguousarray(found[:, number]).view(kind)[:, 0].astype(np.uint64)
            for number in range(count)
        ]

    def write(self, addresses: np.ndarray, size: int, values: list[np.ndarray]) -> None:
        """The opposite."""
        if not len(addresses):
            return
        places = self._places(addresses, size * len(values), size * len(values))
        parts = [value.astype(f"<u{size}").view(np.uint8).reshape(-1, size) for value in values]
        self.bytes[places] = np.concatenate(parts, axis=1)
