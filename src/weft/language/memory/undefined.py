# SPDX-License-Identifier: Apache-2.0
"""Shared memory whose elements are undefined, as the CPU shows it: all bits set, NaN or -1. In weft's own language.

In: a new array in the memory of others (`weft.shared(..., reuse=)`), after a barrier of the block. Out: stores by the
block's first thread, and a barrier.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import thread_idx
from weft.types import dtype as types


def undefine(array: Any, word: Any) -> None:
    """Sets all bits of a shared array, as words of an unsigned type; the threads have met at a barrier."""
    words = array.view(word)
    if thread_idx.x + thread_idx.y + thread_idx.z == 0:
        for number in range(prod(words.shape)):
            rest, index = number, ()
            for size in reversed(words.shape):
                rest, index = rest // size, (rest % size, *index)
            words[index] = word(word.maximum)
    sync_threads()


def word_of(array: Any) -> Any:
    """The widest unsigned type that the rows of an array hold; None for an array that has no such view."""
    kind, element = array.type, array.dtype
    if element.is_bool or element.is_packed:
        return None
    row_bytes = kind.dims[-1] * element.itemsize
    found = (types.u64, types.u32, types.u16, types.u8)
    return next(
        one
        for one in found
        if row_bytes % one.itemsize == 0 and kind.alignment_bytes.data % one.itemsize == 0
    )
