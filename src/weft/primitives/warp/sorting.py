# SPDX-License-Identifier: Apache-2.0
"""Sorting within a warp: ``weft.warp.radix_sort`` and ``weft.warp.merge_sort``.

Written in weft's language. In: keys or items per lane. Out: them in order, lane by lane.
"""

from __future__ import annotations

import operator
from typing import Any

from weft.language.functions import device_function
from weft.primitives.merging import merge_sorted
from weft.primitives.radix import radix_sorted
from weft.primitives.threads import WARP


@device_function("warp.radix_sort")
def radix_sort(
    keys: Any, values: Any = None, descending: Any = False, count: Any = None, bits: Any = None
) -> Any:
    """The warp's keys in order: the first lane gets the first ones, the second lane the next.

    Equal keys keep their order. NaN comes last, in either direction, as one NaN; −0.0 is before 0.0. A round per four
    bits of the keys, each with five barriers.

    Args:
        keys: a number of any type; or a list of several, which follow each other lane by lane.
        values: None, or what goes with each key: a number, a tuple or frozen dataclass of numbers, or a list of them.
        descending: whether the largest comes first; known at compile time.
        count: how many keys there are in the warp, from the first one on, the same for all lanes; what follows
            them in the result is undefined. None: all.
        bits: None, or a pair: the first and the end of the bits to sort by, known at compile time; of an unsigned
            integer, they are its own.

    Returns:
        The keys, as they were given; with values ``(keys, values)``.

    Raises:
        TypeMismatchError: for a key or a value that is not a number.
        CompileError: for lists of different lengths, or bits that the keys do not have.

    Example:
        ``x, place = weft.warp.radix_sort(x, tid)``
    """
    return radix_sorted(keys, values, descending, count, bits, WARP, "warp.radix_sort")


@device_function("warp.merge_sort")
def merge_sort(items: Any, less: Any = operator.lt, count: Any = None) -> Any:
    """The warp's items in order: the first lane gets the first ones, the second lane the next.

    Items of which neither is less than the other keep their order. For n items there are log₂ n rounds, each with two
    barriers and a binary search; numbers are sorted faster by `warp.radix_sort`.

    Args:
        items: a number, or a tuple, named tuple or frozen dataclass of numbers; or a list of several, which follow each
            other lane by lane.
        less: takes two items and says whether the first one comes before the second one. It is inlined.
        count: how many items there are in the warp, from the first one on, the same for all lanes; the others stay
            where they are. None: all.

    Returns:
        As `items`.

    Raises:
        TypeMismatchError: for an item that is not a number.

    Example:
        ``x, _ = weft.warp.merge_sort((x, tid), lambda one, other: abs(one[0]) < abs(other[0]))``
    """
    return merge_sorted(items, less, count, WARP, "warp.merge_sort")
