# SPDX-License-Identifier: Apache-2.0
"""A block's or a warp's part of a vector.

Written in weft's language. In: a vector, where the part begins, how many items a thread has. Out: a list per thread.
What lies beyond the vector's end is neither read nor written.
"""

from __future__ import annotations

from typing import Any

from weft.language.control import static_assert, static_range
from weft.language.memory.vectors import load_vector, store_vector
from weft.primitives.exchanging import blocked, striped
from weft.primitives.threads import rank_in
from weft.primitives.values import vector_width

_ORDERS = ("blocked", "striped")


def loaded(a: Any, first: Any, count: Any, fill: Any, order: Any, scope: Any) -> Any:
    """The items from `first` on, so many per thread."""
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
