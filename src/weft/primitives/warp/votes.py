# SPDX-License-Identifier: Apache-2.0
"""Conditions over a warp's lanes: ``weft.warp.any``, ``all``, ``count``; and ``shuffle``.

Written in weft's language. In: a condition or a value per lane. Out: the same answer in each lane; another lane's
value.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.language.numbers.math import popcount
from weft.language.threads import warp
from weft.primitives.threads import ALL
from weft.primitives.values import group_width, moved, numbers
from weft.types.launch_limits import WARP_SIZE


@device_function("warp.any")
def any(predicate: Any, mask: Any = ALL) -> Any:
    """Whether the predicate is true in any lane: a ``bool_``, the same for all of them.

    Args:
        predicate: a number; any value but 0 is true.
        mask: the lanes that take part, one bit each.

    Raises:
        TypeMismatchError: if the predicate is not a number.

    Example:
        ``if weft.warp.any(x < 0): b[i] = 0``
    """
    return warp.any(predicate, mask)


@device_function("warp.all")
def all(predicate: Any, mask: Any = ALL) -> Any:
    """Whether the predicate is true in all lanes: a ``bool_``, the same for all of them.

    Arguments and errors as in `warp.any`.

    Example:
        ``if weft.warp.all(x < 0): b[i] = 0``
    """
    return warp.all(predicate, mask)


@device_function("warp.count")
def count(predicate: Any, mask: Any = ALL) -> Any:
    """In how many lanes the predicate is true: an i32, the same for all of them.

    Arguments and errors as in `warp.any`.

    Example:
        ``kept = weft.warp.count(keep)``
    """
    return popcount(warp.ballot(predicate, mask))


@device_function("warp.shuffle")
def shuffle(value: Any, lane: Any, mask: Any = ALL, width: Any = WARP_SIZE) -> Any:
    """The value that another lane holds; a record's parts are passed one by one.

    Args:
        value: a number, or a tuple, named tuple or frozen dataclass of numbers.
        lane: the lane to read in this one's group, an integer, taken modulo `width`.
        mask: the lanes that take part, the one read among them.
        width: lanes of a group, a power of two known at compile time.

    Raises:
        TypeMismatchError: for a value that is not a number, or a lane that is not an integer.
        ValueRangeError: for a width that is not a power of two up to 32.

    Example:
        ``first = weft.warp.shuffle(x, 0)``
    """
    name = "warp.shuffle"
    return moved("idx", numbers(value, name), lane, mask, group_width(width, None, name))
