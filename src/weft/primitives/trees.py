# SPDX-License-Identifier: Apache-2.0
"""How the lanes of a group combine values: trees of shuffles, for reductions and for scans.

Written in weft's language. In: a value per lane, an associative function. Out: the combined value. `mask` is None
where all lanes of the warp take part; otherwise lanes follow each other as in the mask, however far apart they are.
"""

from __future__ import annotations

from typing import Any, Final

from weft.language.control import where
from weft.language.numbers.math import clz, ctz, ffs
from weft.language.threads.warp import lane_id
from weft.primitives.threads import ALL, group_lane
from weft.primitives.values import fitted, moved
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
    """The last lane of a mask before this one, or −1."""
    earlier = mask & ((u32(1) << lane_id()) - 1)
    return WARP_SIZE - 1 - i32(clz(earlier))


def first_lane(mask: Any) -> Any:
    """The first lane of a mask."""
    return i32(ctz(u32(mask)))
