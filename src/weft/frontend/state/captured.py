# SPDX-License-Identifier: Apache-2.0
"""What a trace read of Python's state: globals, closure constants, attributes of modules and objects.

In: each read. Out: `CapturedValue`s, of which a direct call asks whether they are current.
"""

from __future__ import annotations

import copy
import marshal
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft._native import constant_key
from weft.frontend.state.reachable import cell_contents, code_names
from weft.language import LanguageName
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import CellType

_GONE: Final = object()
# What these names stand for does not depend on the program's state.
_FIXED: Final = (ModuleType, LanguageName, DType)
_MUTABLE: Final = (list, dict, set)
# Objects of these types never change, and compare by their value.
_SCALARS: Final = frozenset((bool, int, float, complex, str, bytes, type(None)))


class CapturedValue:
    """One value that compiled code has built in, and how to read it again.

    Attributes:
        name: as the program writes it, such as ``"BLOCK"`` or ``"settings.BLOCK"``.
        value: what it was; of a list, dict or set, a copy.
    """

    __slots__ = ("_content", "_read", "name", "value")

    def __init__(self, name: str, value: Any, read: Callable[[], Any]) -> None:
        self.name = name
        self.value: Any = copy.copy(value) if type(value) in _MUTABLE else value
        self._read = read
        # Of what can change in place, a copy to the ground; numbers, texts and objects are themselves.
        content = None if _is_constant(value) else snapshot(value)
        self._content = None if content and isinstance(content[-1], _Itself) else content

    def __repr__(self) -> str:
        return f"CapturedValue({self.name}={self.value!r})"

    def is_current(self) -> bool:
        """Whether the name still means what it meant when the function was compiled."""
        current = self._read()
        if self._content is not None:
            return bool(snapshot(current) == self._content)
        if current is self.value:
            return True
        return type(current) is type(self.value) and bool(snapshot(current) == snapshot(self.value))


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
            self._note(cell, name, name, value, lambda: next(iter(cell_contents(cell)), _GONE))

    def read_attribute(self, owner: object, name: str, value: object, text: str) -> None:
        """Notes that an attribute of an object that can change was read."""
        if not isinstance(value, _FIXED):
            self._note(owner, name, text, value, lambda: getattr(owner, name, _GONE))

    def read_function(self, function: FunctionType) -> None:
        """Notes what a function that Python runs while tracing can read by name, as do those it calls.

        Functions of other modules than its own are taken as they are. What it reads of objects' attributes is
        not known.
        """
        pending, seen = [function], set[int]()
        while pending:
            current = pending.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            namespace = current.__globals__
            found: list[Any] = []
            for name in code_names(current.__code__):
                if name in namespace:
                    found.append(namespace[name])
                    self.read_global(namespace, name, namespace[name])
            for name, cell in zip(
                current.__code__.co_freevars, current.__closure__ or (), strict=True
            ):
                for value in cell_contents(cell) or [_GONE]:
                    found.append(value)
                    self.read_cell(cell, name, value)
            pending += [
                value
                for value in found
                if isinstance(value, FunctionType) and value.__globals__ is namespace
            ]

    def _note(
        self, owner: object, name: str, text: str, value: object, read: Callable[[], Any]
    ) -> None:
        key = (id(owner), name)  # `read` keeps the owner alive, so its id stays its own
        if key not in self._found:
            self._found[key] = CapturedValue(text, value, read)


def _is_constant(value: object) -> bool:
    """Whether an object can never change in place, nor anything in it."""
    if isinstance(value, (*_SCALARS, FunctionType, type)):
        return True
    return isinstance(value, tuple | frozenset) and all(
        _is_constant(item) for item in cast("Iterable[Any]", value)
    )


def snapshot(value: object) -> tuple[Any, ...]:
    """A copy that equals another only if both compile to the same code: types, zeros and order differ.

    Containers are copied to the ground, arrays with their bytes. Other objects are themselves, and compare as
    their class says; the attributes of theirs that were read are noted on their own.

    Example:
        >>> snapshot([1, 2]) == snapshot([1, 2]), snapshot((1, 2)) == snapshot((1.0, 2.0))
        (True, False)
    """
    return _snapshot(value, ())


def _snapshot(value: Any, around: tuple[int, ...]) -> tuple[Any, ...]:
    kind = cast("type[Any]", type(value))
    if kind in _SCALARS:
        return constant_key(value)
    if kind is list or kind is tuple:
        if _SCALARS.issuperset(map(type, value)):
            # Version 2 has no back references: equal values give equal bytes.
            return (kind, marshal.dumps(value, 2))
    elif not isinstance(value, list | tuple | dict | set | frozenset):
        return _of_object(value, kind)
    identity = id(cast("object", value))
    if identity in around:
        return (kind, around.index(identity))  # it contains itself
    inner = (*around, identity)
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return (kind, tuple(_snapshot(part, inner) for pair in pairs for part in pair))
    items = (_snapshot(item, inner) for item in cast("Iterable[Any]", value))
    return (kind, frozenset(items) if isinstance(value, set | frozenset) else tuple(items))


def _of_object(value: Any, kind: type) -> tuple[Any, ...]:
    try:
        view = memoryview(value)
    except TypeError:
        return (kind, _Itself(value))
    except (ValueError, BufferError):  # an element type that the buffer protocol does not know
        try:
            contents = value.tobytes()
        except (AttributeError, ValueError):  # there is no such method, or the memory is a GPU's
            return (kind, _Itself(value))
        return (kind, str(getattr(value, "dtype", "")), getattr(value, "shape", ()), contents)
    with view:
        return (kind, view.format, view.shape, view.tobytes())


class _Itself:
    """An object that is compared as its class says; where that gives no answer, it is another."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Itself):
            return NotImplemented
        if self.value is other.value:
            return True
        try:
            return bool(self.value == other.value)
        except (TypeError, ValueError, RuntimeError):
            return False

    def __hash__(self) -> int:
        return hash(type(self.value))
