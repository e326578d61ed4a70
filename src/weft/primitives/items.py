# SPDX-License-Identifier: Apache-2.0
"""Several items per thread: a list is items that follow each other, thread by thread.

Written in weft's language. In: a value, or a list of values. Out: what one thread's items combine to.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from weft.primitives import trees
from weft.primitives.values import like, numbers, of_two, widened

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
    """A value or a list, the function, and what the first one gets, or None where that changes nothing."""
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
    """An exclusive scan from running items, the first of which gets `before`."""
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
