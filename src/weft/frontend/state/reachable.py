# SPDX-License-Identifier: Apache-2.0
"""The mutable compile-time objects reachable from others, each with its current contents, and their slots.

In: Python objects, such as a function and its arguments. Out: `Reach`: the reachable objects, and those that have
changed since. State of other packages, and in C, is ignored. In: an object that traced code made, and a key or a name.
Out: `Slot`, an item or an attribute that is carried and joined like a variable.
"""

from __future__ import annotations

import array
import collections
import enum
import functools
import gc
import itertools
import operator
import sys
from contextlib import contextmanager
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any, Final, cast

from weft.blame import HEAP_TYPE, is_of_weft, package_of, top_package
from weft.ffi.tensor import Tensor
from weft.frontend.state.captured import cell_contents, code_names, is_changeable
from weft.frontend.structure import PLAIN, attributes_of, same_constant, slots_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Arbitrary Python objects are examined here.


_FIXED: Final = PLAIN | {complex, range, slice, type(Ellipsis), type(NotImplemented), ModuleType}
CACHED: Final = type(functools.lru_cache(print))
"""The class of `functools.cache`'s results."""
_LEAVES: Final = (enum.Enum, enum.EnumMeta, CodeType, FrameType, CACHED)
_UNCHANGING: Final = (
    tuple,
    frozenset,
    MethodType,
    MethodWrapperType,
    BuiltinFunctionType,
    functools.partial,
    *_LEAVES,
)
_INERT: Final = frozenset((list, tuple, dict, set, frozenset))
# Iterators without own state: their sources show whether they were advanced.
_FORWARDING: Final = (zip, enumerate, itertools.chain, map, filter, itertools.starmap)
_PRINTED: Final = (itertools.count, itertools.repeat)
_BUFFERS: Final = (bytearray, array.array, memoryview, Tensor)
_RESTORED: Final = (list, dict, set, collections.deque)


def is_fixed(value: object) -> bool:
    """Whether an object and everything it reaches is surely immutable."""
    kind = type(value)
    if kind in _FIXED:
        return True
    if kind is BuiltinFunctionType:
        owner = getattr(value, "__self__", None)
        return owner is None or isinstance(owner, ModuleType)
    if kind is tuple:
        return all(type(item) in _FIXED for item in cast("tuple[Any, ...]", value))
    if isinstance(value, _LEAVES):
        return True
    return is_of_weft(kind) and not (is_iterator(value) or isinstance(value, Tensor))


def is_inert(value: object) -> bool:
    """Whether operators and indices of an object run no code that could change anything."""
    kind = type(value)
    return kind in _INERT or is_fixed(value) or kind.__module__ == "numpy"


def is_iterator(value: object) -> bool:
    """Whether iterating over an object consumes it."""
    return hasattr(type(value), "__next__")


def iterators(value: object) -> list[Any]:
    """An iterator and its sources."""
    found: dict[int, Any] = {}
    pending = [value]
    while pending:
        current = pending.pop()
        if id(current) in found:
            continue
        if is_iterator(current):
            found[id(current)] = current
            pending += _pulled(current)
        elif type(current) is tuple:
            pending += current
    return list(found.values())


def _pulled(value: Any) -> list[Any]:
    """The objects that an iterator refers to."""
    return value.sources if _is_lazy(value) else gc.get_referents(value)


def _is_lazy(value: Any) -> bool:
    """Whether it is an iterator of the front end's own."""
    return is_of_weft(type(value))


def is_plain_iterator(value: object) -> bool:
    """Whether advancing an iterator changes only it and its sources."""
    kind = type(value)
    if not is_iterator(value):
        return False
    if _is_lazy(value) or kind in _FORWARDING[:3]:
        return True
    return package_of(kind) == "builtins" and hasattr(kind, "__length_hint__")


def is_plain_object(value: Any) -> bool:
    """Whether an instance of a user's class has attributes and nothing else, and Python's own way to assign them."""
    kind = cast("type[Any]", type(value))
    is_users = bool(kind.__flags__ & HEAP_TYPE) and not isinstance(value, FunctionType | type)
    is_plain = is_users and kind.__setattr__ is object.__setattr__ and has_attributes(value)
    is_ours = is_of_weft(kind) and not hasattr(value, "__dict__")
    return is_plain and not is_ours and not _has_more(value)


def has_attributes(value: Any) -> bool:
    """Whether an object has a dict of attributes, or slots."""
    return type(getattr(value, "__dict__", None)) is dict or bool(slots_of(type(value)))


