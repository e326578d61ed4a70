# SPDX-License-Identifier: Apache-2.0
"""How often each number occurs in a block: ``weft.block.histogram``.

Written in weft's language. In: numbers of bins. Out: an array in shared memory with a count per bin.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.language.memory.arrays import shared
from weft.language.memory.atomics import atomic_add
from weft.language.threads.barrier import sync_threads
from weft.primitives import items as lists
from weft.primitives.threads import block_threads, thread_rank
from weft.primitives.values import is_repeated
from weft.types.dtype import i32


@device_function("block.histogram")
def histogram(bin: Any, bins: Any, into: Any = None) -> Any:
    """Counts the threads, or their items, of each bin.

    Args:
        bin: an integer, the number of a bin; or a list of several. Others than 0 to `bins` − 1 are not counted.
        bins: how many bins there are, known at compile time.
        into: an array that an earlier call returned, which is added to; None: a new one.

    Returns:
        The counts: `bins` elements of i32 in shared memory. All threads see them at once. In a loop a new call
        writes the same array again.

    Raises:
        TypeMismatchError: for a number of bins that is not constant.

    Example:
        ``counts = weft.block.histogram(digit % 10, 10)``
    """
    if into is None:
        counts = shared(bins, i32)
        if is_repeated():
            sync_threads()
        for each in range(thread_rank(), bins, block_threads()):
            counts[each] = 0
    else:
        counts = into
    sync_threads()
    for one in bin if lists.is_list(bin) else [bin]:
        if 0 <= one < bins:
            atomic_add(counts, one, 1)
    sync_threads()
    return counts
