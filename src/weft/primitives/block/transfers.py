# SPDX-License-Identifier: Apache-2.0
"""A block's part of a vector: ``weft.block.load`` and ``weft.block.store``.

Written in weft's language. In: a vector, where the block's part begins, how many items a thread has. Out: a list
per thread.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.primitives.threads import BLOCK
from weft.primitives.transfers import loaded, stored


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