class Attributes:
    """The attributes of a plain object, by name: those of its dict, and its slots."""

    __slots__ = ("_item", "_own", "_slots")

    def __init__(self, item: Any) -> None:
        self._item = item
        self._slots = slots_of(type(item))
        self._own: dict[str, Any] = getattr(item, "__dict__", {})

    def __contains__(self, name: str) -> bool:
        if name not in self._slots:
            return name in self._own
        try:
            self._slots[name].__get__(self._item)
        except AttributeError:
            return False  # it is not assigned; `hasattr` would ask the class's `__getattr__`
        return True

    def __getitem__(self, name: str) -> Any:
        return self._slots[name].__get__(self._item) if name in self._slots else self._own[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in self._slots:
            self._slots[name].__set__(self._item, value)
        else:
            self._own[name] = value

    def __delitem__(self, name: str) -> None:
        if name in self._slots:
            self._slots[name].__delete__(self._item)
        else:
            del self._own[name]

    def replace(self, values: Mapping[str, Any]) -> None:
        """Makes these the only attributes."""
        self._own.clear()
        for name in self._slots:
            if name in self and name not in values:
                del self[name]
        for name, value in values.items():
            self[name] = value


class Held:
    """A mutable object, and its contents when examined.

    Attributes:
        item: the object.
        content: when examined.
    """

    __slots__ = ("_attributes", "content", "item")

    def __init__(self, item: Any, content: list[Any]) -> None:
        self.item = item
        self.content = content
        is_plain = type(item) not in _RESTORED and has_attributes(item)
        self._attributes = dict(attributes_of(item)) if is_plain else None

    def has_changed(self, reach: Reach) -> bool:
        """Whether its contents have changed."""
        now, before = reach.content(self.item) or [], self.content
        return len(now) != len(before) or not all(map(_is_same, now, before))

    def restore(self) -> bool:
        """Restores its contents; returns whether that is possible."""
        item, content = self.item, self.content
        if type(item) is dict:
            count = len(content) // 2
            item.clear()
            item.update(zip(content[:count], content[count:], strict=True))
        elif type(item) in _RESTORED:
            item.clear()
            (item.update if type(item) is set else item.extend)(content)
        elif self._attributes is not None and not _has_more(item):
            Attributes(item).replace(self._attributes)
        else:
            return False
        return True


def _has_more(item: Any) -> bool:
    """Whether an object has state besides its attributes."""
    kind = cast("type[Any]", type(item))
    words = (kind.__weakrefoffset__ > 0) + (kind.__dictoffset__ > 0) + len(slots_of(kind))
    known = object.__basicsize__ + words * tuple.__itemsize__  # a pointer each
    return isinstance(item, FunctionType | type) or kind.__basicsize__ > known


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) in PLAIN and same_constant(one, other))


class Reach:
    """The objects reachable through items, attributes, cells, and names in the code of the program's functions.

    Args:
        program: name of the compiled module; its package is the program.
        data_only: whether to follow only data, not the code of classes and functions.

    Attributes:
        held: identity → mutable object.
    """

    __slots__ = ("_data_only", "_methods", "_names", "_pending", "_program", "_seen", "held")

    def __init__(self, program: str, *, data_only: bool = False) -> None:
        self._program = program
        self._data_only = data_only
        self.held: dict[int, Held] = {}
        self._seen: dict[int, Any] = {}
        # Methods are followed if code names them.
        self._names: set[str] = set()
        self._methods: dict[str, list[Any]] = {}
        self._pending: list[Any] = []

    def add(self, *roots: Any) -> Reach:
        """Adds these objects and everything they reach; returns itself."""
        self._pending += roots
        while self._pending:
            value = self._pending.pop()
            if type(value) in _FIXED or id(value) in self._seen or is_fixed(value):
                continue
            self.add_alone(value)
            held = self.held.get(id(value))
            self._pending += self._children(value, held and held.content)
        return self

    def add_alone(self, value: Any) -> None:
        """Adds this object alone."""
        content = self.content(value)
        self._seen[id(value)] = value
        if content is not None:
            self.held[id(value)] = Held(value, content)

    def __contains__(self, value: object) -> bool:
        return id(value) in self._seen

    def changed(self) -> list[Held]:
        """The objects whose contents have changed."""
        return [held for held in self.held.values() if held.has_changed(self)]

    def content(self, value: Any) -> list[Any] | None:
        """An object's own contents; None for an immutable one."""
        if isinstance(value, _UNCHANGING):
            return None
        if isinstance(value, CellType):
            return cell_contents(value)
        if isinstance(value, dict):
            table = cast("dict[Any, Any]", value)
            return [*table, *table.values(), *self._attributes(value)]
        if isinstance(value, list | set | collections.deque):
            return [*cast("list[Any]", value), *self._attributes(value)]
        if isinstance(value, FunctionType):
            return self._function(value) if self._is_own_function(value) else None
        if isinstance(value, type):
            return self._class(value) if self._is_own_class(value) else None
        if is_iterator(value) and not isinstance(type(value).__next__, FunctionType):
            return _position(value)
        if isinstance(value, _BUFFERS) or type(value).__module__ == "numpy":
            return _bytes(value)
        if _is_lazy(value):
            return None  # an iterator of the front end's own, which checks itself
        return self._attributes(value)

    def _children(self, value: Any, content: list[Any] | None) -> Iterable[Any]:
        if isinstance(value, _LEAVES):
            return ()
        if isinstance(value, MethodType):
            return (value.__func__, value.__self__)
        if isinstance(value, BuiltinFunctionType | MethodWrapperType):
            return (value.__self__,)
        if isinstance(value, functools.partial):
            return (value.func, value.args, value.keywords)
        if isinstance(value, type | FunctionType) and self._data_only:
            return ()
        if isinstance(value, type):
            return self._members(value) if content is not None else ()
        if isinstance(value, FunctionType):
            return () if content is None else (*content, *self._met(value.__code__))
        if is_iterator(value):
            return (*_pulled(value), *(content or ()))
        if isinstance(value, tuple | frozenset):
            return cast("Iterable[Any]", value)
        return (content or ()) if self._data_only else (type(value), *(content or ()))

    def _attributes(self, value: Any) -> list[Any]:
        """The attributes of an instance, without cached properties."""
        found: list[Any] = []
        kind = cast("type[Any]", type(value))
        for name, item in attributes_of(value):
            kept = getattr(kind, name, None) if isinstance(name, str) else None
            if not isinstance(kept, functools.cached_property):
                found += (name, item)
        return found

    def _function(self, function: FunctionType) -> list[Any]:
        """The state that a function can reach: cells, defaults, attributes, named globals."""
        found: list[Any] = [*(function.__closure__ or ())]
        for part in (function.__defaults__, function.__kwdefaults__, function.__dict__):
            found += (part.values() if isinstance(part, dict) else part) or ()
        namespace = function.__globals__
        names = list(code_names(function.__code__))
        for name in names:
            found.append(namespace.get(name))
            if isinstance(found[-1], ModuleType) and self._is_own(found[-1].__name__):
                inside = vars(found[-1])
                found += [inside.get(inner) for inner in names]
        return found

    def _met(self, code: CodeType) -> Iterator[Any]:
        """Records the names in a function's code, and the methods it may call by them."""
        for name in code_names(code):
            self._names.add(name)
            yield from self._methods.pop(name, ())

    def _class(self, kind: type) -> list[Any]:
        return [
            part
            for name, item in vars(kind).items()
            if not name.startswith("__") and name != "_abc_impl"
            for part in (name, item)
        ]

    def _members(self, kind: type) -> Iterator[Any]:
        """A class's contents, and its methods named by known code."""
        yield from kind.__bases__
        for name, item in vars(kind).items():
            functions = _functions_of(item)
            if not functions and not name.startswith("__"):
                yield item
            elif name in self._names or (name.startswith("__") and name.endswith("__")):
                yield from functions
            else:
                self._methods.setdefault(name, []).extend(functions)

    def _is_own_function(self, function: FunctionType) -> bool:
        return self._is_own(function.__globals__.get("__name__"))

    def _is_own_class(self, kind: type) -> bool:
        if not kind.__flags__ & HEAP_TYPE:
            return False
        return self._is_own(package_of(kind))

    def _is_own(self, module: object) -> bool:
        """Whether a module is the program's own, neither in Python's library nor installed."""
        top = top_package(module)
        if not top or top == top_package(self._program):
            return True
        return is_changeable(top, getattr(sys.modules.get(top), "__file__", None) or "")


