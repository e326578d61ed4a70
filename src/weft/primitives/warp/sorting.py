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

    One pass per four bits of the keys, each with five barriers of the warp.

    Arguments, result and errors as in `block.radix_sort`, with `count` the warp's.

    Example:
        ``x, place = weft.warp.radix_sort(x, tid)``
    """
    return radix_sorted(keys, values, descending, count, bits, WARP, "warp.radix_sort")


@device_function("warp.merge_sort")
def merge_sort(items: Any, less: Any = operator.lt, count: Any = None) -> Any:
    """The warp's items in order: the first lane gets the first ones, the second lane the next.

    For n items there are log₂ n merge steps, each with two barriers of the warp and a binary search.

    Arguments, result and errors as in `block.merge_sort`, with `count` the warp's.

    Example:
        ``x, _ = weft.warp.merge_sort((x, tid), lambda one, other: abs(one[0]) < abs(other[0]))``
    """
    return merge_sorted(items, less, count, WARP, "warp.merge_sort")
