# SPDX-License-Identifier: Apache-2.0
"""What a trace read of Python's state: globals, closure constants, attributes of modules and objects.

In: each read. Out: `CapturedValue`s, of which a direct call asks whether they are current. Next: scope.
"""

from __future__ import annotations

import copy
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from weft.language import LanguageName
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CellType

_GONE: Final = object()
# What these names stand for does not depend on the program's state.
_FIXED: Final = (ModuleType, LanguageName, DType)
_MUTABLE: Final = (list, dict, set)


class CapturedValue:
    """One value that compiled code has built in, and how to read it again.

    Attributes:
        name: as the program writes it, such as ``"BLOCK"`` or ``"settings.BLOCK"``.
        value: what it was; of a list, dict or set, a copy.
    """

    __slots__ = ("_read", "name", "value")

    def __init__(self, name: str, value: Any, read: Callable[[], Any]) -> None:
        self.name = name
        self.value: Any = copy.copy(value) if type(value) in _MUTABLE else value
        self._read = read

    def __repr__(self) -> str:
        return f"CapturedValue({self.name}={self.value!r})"

    def is_current(self) -> bool:
        """Whether the name still means what it meant when the function was compiled."""
        current = self._read()
        value = self.value
        if current is value:
            return True
        # 1, 1.0 and True compile to different code.
        return type(current) is type(value) and bool(current == value)


class Captures:
    """Everything that one trace read, each place once."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], CapturedValue] = {}

    def values(self) -> tuple[CapturedValue, ...]:
        """What was read, in the order in which it was met."""
        return tuple(self._found.values())

    def read_global(self, namespace: Mapping[str, Any], name: str, value: object) -> None:
        """Notes that `name` was read from a module's namespace."""
        if not isinstance(value, _FIXED):
            self._note(namespace, name, name, value, lambda: namespace.get(name, _GONE))

    def read_cell(self, cell: CellType, name: str, value: object) -> None:
        """Notes that the free variable `name` was read."""
        if not isinstance(value, _FIXED):
            self._note(cell, name, name, value, lambda: _cell_contents(cell))

    def read_attribute(self, owner: object, name: str, value: object, text: str) -> None:
        """Notes that an attribute of an object that can change was read."""
        if not isinstance(value, _FIXED):
            self._note(owner, name, text, value, lambda: getattr(owner, name, _GONE))

    def _note(
        self, owner: object, name: str, text: str, value: object, read: Callable[[], Any]
    ) -> None:
        key = (id(owner), name)  # `read` keeps the owner alive, so its id stays its own
        if key not in self._found:
            self._found[key] = CapturedValue(text, value, read)


def _cell_contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _GONE
