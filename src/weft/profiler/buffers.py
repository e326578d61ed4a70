# SPDX-License-Identifier: Apache-2.0
"""Buffers that kernels with `Profiler` record into: making them ready for one launch, and reading them back.

In: a number of words and a device. Out: memory with a prologue that no other memory has, so that a kernel
never writes into what is none. Next: lane.
"""

from __future__ import annotations

import itertools
import secrets
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.errors import ArgumentValueError
from weft.types import trace_format as wire

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_WORDS: Final = 1 << 20
"""8 MB: a hundred thousand records and the headers of ten thousand lanes."""

# Epochs tell one launch's lane headers from those that an earlier one left in the same memory.
_epochs = itertools.count(secrets.randbits(40) << 16 | 1)


def buffer(words: int = DEFAULT_WORDS) -> NDArray[np.uint64]:
    """Memory on the CPU for one launch of a kernel with ``Profiler(buffer=...)``.

    Pass it as the argument that the kernel gives its profiler, then `decode_lane` it. `prepare` makes it
    ready for another launch.

    Args:
        words: of 8 bytes. A launch needs 16, its names, 8 per lane, and one per record.

    Raises:
        ArgumentValueError: if it has no room for the prologue, or more than 2³¹ − 1 words.

    Example:
        ``records = weft.profiler.buffer(1 << 16); run(x, y, records); decode_lane(records)``
    """
    if not wire.PROLOGUE_WORDS <= words < wire.LANE_MOST_WORDS:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            f"{words} words; expected {wire.PROLOGUE_WORDS} to {wire.LANE_MOST_WORDS - 1}",
        )
    # Empty memory is enough: lanes say which of their words are records.
    made = np.empty(words, np.uint64)
    prepare(made)
    return made


def prologue() -> NDArray[np.uint64]:
    """The first words of a buffer, ready for one launch."""
    words = np.zeros(wire.PROLOGUE_WORDS, np.uint64)
    words[wire.WORD_MAGIC] = wire.LANE_MAGIC
    words[wire.WORD_EPOCH] = next(_epochs)
    return words


def prepare(words: Any) -> None:
    """Makes a buffer on the CPU ready for another launch; costs 128 bytes, whatever its size.

    Args:
        words: an array of at least 16 u64 or i64 elements, which is changed.

    Raises:
        ArgumentValueError: for another array.
    """
    array = np.asarray(words)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.dtype.itemsize != 8:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            f"the buffer has rank {array.ndim} and {array.dtype} elements; expected rank 1 and u64",
        )
    if len(array) < wire.PROLOGUE_WORDS:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            f"the buffer has {len(array)} words; expected {wire.PROLOGUE_WORDS} at least",
        )
    array.view(np.uint64)[: wire.PROLOGUE_WORDS] = prologue()
