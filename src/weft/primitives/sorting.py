# SPDX-License-Identifier: Apache-2.0
"""Sorting within a block or a warp: by the digits of numbers, or merging by a user's comparison.

Written in weft's language. In: keys, and values that go with them, or items of any structure, and which of two comes
first. Out: all in order, thread by thread. Each pass by digits sorts by four bits: warps count and rank their digits by
votes, the counts are scanned, and the items change places. In each iteration of merging, runs of a length are merged in
pairs: an item searches its place in the other run of its pair.
"""

from __future__ import annotations

from typing import Any, Final

from weft.language.control import static_assert, where
from weft.language.memory.arrays import shared
from weft.language.numbers.convert import bitcast
from weft.language.numbers.math import ctz, popcount
from weft.language.threads.barrier import sync_warp
from weft.language.threads.warp import ballot, lane_id, warp_id
from weft.primitives import items as lists
from weft.primitives import trees
from weft.primitives.items import blocked, slot
from weft.primitives.trees import (
    ALL,
    WARP,
    block_threads,
    first_of,
    first_of_warp,
    last_lane,
    meet,
    members_of,
    over_block,
    rank_in,
)
from weft.primitives.values import chosen, is_repeated, moved, put, take, thread_partials
from weft.types.dtype import i32, u8, u16, u32, u64
from weft.types.launch_limits import WARP_SIZE

_BITS: Final = 4
_DIGITS: Final = 1 << _BITS
_MOST_WARPS: Final = WARP_SIZE
UNSIGNED: Final = {8: u8, 16: u16, 32: u32, 64: u64}


def radix_sorted(
    keys: Any, values: Any, descending: Any, count: Any, bits: Any, scope: Any, name: str
) -> Any:
    """The keys in order, and what goes with them."""
    is_single = not lists.is_list(keys)
    given = lists.counted([keys] if is_single else keys, name)
    dtype = given[0].dtype
    first, end = (0, dtype.bits) if bits is None else bits
    static_assert(0 <= first < end <= dtype.bits, f"{name}: the keys do not have these bits")
    codes = [code_of(key, descending) for key in given]
    if count is not None:
        beyond = last_code(dtype)
        places = blocked(len(codes), scope)
        codes = [where(at < count, one, beyond) for at, one in zip(places, codes, strict=True)]

    def order(code: Any) -> Any:
        return rank_of(code, dtype, descending)

    if values is None:
        codes = [one for (one,) in _sorted([(one,) for one in codes], order, first, end, scope)]
        found = [key_of(one, dtype, descending) for one in codes]
        return found[0] if is_single else found
    with_keys = lists.counted([values] if is_single else values, name)
    static_assert(len(with_keys) == len(codes), f"{name}: each key needs a value")
    pairs = _sorted([*zip(codes, with_keys, strict=True)], order, first, end, scope)
    found = [key_of(code, dtype, descending) for code, _ in pairs]
    moved = [value for _, value in pairs]
    return (found[0], moved[0]) if is_single else (found, moved)


def _sorted(items: Any, order: Any, first: Any, end: Any, scope: Any) -> Any:
    """Blocked records in the order of what `order` makes of their first numbers, blocked again."""
    count = len(items)
    on, start = thread_partials(items[0], count), first_of(scope) * count
    own, dealt = blocked(count, scope), _dealt(count, scope)
    for item, place in zip(items, own, strict=True):
        put(on, start + slot(place, count), item)
    meet(scope)
    items = [take(on, start + slot(place, count)) for place in dealt]
    for shift in range(first, end, _BITS):
        mask = _DIGITS - 1 if (end - first) % _BITS == 0 else (1 << min(_BITS, end - shift)) - 1
        places = _places([i32(order(item[0]) >> shift) & mask for item in items], scope)
        for item, place in zip(items, places, strict=True):
            put(on, start + place, item)
        meet(scope)
        items = [take(on, start + place) for place in dealt]
    meet(scope)
    for item, place in zip(items, dealt, strict=True):
        put(on, start + slot(place, count), item)
    meet(scope)
    items = [take(on, start + slot(place, count)) for place in own]
    if is_repeated():
        meet(scope)
    return items


def _dealt(count: Any, scope: Any) -> Any:
    """The places of a thread's items where each warp's are dealt to its lanes one by one."""
    first = (first_of_warp() - first_of(scope)) * count
    lane, lanes = lane_id(), last_lane() + 1
    return [first + k * lanes + lane for k in range(count)]


