# SPDX-License-Identifier: Apache-2.0
"""A warp's part of a vector: ``weft.warp.load`` and ``weft.warp.store``.

Written in weft's language. In: a vector, where the warp's part begins, how many items a lane has. Out: a list
per lane.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.primitives.threads import WARP
from weft.primitives.transfers import loaded, stored


@device_function("warp.load")
def load(a: Any, first: Any, count: Any, fill: Any = 0, order: Any = "blocked") -> Any:
    """The warp's items of a vector from `first` on: a list of `count` per lane.

    Blocked items of a contiguous vector whose alignment is known are read up to 16 bytes at a time, where `first`
    allows that and all of a lane's items are there.

    Args:
        a: a vector.
        first: the index of the warp's first item, an integer.
        count: items per lane, known at compile time.
        fill: a number, for items beyond the end.
        order: ``"blocked"``: they follow each other lane by lane; ``"striped"``: item k of lane t is number
            t + k · lanes, so that neighbors read neighbors.

    Raises:
        CompileError: for a tensor that is not a vector, another count or order.

    Example:
        ``p, q = weft.warp.load(a, 64 * weft.warp_id(), 2)``
    """
    return loaded(a, first, count, fill, order, WARP)


@device_function("warp.store")
def store(a: Any, first: Any, items: Any, order: Any = "blocked") -> None:
    """Writes the warp's items to a vector from `first` on, those that are within it.

    Args:
        a: a vector.
        first: the index of the warp's first item, an integer.
        items: a list of numbers per lane.
        order: as in `warp.load`.

    Raises:
        CompileError: as `warp.load`.

    Example:
        ``weft.warp.store(b, 64 * weft.warp_id(), [x, y])``
    """
    stored(a, first, items, order, WARP)
