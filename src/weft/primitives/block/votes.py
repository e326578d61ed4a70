# SPDX-License-Identifier: Apache-2.0
"""Conditions over a block's threads: ``weft.block.any``, ``all``, ``count``.

Written in weft's language. In: a condition per thread. Out: the same answer in each of them.
"""

from __future__ import annotations

from typing import Any

from weft.language.functions import device_function
from weft.language.threads.barrier import sync_threads_and, sync_threads_count, sync_threads_or


@device_function("block.any")
def any(predicate: Any) -> Any:
    """Whether the predicate is true in any thread: a ``bool_``, the same for all of them.

    It is also a barrier, as `sync_threads` is.

    Args:
        predicate: a number; any value but 0 is true.

    Raises:
        TypeMismatchError: if the predicate is not a number.

    Example:
        ``while weft.block.any(changed): changed = False``
    """
    return sync_threads_or(predicate)


@device_function("block.all")
def all(predicate: Any) -> Any:
    """Whether the predicate is true in all threads: a ``bool_``, the same for all of them.

    It is also a barrier. Arguments and errors as in `block.any`.

    Example:
        ``done = weft.block.all(abs(x) < 1e-6)``
    """
    return sync_threads_and(predicate)


@device_function("block.count")
def count(predicate: Any) -> Any:
    """In how many threads the predicate is true: an i32, the same for all of them.

    It is also a barrier. Arguments and errors as in `block.any`.

    Example:
        ``kept = weft.block.count(keep)``
    """
    return sync_threads_count(predicate)
