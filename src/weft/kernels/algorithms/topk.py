# SPDX-License-Identifier: Apache-2.0
"""Top-k of long rows for small k: one pass over memory, and a launch per level of candidates.

In: rows. Out: the k largest elements of each in order, and their indices. A block holds a part of a row in registers
and bisects, bit by bit, for a threshold that at least k of its threads' maxima reach, and few more than k elements.
These candidates are ranked by counting. The candidates of all parts are a shorter row, until there is one part.

An element and its index are packed into one integer, its *entry*: larger for what comes first, and more than 0. No two
are equal, so neither ties nor the order of atomics matter. It has as few bits as needed: each costs a bisection step.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Array, ElementType, Int, Number, Numbers
from weft.kernels.device.row import aligned, elements, places, row_count, row_of
from weft.kernels.host.arrays import ArrayInfo
from weft.primitives.sorting import code_of, last_code, rank_of

_ITEMS: Final = 16  # elements of a thread
_THREADS: Final = 256
_MOST: Final = weft.MAX_THREADS // 2  # the largest k; a block has at least 2k threads
_SHORTEST: Final = 256  # elements of a row; shorter ones are sorted


class TopkConfig(NamedTuple):
    """Launch configuration of top-k; constants.

    Attributes:
        threads: of a block.
        items: elements or entries of a thread.
        width: elements per load.
        levels: launches.
        entry: the type of entries.
        largest: whether large elements come first.
    """

    threads: int
    items: int
    width: int
    levels: int
    entry: weft.DType
    largest: bool


@weft.kernel(max_threads=weft.MAX_THREADS)
def topk_kernel(
    x: weft.Tensor,
    source: weft.Tensor | None,
    target: weft.Tensor | None,
    values: weft.Tensor,
    indices: weft.Tensor,
    parts: weft.i32,
    k: weft.i32,
    index_bits: weft.i32,
    config: weft.Constexpr[TopkConfig],
) -> None:
    """A block finds the k largest elements of a part of a row.

    Args:
        x: the elements.
        source: the candidates of the level before, or None.
        target: the k largest entries of each part, in order; None: there is one part.
        values, indices: the results, if there is one part.
        parts: of a row.
        k: their number.
        index_bits: the low bits of an entry.
        config: the launch configuration.
    """
    number, part = divmod(weft.block_idx.x, parts)
    threads, wide = config.threads, config.entry
    if source is None:
        entries = _entries(x, number, part, index_bits, config)
    else:
        left = row_of(source, number)[weft.i64(part) * (threads * config.items) :]
        entries = [left[i] if i < len(left) else wide(0) for i in places(config.items, threads, 1)]
    best = entries[0]
    for entry in entries[1:]:
        best = max(best, entry)
    candidates, count = weft.shared(threads, wide), weft.shared(1, weft.i32)
    bits = index_bits + x.dtype.bits
    found = _gather_candidates(entries, _threshold([best], k, bits), candidates, count)
    if found > threads:  # the largest elements are in few threads
        found = _gather_candidates(entries, _threshold(entries, k, bits), candidates, count)
    if weft.thread_idx.x < found:
        own, rank = candidates[weft.thread_idx.x], weft.i32(0)
        for i in range(found):
            rank += weft.i32(candidates[i] > own)
        if rank < k:
            if target is not None:
                target[number, part * k + rank] = own
            else:
                index = weft.i64(~own & _low_mask(index_bits, wide))
                row_of(values, number)[rank] = row_of(x, number)[index]
                row_of(indices, number)[rank] = index
    if target is not None:
        for rank in range(found + weft.thread_idx.x, k, threads):
            target[number, part * k + rank] = 0


@weft.device
def _entries(
    x: weft.Tensor, number: Int, part: Int, index_bits: Int, config: TopkConfig
) -> Numbers:
    """A thread's entries of a part of a row; 0 beyond the end."""
    wide, width = config.entry, config.width
    first = weft.i64(part) * (config.threads * config.items)
    row, found = aligned(row_of(x, number)[first:], width), []
    last = _low_mask(index_bits, wide) | (wide(last_code(x.dtype)) << wide(index_bits))
    for place in places(config.items, config.threads, width):
        own = tuple(wide(0) for _ in weft.static_range(width))
        if place < len(row):
            codes = [
                wide(rank_of(code_of(value, config.largest), x.dtype, config.largest))
                for value in elements(row, place, width)
            ]
            own = tuple(
                last - ((code << wide(index_bits)) | wide(first + place + k))
                for k, code in enumerate(codes)
            )
        found += own
    return found


@weft.device
def _low_mask(count: Int, wide: ElementType) -> Int:
    return (wide(1) << wide(count)) - 1


@weft.device
def _gather_candidates(
    entries: Numbers, threshold: Number, candidates: weft.Tensor, count: Int
) -> Any:
    """Gathers the block's entries that reach a threshold, in any order, as room allows; returns their number."""
    if weft.thread_idx.x == 0:
        count[0] = 0
    weft.sync_threads()
    for entry in entries:
        if entry >= threshold:
            place = weft.atomic_add(count, 0, 1)
            if place < len(candidates):
                candidates[place] = entry
    weft.sync_threads()
    return count[0]


@weft.device
def _threshold(entries: Numbers, k: Int, bits: Int) -> Any:
    """A threshold that at least k, at best few more, of the block's entries reach; 1 if it has fewer than k."""
    wide = entries[0].dtype
    threshold, bit, few = wide(0), wide(1) << wide(bits - 1), k + (k >> 2) + 4
    while bit != 0:
        tried = threshold | bit
        if len(entries) == 1:
            reaching = weft.sync_threads_count(entries[0] >= tried)
        else:
            reaching = weft.block.sum(sum(weft.i32(entry >= tried) for entry in entries))
        if reaching >= k:
            threshold = tried
        bit = weft.where((reaching >= k) & (reaching <= few), wide(0), bit >> 1)
    return max(threshold, wide(1))


@weft.jit
def _topk(
    x: weft.Tensor,
    values: weft.Tensor,
    indices: weft.Tensor,
    k: weft.i32,
    index_bits: weft.i32,
    config: weft.Constexpr[TopkConfig],
) -> None:
    rows, source, left = row_count(x.shape), None, weft.i64(x.shape[-1])
    for level in weft.static_range(config.levels):
        parts = weft.ceil_div(left, config.threads * config.items)
        target = (
            None if level == config.levels - 1 else weft.scratch((rows, parts * k), config.entry)
        )
        topk_kernel(
            x, source, target, values, indices, weft.i32(parts), k, index_bits, config
        ).launch(grid=rows * parts, block=config.threads)
        source, left = target, parts * k


def is_small_k(source: ArrayInfo, k: int) -> bool:
    """Whether this is faster than sorting the rows, and entries fit 64 bits.

    Ranking is O(k²), sorting O(n); the constants are measured on an H200.
    """
    columns = source.shape[-1]
    is_faster = _SHORTEST <= columns and k <= min(_MOST, columns // 4) and k * k <= 64 * columns
    return is_faster and source.dtype.bits + columns.bit_length() <= 64


def launch_topk(source: ArrayInfo, values: Array, indices: Array, k: int, largest: bool) -> None:
    """Launches the kernels that write the `k` largest or smallest elements of each row, and their indices."""
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
    entry = weft.u32 if source.dtype.bits + index_bits <= 32 else weft.u64
    config = TopkConfig(threads, items, min(source.width, items), levels, entry, largest)
    _topk(source.array, values, indices, k, index_bits, config)
