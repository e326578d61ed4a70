# SPDX-License-Identifier: Apache-2.0
"""Sorting within a block: ``weft.block.radix_sort``.

Written in weft's language. In: keys, and values that go with them. Out: both in order, thread by thread. Each round
sorts by four bits: warps count and rank their digits by votes, the counts are scanned, and the items change places.
"""

from __future__ import annotations

from typing import Any, Final

from weft.language.control import select, static_assert
from weft.language.functions import device_function
from weft.language.memory.shared import shared
from weft.language.numbers.convert import bitcast
from weft.language.numbers.math import ctz, popcount
from weft.language.threads.barrier import sync_threads, sync_warp
from weft.language.threads.warp import ballot, lane_id, warp_id
from weft.primitives.block import items as lists
from weft.primitives.block import scans
from weft.primitives.block.exchanges import blocked, slot
from weft.primitives.threads import block_threads, first_of_warp, last_lane, thread_rank
from weft.primitives.values import is_repeated, put, take, thread_board
from weft.primitives.warp.scans import ADD
from weft.types.dtype import i32, u8, u16, u32, u64
from weft.types.launch_limits import WARP_SIZE

_BITS: Final = 4
_DIGITS: Final = 1 << _BITS
_MOST_WARPS: Final = WARP_SIZE
UNSIGNED: Final = {8: u8, 16: u16, 32: u32, 64: u64}


@device_function("block.radix_sort")
def radix_sort(
    keys: Any, values: Any = None, descending: Any = False, count: Any = None, bits: Any = None
) -> Any:
    """The block's keys in order: the first thread gets the first ones, the second thread the next.

    Equal keys keep their order. NaN comes last, in either direction, as one NaN; −0.0 is before 0.0. A round per four
    bits of the keys, each with five barriers.

    Args:
        keys: a number of any type; or a list of several, which follow each other thread by thread.
        values: None, or what goes with each key: a number, a tuple or frozen dataclass of numbers, or a list of them.
        descending: whether the largest comes first; known at compile time.
        count: how many keys there are in the block, from the first one on, the same for all threads; what follows
            them in the result is undefined. None: all.
        bits: None, or a pair: the first and the end of the bits to sort by, known at compile time; of an unsigned
            integer, they are its own.

    Returns:
        The keys, as they were given; with values ``(keys, values)``.

    Raises:
        TypeMismatchError: for a key or a value that is not a number.
        CompileError: for lists of different lengths, or bits that the keys do not have.

    Example:
        ``x, place = weft.block.radix_sort(x, tid)``
    """
    is_single, name = not lists.is_list(keys), "block.radix_sort"
    given = lists.counted([keys] if is_single else keys, name)
    dtype = given[0].dtype
    first, end = (0, dtype.bits) if bits is None else bits
    static_assert(0 <= first < end <= dtype.bits, "radix_sort: the keys do not have these bits")
    codes = [code_of(key, descending) for key in given]
    if count is not None:
        beyond = last_code(dtype)
        places = blocked(len(codes))
        codes = [select(at < count, one, beyond) for at, one in zip(places, codes, strict=True)]
    if values is None:
        codes = [one for (one,) in _sorted([(one,) for one in codes], first, end)]
        found = [key_of(one, dtype, descending) for one in codes]
        return found[0] if is_single else found
    with_keys = lists.counted([values] if is_single else values, name)
    static_assert(len(with_keys) == len(codes), "radix_sort: each key needs a value")
    pairs = _sorted([*zip(codes, with_keys, strict=True)], first, end)
    found = [key_of(code, dtype, descending) for code, _ in pairs]
    moved = [value for _, value in pairs]
    return (found[0], moved[0]) if is_single else (found, moved)


