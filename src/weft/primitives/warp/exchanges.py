# SPDX-License-Identifier: Apache-2.0
"""Items that change lanes of a warp: ``weft.warp.exchange``, ``to_blocked`` and ``to_striped``.

Written in weft's language. In: a list of items per lane. Out: those of other lanes, through shared memory.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.primitives.exchanging import exchanged, rearranged
from weft.primitives.threads import WARP


@device_function("warp.exchange")
def exchange(items: Any, places: Any) -> Any:
    """Items moved to where each one says: lane t then holds those of the places t · k to t · k + k − 1.

    Args:
        items: a list of k values per lane; or a single value, for k = 1.
        places: as long a list of integers, or one: each number from 0 to k times the warp's lanes once in the warp.

    Returns:
        As `items`.

    Raises:
        TypeMismatchError: for a value that is not a number.
        CompileError: for lists of different lengths.

    Example:
        ``x = weft.warp.exchange(x, weft.lane_id() ^ 1)``
    """
    return exchanged(items, places, WARP, "warp.exchange")


@device_function("warp.to_striped")
def to_striped(items: Any) -> Any:
    """Blocked items rearranged: item k of lane t is then number t + k · lanes.

    Args:
        items: a list of values, which follow each other lane by lane.

    Returns:
        As long a list.

    Raises:
        TypeMismatchError: for a value that is not a number.
        CompileError: for something else than a list.

    Example:
        ``p, q = weft.warp.to_striped([x, y])``
    """
    return rearranged(items, True, WARP, "warp.to_striped")


@device_function("warp.to_blocked")
def to_blocked(items: Any) -> Any:
    """Striped items rearranged: item k of lane t is then number t · count + k.

    Args:
        items: a list of values, item k of lane t being number t + k · lanes.

    Returns:
        As long a list.

    Raises:
        TypeMismatchError: for a value that is not a number.
        CompileError: for something else than a list.

    Example:
        ``p, q = weft.warp.to_blocked([x, y])``
    """
    return rearranged(items, False, WARP, "warp.to_blocked")
