# SPDX-License-Identifier: Apache-2.0
"""Python state read by a trace: globals, closure constants, attributes of modules and objects.

In: each read. Out: `CapturedValue`s, which direct calls check for changes.
"""

from __future__ import annotations

import builtins
import marshal
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft._native import constant_key
from weft.language import LanguageName
from weft.types.dtype import DType

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import CellType

_GONE: Final = object()
# These names do not depend on the program's state.
_FIXED: Final = (ModuleType, LanguageName, DType)
_OWN: Final = "weft."
_MUTABLE: Final = (list, dict, set)
# Objects of these types are immutable and compare by value.
_SCALARS: Final = frozenset((bool, int, float, complex, str, bytes, type(None)))


class CapturedValue:
    """One compiled-in value, and how to read it again.

    Attributes:
        name: as written, such as ``"BLOCK"`` or ``"settings.BLOCK"``.
        value: when read; a copy of a list, dict or set.
    """

    __slots__ = ("_content", "_read", "name", "value")

    def __init__(self, name: str, value: Any, read: Callable[[], Any]) -> None:
        self.name = name
        self.value: Any = value.copy() if type(value) in _MUTABLE else value
        self._read = read
        # A deep copy of mutable containers; numbers, strings and other objects themselves.
        content = None if _is_constant(value) else snapshot(value)
        self._content = None if content and isinstance(content[-1], _Itself) else content

    def __repr__(self) -> str:
        return f"CapturedValue({self.name}={self.value!r})"

    def is_current(self) -> bool:
        """Whether the name still has the value it was compiled with."""
        current = self._read()
        if self._content is not None:
            return bool(snapshot(current) == self._content)
        if current is self.value:
            return True
        return type(current) is type(self.value) and bool(snapshot(current) == snapshot(self.value))


class Read(NamedTuple):
    """One read of a trace, also of a name that the program's state does not change.

    Attributes:
        owner: the namespace, the cell, or the object with the attribute.
        kind: ``"global"``, ``"cell"`` or ``"attribute"``.
        name: of the variable or attribute.
        value: what was found.
    """

    owner: object
    kind: str
    name: str
    value: Any


class Captures:
    """Everything read by a trace, each place once.

    Attributes:
        reads: all of them, in order, for a cache that outlives this process.
        unknown: why other state may have been read, or an empty string.
    """

    __slots__ = ("_found", "reads", "unknown")

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], CapturedValue] = {}
        self.reads: dict[tuple[int, str], Read] = {}
        self.unknown = ""

    def refuse(self, reason: str) -> None:
        """Records that something was read that cannot be read again from its place."""
        self.unknown = self.unknown or reason

    def values(self) -> tuple[CapturedValue, ...]:
        """The values read, in order."""
        return tuple(self._found.values())

    def read_global(self, namespace: Mapping[str, Any], name: str, value: object) -> None:
        """Records that `name` was read from a module's namespace."""
        self.reads.setdefault((id(namespace), name), Read(namespace, "global", name, value))
        if not (isinstance(value, _FIXED) or _is_own(namespace)):
            self._note(namespace, name, name, value, lambda: namespace.get(name, _GONE))

    def read_builtin(self, namespace: Mapping[str, Any], name: str, value: object) -> None:
        """Records that a module's namespace leaves `name` to Python."""
        self.reads.setdefault((id(namespace), name), Read(namespace, "global", name, value))

    def read_cell(self, cell: CellType, name: str, value: object) -> None:
        """Records that the free variable `name` was read."""
        self.reads.setdefault((id(cell), name), Read(cell, "cell", name, value))
        if not isinstance(value, _FIXED):
            self._note(cell, name, name, value, lambda: next(iter(cell_contents(cell)), _GONE))

    def read_attribute(self, owner: object, name: str, value: object, said: str | ast.AST) -> None:
        """Records that an attribute of a mutable object was read."""
        self.reads.setdefault((id(owner), name), Read(owner, "attribute", name, value))
        if isinstance(value, _FIXED):
            return
        if not (isinstance(owner, ModuleType) and _is_own(vars(owner))):
            self._note(owner, name, said, value, lambda: getattr(owner, name, _GONE))

    def read_function(self, function: FunctionType) -> None:
        """Records the names that a function run by Python while tracing can read, and those of its callees.

        Functions of other modules are assumed constant. Reads of objects' attributes are unknown.
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
                elif hasattr(builtins, name):
                    self.read_builtin(namespace, name, getattr(builtins, name))
            for name, cell in zip(
                current.__code__.co_freevars, current.__closure__ or (), strict=True
            ):
                for value in cell_contents(cell) or [_GONE]:
                    found.append(value)
                    self.read_cell(cell, name, value)
            while found:
                value = found.pop()
                if isinstance(value, tuple):
                    found += cast("tuple[Any, ...]", value)
                elif isinstance(value, ModuleType):
                    self._read_module(value, current.__code__)
                elif isinstance(value, FunctionType) and value.__globals__ is namespace:
                    pending.append(value)

    def _read_module(self, module: ModuleType, code: CodeType) -> None:
        """Records the attributes of a module that code may read."""
        for name in code_names(code):
            if name in vars(module):
                self.read_attribute(module, name, vars(module)[name], name)

    def _note(
        self, owner: object, name: str, said: str | ast.AST, value: object, read: Callable[[], Any]
    ) -> None:
        key = (id(owner), name)  # `read` keeps the owner alive, so its id stays its own
        if key not in self._found:
            self._found[key] = CapturedValue(_text_of(said), value, read)


def _is_own(namespace: Mapping[str, Any]) -> bool:
    """Whether it is that of one of weft's own modules, whose functions a program does not change.

    A call of a function of `weft.kernels` would compare some fifty of them, which takes longer than its launch.
    """
    return str(namespace.get("__name__", "")).startswith(_OWN)


def _text_of(said: str | ast.AST) -> str:
    if isinstance(said, str):
        return said
    import ast

    return ast.unparse(said)


def cell_contents(cell: CellType) -> list[Any]:
    """A cell's contents: one object, or none if not assigned yet."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def code_names(code: CodeType) -> Iterator[str]:
    """The names that a function and nested ones may look up among globals or as attributes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_names(constant)


def _is_constant(value: object) -> bool:
    """Whether an object is deeply immutable."""
    if isinstance(value, (*_SCALARS, FunctionType, type)):
        return True
    return isinstance(value, tuple | frozenset) and all(
        _is_constant(item) for item in cast("Iterable[Any]", value)
    )


def snapshot(value: object) -> tuple[Any, ...]:
    """A copy that equals another only if both compile to the same code: types, zeros and order differ.

    Containers are copied deeply, arrays with their bytes. Other objects are kept and compare by their class; reads of
    their attributes are recorded separately.

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
    except (ValueError, BufferError):  # an element type unknown to the buffer protocol
        try:
            contents = value.tobytes()
        except (AttributeError, ValueError):  # no such method, or GPU memory
            return (kind, _Itself(value))
        return (kind, str(getattr(value, "dtype", "")), getattr(value, "shape", ()), contents)
    with view:
        return (kind, view.format, view.shape, view.tobytes())


class _Itself:
    """An object compared by its class; different if that fails."""

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
