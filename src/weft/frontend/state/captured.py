# SPDX-License-Identifier: Apache-2.0
"""Python state read by a trace: globals, closure constants, attributes present and absent, functions' code, defaults.

In: each read. Out: `CapturedValue`s, which direct calls check for changes.
"""

from __future__ import annotations

import builtins
import functools
import marshal
import opcode
import sys
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft._native import constant_key, is_unchanged
from weft.blame import HEAP_TYPE, is_of_weft, top_package
from weft.language.functions import KernelFunction

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import CellType

_GONE: Final = object()
_IMPORT: Final = opcode.opmap["IMPORT_NAME"]
_MATCH: Final = opcode.opmap["MATCH_CLASS"]
NOTHING: Final = object()
"""Stands for a variable without a value, or an attribute that is not there."""
_OF_A_KERNEL: Final = (
    *(
        "function",
        "max_threads",
        "min_blocks",
        "max_registers",
        "cluster",
        "fp_contract",
        "math",
        "restrict",
    ),
)
# The kinds of places of `_native.is_unchanged`.
_ITEM, _CELL, _FUNCTION, _ATTRIBUTE, _MEMBER = range(5)
Place = tuple[Any, ...]
_OWN: Final = "weft."
_FINDS: Final = "__getattribute__"
# Methods of classes that Python does without, until they get them.
_ASKED: Final = (
    *(_FINDS, "__bool__", "__len__", "__contains__", "__iter__"),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
)
_MUTABLE: Final = (list, dict, set)
# Names in code that finds attributes by other means than their names.
_LOOKING: Final = frozenset(("getattr", "hasattr"))
_WHOLE: Final = frozenset(("vars", "__dict__", "attrgetter", "asdict", "astuple", "fields"))
_KINDS: Final = frozenset(("type", "__class__"))
_CATCHING: Final = frozenset(("AttributeError", "Exception"))
_MAKING: Final = frozenset(("__init__", "__new__", "__post_init__"))
_NOT_CALLED: Final = _MAKING | {"__init_subclass__", "__class_getitem__", "__del__", "__set_name__"}
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
# Objects of these types are immutable and compare by value.
_SCALARS: Final = frozenset((bool, int, float, complex, str, bytes, type(None)))


class CapturedValue:
    """One compiled-in value, and how to read it again.

    Attributes:
        name: as written, such as ``"BLOCK"`` or ``"settings.BLOCK"``.
        value: when read; a copy of a list, dict or set.
        places: while each of these holds the same object, the value is unchanged; see `_native.is_unchanged`. Empty
            for values whose content may change.
    """

    __slots__ = ("_content", "_read", "name", "places", "value")

    def __init__(
        self, name: str, value: Any, read: Callable[[], Any], places: tuple[Place, ...] = ()
    ) -> None:
        self.name = name
        self.value: Any = value.copy() if type(value) in _MUTABLE else value
        self._read = read
        # A deep copy of mutable containers; numbers, strings and other objects themselves.
        content = None if is_constant(value) else snapshot(value)
        self._content = None if content and isinstance(content[-1], _Itself) else content
        # Some attributes are made anew by each read, such as methods of instances.
        is_enough = self._content is None and bool(places) and is_unchanged(places)
        self.places = places if is_enough else ()

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


def _code_of(function: FunctionType) -> tuple[Any, ...]:
    """The code and defaults of a function: replaced in place by IPython's ``%autoreload 2``, among others."""
    defaults, named = function.__defaults__, function.__kwdefaults__
    return function.__code__, snapshot(defaults), snapshot(named)


class _CapturedCode(CapturedValue):
    """A function's own code and defaults."""

    __slots__ = ()

    def __init__(self, function: FunctionType) -> None:
        defaults, named = function.__defaults__, function.__kwdefaults__
        self.name = f"{function.__qualname__}()"
        self.value = function
        self._read = lambda: _code_of(function)
        self._content = self._read()
        is_fixed = is_constant(defaults or ()) and all(map(is_constant, (named or {}).values()))
        self.places = places_of_function(function) if is_fixed else ()

    def is_current(self) -> bool:
        """Whether code and defaults are equal to those compiled."""
        return bool(self._read() == self._content)


