# SPDX-License-Identifier: Apache-2.0
"""Running results over a block's threads: ``weft.block.scan`` and ``exclusive_scan``.

Written in weft's language. In: a value per thread, or a list of them. Out: what the values up to each one combine
to.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.primitives import items, trees
from weft.primitives.scanning import over_block
from weft.primitives.threads import thread_rank
from weft.primitives.warp.scans import begun


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
        initial: what the first thread gets: a value of the same types. None for a sum: 0.
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
