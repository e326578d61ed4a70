# SPDX-License-Identifier: Apache-2.0
"""Several items per thread: a list is items that follow each other, thread by thread.

Written in weft's language. In: a value, or a list of values. Out: what one thread's items combine to.
"""

from __future__ import annotations

from typing import Any

from weft.primitives.values import numbers, widened
from weft.primitives.warp import scans, trees


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
    """What the items up to each one combine to."""
    found = [items[0]]
    for item in items[1:]:
        found.append(trees.combined(function, found[-1], item, name))
    return found


def of_thread(value: Any, function: Any, name: str) -> Any:
    """What a thread's items combine to."""
    return running(value, function, name)[-1] if is_list(value) else value


def prepared(value: Any, function: Any, initial: Any, name: str, is_exclusive: Any = False) -> Any:
    """As `scans.prepared`, of a value or a list."""
    value = counted(value, name)
    first = value[0] if is_list(value) else value
    first, combine, initial = scans.prepared(first, function, initial, name, is_exclusive)
    return (widened_items(value) if function is None else value), combine, initial
