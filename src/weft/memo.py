# SPDX-License-Identifier: Apache-2.0
"""Memoization with a single result per key, in any threads; and the cache of calls by their arguments' key.

In: a function of hashable arguments, or a call's key. Out: the same, memoized; the entry that earlier calls left.
Without a lock that a signal handler, a forked child or an import could hang on.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

Result = TypeVar("Result")


class Guard(Protocol):
    """A value outside a function that its compilation read: a global, or one of its closure."""

    def is_current(self) -> bool:
        """Whether it has the same value still."""
        ...


class Entry(Protocol):
    """Entry of a `CallCache`: valid as long as what was captured is current."""

    @property
    def captured(self) -> Sequence[Guard]:
        """The values that it depends on besides its key."""
        ...


AnyEntry = TypeVar("AnyEntry", bound=Entry)


class CallCache(Generic[AnyEntry]):
    """Entries found again by the key of a call's arguments, while what they captured is current.

    Each operation is a single one of a dictionary, so there is no lock.

    Args:
        most: entries, and keys seen once; when there are more, all are dropped. None: any number.
    """

    __slots__ = ("_entries", "_most", "_seen")

    def __init__(self, most: int | None = None) -> None:
        self._entries: dict[Hashable, AnyEntry] = {}
        self._most = most
        self._seen: set[int] = set()

    def find(self, key: Hashable) -> AnyEntry | None:
        """The current entry of a key."""
        entry = self._entries.get(key)
        if entry is not None:
            for item in entry.captured:
                if not item.is_current():
                    return None
        return entry

    def keep(self, key: Hashable, entry: AnyEntry) -> None:
        """Makes it the key's entry, in place of the one before."""
        if self._most is not None and len(self._entries) >= self._most:
            self._entries.clear()
        self._entries[key] = entry

    def is_second(self, key: Hashable) -> bool:
        """Whether the key was asked about before: one that never returns is not worth an entry."""
        number = hash(key)
        if number in self._seen:
            return True
        if self._most is not None and len(self._seen) >= self._most:
            self._seen.clear()
        self._seen.add(number)
        return False

    def entries(self) -> list[AnyEntry]:
        """All entries, the newest key's last."""
        return list(self._entries.values())


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
