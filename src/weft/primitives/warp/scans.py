# SPDX-License-Identifier: Apache-2.0
"""Running results over a warp's lanes: ``weft.warp.scan`` and ``exclusive_scan``.

Written in weft's language. In: a value per lane. Out: what the lanes up to it combine to.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.language.functions import device_function
from weft.primitives.threads import ALL, group_lane
from weft.primitives.values import (
    group_width,
    like,
    moved,
    neutral,
    numbers,
    of_two,
    widened,
)
from weft.primitives.warp import trees
from weft.types.launch_limits import WARP_SIZE

ADD = partial(of_two, "sum")


@device_function("warp.scan")
def scan(value: Any, function: Any = None, mask: Any = None, width: Any = WARP_SIZE) -> Any:
    """For each lane, the values of the lanes up to it, its own included, combined by a function.

    Args:
        value: a number, or a tuple, named tuple or frozen dataclass of numbers.
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
    value, function, _ = prepared(value, function, None, name)
    return scanned(value, function, mask, width, name)


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
    value, function, initial = prepared(value, function, initial, name, is_exclusive=True)
    through = scanned(value, function, mask, width, name)
    if mask is None:
        before = moved("up", through, 1, ALL, width)
        is_first = group_lane(width) == 0
    else:
        preceding = trees.lane_before(mask)
        is_first = preceding < 0
        before = moved("idx", through, max(preceding, 0), mask)
    return begun(initial, function, before, is_first, name)


def prepared(value: Any, function: Any, initial: Any, name: str, is_exclusive: Any = False) -> Any:
    """The value, the function, and what the first one gets, or None where that changes nothing."""
    value = numbers(value, name)
    if function is None:
        value = widened(value)
        if initial is not None:
            initial = like(initial, value, name)
        return value, ADD, initial
    if is_exclusive:
        initial = like(initial, value, name)
    return value, function, initial


def scanned(value: Any, function: Any, mask: Any, width: Any, name: str) -> Any:
    """The scan up to each lane."""
    if mask is None:
        return trees.scanned(value, function, width, name)
    return trees.scanned_among(value, function, mask, name)


def begun(initial: Any, function: Any, before: Any, is_first: Any, name: str) -> Any:
    """What an exclusive scan gives: the initial value, and what comes before unless this is the first."""
    if initial is None:
        return before if not is_first else neutral(before)
    return initial if is_first else trees.combined(function, initial, before, name)