def _class_of(owner: object) -> type:
    """The class whose members are found through an object; a class's are its own."""
    return owner if isinstance(owner, type) else type(owner)


def _own_attributes(owner: object) -> dict[str, Any] | None:
    """The attributes in an object's own dictionary; None for a class, and without a plain one."""
    found: Any = None if isinstance(owner, type) else getattr(owner, "__dict__", None)
    return cast("dict[str, Any]", found) if type(found) is dict else None


def places_of_function(function: FunctionType) -> tuple[Place, ...]:
    """Places of a function's code and defaults, for `_native.Guards`."""
    code, named = function.__code__, function.__kwdefaults__
    places: list[Place] = [(_FUNCTION, function, None, code, function.__defaults__, named)]
    if named is not None:
        for name in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]:
            found = (named[name],) if name in named else ()
            places.append((_ITEM, named, name, *found))
    return tuple(places)


def places_of_staged(staged: Any) -> tuple[Place, ...]:
    """Places of the function of a kernel or host function."""
    function = staged.function
    return (_ATTRIBUTE, staged, "function", function), *places_of_function(function)


class Read(NamedTuple):
    """One read of a trace, also of a name that the program's state does not change.

    Attributes:
        owner: the namespace, the cell, or the object with the attribute.
        kind: ``"global"``, ``"cell"``, ``"attribute"``, or ``"presence"``: whether there is such an attribute.
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

    __slots__ = ("_found", "_runs", "reads", "unknown")

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], CapturedValue] = {}
        self._runs: dict[tuple[int, ...], tuple[tuple[Any, ...], Callable[[object], bool]]] = {}
        self.reads: dict[tuple[int, str], Read] = {}
        self.unknown = ""

    def refuse(self, reason: str) -> None:
        """Records that something was read that cannot be read again from its place."""
        self.unknown = self.unknown or reason

    def values(self) -> tuple[CapturedValue, ...]:
        """The values read, in order; those that Python may have read are last."""
        reads = self.reads.copy()  # of a cache that outlives this process: it takes no such calls
        while self._runs:
            roots, is_made = self._runs.pop(next(iter(self._runs)))
            _Run(self, is_made).read(roots)
        self.reads = reads
        return tuple(self._found.values())

    def read_global(self, namespace: Mapping[str, Any], name: str, value: object) -> None:
        """Records that `name` was read from a module's namespace."""
        self.reads.setdefault((id(namespace), name), Read(namespace, "global", name, value))
        if not (_is_weft(value) or _is_own(namespace)):
            place = _ITEM, namespace, name, value
            self._note(namespace, name, name, value, lambda: namespace.get(name, _GONE), place)

    def read_builtin(self, namespace: Mapping[str, Any], name: str, value: object) -> None:
        """Records that a module's namespace leaves `name` to Python."""
        self.reads.setdefault((id(namespace), name), Read(namespace, "global", name, value))
        if _is_own(namespace):
            return
        everywhere = vars(builtins)
        places = (_ITEM, namespace, name), (_ITEM, everywhere, name, value)
        self._note(
            *(namespace, name, name, value),
            lambda: namespace.get(name, everywhere.get(name, _GONE)),
            *places,
        )

    def read_cell(self, cell: CellType, name: str, value: object) -> None:
        """Records that the free variable `name` was read; `NOTHING` if it has no value yet."""
        self.reads.setdefault((id(cell), name), Read(cell, "cell", name, value))
        place = (_CELL, cell, None, value) if value is not NOTHING else (_CELL, cell, None)
        self._note(cell, name, name, value, lambda: next(iter(cell_contents(cell)), NOTHING), place)

    def read_attribute(self, owner: object, name: str, value: object, said: str | ast.AST) -> None:
        """Records that an attribute was read that an object or its class has, or its ``__getattr__`` makes."""
        self.reads.setdefault((id(owner), name), Read(owner, "attribute", name, value))
        if isinstance(value, MethodType) and _defines(owner, name, value):
            # Each read makes another method: the class's function is the same object.
            self.read_member(owner, name, said)
        elif not (isinstance(owner, ModuleType) and _is_own(vars(owner))):
            place = _ATTRIBUTE, owner, name, value
            if isinstance(owner, ModuleType) and name in vars(owner):
                place = _ITEM, vars(owner), name, value
            self._note(owner, name, said, value, lambda: getattr(owner, name, _GONE), place)

    def read_member(self, owner: object, name: str, said: str | ast.AST) -> None:
        """Records a read of a class's member through an object; descriptors are not run again.

        The content of the class is that of the object, for a cache.

        Args:
            owner: the object, or a class.
            name: of a method, a descriptor or a value that the object itself does not have.
            said: as written.
        """
        kind: Any = _class_of(owner)
        if is_of_weft(kind):
            return
        raw = class_attribute(kind, name, NOTHING)
        finder: type = type(owner)
        finds = class_attribute(finder, _FINDS)  # any attribute, before the places below
        member = (_MEMBER, kind, name) if raw is NOTHING else (_MEMBER, kind, name, raw)
        places: list[Place] = [member, (_MEMBER, finder, _FINDS, finds)]
        if finder is not type:  # of whose classes Python allows no other
            places.append((_ATTRIBUTE, owner, "__class__", finder))
        own = _own_attributes(owner)
        if own is not None:
            places += (_ATTRIBUTE, owner, "__dict__", own), (_ITEM, own, name)

        def read() -> Any:
            if class_attribute(type(owner), _FINDS) is not finds:
                return _GONE
            own = _own_attributes(owner)
            if own is not None and name in own:
                return own[name]
            return class_attribute(_class_of(owner), name, NOTHING)

        self._note(owner, name, said, raw, read, *places)

    def read_presence(self, owner: object, name: str, is_there: bool) -> None:
        """Records that an object was asked whether it has an attribute."""
        self.reads.setdefault((id(owner), f"?{name}"), Read(owner, "presence", name, is_there))
        places = () if is_there else ((_ATTRIBUTE, owner, name),)
        key = f"?{name}"
        self._note(owner, key, f"hasattr {name}", is_there, lambda: hasattr(owner, name), *places)

    def read_staged(self, function: Any) -> None:
        """Records the code of a function, and a kernel's options about its threads."""
        plain: Any = getattr(function, "function", function)
        if plain is not function and not _is_own(plain.__globals__):
            for name in _OF_A_KERNEL if isinstance(function, KernelFunction) else ("function",):
                value, place = getattr(function, name), (_ATTRIBUTE, function, name)
                self._note(
                    *(function, name, f"{plain.__qualname__}.{name}", value),
                    partial(getattr, function, name),
                    (*place, value),
                )
        self.read_code(plain)

    def read_class(self, kind: type) -> None:
        """Records all that a class defines or inherits from other users' classes."""
        bases = [base for base in kind.__mro__ if base.__flags__ & HEAP_TYPE]
        for name, member in [pair for base in bases for pair in vars(base).items()]:
            if name[:2] != "__" or isinstance(member, FunctionType):
                self.read_member(kind, name, f"{kind.__qualname__}.{name}")
        for name in _ASKED:
            self.read_member(kind, name, f"{kind.__qualname__}.{name}")

    def read_function_attributes(self, function: FunctionType) -> None:
        """Records the attributes that a program has given to a function."""
        if not _is_own(function.__globals__):
            for name, value in tuple(vars(function).items()):
                self.note_attribute(function, name, value)

    def read_names(self, item: Any) -> None:
        """Records which attributes an object itself has."""
        own = cast("dict[str, Any]", item.__dict__)
        said = f"vars({type(item).__qualname__})"
        self._note(item, "", said, tuple(own), lambda: tuple(own))

    def read_code(self, function: FunctionType) -> None:
        """Records that a function's code and defaults were read."""
        if not _is_own(function.__globals__):
            key = (id(function), "()")
            if key not in self._found:
                self._found[key] = _CapturedCode(function)

    def read_function(self, function: FunctionType) -> None:
        """Records the names that a function run by Python while tracing can read, and those of its callees.

        Functions of other modules, and attributes of objects, are those of `read_run`.
        """
        pending, seen = [function], set[int]()
        while pending:
            current = pending.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            namespace = current.__globals__
            for value in self.read_variables(current):
                if isinstance(value, FunctionType) and value.__globals__ is namespace:
                    pending.append(value)

    def read_variables(self, function: FunctionType) -> list[Any]:
        """Records a function's code, its free variables and the globals that it names.

        Returns:
            Their values, also of defaults, and what modules, tuples and partial objects among them hold.
        """
        namespace, code = function.__globals__, function.__code__
        self.read_code(function)
        found: list[Any] = []
        imported = sys.modules if has_imports(code) else {}
        for name in code_names(code):
            if isinstance(module := imported.get(name), ModuleType):
                found.append(module)
            if name in namespace:
                found.append(namespace[name])
                self.read_global(namespace, name, namespace[name])
            elif name in vars(builtins):
                self.read_builtin(namespace, name, vars(builtins)[name])
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            for value in cell_contents(cell) or [NOTHING]:
                found.append(value)
                self.read_cell(cell, name, value)
        found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        values: list[Any] = []
        modules: list[ModuleType] = []
        while found:
            value = found.pop()
            if isinstance(value, ModuleType):
                if value not in modules:
                    modules.append(value)
                    held = self._read_module(value, code)
                    found += () if is_of_weft(value) else held
                continue
            values.append(value)
            if isinstance(value, tuple):
                found += cast("tuple[Any, ...]", value)
            elif isinstance(value, functools.partial):
                made = cast("Any", value)
                found += (made.func, *made.args, *made.keywords.values())
        return values

    def read_run(self, roots: tuple[Any, ...], is_made: Callable[[object], bool]) -> None:
        """Records what Python can read in a call, as it is at the end of the trace.

        Args:
            roots: the callable and its arguments.
            is_made: tells objects that traced code made; their attributes belong to the trace, not to the program.
        """
        kept = tuple(
            root
            for root in roots
            if type(root) not in _SCALARS or (isinstance(root, str) and root.isidentifier())
        )
        self._runs.setdefault(tuple(map(id, kept)), (kept, is_made))

    def _read_module(self, module: ModuleType, code: CodeType) -> list[Any]:
        """Records the attributes of a module that code may read, and those that it may look for; returns them."""
        found: list[Any] = []
        texts = set(_code_texts(code))
        for name in dict.fromkeys((*code_names(code), *texts)):
            if name in vars(module):
                self.read_attribute(module, name, vars(module)[name], name)
                found.append(vars(module)[name])
            elif name in texts:
                self.read_presence(module, name, hasattr(module, name))
        return found

    def note_attribute(self, owner: object, name: str, value: object) -> None:
        """Records an attribute of an object's own that Python may have read."""
        place = _ATTRIBUTE, owner, name, value
        self._note(owner, name, name, value, partial(getattr, owner, name, _GONE), place)

    def _note(
        self,
        owner: object,
        name: str,
        said: str | ast.AST,
        value: object,
        read: Callable[[], Any],
        *places: Place,
    ) -> None:
        key = (id(owner), name)  # `read` keeps the owner alive, so its id stays its own
        if key not in self._found:
            self._found[key] = CapturedValue(_text_of(said), value, read, places)


