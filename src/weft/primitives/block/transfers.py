# SPDX-License-Identifier: Apache-2.0
"""A block's part of a vector: ``weft.block.load`` and ``weft.block.store``.

Written in weft's language. In: a vector, where the block's part begins, how many items a thread has. Out: a list per
thread. What lies beyond the vector's end is neither read nor written.
"""

from __future__ import annotations

from typing import Any

from weft.language.control import static_assert, static_range
from weft.language.functions import device_function
from weft.language.memory.vectors import load_vector, store_vector
from weft.primitives.block.exchanges import blocked, striped
from weft.primitives.threads import thread_rank
from weft.primitives.values import vector_width

_ORDERS = ("blocked", "striped")


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
            t + k · threads, so that neighbors read neighbors.

    Raises:
        CompileError: for a tensor that is not a vector, another count or order.

    Example:
        ``p, q = weft.block.load(a, 2 * weft.block_dim.x * block, 2)``
    """
    _check(a, count, order)
    n, fill = a.shape[0], a.dtype(fill)
    if order == "striped":
        return [_element(a, first + place, n, fill) for place in striped(count)]
    width, start = vector_width(a, count), first + thread_rank() * count
    if width == 1:
        return [_element(a, start + k, n, fill) for k in range(count)]
    if (first % width == 0) & (start + count <= n):
        found = ()
        for k in static_range(0, count, width):
            found = (*found, *load_vector(a, start + k, width))
    else:
        found = tuple(_element(a, start + k, n, fill) for k in range(count))
    return list(found)


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
    count = len(items)
    _check(a, count, order)
    n = a.shape[0]
    if order == "striped":
        _store_each(a, [first + place for place in striped(count)], items, n)
    else:
        width, start = vector_width(a, count), first + thread_rank() * count
        if width > 1 and (first % width == 0) & (start + count <= n):
            for k in static_range(0, count, width):
                store_vector(a, start + k, tuple(items[k : k + width]))
        else:
            _store_each(a, [first + place for place in blocked(count)], items, n)


def _check(a: Any, count: Any, order: Any) -> None:
    static_assert(a.ndim == 1, "block.load and block.store take a vector")
    static_assert(
        isinstance(count, int) and count >= 1, "block.load: the count is a constant of at least 1"
    )
    static_assert(
        order in _ORDERS, "the order of block.load and block.store is 'blocked' or 'striped'"
    )


def _element(a: Any, index: Any, n: Any, fill: Any) -> Any:
    return a[index] if index < n else fill


def _store_each(a: Any, indices: Any, items: Any, n: Any) -> None:
    for index, item in zip(indices, items, strict=True):
        if index < n:
            a[index] = item
