# SPDX-License-Identifier: Apache-2.0
"""Values that change threads through shared memory: ``weft.block.exchange`` and its kind.

Written in weft's language. In: a value or a list of items per thread. Out: those of other threads. Blocked items
follow each other thread by thread; striped ones lie one per thread, as many threads apart as the block has.
"""

from __future__ import annotations

from typing import Any

from weft.language.control import static_assert
from weft.language.functions import device_function
from weft.language.threads.barrier import sync_threads
from weft.primitives.block import items as lists
from weft.primitives.threads import block_threads, thread_rank
from weft.primitives.values import is_repeated, numbers, put, take, thread_board


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
    on = thread_board(value, 1)
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
    given = lists.counted(items, "block.exchange")
    if not lists.is_list(given):
        return moved([given], [places], [thread_rank()])[0]
    static_assert(
        lists.is_list(places) and len(places) == len(given), "exchange: each item needs a place"
    )
    return moved(given, places, blocked(len(given)))


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
    static_assert(lists.is_list(items), "to_striped: the items are a list")
    given = lists.counted(items, "block.to_striped")
    return moved(given, blocked(len(given)), striped(len(given)))


@device_function("block.to_blocked")
def to_blocked(items: Any) -> Any:
    """Striped items rearranged: item k of thread t is then number t · count + k.

    Loaded striped and then rearranged, items that follow each other in memory come to a thread with accesses of
    neighbors by neighbors.

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
    static_assert(lists.is_list(items), "to_blocked: the items are a list")
    given = lists.counted(items, "block.to_blocked")
    return moved(given, striped(len(given)), blocked(len(given)))


def blocked(count: Any) -> Any:
    """The numbers of a thread's blocked items."""
    first = thread_rank() * count
    return [first + k for k in range(count)]


def striped(count: Any) -> Any:
    """The numbers of a thread's striped items."""
    rank, threads = thread_rank(), block_threads()
    return [rank + k * threads for k in range(count)]


def moved(items: Any, places: Any, sources: Any) -> Any:
    """The items of other places, each written where it belongs and read from there."""
    count = len(items)
    on = thread_board(items[0], count)
    for item, place in zip(items, places, strict=True):
        put(on, slot(place, count), item)
    sync_threads()
    found = [take(on, slot(source, count)) for source in sources]
    if is_repeated():
        sync_threads()
    return found


def slot(place: Any, count: Any) -> Any:
    """Where a place lies: threads that access places a power of two apart find them in different banks."""
    if count & (count - 1) != 0:
        return place
    return place ^ ((place >> 5) & (min(count, 32) - 1))
