# SPDX-License-Identifier: Apache-2.0
"""Items of lists and dicts and attributes of objects, each carried and joined like a variable.

In: an object that traced code made, and a key or a name. Out: `Slot`; a region's values of slots, put in place.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.frontend.state.reachable import is_plain_object

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping


class Slot:
    """One item of a list or dict, or one attribute of an object; two slots are equal if they are the same place.

    Attributes:
        item: the list, dict or object.
        key: an index of 0 or more, a key, or an attribute's name.
    """

    __slots__ = ("_place", "item", "key")

    def __init__(self, item: Any, key: Any) -> None:
        self.item = item
        self.key = key
        self._place: Any = item if isinstance(item, list | dict) else vars(item)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and self.item is other.item and self.key == other.key

    def __hash__(self) -> int:
        return hash((id(self.item), self.key))

    def __str__(self) -> str:
        what = "item" if self._place is self.item else "attribute"
        return f"{what} {self.key!r} of this {type(self.item).__name__}"

    @property
    def exists(self) -> bool:
        """Whether there is such an item or attribute."""
        is_list = isinstance(self.item, list)
        return self.key < len(self._place) if is_list else self.key in self._place

    def read(self) -> Any:
        """Its value."""
        return self._place[self.key]

    def write(self, value: Any) -> None:
        """Replaces its value, or adds it to a dict or an object."""
        self._place[self.key] = value


def has_slots(item: Any) -> bool:
    """Whether an object is a list, a dict, or a plain object with attributes."""
    return type(item) in (list, dict) or is_plain_object(item)


@contextmanager
def applied(changed: Mapping[Slot, Any]) -> Generator[None]:
    """Puts the values that a region left in its slots back in place, to look at what refers to them."""
    before = {slot: slot.read() for slot in changed}
    for slot, value in changed.items():
        slot.write(value)
    try:
        yield
    finally:
        for slot, value in before.items():
            slot.write(value)