class _Run:
    """State that a call run by Python can read: objects reached by the names in the code reached.

    Args:
        captures: where reads are recorded.
        is_made: whether traced code made an object.
    """

    def __init__(self, captures: Captures, is_made: Callable[[object], bool]) -> None:
        self._captures = captures
        self._is_made = is_made
        self._names: dict[str, None] = {}
        self._texts: dict[str, None] = {}  # of getattr and hasattr
        self._fields: dict[str, None] = {}  # that methods of dataclasses compare and print
        self._functions: list[FunctionType] = []
        self._objects: list[Any] = []
        self._met: dict[int, object] = {}

    def read(self, roots: tuple[Any, ...]) -> None:
        """Records all reads of a call of the first root with the others."""
        for root in roots:
            if isinstance(root, str):
                self._names[root] = None
            elif isinstance(root, FunctionType) and not is_of_weft(root):
                self._met[id(root)] = root
                self._functions.append(root)
                self._objects.append(root)
            else:
                if isinstance(root, BuiltinFunctionType):
                    self._names[root.__name__] = None
                self._meet(root)
        given = [root for root in roots if isinstance(root, str)]
        looked: dict[int, tuple[int, ...]] = {}
        before = None
        while before != (before := self._extent()):
            while self._functions:
                self._read_function(self._functions.pop())
            if not _LOOKING.isdisjoint(self._names):
                self._texts.update(dict.fromkeys(given))
            extent = self._extent()[:-1]
            for item in tuple(self._objects):
                if looked.get(id(item)) != extent:
                    looked[id(item)] = extent
                    self._read_object(item)

    def _extent(self) -> tuple[int, ...]:
        """Counts the names, texts, fields and objects found so far."""
        return tuple(map(len, (self._names, self._texts, self._fields, self._objects)))

    def _read_function(self, function: FunctionType) -> None:
        self._names.update(dict.fromkeys(code_names(function.__code__)))
        self._texts.update(dict.fromkeys(_code_texts(function.__code__)))
        self._names.update(dict.fromkeys(_matched(function.__code__)))
        for value in self._captures.read_variables(function):
            self._meet(value)

    def _meet(self, value: Any) -> None:
        """Adds an object, and those that it holds."""
        pending = [value]
        while pending:
            value = pending.pop()
            kind = cast("type[Any]", type(value))
            if kind in _SCALARS or id(value) in self._met:
                continue
            self._met[id(value)] = value
            if isinstance(value, FunctionType):
                if _is_followed(value):
                    self._functions.append(value)
                pending.append(getattr(value, "__wrapped__", None))
            elif isinstance(value, MethodType):
                pending += (value.__func__, value.__self__)
            elif isinstance(value, BuiltinFunctionType):
                pending.append(value.__self__)
            elif isinstance(value, property):
                pending.append(value.fget)
            elif isinstance(value, classmethod | staticmethod):
                pending.append(cast("Any", value).__func__)
            elif isinstance(value, functools.partial):
                made = cast("Any", value)
                pending += (made.func, *made.args, *made.keywords.values())
            elif isinstance(value, functools.cached_property):
                pending.append(cast("Any", value).func)
            elif isinstance(value, tuple | list | set | frozenset):
                pending += cast("Iterable[Any]", value)
            elif isinstance(value, dict):
                pending += [part for pair in cast("dict[Any, Any]", value).items() for part in pair]
            held = cast("Any", value)
            if not (kind is ModuleType or is_of_weft(_class_of(held))):
                is_users = bool(_class_of(held).__flags__ & HEAP_TYPE)
                if is_users or _own_attributes(held) is not None:
                    self._objects.append(held)

    def _read_object(self, owner: Any) -> None:
        """Records the attributes of an object or a class that the code may name."""
        kind, is_made = _class_of(owner), self._is_made(owner)
        own = _own_attributes(owner) or {}
        if "__match_args__" in self._names:
            matched = class_attribute(kind, "__match_args__", ())
            self._names.update(dict.fromkeys(cast("tuple[str, ...]", matched)))
        metaclass = cast("Any", type(owner))
        said = kind if is_made else owner
        self._read_members(said, kind, _is_called if kind is not owner else _MAKING.__contains__)
        if kind is owner and metaclass is not type:
            self._read_members(metaclass, metaclass, _is_called)
        whole = not _WHOLE.isdisjoint(self._names)
        some = "getattr" in self._names
        for name, value in tuple(own.items()):
            is_compared = name in self._fields and not hasattr(value, "tobytes")
            is_found = whole or is_compared or (some and is_constant(value))
            if is_found or name in self._names or name in self._texts:
                if not is_made:
                    self._captures.note_attribute(owner, name, value)
                self._meet(value)
        if not _KINDS.isdisjoint(self._names):
            self._meet(type(owner))
        if not _CATCHING.isdisjoint(self._names):
            self._texts.update(self._names)
        for name in () if is_made else tuple(self._texts):
            found = name in own or class_attribute(kind, name, NOTHING) is not NOTHING
            if not found and name[:2] != "__":
                self._captures.read_presence(owner, name, hasattr(owner, name))

    def _read_members(self, owner: Any, kind: type, is_called: Callable[[str], bool]) -> None:
        """Records the members of a class that the code may name, and methods that Python calls by itself."""
        bases = [base for base in kind.__mro__ if base.__flags__ & HEAP_TYPE]
        first = dict.fromkeys(_own_attributes(owner) or (), owner)  # which cover those of the class
        for base in bases:
            for name, raw in tuple(vars(base).items()):
                if name not in self._names and name not in self._texts:
                    is_bound = isinstance(raw, staticmethod | classmethod)
                    function = cast("Any", raw).__func__ if is_bound else raw
                    is_python = isinstance(function, FunctionType) and _is_followed(function)
                    if not (is_called(name) and is_python):
                        continue
                    function = cast("Any", getattr(function, "__wrapped__", function))
                    if _is_made_by_python(kind, function):
                        self._fields.update(dict.fromkeys(code_names(function.__code__)))
                        continue
                if isinstance(raw, MemberDescriptorType) and owner is not kind:
                    value = getattr(owner, name, _GONE)
                    self._captures.note_attribute(owner, name, value)
                    self._meet(value)
                elif first.setdefault(name, base) is base:
                    self._captures.read_member(owner, name, name)
                else:
                    self._captures.read_member(base, name, name)  # of super(), or by its name
                self._meet(raw)