def _functions_of(member: Any) -> list[Any]:
    """The functions in a member of a class: a method, or those of a property."""
    if isinstance(member, property):
        return [part for part in (member.fget, member.fset) if part is not None]
    function = getattr(member, "__func__", getattr(member, "func", member))
    return [function] if isinstance(function, FunctionType) else []


def _position(iterator: Any) -> list[Any]:
    """An iterator's position; unknown ones count as advanced."""
    if isinstance(iterator, _FORWARDING):
        return []
    if isinstance(iterator, _PRINTED):
        return [repr(iterator)]
    if isinstance(iterator, GeneratorType):
        frame = cast("Any", iterator.gi_frame)
        return [-1] if frame is None else [frame.f_lasti]
    if hasattr(iterator, "__length_hint__"):
        return [operator.length_hint(iterator)]
    return [object()]


def _bytes(value: Any) -> list[Any]:
    try:
        with memoryview(value) as view:
            return [] if view.readonly else [view.tobytes()]
    except (TypeError, ValueError, BufferError):
        try:
            return [value.tobytes()]
        except (AttributeError, ValueError):  # there is no such method, or the memory is a GPU's
            return []


ABSENT: Final = object()
"""In place of the value of an attribute that an object does not have yet."""


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
        self._place: Any = item if isinstance(item, list | dict) else Attributes(item)

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

    def found(self) -> Any:
        """Its value, or `ABSENT`."""
        return self._place[self.key] if self.exists else ABSENT

    def put_back(self, value: Any) -> None:
        """Restores what `found` gave."""
        if value is not ABSENT:
            self.write(value)
        elif self.exists:
            del self._place[self.key]

    def write(self, value: Any) -> None:
        """Replaces its value, or adds it to a dict or an object."""
        self._place[self.key] = value


def has_slots(item: Any) -> bool:
    """Whether an object is a list, a dict, or a plain object with attributes."""
    return type(item) in (list, dict) or is_plain_object(item)


@contextmanager
def applied(changed: Mapping[Slot, Any]) -> Generator[None]:
    """Puts the values that a region left in its slots back in place, to look at what refers to them."""
    before = {slot: slot.found() for slot in changed}
    for slot, value in changed.items():
        slot.write(value)
    try:
        yield
    finally:
        for slot, value in before.items():
            slot.put_back(value)
