# SPDX-License-Identifier: Apache-2.0
"""One value of those of a warp's lanes: ``weft.warp.reduce``, ``sum``, ``max``, ``min``, ``argmax``, ``argmin``.

Written in weft's language. In: a value per lane, or a list of them. Out: the same result in each of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.language.control import where
from weft.language.functions import device_function
from weft.primitives import items, trees
from weft.primitives.threads import ALL, group_lane, group_lanes
from weft.primitives.values import group_width, moved, of_two, over_warp
from weft.types.launch_limits import WARP_SIZE


@device_function("warp.reduce")
def reduce(value: Any, function: Any, mask: Any = None, width: Any = WARP_SIZE) -> Any:
    """The values of all lanes combined by a function, returned to each of them.

    Lanes are combined in their order, adjacent ones first, so that the function need not be commutative, and floats
    give the same bits on every target.

    Args:
        value: a number, or a tuple, named tuple or frozen dataclass of numbers; or a list of several such items,
            which follow each other lane by lane.
        function: takes two such values and returns one of the same types; associative. It is inlined.
        mask: the lanes that take part, one bit each, known to all of them; None: all.
        width: lanes of a group, a power of two known at compile time: each group has a result of its own. Not with a
            mask.

    Raises:
        TypeMismatchError: for a value that is not a number, or a function that gives another type.
        ValueRangeError: for a width that is not a power of two up to 32, or given with a mask.

    Example:
        ``product = weft.warp.reduce(x, lambda left, right: left * right)``
    """
    name = "warp.reduce"
    width = group_width(width, mask, name)
    value = items.of_thread(items.counted(value, name), function, name)
    return reduced(value, function, mask, width, name)


def reduced(value: Any, function: Any, mask: Any, width: Any, name: str) -> Any:
    """The combined value, in every lane."""
    if mask is None:
        value = trees.reduced(value, function, group_lanes(width), width, name)
        return moved("idx", value, 0, ALL, width)
    value = trees.reduced_among(value, function, mask, name)
    return moved("idx", value, trees.first_lane(mask), mask)


@device_function("warp.sum")
def sum(value: Any, mask: Any = None, width: Any = WARP_SIZE) -> Any:
    """The sum over all lanes, returned to each of them.

    Values of 8 and 16 bits are added as f32 or i32, and bools as i32; other integers wrap. Floats are added as a
    tree, adjacent ones first.

    Args:
        value: a number, or a tuple or frozen dataclass of numbers; or a list of several such items.
        mask: the lanes that take part, as in `warp.reduce`.
        width: lanes of a group, as in `warp.reduce`.

    Raises:
        TypeMismatchError, ValueRangeError: as `warp.reduce`.

    Example:
        ``total = weft.warp.sum(a[i])``
    """
    name = "warp.sum"
    width = group_width(width, mask, name)
    value = items.widened_items(items.counted(value, name))
    return folded("sum", value, mask, width, name)


@device_function("warp.max")
def max(value: Any, mask: Any = None, width: Any = WARP_SIZE, *, nan: bool = False) -> Any:
    """The largest value of all lanes, returned to each of them; a number wins over NaN, or NaN with ``nan=True``.

    Other arguments and errors as in `warp.sum`.

    Example:
        ``shift = weft.warp.max(logit)``
    """
    name = "warp.max"
    width = group_width(width, mask, name)
    kind = "max or NaN" if nan else "max"
    return folded(kind, items.counted(value, name), mask, width, name)


@device_function("warp.min")
def min(value: Any, mask: Any = None, width: Any = WARP_SIZE, *, nan: bool = False) -> Any:
    """The smallest value of all lanes, returned to each of them; a number wins over NaN, or NaN with ``nan=True``.

    Other arguments and errors as in `warp.sum`.

    Example:
        ``nearest = weft.warp.min(candidate)``
    """
    name = "warp.min"
    width = group_width(width, mask, name)
    kind = "min or NaN" if nan else "min"
    return folded(kind, items.counted(value, name), mask, width, name)


def folded(kind: str, value: Any, mask: Any, width: Any, name: str) -> Any:
    """A sum, maximum or minimum: by the warp's own instructions where it takes part as a whole."""
    value = items.of_thread(value, partial(of_two, kind), name)
    if width == WARP_SIZE and not kind.endswith("NaN"):
        return over_warp(kind, value, ALL if mask is None else mask)
    return reduced(value, partial(of_two, kind), mask, width, name)


@device_function("warp.argmax")
def argmax(
    value: Any, index: Any = None, mask: Any = None, width: Any = WARP_SIZE, *, nan: bool = False
) -> Any:
    """The largest value of all lanes and its index, returned to each of them: ``(value, index)``.

    Of equal values it is the one with the smallest index; a number wins over NaN.

    Args:
        value: a number; or a list of several.
        index: an integer that says where the value comes from, or as long a list of them; None: its place in the
            group, counted lane by lane.
        mask: the lanes that take part, as in `warp.reduce`.
        width: lanes of a group, as in `warp.reduce`.
        nan: whether NaN wins over numbers, as in NumPy and torch; known at compile time.

    Raises:
        TypeMismatchError, ValueRangeError: as `warp.reduce`.

    Example:
        ``best, lane = weft.warp.argmax(x)``
    """
    return extreme(value, index, mask, width, partial(first_of_larger, nan), "warp.argmax")


@device_function("warp.argmin")
def argmin(
    value: Any, index: Any = None, mask: Any = None, width: Any = WARP_SIZE, *, nan: bool = False
) -> Any:
    """The smallest value of all lanes and its index, returned to each of them: ``(value, index)``.

    Arguments and errors as in `warp.argmax`.

    Example:
        ``least, lane = weft.warp.argmin(x)``
    """
    return extreme(value, index, mask, width, partial(first_of_smaller, nan), "warp.argmin")


def extreme(value: Any, index: Any, mask: Any, width: Any, function: Any, name: str) -> Any:
    """The extreme value and its index."""
    width = group_width(width, mask, name)
    pairs = items.with_places(value, index, group_lane(width), name)
    return reduced(items.of_thread(pairs, function, name), function, mask, width, name)


def first_of_larger(nan: bool, left: Any, right: Any) -> Any:
    """The pair of value and index with the larger value, or the smaller index."""
    (a, i), (b, j) = left, right
    return _chosen(nan, a, i, b, j, b > a)


def first_of_smaller(nan: bool, left: Any, right: Any) -> Any:
    """The pair of value and index with the smaller value, or the smaller index."""
    (a, i), (b, j) = left, right
    return _chosen(nan, a, i, b, j, b < a)


def _chosen(nan: bool, a: Any, i: Any, b: Any, j: Any, is_beyond: Any) -> Any:
    is_equal = a == b
    if a.dtype.is_float:
        missing, number = (b, a) if nan else (a, b)
        is_beyond = is_beyond | ((missing != missing) & (number == number))
        is_equal = is_equal | ((a != a) & (b != b))
    takes = is_beyond | (is_equal & (j < i))
    return where(takes, b, a), where(takes, j, i)
