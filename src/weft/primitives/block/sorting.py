# SPDX-License-Identifier: Apache-2.0
"""Sorting within a block: ``weft.block.radix_sort`` and ``weft.block.merge_sort``.

Written in weft's language. In: keys or items per thread. Out: them in order, thread by thread.
"""

from __future__ import annotations

import operator
from typing import Any

from weft.language.functions import device_function
from weft.primitives.merging import merge_sorted
from weft.primitives.radix import radix_sorted
from weft.primitives.threads import BLOCK


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

    Items of which neither is less than the other keep their order. For n items there are log₂ n merge steps, each with
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
