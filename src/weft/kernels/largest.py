# SPDX-License-Identifier: Apache-2.0
"""The few largest elements of long rows: one pass over memory, and launches for what it leaves.

In: rows. Out: the k largest of each in order, and their indices. A block takes a part of a row into registers and finds
a bound, bit by bit, that at least k of its threads' largest elements reach; so do few more than k of its elements.
These are ranked by counting. What the parts leave is a row again, until there is one part.

An element and its index are one number, its *entry*: larger for what comes first. No two are equal, so that neither
ties nor the order of the atomic operations matter.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, Given, Int32
from weft.kernels.rows import elements, places, row_count, row_of
from weft.kernels.views import aligned
from weft.language.control import ceil_div, select, static_range
from weft.language.memory.atomics import atomic_add
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.threads.barrier import sync_threads, sync_threads_count
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block import reductions as of_block
from weft.primitives.radix import code_of, key_of
from weft.types.dtype import i32, i64, u32, u64
from weft.types.launch_limits import MOST_THREADS

_ITEMS: Final = 16  # elements of a thread
_THREADS: Final = 256
_MOST: Final = MOST_THREADS // 2  # the largest k: a block has at least twice as many threads
_SHORTEST: Final = 1024  # elements of a row; shorter ones are sorted, and those of which a 32nd or more is asked for


def are_few(source: Given, k: int) -> bool:
    """Whether this is faster than to sort the rows, and entries have 64 bits."""
    columns = source.shape[-1]
    is_long = max(_SHORTEST, 32 * k) <= columns < 1 << 32
    return k <= _MOST and is_long and source.dtype.itemsize <= 4


def put_largest(source: Given, values: Any, indices: Any, k: int, largest: bool) -> None:
    """Writes the `k` largest or smallest elements of each row, and where they are."""
    threads = _THREADS
    while threads < 2 * k:
        threads *= 2
    tile, left, levels = threads * _ITEMS, source.shape[-1], 1
    while left > tile:
        left, levels = -(-left // tile) * k, levels + 1
    _put(source.array, values, indices, k, threads, source.width, levels, largest)


@jit
def _put(
    x: Array,
    values: Array,
    indices: Array,
    k: Int32,
    threads: Constant,
    width: Constant,
    levels: Constant,
    largest: Constant,
) -> None:
    rows, source, left = row_count(x.shape), None, i64(x.shape[-1])
    for level in static_range(levels):
        parts = ceil_div(left, threads * _ITEMS)
        target = None if level == levels - 1 else scratch((rows, parts * k), u64)
        part_kernel(
            x, source, target, values, indices, i32(parts), k, threads, width, largest
        ).launch(grid=rows * parts, block=threads)
        source, left = target, parts * k


@kernel(max_threads=MOST_THREADS)
def part_kernel(
    x: Array,
    source: Array | None,
    target: Array | None,
    values: Array,
    indices: Array,
    parts: Int32,
    k: Int32,
    threads: Constant,
    width: Constant,
    largest: Constant,
) -> None:
    """A block: the largest elements of a part of a row.

    Args:
        x: the elements.
        source: entries that are left of them, or None.
        target: the k largest entries of each part, in order; None: there is one part.
        values, indices: the results, if there is one part.
        parts: of a row.
        k: how many.
        threads: of a block.
        width: elements of an access.
        largest: whether large elements come first.
    """
    number, part = divmod(block_idx.x, parts)
    if source is None:
        entries = _entries(x, number, part, threads, width, largest)
    else:
        left = row_of(source, number)[i64(part) * (threads * _ITEMS) :]
        entries = [left[i] if i < len(left) else u64(0) for i in places(_ITEMS, threads, 1)]
    best = entries[0]
    for entry in entries[1:]:
        best = max(best, entry)
    chosen, count = shared(threads, u64), shared(1, i32)
    found = _choose(entries, _bound([best], k), chosen, count)
    if found > threads:  # few threads have the largest elements
        found = _choose(entries, _bound(entries, k), chosen, count)
    if thread_idx.x < found:
        own, rank = chosen[thread_idx.x], i32(0)
        for i in range(found):
            rank += i32(chosen[i] > own)
        if rank < k:
            if target is not None:
                target[number, part * k + rank] = own
            else:
                code = u32(~own >> 32)
                row_of(values, number)[rank] = key_of(code, x.dtype, largest)
                row_of(indices, number)[rank] = i64(~own & 0xFFFFFFFF)
    if target is not None:
        for rank in range(found + thread_idx.x, k, threads):
            target[number, part * k + rank] = 0


def _entries(x: Any, number: Any, part: Any, threads: Any, width: Any, largest: Any) -> Any:
    """A thread's entries of a part of a row; 0 beyond the end."""
    first = i64(part) * (threads * _ITEMS)
    row, found = aligned(row_of(x, number)[first:], width), []
    for place in places(_ITEMS, threads, width):
        own = tuple(u64(0) for _ in static_range(width))
        if place < len(row):
            codes = [u64(code_of(value, largest)) for value in elements(row, place, width)]
            own = tuple(~((code << 32) | u64(first + place + k)) for k, code in enumerate(codes))
        found += own
    return found


def _choose(entries: Any, bound: Any, chosen: Any, count: Any) -> Any:
    """How many of the block's entries reach a bound; puts them into `chosen` in any order, as far as there is room."""
    if thread_idx.x == 0:
        count[0] = 0
    sync_threads()
    for entry in entries:
        if entry >= bound:
            place = atomic_add(count, 0, 1)
            if place < len(chosen):
                chosen[place] = entry
    sync_threads()
    return count[0]


def _bound(entries: Any, k: Any) -> Any:
    """What at least k and at best few more of the block's entries reach; 1 if it has fewer than k."""
    bound, bit, few = u64(0), u64(1) << 63, k + (k >> 2) + 4
    while bit != 0:
        tried = bound | bit
        if len(entries) == 1:
            reaching = sync_threads_count(entries[0] >= tried)
        else:
            reaching = of_block.sum(sum(i32(entry >= tried) for entry in entries))
        if reaching >= k:
            bound = tried
        bit = select((reaching >= k) & (reaching <= few), u64(0), bit >> 1)
    return max(bound, u64(1))