def _is_called(name: str) -> bool:
    """Whether Python may call a method of an object without that code names it."""
    return name[:2] == "__" and name not in _NOT_CALLED


def _is_made_by_python(kind: type, function: FunctionType) -> bool:
    """Whether it is a method that `dataclasses` made."""
    return hasattr(kind, "__dataclass_fields__") and function.__code__.co_filename == "<string>"


def _is_followed(function: FunctionType) -> bool:
    """Whether a program may change a function: it is neither weft's, nor Python's, nor installed."""
    return is_changeable(top_package(function.__module__), function.__code__.co_filename)


def is_changeable(package: str, file: str) -> bool:
    """Whether a program may change the code of a file: its package is neither weft's, nor Python's, nor installed."""
    if package == "weft" or (package in sys.stdlib_module_names and package != "__main__"):
        return False
    return not any(folder in file.replace("\\", "/") for folder in _INSTALLED)


def _is_weft(value: object) -> bool:
    """Whether it is the package, which programs name everywhere and bind nothing else to."""
    return isinstance(value, ModuleType) and value.__name__ == "weft"


def class_attribute(kind: type, name: str, default: object = None) -> Any:
    """The definition of a name in a class or its bases, without running descriptors."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), default)


def _defines(owner: object, name: str, method: MethodType) -> bool:
    """Whether a class's own function or class method, and no other descriptor, made a method."""
    raw: Any = class_attribute(_class_of(owner), name)
    made = cast("Any", raw).__func__ if type(raw) is classmethod else raw
    return made is method.__func__


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


