# SPDX-License-Identifier: Apache-2.0
"""The functions of ``weft.block``: reductions, scans, votes, exchanges, loads and stores, sorting, histograms.

In: a value of each of the block's threads, or several items. Out: one value for all, or each thread's own.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from weft.language.control import where
from weft.language.functions import device_function
from weft.language.memory.arrays import shared
from weft.language.memory.atomics import atomic_add
from weft.language.threads.barrier import (
    sync_threads,
    sync_threads_and,
    sync_threads_count,
    sync_threads_or,
)
from weft.language.threads.warp import lane_id, warp_id
from weft.primitives import items, trees
from weft.primitives.items import exchanged, loaded, rearranged, stored
from weft.primitives.sorting import merge_sorted, radix_sorted
from weft.primitives.trees import (
    ALL,
    BLOCK,
    block_threads,
    first_of_warp,
    group_lanes,
    over_block,
    thread_rank,
)
from weft.primitives.values import (
    is_repeated,
    moved,
    neutral,
    numbers,
    of_two,
    over_warp,
    partials,
    put,
    take,
    thread_partials,
)
from weft.primitives.warp_functions import begun, first_of_larger, first_of_smaller
from weft.types.dtype import i32
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
    return over_warps(value, block_threads(), partial(_folded_warps, kind))


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
    return over_warps(value, threads, partial(_reduced_warps, function, name))


def _reduced_warps(function: Any, name: str, values: Any, warps: Any) -> Any:
    lane = lane_id()
    value = take(values, where(lane < warps, lane, 0))
    return moved("idx", trees.reduced(value, function, warps, WARP_SIZE, name), 0, ALL)


def over_warps(value: Any, count: Any, of_warps: Any) -> Any:
    """The warps' values combined, in every thread.

    Args:
        value: of this thread's warp, the same in its lanes.
        count: threads that have a value.
        of_warps: combines that many partial results in each lane of a warp.
    """
    threads = block_threads()
    if threads > WARP_SIZE:
        values, result = partials(value, _MOST_WARPS), partials(value, 1)
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


@device_function("block.scan")
def scan(value: Any, function: Any = None, with_total: Any = False) -> Any:
    """For each thread, the values of the threads up to it, its own included, combined by a function.

    Args:
        value: a number, or a tuple, named tuple or frozen dataclass of numbers; or a list of several such items,
            which follow each other thread by thread: then a list is returned.
        function: takes two such values and returns one of the same types; associative, and inlined. None: the sum,
            where values of 8 and 16 bits are added as f32 or i32, and bools as i32.
        with_total: whether to return ``(values, total)``: also what all values combine to.

    Raises:
        TypeMismatchError: for a value that is not a number, or a function that gives another type.

    Example:
        ``through = weft.block.scan(x)``
    """
    name = "block.scan"
    value, function, _ = items.prepared(value, function, None, name)
    if items.is_list(value):
        own = items.running(value, function, name)
        _, before, total = over_block(own[-1], function, name, True, with_total)
        value = [_after(before, one, function, name) for one in own]
    else:
        value, _, total = over_block(value, function, name, False, with_total)
    return (value, total) if with_total else value


@device_function("block.exclusive_scan")
def exclusive_scan(
    value: Any, function: Any = None, initial: Any = None, with_total: Any = False
) -> Any:
    """For each thread, an initial value and the values of the threads before it combined by a function.

    Args:
        value: as in `block.scan`.
        function: as in `block.scan`.
        initial: the first thread's result: a value of the same types. None for a sum: 0.
        with_total: whether to return ``(values, total)``: also what all values combine to, without the initial one.

    Raises:
        TypeMismatchError: as `block.scan`; also for a function without an initial value.

    Example:
        ``place, kept = weft.block.exclusive_scan(weft.i32(keep), with_total=True)``
    """
    name = "block.exclusive_scan"
    value, function, initial = items.prepared(value, function, initial, name, is_exclusive=True)
    own = items.running(value, function, name) if items.is_list(value) else [value]
    _, before, total = over_block(own[-1], function, name, True, with_total)
    first = begun(initial, function, before, thread_rank() == 0, name)
    found = items.after(first, own, function, name)
    value = found if items.is_list(value) else found[0]
    return (value, total) if with_total else value


def _after(before: Any, value: Any, function: Any, name: str) -> Any:
    if thread_rank() > 0:
        value = trees.combined(function, before, value, name)
    return value


@device_function("block.any")
def any(predicate: Any) -> Any:
    """Whether the predicate is true in any thread: a ``bool_``, the same for all of them.

    It is also a barrier, as `sync_threads` is.

    Args:
        predicate: a number; any value but 0 is true.

    Raises:
        TypeMismatchError: if the predicate is not a number.

    Example:
        ``while weft.block.any(changed): changed = False``
    """
    return sync_threads_or(predicate)


@device_function("block.all")
def all(predicate: Any) -> Any:
    """Whether the predicate is true in all threads: a ``bool_``, the same for all of them.

    It is also a barrier. Arguments and errors as in `block.any`.

    Example:
        ``done = weft.block.all(abs(x) < 1e-6)``
    """
    return sync_threads_and(predicate)


@device_function("block.count")
def count(predicate: Any) -> Any:
    """In how many threads the predicate is true: an i32, the same for all of them.

    It is also a barrier. Arguments and errors as in `block.any`.

    Example:
        ``kept = weft.block.count(keep)``
    """
    return sync_threads_count(predicate)


@device_function("block.shuffle")
def shuffle(value: Any, thread: Any) -> Any:
    """The value that another thread of the block holds.

    Args:
        value: a number, or a tuple, named tuple or frozen dataclass of numbers.
        thread: the number of the thread to read, from 0; below the number of threads.

    Raises:
        TypeMismatchError: for a value that is not a number.

    Example:
        ``mirrored = weft.block.shuffle(x, weft.block_dim.x - 1 - tid)``
    """
    value = numbers(value, "block.shuffle")
    on = thread_partials(value, 1)
    put(on, thread_rank(), value)
    sync_threads()
    found = take(on, thread)
    if is_repeated():
        sync_threads()
    return found


@device_function("block.exchange")
def exchange(items: Any, places: Any) -> Any:
    """Items moved to where each one says: thread t then holds those of the places t · k to t · k + k − 1.

    Args:
        items: a list of k values per thread; or a single value, for k = 1.
        places: as long a list of integers, or one: each number from 0 to k times the threads once in the block.

    Returns:
        As `items`.

    Raises:
        TypeMismatchError: for a value that is not a number.
        CompileError: for lists of different lengths.

    Example:
        ``x = weft.block.exchange(x, weft.block_dim.x - 1 - tid)``
    """
    return exchanged(items, places, BLOCK, "block.exchange")


@device_function("block.to_striped")
def to_striped(items: Any) -> Any:
    """Blocked items rearranged: item k of thread t is then number t + k · threads.

    Args:
        items: a list of values, which follow each other thread by thread.

    Returns:
        As long a list.

    Raises:
        TypeMismatchError: for a value that is not a number.
        CompileError: for something else than a list.

    Example:
        ``p, q = weft.block.to_striped([x, y])``
    """
    return rearranged(items, True, BLOCK, "block.to_striped")


@device_function("block.to_blocked")
def to_blocked(items: Any) -> Any:
    """Striped items rearranged: item k of thread t is then number t · count + k.

    Loaded striped and then rearranged, items that follow each other in memory come to a thread with accesses of
    adjacent items by adjacent threads.

    Args:
        items: a list of values, item k of thread t being number t + k · threads.

    Returns:
        As long a list.

    Raises:
        TypeMismatchError: for a value that is not a number.
        CompileError: for something else than a list.

    Example:
        ``p, q = weft.block.to_blocked([x, y])``
    """
    return rearranged(items, False, BLOCK, "block.to_blocked")


@device_function("block.load")
def load(a: Any, first: Any, count: Any, fill: Any = 0, order: Any = "blocked") -> Any:
    """The block's items of a vector from `first` on: a list of `count` per thread.

    Blocked items of a contiguous vector whose alignment is known are read up to 16 bytes at a time, where `first`
    allows that and all of a thread's items are there.

    Args:
        a: a vector.
        first: the index of the block's first item, an integer.
        count: items per thread, known at compile time.
        fill: a number, for items beyond the end.
        order: ``"blocked"``: they follow each other thread by thread; ``"striped"``: item k of thread t is number
            t + k · threads, so that adjacent threads read adjacent items.

    Raises:
        CompileError: for a tensor that is not a vector, another count or order.

    Example:
        ``p, q = weft.block.load(a, 2 * weft.block_dim.x * block, 2)``
    """
    return loaded(a, first, count, fill, order, BLOCK)


@device_function("block.store")
def store(a: Any, first: Any, items: Any, order: Any = "blocked") -> None:
    """Writes the block's items to a vector from `first` on, those that are within it.

    Args:
        a: a vector.
        first: the index of the block's first item, an integer.
        items: a list of numbers per thread.
        order: as in `block.load`.

    Raises:
        CompileError: as `block.load`.

    Example:
        ``weft.block.store(b, 2 * weft.block_dim.x * block, [x, y])``
    """
    stored(a, first, items, order, BLOCK)


@device_function("block.radix_sort")
def radix_sort(
    keys: Any, values: Any = None, descending: Any = False, count: Any = None, bits: Any = None
) -> Any:
    """The block's keys in order: the first thread gets the first ones, the second thread the next.

    Equal keys keep their order. NaN comes last, in either direction, as one NaN; -0.0 and 0.0 are equal. One
    pass per four bits of the keys, each with five barriers.

    Args:
        keys: a number of any type; or a list of several, which follow each other thread by thread.
        values: None, or what goes with each key: a number, a tuple or frozen dataclass of numbers, or a list of them.
        descending: whether the largest comes first; known at compile time.
        count: how many keys there are in the block, from the first one on, the same for all threads; what follows
            them in the result is undefined. None: all.
        bits: None, or a pair: the first and the end of the bits to sort by, known at compile time; of an unsigned
            integer, they are its own.

    Returns:
        The keys, as they were given; with values ``(keys, values)``.

    Raises:
        TypeMismatchError: for a key or a value that is not a number.
        CompileError: for lists of different lengths, or bits that the keys do not have.

    Example:
        ``x, place = weft.block.radix_sort(x, tid)``
    """
    return radix_sorted(keys, values, descending, count, bits, BLOCK, "block.radix_sort")


@device_function("block.merge_sort")
def merge_sort(items: Any, less: Any = operator.lt, count: Any = None) -> Any:
    """The block's items in order: the first thread gets the first ones, the second thread the next.

    Items that compare equal keep their order. For n items there are log₂ n merge steps, each with
    two barriers and a binary search; numbers are sorted faster by `block.radix_sort`.

    Args:
        items: a number, or a tuple, named tuple or frozen dataclass of numbers; or a list of several, which follow each
            other thread by thread.
        less: takes two items and says whether the first one comes before the second one. It is inlined.
        count: how many items there are in the block, from the first one on, the same for all threads; the others stay
            where they are. None: all.

    Returns:
        As `items`.

    Raises:
        TypeMismatchError: for an item that is not a number.

    Example:
        ``x, _ = weft.block.merge_sort((x, tid), lambda one, other: abs(one[0]) < abs(other[0]))``
    """
    return merge_sorted(items, less, count, BLOCK, "block.merge_sort")


@device_function("block.histogram")
def histogram(bin: Any, bins: Any, into: Any = None) -> Any:
    """Counts the threads, or their items, of each bin.

    Args:
        bin: an integer, the number of a bin; or a list of several. Others than 0 to `bins` − 1 are not counted.
        bins: how many bins there are, known at compile time.
        into: an array that an earlier call returned, which is added to; None: a new one.

    Returns:
        The counts: `bins` elements of i32 in shared memory. All threads see them at once. In a loop a new call
        writes the same array again.

    Raises:
        TypeMismatchError: for a number of bins that is not constant.

    Example:
        ``counts = weft.block.histogram(digit % 10, 10)``
    """
    if into is None:
        counts = shared(bins, i32)
        if is_repeated():
            sync_threads()
        for each in range(thread_rank(), bins, block_threads()):
            counts[each] = 0
    else:
        counts = into
    sync_threads()
    for one in bin if items.is_list(bin) else [bin]:
        if 0 <= one < bins:
            atomic_add(counts, one, 1)
    sync_threads()
    return counts
