# SPDX-License-Identifier: Apache-2.0
"""Sorting long rows by eight bits at a time, from the lowest on: "onesweep" (Adinets and Merrill, 2022).

In: rows of keys, and what goes with them. Out: both in order. One launch counts the digits of all passes; each pass
then reads and writes every key once, since blocks learn from earlier ones where their keys of each digit belong.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, Int32
from weft.kernels.histograms import zero_kernel
from weft.kernels.rows import row_count, row_of
from weft.kernels.views import flat
from weft.language.memory.atomics import atomic_add, atomic_or
from weft.language.memory.ordered import atomic_load, atomic_store
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.numbers.math import ctz, popcount
from weft.language.threads.barrier import sync_threads, sync_warp
from weft.language.threads.grid import block_idx, grid_dim, thread_idx
from weft.language.threads.warp import lane_id, warp_id
from weft.primitives.block.scans import exclusive_scan
from weft.primitives.radix import UNSIGNED, code_of, key_of, last_code
from weft.types.dtype import i32, i64, u32, u64
from weft.types.launch_limits import WARP_SIZE

_DIGITS: Final = 256
_THREADS: Final = 256  # one for each digit
_WARPS: Final = _THREADS // WARP_SIZE


class Plan(NamedTuple):
    """How rows are sorted; constants.

    Attributes:
        digits: of each pass, the first bit and how many.
        descending: whether the largest comes first.
        is_wide: whether a row's counts need more than 30 bits.
    """

    digits: tuple[tuple[int, int], ...]
    descending: bool
    is_wide: bool


def digits_of(bits: int) -> tuple[tuple[int, int], ...]:
    """The passes for keys of so many bits; at least two, so that a row may be sorted in place."""
    size = 4 if bits == 8 else 8
    return tuple((first, size) for first in range(0, bits, size))


def items_of(bits: int) -> int:
    """Keys of a thread."""
    return 8 if bits == 64 else 16


def tile_of(bits: int) -> int:
    """Keys of a block."""
    return _THREADS * items_of(bits)


@jit
def sort_long(
    x: Array,
    values: Array | None,
    out: Array | None,
    moved: Array | None,
    tiles: Int32,
    blocks: Int32,
    plan: Constant,
) -> None:
    """Sorts rows.

    Args:
        x: the keys.
        values: what goes with them; None: their indices, if they are asked for.
        out: as many of each sorted row as it has, or None.
        moved: what went with them, or None.
        tiles: blocks of a row in each pass.
        blocks: that count the digits of a row.
        plan: see there.
    """
    rows, columns, passes = row_count(x.shape), x.shape[-1], len(plan.digits)
    wide, word = (i64, u64) if plan.is_wide else (i32, u32)
    counts = scratch((rows, passes, _DIGITS), wide)
    messages = scratch((passes, rows * tiles, _DIGITS), word)
    zero_kernel(flat(counts)).launch(over=counts.size)
    zero_kernel(flat(messages)).launch(over=messages.size)
    count_kernel(x, counts, plan).launch(grid=(rows, blocks), block=_THREADS)
    begin_kernel(counts).launch(grid=rows * passes, block=_DIGITS)
    code = UNSIGNED[x.dtype.itemsize * 8]
    keys = [scratch((rows, columns), code) for _ in range(min(passes - 1, 2))]
    others = [None, None]
    if moved is not None:
        kept = wide if values is None else values.dtype
        others = [scratch((rows, columns), kept) for _ in keys]
    source, with_keys = x, values
    for number, (shift, bits) in enumerate(plan.digits):
        is_last = number == passes - 1
        target = out if is_last else keys[number % 2]
        moved_to = moved if is_last else others[number % 2]
        pass_kernel(
            x, source, with_keys, target, moved_to, counts, messages[number], tiles, number,
            shift, bits, number == 0, is_last, plan,
        ).launch(grid=rows * tiles, block=_THREADS)  # fmt: skip
        source, with_keys = target, moved_to


@kernel
def count_kernel(x: Array, counts: Array, plan: Constant) -> None:
    """A block: how often each digit of each pass occurs in some of a row's keys."""
    passes = len(plan.digits)
    found = shared(passes * _DIGITS, i32)
    for i in range(thread_idx.x, passes * _DIGITS, _THREADS):
        found[i] = 0
    sync_threads()
    row = row_of(x, block_idx.x)
    first = i64(block_idx.y) * _THREADS + thread_idx.x
    for i in range(first, len(row), i64(grid_dim.y) * _THREADS):
        code = code_of(row[i], plan.descending)
        for number, (shift, bits) in enumerate(plan.digits):
            atomic_add(found, number * _DIGITS + _digit(code, shift, bits), 1)
    sync_threads()
    for number in range(passes):
        own = found[number * _DIGITS + thread_idx.x]
        if own > 0:
            atomic_add(counts, (block_idx.x, number, thread_idx.x), counts.dtype(own))


