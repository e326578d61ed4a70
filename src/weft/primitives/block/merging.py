# SPDX-License-Identifier: Apache-2.0
"""Sorting within a block by a user's comparison: ``weft.block.merge_sort``.

Written in weft's language. In: items of any structure, and which of two comes first. Out: them in order, thread by
thread. In each round runs of a length are merged in pairs: an item searches its place in the other run of its pair.
"""

from __future__ import annotations

import operator
from typing import Any

from weft.language.control import select
from weft.language.functions import device_function
from weft.language.threads.barrier import sync_threads
from weft.primitives.block import items as lists
from weft.primitives.block.exchanges import blocked
from weft.primitives.threads import block_threads
from weft.primitives.values import chosen, is_repeated, put, take, thread_board


@device_function("block.merge_sort")
def merge_sort(items: Any, less: Any = operator.lt, count: Any = None) -> Any:
    """The block's items in order: the first thread gets the first ones, the second thread the next.

    Items of which neither is less than the other keep their order. For n items there are log₂ n rounds, each with two
    barriers and a binary search; numbers are sorted faster by `block.radix_sort`.

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
    given = lists.counted(items, "block.merge_sort")
    own = given if lists.is_list(given) else [given]
    places = blocked(len(own))
    size = block_threads() * len(own) if count is None else count
    on = thread_board(own[0], len(own))
    for item, place in zip(own, places, strict=True):
        put(on, place, item)
    sync_threads()
    run = 1
    while run < size:
        own = [take(on, place) for place in places]
        targets = [
            _merged(on, item, place, run, size, less)
            for item, place in zip(own, places, strict=True)
        ]
        sync_threads()
        for item, target in zip(own, targets, strict=True):
            put(on, target, item)
        sync_threads()
        run *= 2
    own = [take(on, place) for place in places]
    if is_repeated():
        sync_threads()
    return own if lists.is_list(given) else own[0]


def _merged(on: Any, item: Any, place: Any, run: Any, size: Any, less: Any) -> Any:
    """Where an item belongs once its run is merged with the other one of its pair."""
    pair = place & -(2 * run)
    is_left = place < pair + run
    first = min(select(is_left, pair + run, pair), size)
    low, high = first, min(first + run, size)
    if place >= size:
        high = low
    while low < high:
        middle = (low + high) >> 1
        other = take(on, middle)
        is_less = less(chosen(is_left, other, item), chosen(is_left, item, other)) != 0
        # Of equal items those of the left run come first.
        if is_less == is_left:
            low = middle + 1
        else:
            high = middle
    target = place + (low - first) - select(is_left, 0, run)
    return select(place < size, target, place)
