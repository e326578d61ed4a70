# SPDX-License-Identifier: Apache-2.0
"""Running results over a warp's lanes: ``weft.warp.scan`` and ``exclusive_scan``.

Written in weft's language. In: a value per lane. Out: what the lanes up to it combine to.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.primitives import items, trees
from weft.primitives.threads import ALL, group_lane
from weft.primitives.values import group_width, moved, neutral
from weft.types.launch_limits import WARP_SIZE


@device_function("warp.scan")
def scan(value: Any, function: Any = None, mask: Any = None, width: Any = WARP_SIZE) -> Any:
    """For each lane, the values of the lanes up to it, its own included, combined by a function.

    Args:
        value: a number, or a tuple, named tuple or frozen dataclass of numbers; or a list of several such items,
            which follow each other lane by lane: then a list is returned.
        function: takes two such values and returns one of the same types; associative, and inlined. None: the sum,
            where values of 8 and 16 bits are added as f32 or i32, and bools as i32.
        mask: the lanes that take part, one bit each, known to all of them; None: all.
        width: lanes of a group, a power of two known at compile time: each group has a scan of its own. Not with a
            mask.

    Raises:
        TypeMismatchError: for a value that is not a number, or a function that gives another type.
        ValueRangeError: for a width that is not a power of two up to 32, or given with a mask.

    Example:
        ``last = weft.warp.scan(x)``
    """
    name = "warp.scan"
    width = group_width(width, mask, name)
    value, function, _ = items.prepared(value, function, None, name)
    if not items.is_list(value):
        return scanned(value, function, mask, width, name)
    own = items.running(value, function, name)
    through = scanned(own[-1], function, mask, width, name)
    before, is_first = preceding(through, mask, width)
    return [
        one if is_first else trees.combined(function, before, one, name) for one in own[:-1]
    ] + [through]


@device_function("warp.exclusive_scan")
def exclusive_scan(
    value: Any,
    function: Any = None,
    initial: Any = None,
    mask: Any = None,
    width: Any = WARP_SIZE,
) -> Any:
    """For each lane, an initial value and the values of the lanes before it combined by a function.

    Args:
        value: as in `warp.scan`.
        function: as in `warp.scan`.
        initial: what the first lane gets: a value of the same types. None for a sum: 0.
        mask: as in `warp.scan`.
        width: as in `warp.scan`.

    Raises:
        TypeMismatchError: as `warp.scan`; also for a function without an initial value.
        ValueRangeError: as `warp.scan`.

    Example:
        ``place = weft.warp.exclusive_scan(weft.i32(keep))``
    """
    name = "warp.exclusive_scan"
    width = group_width(width, mask, name)
    value, function, initial = items.prepared(value, function, initial, name, is_exclusive=True)
    own = items.running(value, function, name) if items.is_list(value) else [value]
    before, is_first = preceding(scanned(own[-1], function, mask, width, name), mask, width)
    found = items.after(begun(initial, function, before, is_first, name), own, function, name)
    return found if items.is_list(value) else found[0]


def preceding(value: Any, mask: Any, width: Any) -> Any:
    """The value of the lane before this one, and whether there is none."""
    if mask is None:
        return moved("up", value, 1, ALL, width), group_lane(width) == 0
    lane = trees.lane_before(mask)
    return moved("idx", value, max(lane, 0), mask), lane < 0


def scanned(value: Any, function: Any, mask: Any, width: Any, name: str) -> Any:
    """The scan up to each lane."""
    if mask is None:
        return trees.scanned(value, function, width, name)
    return trees.scanned_among(value, function, mask, name)


def begun(initial: Any, function: Any, before: Any, is_first: Any, name: str) -> Any:
    """The result of an exclusive scan: the initial value, and what comes before unless this is the first."""
    if initial is None:
        return before if not is_first else neutral(before)
    return initial if is_first else trees.combined(function, initial, before, name)