@kernel
def begin_kernel(counts: Array) -> None:
    """A block: the counts of a pass become where each digit's keys begin."""
    row, number = divmod(block_idx.x, counts.shape[1])
    own = counts[row, number, thread_idx.x]
    counts[row, number, thread_idx.x] = exclusive_scan(own)


def _digit(code: Any, shift: Any, bits: Any) -> Any:
    return i32((code >> code.dtype(shift)) & ((1 << bits) - 1))


@kernel(max_threads=_THREADS, min_blocks=3)
def pass_kernel(
    x: Array,
    source: Array,
    values: Array | None,
    target: Array | None,
    moved: Array | None,
    begins: Array,
    messages: Array,
    tiles: Int32,
    number: Int32,
    shift: Int32,
    bits: Constant,
    is_first: Constant,
    is_last: Constant,
    plan: Constant,
) -> None:
    """A block: a part of a row, whose keys move to where their digits belong.

    Args:
        x: the keys that are sorted, for their type.
        source: the keys of this pass: x itself, or codes.
        values: what goes with them; None: their indices, if `moved` is there.
        target: codes, or at last keys, as many of a row as it has; or None.
        moved: what goes with them, likewise.
        begins: where each digit's keys begin in their row.
        messages: of blocks to later ones: keys of each digit, and in the top bits 1, or 2 with those of all before.
        tiles: blocks of a row.
        number: of the pass.
        shift, bits: its digit: the first bit, and how many. All passes but the first and the last are one kernel.
        is_first, is_last: of the passes.
        plan: see there.
    """
    row, tile = divmod(block_idx.x, tiles)
    dtype = x.dtype
    count, n = items_of(dtype.itemsize * 8), i64(x.shape[-1])
    first = i64(tile) * (count * _THREADS)
    present = i32(min(n - first, i64(count * _THREADS)))
    lane, warp, thread = lane_id(), warp_id(), thread_idx.x
    dealt = [warp * (WARP_SIZE * count) + k * WARP_SIZE + lane for k in range(count)]
    own = row_of(source, row)[first:]
    codes = [_code(own, i, present, dtype, is_first, plan.descending) for i in dealt]
    digits = [_digit(code, shift, bits) for code in codes]
    counts, masks = shared((_WARPS, _DIGITS), i32), shared((_WARPS, _DIGITS), u32)
    ranks, total = _counted(counts, masks, digits)
    begin = exclusive_scan(total)
    starts, offsets = shared(_DIGITS, i32), shared(_DIGITS, begins.dtype)
    starts[thread] = begin
    before = _before(messages, block_idx.x, tile, thread, total)
    offsets[thread] = begins[row, number, thread] + before - begin
    sync_threads()
    places = [
        starts[one] + counts[warp, one] + rank for one, rank in zip(digits, ranks, strict=True)
    ]
    sorted_places = [k * _THREADS + thread for k in range(count)]
    codes = _exchanged(codes, places, sorted_places)
    goals = [
        offsets[_digit(code, shift, bits)] + p for code, p in zip(codes, sorted_places, strict=True)
    ]
    if target is not None:
        goal = row_of(target, row)
        made = [key_of(c, dtype, plan.descending) if is_last else goal.dtype(c) for c in codes]
        _put(goal, made, goals, sorted_places, present)
    if moved is not None:
        goal = row_of(moved, row)
        if values is None:
            with_keys = [begins.dtype(first + i) for i in dealt]
        else:
            beside = row_of(values, row)[first:]
            with_keys = [beside[i] if i < present else beside.dtype(0) for i in dealt]
        _put(goal, _exchanged(with_keys, places, sorted_places), goals, sorted_places, present)


