# SPDX-License-Identifier: Apache-2.0
"""Sorting long rows by eight bits at a time, from the lowest on: "onesweep" (Adinets and Merrill, 2022).

In: rows of keys, and what goes with them. Out: both in order. One launch counts the digits of all passes; each pass
then reads and writes every key once, since blocks learn from earlier ones where their keys of each digit belong.

A block of a pass counts its keys' digits and publishes the counts before anything else, since later blocks wait for
them. Then each warp ranks its keys among those of their digit and puts them where they belong in the block, while the
messages of earlier blocks are on their way: a thread per digit asks for several at once, as one after the other their
latency would decide how long a pass takes. At last keys of one digit, neighbors now, are written side by side.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.kernels.algorithms.histogram import zero_kernel
from weft.kernels.device.row import elements, row_count, row_of
from weft.kernels.device.views import flat
from weft.kernels.host.arrays import Array, Constant, Given, Int32
from weft.language.control import ceil_div, static_range
from weft.language.memory.atomics import atomic_add
from weft.language.memory.ordered import atomic_load, atomic_store
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.numbers.math import clz, popcount
from weft.language.threads.barrier import sync_threads, sync_warp
from weft.language.threads.grid import block_idx, grid_dim, thread_idx
from weft.language.threads.warp import ballot, lane_id, warp_id
from weft.primitives.block.scans import exclusive_scan
from weft.primitives.radix import UNSIGNED, code_of, key_of, last_code, rank_of
from weft.types.dtype import i32, i64, u32, u64
from weft.types.launch_limits import WARP_SIZE

_DIGITS: Final = 256
_COUNTING: Final = 256  # threads of a block that counts digits
_AHEAD: Final = 4  # messages of earlier blocks that are asked for at once
_TESTED: Final = (
    4  # bits of a key at a time, as its lanes are compared; with 8, ptxas runs out of predicates
)
_FEW: Final = 264  # tiles that keep a GPU's multiprocessors busy, two on each

# Threads of a block of a pass, and keys of each, by the bytes of a key or of what goes with it, whichever has more. Of
# 256 threads three blocks, of 384 two fit a multiprocessor of 64 K registers without spilling.
_ALONE: Final = {1: (256, 32), 2: (256, 32), 4: (256, 32), 8: (256, 18)}
_WITH_VALUES: Final = {1: (384, 16), 2: (384, 16), 4: (384, 16), 8: (384, 12)}
_SMALL_TILE: Final = 256, 16  # of few or short rows


class Plan(NamedTuple):
    """How rows are sorted; constants.

    Attributes:
        digits: of each pass, the first bit and how many.
        threads: of a block of a pass, at least one for each digit.
        items: keys of each of them.
        width: neighbors that are read at once where digits are counted.
        descending: whether the largest comes first.
        is_wide: whether a row's counts need more than 30 bits.
    """

    digits: tuple[tuple[int, int], ...]
    threads: int
    items: int
    width: int
    descending: bool
    is_wide: bool


def plan_of(source: Given, moved_bytes: int, descending: bool) -> Plan:
    """How these rows are sorted; `moved_bytes` is the size of what goes with a key, 0 for nothing."""
    size, columns = source.dtype.itemsize, source.shape[-1]
    threads, items = (_WITH_VALUES if moved_bytes else _ALONE)[max(size, moved_bytes)]
    tile, small = threads * items, _SMALL_TILE[0] * _SMALL_TILE[1]
    tiles, of_small = -(-columns // tile), -(-columns // small)
    # Rows that do not fill their tiles lose more by that than by small ones.
    if source.rows * tiles < _FEW or 4 * tiles * tile > 5 * of_small * small:
        threads, items = _SMALL_TILE
    # At least two passes, so that a row may be sorted in place.
    step = 4 if size == 1 else 8
    digits = tuple((first, step) for first in range(0, 8 * size, step))
    return Plan(digits, threads, items, source.width, descending, columns >= 1 << 30)


@jit
def sort_long(
    x: Array,
    values: Array | None,
    out: Array | None,
    moved: Array | None,
    blocks: Int32,
    plan: Constant,
) -> None:
    """Sorts rows.

    Args:
        x: the keys.
        values: what goes with them; None: their indices, if they are asked for.
        out: as many of each sorted row as it has, or None.
        moved: what went with them, or None.
        blocks: that count the digits of a row.
        plan: see there.
    """
    rows, columns, passes = row_count(x.shape), x.shape[-1], len(plan.digits)
    wide, word = (i64, u64) if plan.is_wide else (i32, u32)
    tiles = i32(ceil_div(columns, plan.threads * plan.items))
    counts = scratch((rows, passes, _DIGITS), wide)
    messages = scratch((passes, rows * tiles, _DIGITS), word)
    zero_kernel(flat(counts)).launch(over=counts.size)
    zero_kernel(flat(messages)).launch(over=messages.size)
    count_kernel(x, counts, plan).launch(grid=(rows, blocks), block=_COUNTING)
    begin_kernel(counts).launch(grid=rows * passes, block=_DIGITS)
    code = UNSIGNED[x.dtype.itemsize * 8]
    keys = [scratch((rows, columns), code) for _ in range(min(passes - 1, 2))]
    others = [None, None]
    if moved is not None:
        kept = wide if values is None else values.dtype
        others = [scratch((rows, columns), kept) for _ in keys]
    source, with_keys = x, values
    pass_kernel = keys_kernel if plan.threads == _ALONE[4][0] else pairs_kernel
    for number, (shift, bits) in enumerate(plan.digits):
        is_last = number == passes - 1
        target = out if is_last else keys[number % 2]
        moved_to = moved if is_last else others[number % 2]
        pass_kernel(
            x, source, with_keys, target, moved_to, counts, messages[number], tiles, number,
            shift, bits, number == 0, is_last, plan,
        ).launch(grid=rows * tiles, block=plan.threads)  # fmt: skip
        source, with_keys = target, moved_to


@kernel
def count_kernel(x: Array, counts: Array, plan: Constant) -> None:
    """A block: how often each digit of each pass occurs in some of a row's keys."""
    passes, width = len(plan.digits), plan.width
    found = shared(passes * _DIGITS, i32)
    for i in range(thread_idx.x, passes * _DIGITS, _COUNTING):
        found[i] = 0
    sync_threads()
    row = row_of(x, block_idx.x, width)
    first = (i64(block_idx.y) * _COUNTING + thread_idx.x) * width
    for i in range(first, len(row), i64(grid_dim.y) * (_COUNTING * width)):
        for key in elements(row, i, width):
            code = rank_of(code_of(key, plan.descending), x.dtype, plan.descending)
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
    shift = code.dtype(shift) & (code.dtype.bits - 1)  # says that the code has this bit
    return i32((code >> shift) & ((1 << bits) - 1))