def _sorted(items: Any, first: Any, end: Any) -> Any:
    """Blocked records in the order of their first numbers, blocked again."""
    count = len(items)
    on = thread_board(items[0], count)
    own, dealt = blocked(count), _dealt(count)
    for item, place in zip(items, own, strict=True):
        put(on, slot(place, count), item)
    sync_threads()
    items = [take(on, slot(place, count)) for place in dealt]
    for shift in range(first, end, _BITS):
        mask = _DIGITS - 1 if (end - first) % _BITS == 0 else (1 << min(_BITS, end - shift)) - 1
        places = _places([i32(item[0] >> shift) & mask for item in items])
        for item, place in zip(items, places, strict=True):
            put(on, place, item)
        sync_threads()
        items = [take(on, place) for place in dealt]
    sync_threads()
    for item, place in zip(items, dealt, strict=True):
        put(on, slot(place, count), item)
    sync_threads()
    items = [take(on, slot(place, count)) for place in own]
    if is_repeated():
        sync_threads()
    return items


def _dealt(count: Any) -> Any:
    """The places of a thread's items where each warp's are dealt to its lanes one by one."""
    first, lane, lanes = first_of_warp() * count, lane_id(), last_lane() + 1
    return [first + k * lanes + lane for k in range(count)]


def _places(digits: Any) -> Any:
    """Where items with these digits belong, in the order of the digits, dealt items of one digit in theirs."""
    lane, warp, warps = lane_id(), warp_id(), (block_threads() + WARP_SIZE - 1) >> 5
    lanes, present = last_lane() + 1, ballot(True)
    counts = shared(_DIGITS * _MOST_WARPS, i32)  # digit by digit, and of each warp by warp
    for digit in range(lane, _DIGITS, lanes):
        counts[digit * warps + warp] = 0
    sync_warp()
    earlier = (u32(1) << lane) - 1
    ranks = []
    for digit in digits:
        same = present
        for bit in range(_BITS):
            is_set = (digit >> bit) & 1 != 0
            votes = ballot(is_set)
            same &= select(is_set, votes, ~votes)
        at = digit * warps + warp
        before = counts[at]
        sync_warp()
        if lane == i32(ctz(same)):
            counts[at] = before + i32(popcount(same))
        sync_warp()
        ranks.append(before + i32(popcount(same & earlier)))
    sync_threads()
    _scan(counts, _DIGITS * warps)
    sync_threads()
    return [counts[digit * warps + warp] + rank for digit, rank in zip(digits, ranks, strict=True)]


def _scan(counts: Any, size: Any) -> None:
    """Each count becomes the sum of those before it."""
    each = (size + block_threads() - 1) // block_threads()
    first = thread_rank() * each
    end = min(first + each, size)
    own = 0
    for k in range(first, end):
        own += counts[k]
    _, before, _ = scans.scanned(own, ADD, "block.radix_sort", True, False)
    before = 0 if thread_rank() == 0 else before
    for k in range(first, end):
        one = counts[k]
        counts[k] = before
        before += one


def last_code(dtype: Any) -> Any:
    """The code that comes last."""
    return u64((1 << 64) - 1) if dtype.bits == 64 else u32((1 << dtype.bits) - 1)


def code_of(key: Any, descending: Any) -> Any:
    """An unsigned number, u32 or u64, in the order of the keys."""
    dtype = key.dtype
    wide, last = u64 if dtype.bits == 64 else u32, last_code(dtype)
    sign = wide(1 << (dtype.bits - 1))
    if dtype.is_float:
        code = wide(bitcast(key, UNSIGNED[dtype.bits]))
        code ^= select(code & sign != 0, last, sign)
    else:
        code = wide(key) & last
        if dtype.is_signed:
            code ^= sign
    if descending:
        code ^= last
    return select(key != key, last, code) if dtype.is_float else code


def key_of(code: Any, dtype: Any, descending: Any) -> Any:
    """The key of a code."""
    last = last_code(dtype)
    sign = code.dtype(1 << (dtype.bits - 1))
    if descending:
        code ^= last
    if dtype.is_float:
        code ^= select(code & sign != 0, sign, last)
        return bitcast(UNSIGNED[dtype.bits](code), dtype)
    if dtype.is_signed:
        code ^= sign
    return dtype(code)
