# SPDX-License-Identifier: Apache-2.0
"""Results that are kept, each a single one, whatever the threads do.

In: a function of hashable arguments. Out: the same with a memory. It has no lock, so that nothing can hang on it:
no signal handler, no forked child, no import.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class Kept(Generic[Result]):
    """What `kept` makes of a function."""

    def __init__(self, function: Callable[..., Result]) -> None:
        self._function = function
        self._results: dict[tuple[Any, ...], Result] = {}
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Result:
        """The one result for these arguments."""
        try:
            return self._results[arguments]
        except KeyError:
            pass
        return self._results.setdefault(arguments, self._function(*arguments))

    def cache_clear(self) -> None:
        """Forgets all results; for tests, as that of `functools.cache`."""
        self._results.clear()


def kept(function: Callable[..., Result]) -> Kept[Result]:
    """As `functools.cache`, but all callers get the same object.

    Threads that come first together all run the function, and the first result that is stored becomes everybody's;
    with `functools.cache` each would get its own. An exception is not kept.

    Args:
        function: takes hashable arguments by position; running it once more than needed does no harm.

    Example:
        >>> @kept
        ... def made(name):
        ...     return [name]
        >>> made("a") is made("a")
        True
    """
    return Kept(function)
