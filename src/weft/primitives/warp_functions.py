# SPDX-License-Identifier: Apache-2.0
"""The functions of ``weft.warp``: reductions, scans, votes, exchanges, loads and stores, sorting.

In: a value of each of the warp's lanes, or several items. Out: one value for all, or each lane's own.
"""

from __future__ import annotations

import operator
from builtins import max as larger_of
from functools import partial
from typing import Any

from weft.language.control import where
from weft.language.functions import device_function
from weft.language.numbers.math import popcount
from weft.language.threads import warp
from weft.primitives import items, trees
from weft.primitives.items import exchanged, loaded, rearranged, stored
from weft.primitives.sorting import merge_sorted, radix_sorted
from weft.primitives.trees import ALL, WARP, group_lane, group_lanes
from weft.primitives.values import group_width, moved, neutral, numbers, of_two, over_warp
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


@device_function("warp.bitwise_and")
def bitwise_and(value: Any, mask: Any = None) -> Any:
    """The bitwise and over all lanes, returned to each of them; of integers and ``bool_``.

    Args:
        value: a number, or a tuple or frozen dataclass of numbers.
        mask: the lanes that take part, as in `warp.reduce`.

    Raises:
        TypeMismatchError, ValueRangeError: as `warp.reduce`; floats are refused.

    Example:
        ``common = weft.warp.bitwise_and(word)``
    """
    return _of_bits("bitwise_and", value, mask)


@device_function("warp.bitwise_or")
def bitwise_or(value: Any, mask: Any = None) -> Any:
    """The bitwise or over all lanes, returned to each of them; arguments and errors as in `warp.bitwise_and`.

    Example:
        ``seen = weft.warp.bitwise_or(1 << digit)``
    """
    return _of_bits("bitwise_or", value, mask)


@device_function("warp.bitwise_xor")
def bitwise_xor(value: Any, mask: Any = None) -> Any:
    """The bitwise exclusive or over all lanes, returned to each of them; arguments and errors as in `warp.bitwise_and`.

    Example:
        ``parity = weft.warp.bitwise_xor(word)``
    """
    return _of_bits("bitwise_xor", value, mask)


def _of_bits(kind: str, value: Any, mask: Any) -> Any:
    return over_warp(kind, numbers(value, f"warp.{kind}"), ALL if mask is None else mask)


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
        initial: the first lane's result: a value of the same types. None for a sum: 0.
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
    return moved("idx", value, larger_of(lane, 0), mask), lane < 0


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
