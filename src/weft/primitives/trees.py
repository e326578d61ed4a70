# SPDX-License-Identifier: Apache-2.0
"""Combines values of threads: trees of shuffles among a group's lanes, and running results over a block's threads.

Written in weft's language. In: a value per lane, an associative function. Out: the combined value, or that of the
values up to each one combine to. `mask` is None where all lanes of the warp take part; otherwise lanes follow each
other as in the mask, however far apart they are. For a block each warp scans its values, the first warp scans those of
the warps,
and each adds the total before it: two barriers. Where a thread is in its block and its warp stands here too.
"""

from __future__ import annotations

from typing import Any, Final

from weft.language.control import where
from weft.language.numbers.math import clz, ctz, ffs
from weft.language.threads.barrier import FULL_MASK, sync_threads, sync_warp
from weft.language.threads.grid import block_dim
from weft.language.threads.warp import lane_id, warp_id
from weft.primitives.values import chosen, fitted, moved, partials, put, take
from weft.types.dtype import i32, u32
from weft.types.launch_limits import WARP_SIZE

_STEPS: Final = (1, 2, 4, 8, 16)


def combined(function: Any, left: Any, right: Any, name: str) -> Any:
    """``function(left, right)``, which has to be a value like both."""
    return fitted(function(left, right), left, name)


def reduced(value: Any, function: Any, present: Any, width: Any, name: str) -> Any:
    """In the group's first lane: the values of the first `present` lanes combined, adjacent ones first."""
    lane = group_lane(width)
    for step in _STEPS:
        if step < width:
            other = moved("down", value, step, ALL, width)
            if lane + step < present:
                value = combined(function, value, other, name)
    return value


def reduced_among(value: Any, function: Any, mask: Any, name: str) -> Any:
    """In the mask's first lane: the values of its lanes combined, adjacent ones first."""
    mask = u32(mask)
    lane = lane_id()
    later = mask >> lane >> 1
    following = where(later != 0, lane + i32(ffs(later)), WARP_SIZE)
    for _ in _STEPS:
        source = where(following < WARP_SIZE, following, lane)
        other = moved("idx", value, source, mask)
        further = moved("idx", following, source, mask)
        if following < WARP_SIZE:
            value = combined(function, value, other, name)
        following = where(following < WARP_SIZE, further, WARP_SIZE)
    return value


def scanned(value: Any, function: Any, width: Any, name: str) -> Any:
    """The values of the group's lanes up to this one combined."""
    lane = group_lane(width)
    for step in _STEPS:
        if step < width:
            before = moved("up", value, step, ALL, width)
            if lane >= step:
                value = combined(function, before, value, name)
    return value


def scanned_among(value: Any, function: Any, mask: Any, name: str) -> Any:
    """The values of the mask's lanes up to this one combined."""
    mask, lane = u32(mask), lane_id()
    preceding = lane_before(mask)
    for _ in _STEPS:
        source = where(preceding >= 0, preceding, lane)
        before = moved("idx", value, source, mask)
        further = moved("idx", preceding, source, mask)
        if preceding >= 0:
            value = combined(function, before, value, name)
        preceding = where(preceding >= 0, further, -1)
    return value


def lane_before(mask: Any) -> Any:
    """The closest lane below this one in a mask, or −1."""
    earlier = mask & ((u32(1) << lane_id()) - 1)
    return WARP_SIZE - 1 - i32(clz(earlier))


def first_lane(mask: Any) -> Any:
    """The first lane of a mask."""
    return i32(ctz(u32(mask)))


ALL: Final = FULL_MASK
BLOCK: Final = "block"
WARP: Final = "warp"
"""Whose threads make a call together."""
_ANY: Final = 2 * WARP_SIZE


def block_threads() -> Any:
    """Threads of a block."""
    return block_dim.x * block_dim.y * block_dim.z


def thread_rank() -> Any:
    """This thread's number in its block: x first, then y, then z."""
    return first_of_warp() | lane_id()


def first_of_warp() -> Any:
    """The number in the block of this warp's first thread."""
    return warp_id() * WARP_SIZE


def last_lane() -> Any:
    """The last lane that this thread's warp has."""
    threads = block_threads()
    last = WARP_SIZE - 1
    return where(threads & last == 0, last, min(last, threads - 1 - first_of_warp()))


def rank_in(scope: Any) -> Any:
    """This thread's number in its block or warp."""
    return lane_id() if scope == WARP else thread_rank()


def members_of(scope: Any) -> Any:
    """Threads of this thread's block or warp."""
    return last_lane() + 1 if scope == WARP else block_threads()


def first_of(scope: Any) -> Any:
    """The number in the block of the first thread of this thread's block or warp."""
    return first_of_warp() if scope == WARP else 0


def meet(scope: Any) -> None:
    """A barrier of the block's or the warp's threads."""
    if scope == WARP:
        sync_warp()
    else:
        sync_threads()


def group_lane(width: Any = WARP_SIZE) -> Any:
    """This thread's number in its group of lanes."""
    return lane_id() if width == WARP_SIZE else lane_id() & (width - 1)


def group_lanes(width: Any = WARP_SIZE) -> Any:
    """Number of lanes of this thread's group in the block.

    Where no group is partial it is more than any lane, so that comparisons with it vanish for a constant block.
    """
    threads = block_threads()
    return where(threads & (width - 1) == 0, _ANY, min(width, threads - (thread_rank() & -width)))


def over_block(value: Any, function: Any, name: str, is_shifted: Any, with_total: Any) -> Any:
    """The scan up to each thread; where asked for, else any value: that of the thread before; and the total."""
    threads, lane = block_threads(), lane_id()
    value = scanned(value, function, WARP_SIZE, name)
    total = moved("idx", value, last_lane(), ALL) if with_total else value
    before = moved("up", value, 1, ALL) if is_shifted else value
    if threads > WARP_SIZE:
        values, sums = partials(value, WARP_SIZE), partials(value, WARP_SIZE)
        warp, last_warp = warp_id(), (threads - 1) >> 5
        if lane == last_lane():
            put(values, warp, value)
        sync_threads()
        if warp == 0:
            of_warps = take(values, where(lane <= last_warp, lane, 0))
            put(sums, lane, scanned(of_warps, function, WARP_SIZE, name))
        sync_threads()
        if warp > 0:
            of_earlier = take(sums, warp - 1)
            value = combined(function, of_earlier, value, name)
            if is_shifted:
                shifted = combined(function, of_earlier, before, name)
                before = chosen(lane == 0, of_earlier, shifted)
        if with_total:
            total = take(sums, last_warp)
    return value, before, total
