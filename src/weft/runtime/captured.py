# SPDX-License-Identifier: Apache-2.0
"""Guards of a compiled function, compared at each direct call: the values that its compilation has read.

In: captured values. Out: fewer of them; most are compared at once, by identity, in C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from weft import _native

if TYPE_CHECKING:
    from collections.abc import Sequence


class Captured(Protocol):
    """A global or closure constant that a compilation read."""

    @property
    def places(self) -> tuple[Any, ...]:
        """Where it was read; if each holds the same object still, it is current. May be empty."""
        ...

    def is_current(self) -> bool:
        """Whether the name still has the same value."""
        ...


class Places:
    """Many captured values, compared at once by identity and, if one differs, one by one.

    Args:
        values: each with its places.
    """

    __slots__ = ("_values", "places")

    def __init__(self, values: Sequence[Captured]) -> None:
        self._values = values
        self.places = tuple(place for value in values for place in value.places)

    def is_current(self) -> bool:
        """Whether all of them are."""
        return _native.is_unchanged(self.places) or all(v.is_current() for v in self._values)


def grouped(values: Sequence[Captured]) -> tuple[Captured, ...]:
    """The same values, those with places as one."""
    placed = [value for value in values if value.places]
    others = [value for value in values if not value.places]
    return (Places(placed), *others) if placed else tuple(others)
