# SPDX-License-Identifier: Apache-2.0
"""One value of those of a block's threads: ``weft.block.reduce``, ``sum``, ``max``, ``min``, ``argmax``, ``argmin``.

Written in weft's language. In: a value per thread, or a list of them. Out: the same result in each thread. Each warp
combines its values, and then those of the warps: every warp for itself, after one barrier, where all warps are
whole; else the first warp, which hands the result on after a second one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.language.control import where
from weft.language.functions import device_function
from weft.language.threads.barrier import sync_threads
from weft.language.threads.warp import lane_id, warp_id
from weft.primitives import items, trees
from weft.primitives.threads import ALL, block_threads, first_of_warp, group_lanes, thread_rank
from weft.primitives.values import board, is_repeated, moved, neutral, of_two, over_warp, put, take
from weft.primitives.warp.reductions import first_of_larger, first_of_smaller
from weft.types.launch_limits import WARP_SIZE

_MOST_WARPS = WARP_SIZE


@device_function("block.reduce")
def reduce(value: Any, function: Any, count: Any = None) -> Any:
    """The values of all threads combined by a function, returned to each of them.

    Values are combined in the order of the threads, so that the function need not be commutative, and floats give
    the same bits on every target.

    Args:
        value: a number, or a tuple, named tuple or frozen dataclass of numbers; or a list of several such items,
            which follow each other thread by thread.
        function: takes two such values and returns one of the same types; associative. It is inlined.
        count: how many threads have a value, from the first one on, at least 1 and the same for all; None: all.

    Raises:
        TypeMismatchError: for a value that is not a number, or a function that gives another type.

    Example:
        ``product = weft.block.reduce(x, lambda left, right: left * right)``
    """
    name = "block.reduce"
    value = items.of_thread(items.counted(value, name), function, name)
    return reduced(value, function, count, name)


@device_function("block.sum")
def sum(value: Any) -> Any:
    """The sum over all threads, returned to each of them.

    Values of 8 and 16 bits are added as f32 or i32, and bools as i32; other integers wrap. Floats are added as a
    tree, adjacent ones first, to the same bits on every target.

    Args:
        value: a number, or a tuple or frozen dataclass of numbers; or a list of several such items.

    Raises:
        TypeMismatchError: for a value that is not a number.

    Example:
        ``total = weft.block.sum(x)``
    """
    value = items.widened_items(items.counted(value, "block.sum"))
    return folded("sum", value, "block.sum")


@device_function("block.max")
def max(value: Any, *, nan: bool = False) -> Any:
    """The largest value of all threads, returned to each of them; a number wins over NaN, or NaN with ``nan=True``.

    Other arguments and errors as in `block.sum`.

    Example:
        ``shift = weft.block.max(logit)``
    """
    kind = "max or NaN" if nan else "max"
    return folded(kind, items.counted(value, "block.max"), "block.max")


@device_function("block.min")
def min(value: Any, *, nan: bool = False) -> Any:
    """The smallest value of all threads, returned to each of them; a number wins over NaN, or NaN with ``nan=True``.

    Other arguments and errors as in `block.sum`.

    Example:
        ``nearest = weft.block.min(candidate)``
    """
    kind = "min or NaN" if nan else "min"
    return folded(kind, items.counted(value, "block.min"), "block.min")


@device_function("block.argmax")
def argmax(value: Any, index: Any = None, *, nan: bool = False) -> Any:
    """The largest value of all threads and its index, returned to each of them: ``(value, index)``.

    Of equal values it is the one with the smallest index; a number wins over NaN.

    Args:
        value: a number; or a list of several.
        index: an integer that says where the value comes from, or as long a list of them; None: its place, counted
            thread by thread.
        nan: whether NaN wins over numbers, as in NumPy and torch; known at compile time.

    Raises:
        TypeMismatchError: for a value or an index that is not a number.

    Example:
        ``best, place = weft.block.argmax(x)``
    """
    return extreme(value, index, partial(first_of_larger, nan), "block.argmax")


@device_function("block.argmin")
def argmin(value: Any, index: Any = None, *, nan: bool = False) -> Any:
    """The smallest value of all threads and its index, returned to each of them: ``(value, index)``.

    Arguments and errors as in `block.argmax`.

    Example:
        ``least, place = weft.block.argmin(x)``
    """
    return extreme(value, index, partial(first_of_smaller, nan), "block.argmin")


def extreme(value: Any, index: Any, function: Any, name: str) -> Any:
    """The extreme value and its index."""
    pairs = items.with_places(value, index, thread_rank(), name)
    return reduced(items.of_thread(pairs, function, name), function, None, name)


def folded(kind: str, value: Any, name: str) -> Any:
    """A sum, maximum or minimum, by the machine's own means within a warp."""
    value = items.of_thread(value, partial(of_two, kind), name)
    if kind.endswith("NaN"):
        return reduced(value, partial(of_two, kind), None, name)
    value = over_warp(kind, value, ALL)
    return over_block(value, block_threads(), partial(_folded_warps, kind))


def _folded_warps(kind: str, values: Any, warps: Any) -> Any:
    lane = lane_id()
    if kind == "sum":
        own = take(values, lane) if lane < warps else neutral(values)
    else:  # one value more than once makes no difference
        own = take(values, where(lane < warps, lane, 0))
    return over_warp(kind, own, ALL)


def reduced(value: Any, function: Any, count: Any, name: str) -> Any:
    """The values of the first `count` threads combined; of all for None."""
    lanes = group_lanes() if count is None else count - first_of_warp()
    value = trees.reduced(value, function, lanes, WARP_SIZE, name)
    value = moved("idx", value, 0, ALL)
    threads = block_threads() if count is None else count
    return over_block(value, threads, partial(_reduced_warps, function, name))


def _reduced_warps(function: Any, name: str, values: Any, warps: Any) -> Any:
    lane = lane_id()
    value = take(values, where(lane < warps, lane, 0))
    return moved("idx", trees.reduced(value, function, warps, WARP_SIZE, name), 0, ALL)


def over_block(value: Any, count: Any, of_warps: Any) -> Any:
    """The warps' values combined, in every thread.

    Args:
        value: of this thread's warp, the same in its lanes.
        count: threads that have a value.
        of_warps: combines the values on a board, so many of them, in each lane of a warp.
    """
    threads = block_threads()
    if threads > WARP_SIZE:
        values, result = board(value, _MOST_WARPS), board(value, 1)
        warp, is_whole = warp_id(), threads & (WARP_SIZE - 1) == 0
        if lane_id() == 0:
            put(values, warp, value)
        sync_threads()
        # A partial last warp may have fewer lanes than there are warps; the first one never has.
        if is_whole | (warp == 0):
            value = of_warps(values, (count + WARP_SIZE - 1) >> 5)
        if not is_whole:
            if thread_rank() == 0:
                put(result, 0, value)
            sync_threads()
            value = take(result, 0)
        elif is_repeated():
            sync_threads()
    return value
