# SPDX-License-Identifier: Apache-2.0
"""LSD radix sort of long rows, eight bits per pass: "Onesweep" (Adinets and Merrill, 2022).

In: rows of keys and values. Out: both sorted. One launch counts the digits of all passes; each pass then reads and
writes every key once, since blocks learn by decoupled look-back where their keys of each digit belong.

A block publishes its counts of the pass's digits first, since later blocks wait for them. Then each warp ranks its keys
among those of their digit and moves them to their places in shared memory, while the counts of earlier blocks are in
flight: a thread per digit issues several loads at once, since one after the other their latency would bound the pass.
Finally keys of one digit, adjacent now, are written by coalesced stores.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.algorithms.histogram import zero_kernel
from weft.kernels.annotations import Bool, ElementType, Int, Number
from weft.kernels.device.row import elements, row_count, row_of
from weft.kernels.host.arrays import ArrayInfo
from weft.primitives.sorting import UNSIGNED, code_of, key_of, last_code, rank_of

_DIGITS: Final = 256
_COUNT_THREADS: Final = 256  # threads of `count_kernel`
_LOOKBACK: Final = 4  # loads of earlier blocks' counts in flight
_MATCH_BITS: Final = (
    4  # bits of a key at a time, as its lanes are compared; with 8, ptxas runs out of predicates
)
_FULL_GRID: Final = 264  # tiles that fill a GPU: two on each multiprocessor

# Threads of a block and keys of a thread, by the bytes of a key or a value, whichever is larger. Three blocks of 256
# threads or two of 384 fit the 64 K registers of a multiprocessor without spilling.
_ALONE: Final = {1: (256, 32), 2: (256, 32), 4: (256, 32), 8: (256, 18)}
_WITH_VALUES: Final = {1: (384, 16), 2: (384, 16), 4: (384, 16), 8: (384, 12)}
_SMALL_TILE: Final = 256, 16  # for few or short rows


class RadixSortConfig(NamedTuple):
    """Launch configuration of a radix sort; constants.

    Attributes:
        digits: first bit and number of bits of each pass.
        threads: of a block of a pass, at least one for each digit.
        items: keys of each of them.
        width: keys per load of `count_kernel`.
        descending: whether the largest comes first.
        is_wide: whether counts need more than 30 bits.
    """

    digits: tuple[tuple[int, int], ...]
    threads: int
    items: int
    width: int
    descending: bool
    is_wide: bool


def sort_config(source: ArrayInfo, moved_bytes: int, descending: bool) -> RadixSortConfig:
    """The configuration for these rows; `moved_bytes` is the size of a value, 0 without values."""
    size, columns = source.dtype.itemsize, source.shape[-1]
    threads, items = (_WITH_VALUES if moved_bytes else _ALONE)[max(size, moved_bytes)]
    tile, small = threads * items, _SMALL_TILE[0] * _SMALL_TILE[1]
    tiles, of_small = -(-columns // tile), -(-columns // small)
    # Small tiles cost less than tiles that are not full.
    if source.rows * tiles < _FULL_GRID or 4 * tiles * tile > 5 * of_small * small:
        threads, items = _SMALL_TILE
    # At least two passes, so that a row may be sorted in place.
    step = 4 if size == 1 else 8
    digits = tuple((first, step) for first in range(0, 8 * size, step))
    return RadixSortConfig(digits, threads, items, source.width, descending, columns >= 1 << 30)


@weft.kernel
def count_kernel(
    x: weft.Tensor, counts: weft.Tensor, config: weft.Constexpr[RadixSortConfig]
) -> None:
    """A block counts the digits of all passes in a share of a row's keys."""
    passes, width = len(config.digits), config.width
    found = weft.shared(passes * _DIGITS, weft.i32)
    for i in range(weft.thread_idx.x, passes * _DIGITS, _COUNT_THREADS):
        found[i] = 0
    weft.sync_threads()
    row = row_of(x, weft.block_idx.x, width)
    first = (weft.i64(weft.block_idx.y) * _COUNT_THREADS + weft.thread_idx.x) * width
    for i in range(first, len(row), weft.i64(weft.grid_dim.y) * (_COUNT_THREADS * width)):
        for key in elements(row, i, width):
            code = rank_of(code_of(key, config.descending), x.dtype, config.descending)
            for number, (shift, bits) in enumerate(config.digits):
                weft.atomic_add(found, number * _DIGITS + _digit(code, shift, bits), 1)
    weft.sync_threads()
    for number in range(passes):
        own = found[number * _DIGITS + weft.thread_idx.x]
        if own > 0:
            weft.atomic_add(
                counts, (weft.block_idx.x, number, weft.thread_idx.x), counts.dtype(own)
            )


@weft.kernel
def digit_offsets_kernel(counts: weft.Tensor) -> None:
    """A block scans the counts of a pass: the index of each digit's first key."""
    row, number = divmod(weft.block_idx.x, counts.shape[1])
    own = counts[row, number, weft.thread_idx.x]
    counts[row, number, weft.thread_idx.x] = weft.block.exclusive_scan(own)


