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

    Arguments and errors as in `block.load`, with `first` the index of the warp's first item.

    Example:
        ``p, q = weft.warp.load(a, 64 * weft.warp_id(), 2)``
    """
    return loaded(a, first, count, fill, order, WARP)


@device_function("warp.store")
def store(a: Any, first: Any, items: Any, order: Any = "blocked") -> None:
    """Writes the warp's items to a vector from `first` on, those that are within it.

    Arguments and errors as in `block.store`, with `first` the index of the warp's first item.

    Example:
        ``weft.warp.store(b, 64 * weft.warp_id(), [x, y])``
    """
    stored(a, first, items, order, WARP)
