# SPDX-License-Identifier: Apache-2.0
"""Memoization with a single result per key, in any threads.

In: a function of hashable arguments. Out: the same, memoized. It has no lock that a signal handler, a forked child or
an import could hang on.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class Kept(Generic[Result]):
    """A function made by `kept`."""

    def __init__(self, function: Callable[..., Result]) -> None:
        self._function = function
        self._results: dict[tuple[Any, ...], Result] = {}
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Result:
        """The single result for these arguments."""
        try:
            return self._results[arguments]
        except KeyError:
            pass
        return self._results.setdefault(arguments, self._function(*arguments))

    def cache_clear(self) -> None:
        """Forgets all results; for tests, as in `functools.cache`."""
        self._results.clear()


def kept(function: Callable[..., Result]) -> Kept[Result]:
    """Like `functools.cache`, but all callers get the same object.

    Threads that come first at the same time all run the function, and share the first stored result; with
    `functools.cache` each would get its own. Exceptions are not kept.

    Args:
        function: takes hashable positional arguments; extra runs must be harmless.

    Example:
        >>> @kept
        ... def made(name):
        ...     return [name]
        >>> made("a") is made("a")
        True
    """
    return Kept(function)
