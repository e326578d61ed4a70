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

    Arguments, result and errors as in `block.exchange`, with each place once in the warp.

    Example:
        ``x = weft.warp.exchange(x, weft.lane_id() ^ 1)``
    """
    return exchanged(items, places, WARP, "warp.exchange")


@device_function("warp.to_striped")
def to_striped(items: Any) -> Any:
    """Blocked items rearranged: item k of lane t is then number t + k · lanes.

    Arguments, result and errors as in `block.to_striped`.

    Example:
        ``p, q = weft.warp.to_striped([x, y])``
    """
    return rearranged(items, True, WARP, "warp.to_striped")


@device_function("warp.to_blocked")
def to_blocked(items: Any) -> Any:
    """Striped items rearranged: item k of lane t is then number t · count + k.

    Arguments, result and errors as in `block.to_blocked`.

    Example:
        ``p, q = weft.warp.to_blocked([x, y])``
    """
    return rearranged(items, False, WARP, "warp.to_blocked")
