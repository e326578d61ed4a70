# SPDX-License-Identifier: Apache-2.0
"""Items that change threads of a block or a warp through shared memory.

Written in weft's language. In: a list of items per thread. Out: those of other threads. Blocked items follow each
other thread by thread; striped ones lie one per thread, as many threads apart as take part.
"""

from __future__ import annotations

from typing import Any

from weft.language.control import static_assert
from weft.primitives import items as lists
from weft.primitives.threads import BLOCK, first_of, meet, members_of, rank_in
from weft.primitives.values import is_repeated, put, take, thread_board


def exchanged(items: Any, places: Any, scope: Any, name: str) -> Any:
    """Items moved to where each one says."""
    given = lists.counted(items, name)
    if not lists.is_list(given):
        return moved([given], [places], [rank_in(scope)], scope)[0]
    static_assert(
        lists.is_list(places) and len(places) == len(given), f"{name}: each item needs a place"
    )
    return moved(given, places, blocked(len(given), scope), scope)


def rearranged(items: Any, is_striped: Any, scope: Any, name: str) -> Any:
    """Blocked items striped, or striped ones blocked."""
    static_assert(lists.is_list(items), f"{name}: the items are a list")
    given = lists.counted(items, name)
    by_thread, apart = blocked(len(given), scope), striped(len(given), scope)
    if is_striped:
        return moved(given, by_thread, apart, scope)
    return moved(given, apart, by_thread, scope)


def blocked(count: Any, scope: Any = BLOCK) -> Any:
    """The numbers of a thread's blocked items."""
    first = rank_in(scope) * count
    return [first + k for k in range(count)]


def striped(count: Any, scope: Any = BLOCK) -> Any:
    """The numbers of a thread's striped items."""
    rank, threads = rank_in(scope), members_of(scope)
    return [rank + k * threads for k in range(count)]


def moved(items: Any, places: Any, sources: Any, scope: Any) -> Any:
    """The items of other places, each written where it belongs and read from there."""
    count = len(items)
    on, first = thread_board(items[0], count), first_of(scope) * count
    for item, place in zip(items, places, strict=True):
        put(on, first + slot(place, count), item)
    meet(scope)
    found = [take(on, first + slot(source, count)) for source in sources]
    if is_repeated():
        meet(scope)
    return found


def slot(place: Any, count: Any) -> Any:
    """Where a place lies: threads that access places a power of two apart find them in different banks."""
    if count & (count - 1) != 0:
        return place
    return place ^ ((place >> 5) & (min(count, 32) - 1))