def _code_texts(code: CodeType) -> Iterator[str]:
    """The constants of a function and nested ones that may be names of attributes, as those of `getattr` are."""
    if "getattr" not in code.co_names and "hasattr" not in code.co_names:
        return
    for constant in code.co_consts:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant


def _matched(code: CodeType) -> Iterator[str]:
    """The attributes that the class patterns of a function and nested ones look for."""
    if _MATCH in code.co_code[::2]:
        yield "__match_args__"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _matched(constant)
        elif isinstance(constant, tuple) and _MATCH in code.co_code[::2]:
            yield from (name for name in cast("tuple[Any, ...]", constant) if isinstance(name, str))


def has_imports(code: CodeType) -> bool:
    """Whether a function or a nested one has an import statement."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return _IMPORT in code.co_code[::2] or any(map(has_imports, inner))


def is_constant(value: object) -> bool:
    """Whether an object is deeply immutable."""
    if isinstance(value, (*_SCALARS, FunctionType, type)):
        return True
    return isinstance(value, tuple | frozenset) and all(
        is_constant(item) for item in cast("Iterable[Any]", value)
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
    elif isinstance(value, functools.partial):
        made = cast("Any", value)
        parts: tuple[Any, ...] = (made.func, made.args, made.keywords, made.__dict__)
        return (kind, *(_snapshot(part, around) for part in parts))
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