def move_keys(
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
        target, moved: codes, or at last keys, and what goes with them, as many of a row as they have; or None.
        begins: where each digit's keys begin in their row.
        messages: of blocks to later ones: keys of each digit, and in the top bits 1, or 2 with those of all before.
        tiles: blocks of a row.
        number: of the pass.
        shift, bits: its digit: the first bit, and how many. All passes but the first and the last are one kernel.
        is_first, is_last: of the passes.
        plan: see there.
    """
    row, tile = divmod(block_idx.x, tiles)
    dtype, wide = x.dtype, begins.dtype
    threads, count, thread = plan.threads, plan.items, thread_idx.x
    first = i64(tile) * (count * threads)
    present = i32(min(i64(x.shape[-1]) - first, i64(count * threads)))
    begin = begins[row, number, thread] if thread < _DIGITS else wide(0)
    dealt = [warp_id() * (WARP_SIZE * count) + k * WARP_SIZE + lane_id() for k in range(count)]
    own = row_of(source, row)[first:]
    codes = [_code(own, i, present, dtype, is_first, plan.descending) for i in dealt]
    ranks = [rank_of(code, dtype, plan.descending) for code in codes]
    counts, offsets = shared((threads // WARP_SIZE, _DIGITS), i32), shared(_DIGITS, wide)
    _count(counts, [_digit(rank, shift, bits) for rank in ranks])
    total, before = _published(counts, messages, block_idx.x, tile)
    keys, with_keys, places = shared(count * threads, codes[0].dtype), None, ()
    for code, rank in zip(codes, ranks, strict=True):
        place = _place(counts, rank, shift, bits)
        keys[place] = code
        places = (*places, place)
    if moved is not None:
        own = [wide(first + i) for i in dealt]
        if values is not None:
            beside = row_of(values, row)[first:]
            own = [beside[i] if i < present else beside.dtype(0) for i in dealt]
        with_keys = shared(count * threads, own[0].dtype)
        for item, place in zip(own, places, strict=True):
            with_keys[place] = item
    if thread < _DIGITS:
        offsets[thread] = begin - before + _earlier(messages, block_idx.x, tile, total)
    sync_threads()
    for k in range(count):
        place = k * threads + thread
        code = keys[place]
        goal = offsets[_digit(rank_of(code, dtype, plan.descending), shift, bits)] + place
        if place < present:
            if target is not None:
                key = key_of(code, dtype, plan.descending) if is_last else code
                _put(row_of(target, row), goal, key)
            if with_keys is not None:
                _put(row_of(moved, row), goal, with_keys[place])


keys_kernel = kernel(max_threads=256, min_blocks=3)(move_keys)
pairs_kernel = kernel(max_threads=384, min_blocks=2)(move_keys)


def _code(own: Any, i: Any, present: Any, dtype: Any, is_first: Any, descending: Any) -> Any:
    """The code of a key; beyond the end the one that comes last."""
    code = last_code(dtype)
    if i < present:
        code = code_of(own[i], descending) if is_first else code.dtype(own[i])
    return code


def _count(counts: Any, digits: Any) -> None:
    """How many keys of each digit each warp has."""
    warp = warp_id()
    for k in static_range(_DIGITS // WARP_SIZE):
        counts[warp, k * WARP_SIZE + lane_id()] = 0
    sync_warp()
    for digit in digits:
        atomic_add(counts, (warp, digit), 1, scope="block")
    sync_threads()


def _published(counts: Any, messages: Any, block: Any, tile: Any) -> Any:
    """A digit's keys in the block, which later blocks hear of, and those before them; for each of the first threads.

    Each warp's counts become where in the block its keys of a digit begin.
    """
    thread, word, warps = thread_idx.x, messages.dtype, counts.shape[0]
    total, starts = i32(0), [i32(0)] * warps
    if thread < _DIGITS:
        for warp in static_range(warps):
            starts[warp] = total
            total += counts[warp, thread]
        kind = 1 if tile > 0 else 2
        atomic_store(messages, (block, thread), word(total) | (word(kind) << (word.bits - 2)))
    before = exclusive_scan(total)
    if thread < _DIGITS:
        for warp in static_range(warps):
            counts[warp, thread] = before + starts[warp]
    sync_threads()
    return total, before


def _place(counts: Any, code: Any, shift: Any, bits: Any) -> Any:
    """Where in the block a key belongs; those of its warp come one for each lane, in the order of the calls."""
    lane, warp, digit = lane_id(), warp_id(), _digit(code, shift, bits)
    others = u32(0)  # lanes with another digit; so computed, an instruction tests several bits
    for first in static_range(0, bits, _TESTED):
        part = _digit(code, shift + first, _TESTED)
        for bit in static_range(_TESTED):
            is_clear = part & (1 << bit) == 0
            votes = ballot(is_clear)
            others |= ~votes if is_clear else votes
    same = ~others
    upto = i32(popcount(same & (u32(0xFFFFFFFF) >> u32(31 - lane))))
    start = counts[warp, digit]
    sync_warp()
    if lane == 31 - i32(clz(same)):
        counts[warp, digit] = start + upto
    sync_warp()
    return start + upto - 1


def _earlier(messages: Any, block: Any, tile: Any, total: Any) -> Any:
    """How many keys of a thread's digit the row's earlier blocks have; tells later blocks."""
    word, digit = messages.dtype, thread_idx.x
    top = word.bits - 2
    mask, whole, wide = word((1 << top) - 1), word(2 << top), i64 if word.bits == 64 else i32
    before, at, is_whole = word(0), block - 1, tile == 0
    while not is_whole:
        # All are on their way before the first one is looked at; the row's first one counts itself alone.
        asked = [
            atomic_load(messages, (max(at - k, block - tile), digit)) for k in static_range(_AHEAD)
        ]
        is_there = True
        for message in asked:
            is_there = is_there and message != 0
            if is_there and not is_whole:
                before += message & mask
                is_whole = message >= whole
                at -= 1
    if tile > 0:
        atomic_store(messages, (block, digit), (before + word(total)) | whole)
    return wide(before)


def _put(row: Any, goal: Any, value: Any) -> None:
    """Writes an item where it belongs, if the row has room for it."""
    if goal < len(row):
        row[goal] = row.dtype(value)
