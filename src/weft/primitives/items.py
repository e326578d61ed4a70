# SPDX-License-Identifier: Apache-2.0
"""Several items per thread: a list is items that follow each other, thread by thread.

Written in weft's language. In: a list of items per thread, or a block's or a warp's part of a vector. Out: one thread's
items combined, items that other threads held (through shared memory), or items loaded and stored. Blocked items follow
each other thread by thread; striped ones lie one per thread, as many threads apart as take part. What lies beyond a
vector's end is neither read nor written.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from weft.language.control import static_assert, static_range
from weft.language.memory.vectors import load_vector, store_vector
from weft.primitives import trees
from weft.primitives.trees import BLOCK, first_of, meet, members_of, rank_in
from weft.primitives.values import (
    is_repeated,
    like,
    numbers,
    of_two,
    put,
    take,
    thread_partials,
    vector_width,
    widened,
)

ADD: Final = partial(of_two, "sum")


def is_list(value: Any) -> bool:
    """Whether a thread has several items."""
    return isinstance(value, list)


def counted(value: Any, name: str) -> Any:
    """The items with literals in their own types."""
    return [numbers(item, name) for item in value] if is_list(value) else numbers(value, name)


def widened_items(value: Any) -> Any:
    """The items in the types of their sums."""
    return [widened(item) for item in value] if is_list(value) else widened(value)


def running(items: Any, function: Any, name: str) -> Any:
    """The running combination of the items."""
    found = [items[0]]
    for item in items[1:]:
        found.append(trees.combined(function, found[-1], item, name))
    return found


def of_thread(value: Any, function: Any, name: str) -> Any:
    """The combination of a thread's items."""
    return running(value, function, name)[-1] if is_list(value) else value


def prepared(value: Any, function: Any, initial: Any, name: str, is_exclusive: Any = False) -> Any:
    """A value or a list, the function, and the first result, or None where that changes nothing."""
    value = counted(value, name)
    if function is None:
        value = widened_items(value)
        if initial is not None:
            initial = like(initial, value[0] if is_list(value) else value, name)
        return value, ADD, initial
    if is_exclusive:
        initial = like(initial, value[0] if is_list(value) else value, name)
    return value, function, initial


def after(before: Any, items: Any, function: Any, name: str) -> Any:
    """An exclusive scan from running items; the first one gets `before`."""
    found = [before]
    for through in items[:-1]:
        found.append(trees.combined(function, before, through, name))
    return found


def with_places(value: Any, index: Any, rank: Any, name: str) -> Any:
    """Pairs of a value and where it comes from; None: its place, counted thread by thread."""
    if not is_list(value):
        return counted((value, rank if index is None else index), name)
    if index is None:
        index = [rank * len(value) + k for k in range(len(value))]
    return counted([*zip(value, index, strict=True)], name)


def exchanged(items: Any, places: Any, scope: Any, name: str) -> Any:
    """Items moved to where each one says."""
    given = counted(items, name)
    if not is_list(given):
        return moved([given], [places], [rank_in(scope)], scope)[0]
    static_assert(is_list(places) and len(places) == len(given), f"{name}: each item needs a place")
    return moved(given, places, blocked(len(given), scope), scope)


def rearranged(items: Any, is_striped: Any, scope: Any, name: str) -> Any:
    """Blocked items striped, or striped ones blocked."""
    static_assert(is_list(items), f"{name}: the items are a list")
    given = counted(items, name)
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
    on, first = thread_partials(items[0], count), first_of(scope) * count
    for item, place in zip(items, places, strict=True):
        put(on, first + slot(place, count), item)
    meet(scope)
    found = [take(on, first + slot(source, count)) for source in sources]
    if is_repeated():
        meet(scope)
    return found


def slot(place: Any, count: Any) -> Any:
    """Address of a place: places a power of two apart are in different banks."""
    if count & (count - 1) != 0:
        return place
    return place ^ ((place >> 5) & (min(count, 32) - 1))


_ORDERS = ("blocked", "striped")


def loaded(a: Any, first: Any, count: Any, fill: Any, order: Any, scope: Any) -> Any:
    """The items from `first` on, that many per thread."""
    _check(a, count, order, scope)
    n, fill = a.shape[0], a.dtype(fill)
    if order == "striped":
        return [_element(a, first + place, n, fill) for place in striped(count, scope)]
    width, start = vector_width(a, count), first + rank_in(scope) * count
    if width == 1:
        return [_element(a, start + k, n, fill) for k in range(count)]
    if (first % width == 0) & (start + count <= n):
        found = ()
        for k in static_range(0, count, width):
            found = (*found, *load_vector(a, start + k, width))
    else:
        found = tuple(_element(a, start + k, n, fill) for k in range(count))
    return list(found)


def stored(a: Any, first: Any, items: Any, order: Any, scope: Any) -> None:
    """Writes the items from `first` on."""
    count = len(items)
    _check(a, count, order, scope)
    n = a.shape[0]
    if order == "striped":
        _store_each(a, [first + place for place in striped(count, scope)], items, n)
    else:
        width, start = vector_width(a, count), first + rank_in(scope) * count
        if width > 1 and (first % width == 0) & (start + count <= n):
            for k in static_range(0, count, width):
                store_vector(a, start + k, tuple(items[k : k + width]))
        else:
            _store_each(a, [first + place for place in blocked(count, scope)], items, n)


def _check(a: Any, count: Any, order: Any, scope: Any) -> None:
    static_assert(a.ndim == 1, f"{scope}.load and {scope}.store take a vector")
    static_assert(
        not a.dtype.is_packed,
        f"{scope}.load and {scope}.store take no packed elements; take them by weft.load_vector",
    )
    static_assert(
        isinstance(count, int) and count >= 1,
        f"{scope}.load: the count is a constant of at least 1",
    )
    static_assert(
        order in _ORDERS, f"the order of {scope}.load and {scope}.store is 'blocked' or 'striped'"
    )


def _element(a: Any, index: Any, n: Any, fill: Any) -> Any:
    return a[index] if index < n else fill


def _store_each(a: Any, indices: Any, items: Any, n: Any) -> None:
    for index, item in zip(indices, items, strict=True):
        if index < n:
            a[index] = item