def _places(digits: Any, scope: Any) -> Any:
    """Ranks of items with these digits, in the order of the digits; items of one digit in theirs."""
    lane, warps = lane_id(), (block_threads() + WARP_SIZE - 1) >> 5
    lanes, present = last_lane() + 1, ballot(True)
    counts = shared(
        _DIGITS * _MOST_WARPS, i32
    )  # of a block digit by digit, and of each warp by warp
    first, apart, size = warp_id(), warps, _DIGITS * warps
    if scope == WARP:
        first, apart, size = warp_id() * _DIGITS, 1, _DIGITS
    for digit in range(lane, _DIGITS, lanes):
        counts[first + digit * apart] = 0
    sync_warp()
    earlier = (u32(1) << lane) - 1
    ranks = []
    for digit in digits:
        same = present
        for bit in range(_BITS):
            is_set = (digit >> bit) & 1 != 0
            votes = ballot(is_set)
            same &= where(is_set, votes, ~votes)
        at = first + digit * apart
        before = counts[at]
        sync_warp()
        if lane == i32(ctz(same)):
            counts[at] = before + i32(popcount(same))
        sync_warp()
        ranks.append(before + i32(popcount(same & earlier)))
    meet(scope)
    _scan(counts, first if scope == WARP else 0, size, scope)
    meet(scope)
    return [counts[first + digit * apart] + rank for digit, rank in zip(digits, ranks, strict=True)]


def _scan(counts: Any, start: Any, size: Any, scope: Any) -> None:
    """Replaces each count by the sum of those before it."""
    rank, members = rank_in(scope), members_of(scope)
    each = (size + members - 1) // members
    first = start + min(rank * each, size)
    end = start + min((rank + 1) * each, size)
    own = 0
    for k in range(first, end):
        own += counts[k]
    if scope == WARP:
        before = moved("up", trees.scanned(own, lists.ADD, WARP_SIZE, "warp.radix_sort"), 1, ALL)
    else:
        _, before, _ = over_block(own, lists.ADD, "block.radix_sort", True, False)
    before = 0 if rank == 0 else before
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
    if dtype.is_scale:
        code = wide(bitcast(key, UNSIGNED[dtype.bits]))
        return (last - 1 - code) & last if descending else code  # NaN, all bits, stays the last
    if dtype.is_float:
        code = wide(bitcast(key, UNSIGNED[dtype.bits]))
        code ^= where(code & sign != 0, last, sign)
    else:
        code = wide(key) & last
        if dtype.is_signed:
            code ^= sign
    if descending:
        code ^= last
    return where(key != key, last, code) if dtype.is_float else code


def rank_of(code: Any, dtype: Any, descending: Any) -> Any:
    """The code whose digits are sorted by: that of 0.0 for -0.0, which is equal and keeps its place and its sign."""
    if not dtype.is_float or dtype.is_scale:
        return code
    plus, minus = (code.dtype((1 << (dtype.bits - 1)) - below) for below in (0, 1))
    if descending:
        plus, minus = minus, plus
    return where(code == minus, plus, code)


def key_of(code: Any, dtype: Any, descending: Any) -> Any:
    """The key of a code."""
    last = last_code(dtype)
    sign = code.dtype(1 << (dtype.bits - 1))
    if dtype.is_scale:
        code = (last - 1 - code) & last if descending else code
        return bitcast(UNSIGNED[dtype.bits](code), dtype)
    if descending:
        code ^= last
    if dtype.is_float:
        code ^= where(code & sign != 0, sign, last)
        return bitcast(UNSIGNED[dtype.bits](code), dtype)
    if dtype.is_signed:
        code ^= sign
    return dtype(code)


def merge_sorted(items: Any, less: Any, count: Any, scope: Any, name: str) -> Any:
    """The items in order."""
    given = lists.counted(items, name)
    own = given if lists.is_list(given) else [given]
    places = blocked(len(own), scope)
    size = members_of(scope) * len(own) if count is None else count
    on, start = thread_partials(own[0], len(own)), first_of(scope) * len(own)
    for item, place in zip(own, places, strict=True):
        put(on, start + place, item)
    meet(scope)
    run = 1
    while run < size:
        own = [take(on, start + place) for place in places]
        targets = [
            _target(on, start, item, place, run, size, less)
            for item, place in zip(own, places, strict=True)
        ]
        meet(scope)
        for item, target in zip(own, targets, strict=True):
            put(on, start + target, item)
        meet(scope)
        run *= 2
    own = [take(on, start + place) for place in places]
    if is_repeated():
        meet(scope)
    return own if lists.is_list(given) else own[0]


def _target(on: Any, start: Any, item: Any, place: Any, run: Any, size: Any, less: Any) -> Any:
    """Rank of an item once its run is merged with the other one of its pair."""
    pair = place & -(2 * run)
    is_left = place < pair + run
    first = min(where(is_left, pair + run, pair), size)
    low, high = first, min(first + run, size)
    if place >= size:
        high = low
    while low < high:
        middle = (low + high) >> 1
        other = take(on, start + middle)
        is_less = less(chosen(is_left, other, item), chosen(is_left, item, other)) != 0
        # Of equal items those of the left run come first.
        if is_less == is_left:
            low = middle + 1
        else:
            high = middle
    target = place + (low - first) - where(is_left, 0, run)
    return where(place < size, target, place)