def _exchanged(items: Any, places: Any, sorted_places: Any) -> Any:
    """The block's items after each has moved to its place."""
    on = shared(len(items) * _THREADS, items[0].dtype)
    for item, place in zip(items, places, strict=True):
        on[place] = item
    sync_threads()
    return [on[place] for place in sorted_places]


def _counted(counts: Any, masks: Any, digits: Any) -> Any:
    """Ranks within a warp; then `counts` is what the warps before each have, and this thread's digit's total."""
    thread = thread_idx.x
    for w in range(_WARPS):
        counts[w, thread] = 0
        masks[w, thread] = 0
    sync_threads()
    ranks = _ranks(digits, counts, masks)
    sync_threads()
    total = 0
    for w in range(_WARPS):
        here = counts[w, thread]
        counts[w, thread] = total
        total += here
    return ranks, total


def _code(own: Any, i: Any, present: Any, dtype: Any, is_first: Any, descending: Any) -> Any:
    """The code of a key; beyond the end the one that comes last."""
    code = last_code(dtype)
    if i < present:
        code = code_of(own[i], descending) if is_first else code.dtype(own[i])
    return code


def _ranks(digits: Any, counts: Any, masks: Any) -> Any:
    """How many of the warp's keys with the same digit are before each; adds the warp's keys to its counts.

    Lanes with the same digit find each other by setting their bits in one word of `masks`, which are zero before and
    after: one atomic operation where votes take one for each bit of the digit.
    """
    warp, lane = warp_id(), lane_id()
    own = u32(1) << lane
    ranks: Any = []
    for digit in digits:
        atomic_or(masks, (warp, digit), own, scope="block")
        sync_warp()
        same, before = masks[warp, digit], counts[warp, digit]
        sync_warp()
        if lane == i32(ctz(same)):
            counts[warp, digit] = before + i32(popcount(same))
            masks[warp, digit] = 0
        sync_warp()
        ranks.append(before + i32(popcount(same & (own - 1))))
    return ranks


def _before(messages: Any, block: Any, tile: Any, digit: Any, total: Any) -> Any:
    """How many keys of a digit the row's earlier blocks have."""
    word = messages.dtype
    top = word.bits - 2
    mask, wide = word((1 << top) - 1), i64 if word.bits == 64 else i32
    alone, whole = word(1 << top), word(2 << top)
    before = word(0)
    if tile > 0:
        atomic_store(messages, (block, digit), word(total) | alone)
        at, is_whole = block - 1, False
        while not is_whole:
            message = atomic_load(messages, (at, digit))
            if message != 0:
                before += message & mask
                is_whole = message >= whole
                at -= 1
    atomic_store(messages, (block, digit), (before + word(total)) | whole)
    return wide(before)


def _put(row: Any, items: Any, goals: Any, places: Any, present: Any) -> None:
    """Writes items to where they belong, those that there are and that the row has room for."""
    for value, goal, place in zip(items, goals, places, strict=True):
        if (place < present) & (goal < len(row)):
            row[goal] = row.dtype(value)