@weft.device
def _digit(code: Number, shift: Int, bits: Int) -> Int:
    shift = code.dtype(shift) & (code.dtype.bits - 1)  # says that the code has this bit
    return weft.i32((code >> shift) & ((1 << bits) - 1))


def _scatter_keys(
    x: weft.Tensor,
    source: weft.Tensor,
    values: weft.Tensor | None,
    target: weft.Tensor | None,
    moved: weft.Tensor | None,
    begins: weft.Tensor,
    status: weft.Tensor,
    tiles: weft.i32,
    number: weft.i32,
    shift: weft.i32,
    bits: weft.Constexpr[int],
    is_first: weft.Constexpr[bool],
    is_last: weft.Constexpr[bool],
    config: weft.Constexpr[RadixSortConfig],
) -> None:
    """A block scatters the keys of a tile by a digit.

    Args:
        x: the keys that are sorted, for their type.
        source: the keys of this pass: x itself, or codes.
        values: of the keys; None: their indices, if `moved` is there.
        target, moved: the scattered codes (keys in the last pass) and values, as many of a row as they have; or None.
        begins: the index of each digit's first key in its row.
        status: look-back state: a block's count of each digit, and in the top bits 1, or 2 with all earlier counts.
        tiles: blocks of a row.
        number: of the pass.
        shift, bits: first bit and number of bits of the digit; all passes but the first and the last share a kernel.
        is_first, is_last: whether this is the first, the last pass.
        config: the launch configuration.
    """
    row, tile = divmod(weft.block_idx.x, tiles)
    dtype, wide = x.dtype, begins.dtype
    threads, count, thread = config.threads, config.items, weft.thread_idx.x
    first = weft.i64(tile) * (count * threads)
    present = weft.i32(min(weft.i64(x.shape[-1]) - first, weft.i64(count * threads)))
    begin = begins[row, number, thread] if thread < _DIGITS else wide(0)
    slots = [
        weft.warp_id() * (weft.WARP_SIZE * count) + k * weft.WARP_SIZE + weft.lane_id()
        for k in range(count)
    ]
    own = row_of(source, row)[first:]
    codes = [_code(own, i, present, dtype, is_first, config.descending) for i in slots]
    ranks = [rank_of(code, dtype, config.descending) for code in codes]
    counts, offsets = (
        weft.shared((threads // weft.WARP_SIZE, _DIGITS), weft.i32),
        weft.shared(_DIGITS, wide),
    )
    _count(counts, [_digit(rank, shift, bits) for rank in ranks])
    total, before = _publish_counts(counts, status, weft.block_idx.x, tile)
    keys, with_keys, places = weft.shared(count * threads, codes[0].dtype), None, ()
    for code, rank in zip(codes, ranks, strict=True):
        place = _rank(counts, rank, shift, bits)
        keys[place] = code
        places = (*places, place)
    if moved is not None:
        own = [wide(first + i) for i in slots]
        if values is not None:
            beside = row_of(values, row)[first:]
            own = [beside[i] if i < present else beside.dtype(0) for i in slots]
        with_keys = weft.shared(count * threads, own[0].dtype)
        for item, place in zip(own, places, strict=True):
            with_keys[place] = item
    if thread < _DIGITS:
        offsets[thread] = begin - before + _look_back(status, weft.block_idx.x, tile, total)
    weft.sync_threads()
    for k in range(count):
        place = k * threads + thread
        code = keys[place]
        target_index = offsets[_digit(rank_of(code, dtype, config.descending), shift, bits)] + place
        if place < present:
            if target is not None:
                key = key_of(code, dtype, config.descending) if is_last else code
                _store(row_of(target, row), target_index, key)
            if with_keys is not None:
                _store(row_of(moved, row), target_index, with_keys[place])


keys_kernel = weft.kernel(max_threads=256, min_blocks=3)(_scatter_keys)
pairs_kernel = weft.kernel(max_threads=384, min_blocks=2)(_scatter_keys)


@weft.device
def _code(
    own: weft.Tensor, i: Int, present: Bool, dtype: ElementType, is_first: Bool, descending: Bool
) -> Any:
    """The code of a key; the largest beyond the end."""
    code = last_code(dtype)
    if i < present:
        code = code_of(own[i], descending) if is_first else code.dtype(own[i])
    return code


@weft.device
def _count(counts: weft.Tensor, digits: Any) -> None:
    """Counts each warp's keys by digit."""
    warp = weft.warp_id()
    for k in weft.static_range(_DIGITS // weft.WARP_SIZE):
        counts[warp, k * weft.WARP_SIZE + weft.lane_id()] = 0
    weft.sync_warp()
    for digit in digits:
        weft.atomic_add(counts, (warp, digit), 1, scope="block")
    weft.sync_threads()


@weft.device
def _publish_counts(counts: weft.Tensor, status: weft.Tensor, block: Int, tile: Int) -> Any:
    """Publishes the block's count of a thread's digit; returns it and the number of keys of smaller digits.

    Each warp's counts become the index in the block of its first key of a digit.
    """
    thread, word, warps = weft.thread_idx.x, status.dtype, counts.shape[0]
    total, starts = weft.i32(0), [weft.i32(0)] * warps
    if thread < _DIGITS:
        for warp in weft.static_range(warps):
            starts[warp] = total
            total += counts[warp, thread]
        kind = 1 if tile > 0 else 2
        weft.atomic_store(status, (block, thread), word(total) | (word(kind) << (word.bits - 2)))
    before = weft.block.exclusive_scan(total)
    if thread < _DIGITS:
        for warp in weft.static_range(warps):
            counts[warp, thread] = before + starts[warp]
    weft.sync_threads()
    return total, before


@weft.device
def _rank(counts: weft.Tensor, code: Number, shift: Int, bits: Int) -> Any:
    """A key's index in the sorted block; each call ranks one key of each lane, in the order of the calls."""
    lane, warp, digit = weft.lane_id(), weft.warp_id(), _digit(code, shift, bits)
    others = weft.u32(
        0
    )  # lanes with another digit; in this form one instruction tests several bits
    for first in weft.static_range(0, bits, _MATCH_BITS):
        part = _digit(code, shift + first, _MATCH_BITS)
        for bit in weft.static_range(_MATCH_BITS):
            is_clear = part & (1 << bit) == 0
            votes = weft.ballot(is_clear)
            others |= ~votes if is_clear else votes
    same = ~others
    upto = weft.i32(weft.math.popcount(same & (weft.u32(0xFFFFFFFF) >> weft.u32(31 - lane))))
    start = counts[warp, digit]
    weft.sync_warp()
    if lane == 31 - weft.i32(weft.math.clz(same)):
        counts[warp, digit] = start + upto
    weft.sync_warp()
    return start + upto - 1


@weft.device
def _look_back(status: weft.Tensor, block: Int, tile: Int, total: Number) -> Any:
    """Looks back for the number of keys of a thread's digit in earlier blocks of the row, and publishes the sum."""
    word, digit = status.dtype, weft.thread_idx.x
    top = word.bits - 2
    mask, whole, wide = (
        word((1 << top) - 1),
        word(2 << top),
        weft.i64 if word.bits == 64 else weft.i32,
    )
    before, at, is_whole = word(0), block - 1, tile == 0
    while not is_whole:
        # All loads are in flight before the first result is tested; the first block's count is complete.
        asked = [
            weft.atomic_load(status, (max(at - k, block - tile), digit))
            for k in weft.static_range(_LOOKBACK)
        ]
        is_there = True
        for message in asked:
            is_there = is_there and message != 0
            if is_there and not is_whole:
                before += message & mask
                is_whole = message >= whole
                at -= 1
    if tile > 0:
        weft.atomic_store(status, (block, digit), (before + word(total)) | whole)
    return wide(before)


@weft.device
def _store(row: weft.Tensor, target_index: Any, value: Number) -> None:
    """Stores a key or value at its index, if the row is that long."""
    if target_index < len(row):
        row[target_index] = row.dtype(value)


@weft.jit
def sort_long(
    x: weft.Tensor,
    values: weft.Tensor | None,
    out: weft.Tensor | None,
    moved: weft.Tensor | None,
    blocks: weft.i32,
    config: weft.Constexpr[RadixSortConfig],
) -> None:
    """Sorts rows.

    Args:
        x: the keys.
        values: of the keys; None: their indices, if `moved` is there.
        out: as many of each sorted row as it has columns, or None.
        moved: the sorted values, or None.
        blocks: of `count_kernel` for each row.
        config: the launch configuration.
    """
    rows, columns, passes = row_count(x.shape), x.shape[-1], len(config.digits)
    wide, word = (weft.i64, weft.u64) if config.is_wide else (weft.i32, weft.u32)
    tiles = weft.i32(weft.ceil_div(columns, config.threads * config.items))
    counts = weft.scratch((rows, passes, _DIGITS), wide)
    status = weft.scratch((passes, rows * tiles, _DIGITS), word)
    zero_kernel(counts.reshape(counts.size)).launch(over=counts.size)
    zero_kernel(status.reshape(status.size)).launch(over=status.size)
    count_kernel(x, counts, config).launch(grid=(rows, blocks), block=_COUNT_THREADS)
    digit_offsets_kernel(counts).launch(grid=rows * passes, block=_DIGITS)
    code = UNSIGNED[x.dtype.itemsize * 8]
    keys = [weft.scratch((rows, columns), code) for _ in range(min(passes - 1, 2))]
    others = [None, None]
    if moved is not None:
        kept = wide if values is None else values.dtype
        others = [weft.scratch((rows, columns), kept) for _ in keys]
    source, with_keys = x, values
    pass_kernel = keys_kernel if config.threads == _ALONE[4][0] else pairs_kernel
    for number, (shift, bits) in enumerate(config.digits):
        is_last = number == passes - 1
        target = out if is_last else keys[number % 2]
        moved_to = moved if is_last else others[number % 2]
        pass_kernel(
            x, source, with_keys, target, moved_to, counts, status[number], tiles, number,
            shift, bits, number == 0, is_last, config,
        ).launch(grid=rows * tiles, block=config.threads)  # fmt: skip
        source, with_keys = target, moved_to
