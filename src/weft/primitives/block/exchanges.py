# SPDX-License-Identifier: Apache-2.0
"""Values that change threads of a block through shared memory: ``weft.block.exchange`` and its kind.

Written in weft's language. In: a value or a list of items per thread. Out: those of other threads.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.language.threads.barrier import sync_threads
from weft.primitives.exchanging import exchanged, rearranged
from weft.primitives.threads import BLOCK, thread_rank
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
