# SPDX-License-Identifier: Apache-2.0
"""The few largest elements of long rows: one pass over memory, and launches for what it leaves.

In: rows. Out: the k largest of each in order, and their indices. A block takes a part of a row into registers and finds
a bound, bit by bit, that at least k of its threads' largest elements reach; so do few more than k of its elements.
These are ranked by counting. What the parts leave is a row again, until there is one part.

An element and its index are one number, its *entry*: larger for what comes first, and more than 0. No two are equal, so
that neither ties nor the order of the atomic operations matter. It has as few bits as they need: each one costs a step
of the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.kernels.device.row import elements, places, row_count, row_of
from weft.kernels.device.views import aligned
from weft.kernels.host.arrays import Array, Constant, Given, Int32
from weft.language.control import ceil_div, static_range, where
from weft.language.memory.atomics import atomic_add
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.threads.barrier import sync_threads, sync_threads_count
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block import reductions as of_block
from weft.primitives.radix import code_of, last_code, rank_of
from weft.types.dtype import i32, i64, u32, u64
from weft.types.launch_limits import MOST_THREADS

if TYPE_CHECKING:
    from weft.types.dtype import DType

_ITEMS: Final = 16  # elements of a thread
_THREADS: Final = 256
_MOST: Final = MOST_THREADS // 2  # the largest k: a block has at least twice as many threads
_SHORTEST: Final = 256  # elements of a row; shorter ones are sorted


class Plan(NamedTuple):
    """How the largest elements of rows are found; constants.

    Attributes:
        threads: of a block.
        items: elements or entries of each of them.
        width: elements of an access.
        levels: launches.
        entry: the type of entries.
        largest: whether large elements come first.
    """

    threads: int
    items: int
    width: int
    levels: int
    entry: DType
    largest: bool


def are_few(source: Given, k: int) -> bool:
    """Whether this is faster than to sort the rows, and entries have 64 bits.

    Ranking takes steps as the square of k, sorting as the row's length; the factors are measured.
    """
    columns = source.shape[-1]
    is_faster = _SHORTEST <= columns and k <= min(_MOST, columns // 4) and k * k <= 64 * columns
    return is_faster and source.dtype.bits + columns.bit_length() <= 64


def put_largest(source: Given, values: Any, indices: Any, k: int, largest: bool) -> None:
    """Writes the `k` largest or smallest elements of each row, and where they are."""
    threads = _THREADS
    while threads < 2 * k:
        threads *= 2
    columns, items = source.shape[-1], _ITEMS
    while items > 1 and threads * items >= 2 * columns:
        items //= 2
    tile, left, levels = threads * items, columns, 1
    while left > tile:
        left, levels = -(-left // tile) * k, levels + 1
    index_bits = columns.bit_length()
    entry = u32 if source.dtype.bits + index_bits <= 32 else u64
    plan = Plan(threads, items, min(source.width, items), levels, entry, largest)
    _put(source.array, values, indices, k, index_bits, plan)


@jit
def _put(
    x: Array,
    values: Array,
    indices: Array,
    k: Int32,
    index_bits: Int32,
    plan: Constant,
) -> None:
    rows, source, left = row_count(x.shape), None, i64(x.shape[-1])
    for level in static_range(plan.levels):
        parts = ceil_div(left, plan.threads * plan.items)
        target = None if level == plan.levels - 1 else scratch((rows, parts * k), plan.entry)
        part_kernel(x, source, target, values, indices, i32(parts), k, index_bits, plan).launch(
            grid=rows * parts, block=plan.threads
        )
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
    index_bits: Int32,
    plan: Constant,
) -> None:
    """A block: the largest elements of a part of a row.

    Args:
        x: the elements.
        source: entries that are left of them, or None.
        target: the k largest entries of each part, in order; None: there is one part.
        values, indices: the results, if there is one part.
        parts: of a row.
        k: how many.
        index_bits: the low ones of an entry.
        plan: see there.
    """
    number, part = divmod(block_idx.x, parts)
    threads, wide = plan.threads, plan.entry
    if source is None:
        entries = _entries(x, number, part, index_bits, plan)
    else:
        left = row_of(source, number)[i64(part) * (threads * plan.items) :]
        entries = [left[i] if i < len(left) else wide(0) for i in places(plan.items, threads, 1)]
    best = entries[0]
    for entry in entries[1:]:
        best = max(best, entry)
    chosen, count = shared(threads, wide), shared(1, i32)
    bits = index_bits + x.dtype.bits
    found = _choose(entries, _bound([best], k, bits), chosen, count)
    if found > threads:  # few threads have the largest elements
        found = _choose(entries, _bound(entries, k, bits), chosen, count)
    if thread_idx.x < found:
        own, rank = chosen[thread_idx.x], i32(0)
        for i in range(found):
            rank += i32(chosen[i] > own)
        if rank < k:
            if target is not None:
                target[number, part * k + rank] = own
            else:
                index = i64(~own & _low_bits(index_bits, wide))
                row_of(values, number)[rank] = row_of(x, number)[index]
                row_of(indices, number)[rank] = index
    if target is not None:
        for rank in range(found + thread_idx.x, k, threads):
            target[number, part * k + rank] = 0


def _entries(x: Any, number: Any, part: Any, index_bits: Any, plan: Any) -> Any:
    """A thread's entries of a part of a row; 0 beyond the end."""
    wide, width = plan.entry, plan.width
    first = i64(part) * (plan.threads * plan.items)
    row, found = aligned(row_of(x, number)[first:], width), []
    last = _low_bits(index_bits, wide) | (wide(last_code(x.dtype)) << wide(index_bits))
    for place in places(plan.items, plan.threads, width):
        own = tuple(wide(0) for _ in static_range(width))
        if place < len(row):
            codes = [
                wide(rank_of(code_of(value, plan.largest), x.dtype, plan.largest))
                for value in elements(row, place, width)
            ]
            own = tuple(
                last - ((code << wide(index_bits)) | wide(first + place + k))
                for k, code in enumerate(codes)
            )
        found += own
    return found


def _low_bits(count: Any, wide: Any) -> Any:
    return (wide(1) << wide(count)) - 1


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


def _bound(entries: Any, k: Any, bits: Any) -> Any:
    """What at least k and at best few more of the block's entries reach; 1 if it has fewer than k."""
    wide = entries[0].dtype
    bound, bit, few = wide(0), wide(1) << wide(bits - 1), k + (k >> 2) + 4
    while bit != 0:
        tried = bound | bit
        if len(entries) == 1:
            reaching = sync_threads_count(entries[0] >= tried)
        else:
            reaching = of_block.sum(sum(i32(entry >= tried) for entry in entries))
        if reaching >= k:
            bound = tried
        bit = where((reaching >= k) & (reaching <= few), wide(0), bit >> 1)
    return max(bound, wide(1))
