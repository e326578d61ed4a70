# SPDX-License-Identifier: Apache-2.0
"""Contents of compile-time objects as a digest, and the reads of a compilation, to compare in other processes.

In: functions, classes, containers, arrays. Out: a digest that is the same in every process and every checkout, without
paths and addresses; `Unknown` for an object whose content is unknown. In: the captures of a trace. Out: `Manifest`:
each read by the place of its owner, as a path from the function, and one digest of all contents; the same of the
present values.
"""

from __future__ import annotations

import builtins
import enum
import functools
import marshal
import math
import operator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft.arguments.base import ArgumentKind
from weft.arguments.constant import ConstantKind
from weft.blame import is_of_weft, package_of, top_package
from weft.cache.entry import blake2b
from weft.errors import WeftError
from weft.frontend.source import plain_function, read_source
from weft.frontend.state.captured import Captures, cell_contents
from weft.language import LanguageName
from weft.language.functions import BoundFunction, KernelFunction, StagedFunction
from weft.types.dtype import DType
from weft.types.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.arguments.signature import Signature
    from weft.frontend.source import FunctionSource
    from weft.language.source_text import SourceTexts


_SCALARS: Final = frozenset((bool, int, float, complex, str, bytes, type(None), type(...)))
# Equal ones may be one object or several.
_WITHOUT_IDENTITY: Final = (tuple, frozenset, ModuleType, DType, LanguageName, Frozen)
_STARRED: Final = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS; such functions' annotations are ignored
_BOUNDS: Final = (
    "max_threads",
    "min_blocks",
    "max_registers",
    "cluster",
    "fp_contract",
    "math",
    "restrict",
)
# Of a class: what Python adds, and what says nothing about instances.
_IGNORED: Final = frozenset(
    (
        *("__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__slots__"),
        *(
            "__firstlineno__",
            "__static_attributes__",
            "__orig_bases__",
            "__parameters__",
            "__hash__",
        ),
        *("__dataclass_params__", "__abstractmethods__", "_abc_impl", "__annotate_func__"),
        "__annotations_cache__",
    )
)


class Unknown(Exception):
    """The content of an object is unknown; the message names its type."""


class Content:
    """A digest of objects in order.

    Args:
        texts: of the compiled functions' files.

    Attributes:
        functions: the Python functions whose text is in the digest, by id.
        kernels: those of them that weft's decorators made.
        classes: the user's, whose members are in it.
        objects: instances of these, whose attributes' names are in it.
    """

    def __init__(self, texts: SourceTexts) -> None:
        self.functions: dict[int, FunctionType] = {}
        self.kernels: list[StagedFunction] = []
        self.classes: list[type] = []
        self.objects: list[Any] = []
        self._texts = texts
        self._hash = blake2b(digest_size=16)
        # What was added, kept alive, by id: that two names stand for one object is part of the content.
        self._known: dict[int, tuple[int, object]] = {}

    def digest(self) -> str:
        """Digest of everything added so far."""
        return self._hash.hexdigest()

    def say(self, *words: object) -> None:
        """Adds words; each ends where the next begins."""
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode(errors="backslashreplace")
            self._hash.update(b"%d:" % len(data) + data)

    def add(self, value: Any) -> None:
        """Adds an object and everything reachable from it.

        Raises:
            Unknown: if its content, or that of something inside it, cannot be read.
        """
        kind = cast("type[Any]", type(value))
        if kind in _SCALARS:
            self.say(kind.__name__, repr(value))
            return
        if not isinstance(value, _WITHOUT_IDENTITY) and self._is_known(value):
            return
        self._add(value, kind)

    def _is_known(self, value: object) -> bool:
        """Whether this object was added before; says which one it is."""
        number, _ = self._known.setdefault(id(value), (len(self._known), value))
        self.say("object", number)
        return number != len(self._known) - 1

    def _add(self, value: Any, kind: type[Any]) -> None:
        if isinstance(value, DType | LanguageName):
            self.say("weft", value.name)
        elif isinstance(value, ModuleType):
            self.say("module", value.__name__)
        elif kind in (tuple, list):
            self._items(kind, value)
        elif kind in (set, frozenset):
            self.say(kind.__name__, *sorted(self._apart(item) for item in value))
        elif kind is dict:
            self._items(kind, (part for pair in value.items() for part in pair))
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, StagedFunction):
            bounds = _BOUNDS if isinstance(value, KernelFunction) else ()
            self.say(kind.__name__, *(getattr(value, bound) for bound in bounds))
            self.kernels.append(value)
            self._function(value.function, value)
        elif isinstance(value, BoundFunction):
            self._items(kind, (value.function, value.owner))
        elif kind is functools.partial:
            self._items(kind, (value.func, value.args, value.keywords))
        elif isinstance(value, enum.Enum):
            self.say("enum", kind.__module__, kind.__qualname__, value.name)
            self.add(value.value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, BuiltinFunctionType):
            if not (value.__self__ is None or isinstance(value.__self__, ModuleType)):
                self.add(value.__self__)
            self.say("builtin", value.__module__, value.__qualname__)
        elif isinstance(value, Frozen):
            self._record(value)
        else:
            self._object(value, kind)

    def _items(self, kind: type, items: Iterable[Any]) -> None:
        self.say(kind.__name__, "(")
        for item in items:
            self.add(item)
        self.say(")")

    def _apart(self, value: Any) -> str:
        other = Content(self._texts)
        other.functions, other._known = self.functions, dict(self._known)
        other.kernels, other.classes = self.kernels, self.classes
        other.objects = self.objects
        other.add(value)
        return other.digest()

    def _record(self, value: Frozen) -> None:
        """One of weft's own records: an annotation, a kind of argument."""
        if isinstance(value, ConstantKind):
            self._items(ConstantKind, (value.value,))
        elif isinstance(value, ArgumentKind) and not value.parts:
            self.say(repr(value.key))
        else:
            self.say(type(value).__module__, type(value).__name__)
            self._items(type(value), value.__reduce__()[1])

    def _function(self, function: Any, staged: Any = None) -> None:
        code = function.__code__
        self.say("function", is_of_weft(function), code.co_qualname)
        if code.co_filename == "<string>":
            self.say(marshal.dumps(code))  # made by Python for a class
        elif not is_of_weft(function):
            try:
                source = read_source(function if staged is None else staged, self._texts)
                self.source(source)
                if not code.co_flags & _STARRED:
                    for parameter in source.parameters:
                        self._annotation(parameter.name, parameter.annotation)
            except WeftError as error:
                raise Unknown(f"the source of {function.__qualname__} ({error.code})") from None
        self.functions[id(function)] = function
        self.add(function.__defaults__)
        self.add(function.__kwdefaults__)
        for name, value in cast("dict[str, Any]", vars(function)).items():
            self.say(name)
            self.add(value)
        # Functions may share variables, which were read through one of them.
        for place in (function.__globals__, *(function.__closure__ or ())):
            self._is_known(place)

    def _annotation(self, name: str, annotation: Any) -> None:
        if isinstance(annotation, DType | Frozen):
            self.say(name)
            self.add(annotation)
            return
        text = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
        if " at 0x" in text:
            raise Unknown("an annotation")
        self.say(name, text)

    def source(self, source: FunctionSource) -> None:
        """Adds a function's text, and its place as far as it shows in messages."""
        self.say(source.file.rpartition("/")[2], source.first_line, source.text)

    def _class(self, kind: type) -> None:
        """A class with its bases and all that it defines; installed and built-in ones by name."""
        self.say("class", kind.__module__, kind.__qualname__)
        top = package_of(kind)
        if top in ("builtins", "weft", "typing", "collections", "abc", "enum") or top == "numpy":
            return
        if isinstance(kind, enum.EnumMeta):
            self._items(kind, [(member.name, member.value) for member in cast("Any", kind)])
            return
        self.classes.append(kind)
        for base in kind.__bases__:
            self.add(base)
        for name, value in sorted(vars(kind).items()):
            if name in _IGNORED:
                continue
            self.say(name)
            self._member(name, value)

    def _member(self, name: str, value: Any) -> None:
        if name == "__annotations__":
            self.say(*(f"{field}={said}" for field, said in value.items()))
        elif name == "__dataclass_fields__":
            for field in value.values():
                self.say(field.name)
                self.add(field.default_factory)
        elif isinstance(value, property):
            self._items(property, (value.fget, value.fset, value.fdel))
        elif isinstance(value, staticmethod | classmethod):
            self.add(cast("Any", value).__func__)
        elif package_of(value.__class__) in ("_collections", "builtins") and not isinstance(
            value, (*_SCALARS, FunctionType, tuple, list, dict, set, frozenset, type)
        ):
            self.say(type(value).__name__)  # a descriptor of a field
        else:
            self.add(value)

    def _object(self, value: Any, kind: type[Any]) -> None:
        try:
            view = memoryview(value)
        except (TypeError, ValueError, BufferError):
            pass
        else:
            with view:
                self.say(
                    kind.__module__, kind.__qualname__, view.format, view.shape, view.tobytes()
                )
            return
        is_record = isinstance(value, tuple) or hasattr(kind, "__dataclass_fields__")
        if package_of(kind.__mro__[-2]) in ("builtins", "_thread") and not isinstance(value, tuple):
            raise Unknown(f"an object of {kind.__module__}.{kind.__qualname__}")
        if any(vars(base).get("__slots__") for base in kind.__mro__) and not is_record:
            raise Unknown(f"an object of {kind.__module__}.{kind.__qualname__}, which has slots")
        if not any(base.__flags__ & (1 << 9) for base in (kind,)):
            raise Unknown(f"an object of {kind.__module__}.{kind.__qualname__}")
        self.add(kind)
        own = cast("dict[str, Any]", getattr(cast("Any", value), "__dict__", {}))
        if type(own) is dict and not isinstance(value, tuple):
            self.objects.append(value)
        self.say(*own)  # these names cover those of the class; reads of their values are recorded
        if isinstance(value, tuple):
            self._items(kind, cast("Any", value))
        elif is_record:
            names = dict.fromkeys((*kind.__dataclass_fields__, *own))
            self._items(kind, (getattr(value, name, None) for name in names))


ROOT: Final = -1
_ABSENT: Final = object()
_PATHS: Final = "paths"
"""The kind of a last step, which has the path of each file in the digest."""

# Of one read: the number of the read whose value owns it, or ROOT; its kind; its name.
Step = tuple[int, str, str]


class Manifest(NamedTuple):
    """A value that was read, or is there now.

    Attributes:
        steps: each read, after that of its owner.
        digest: of all values.
        captures: the values, which direct calls compare again.
        functions: those whose text was read, by id.
        values: of the steps, in order.
    """

    steps: tuple[Step, ...]
    digest: str
    captures: Captures
    functions: dict[int, FunctionType]
    values: tuple[Any, ...]


def describe(
    source: FunctionSource,
    signature: Signature,
    captures: Captures,
    traced: Iterable[Any],
    *,
    has_paths: bool = False,
) -> Manifest:
    """The manifest of a trace that has just ended.

    Args:
        source: of the host function.
        signature: of its parameters, some of which are constants.
        captures: what was read.
        traced: the functions whose text was traced.
        has_paths: whether the result holds paths of their files, so that it is of this checkout only.
    Raises:
        Unknown: if something was read that has no path or no content.
    """
    if captures.unknown:
        raise Unknown(captures.unknown)
    owners: dict[int, int] = {}
    steps: list[Step] = []
    values: list[Any] = []
    content = Content(source.texts)
    _own(owners, source.function, ROOT)
    for name, value in _constants(signature).items():
        _own(owners, value, len(steps))
        steps.append((ROOT, "constant", name))
        values.append(value)
        content.add(value)
    for read in captures.reads.values():
        if read.kind == "global" and top_package(read.owner.get("__name__")) == "weft":  # pyright: ignore
            continue
        owner = owners.get(id(read.owner))
        if owner is None and _is_ours(read.owner):
            continue
        if owner is None:
            raise Unknown(f"{read.name}, which was not reached by a name")
        if read.kind != "presence":
            _own(owners, read.value, len(steps))
        steps.append((owner, read.kind, read.name))
        values.append(read.value)
        content.add(read.value)
    for function in traced:
        plain = plain_function(function)
        if plain is None or is_of_weft(plain) or plain is source.function:
            continue
        if id(plain) not in content.functions:
            raise Unknown(f"{plain.__qualname__}, which was not reached by a name")
    if not all(value.is_current() for value in captures.values()):
        raise Unknown("a value that changed meanwhile")
    if has_paths:
        steps.append((ROOT, _PATHS, ""))
        _say_paths(content, source)
    digest = content.digest()
    return Manifest(tuple(steps), digest, captures, content.functions, tuple(values))


def read_again(
    source: FunctionSource, signature: Signature, steps: Sequence[Step]
) -> Manifest | None:
    """The present value where a trace read; None if a place is gone.

    Raises:
        Unknown: if the content of a value cannot be read.
    """
    constants = _constants(signature)
    captures, content = Captures(), Content(source.texts)
    values: list[Any] = []
    for owner_number, kind, name in steps:
        if kind == _PATHS:
            _say_paths(content, source)
            break
        owner = source.function if owner_number == ROOT else values[owner_number]
        value = (
            constants.get(name, _ABSENT)
            if kind == "constant"
            else _read(captures, owner, kind, name)
        )
        if value is _ABSENT:
            return None
        values.append(value)
        content.add(value)
    digest = content.digest()
    _note_reached(captures, source, content)
    return Manifest(tuple(steps), digest, captures, content.functions, tuple(values))


def _note_reached(captures: Captures, source: FunctionSource, content: Content) -> None:
    """Records a trace's reads beside names: the code of functions, members of classes."""
    captures.read_code(source.function)
    for function in content.functions.values():
        captures.read_code(function)
        captures.read_function_attributes(function)
    for kernel in content.kernels:
        captures.read_staged(kernel)
    for kind in content.classes:
        captures.read_class(kind)
    for item in content.objects:
        captures.read_names(item)


def _say_paths(content: Content, source: FunctionSource) -> None:
    functions = content.functions.values()
    content.say(source.file, *(function.__code__.co_filename for function in functions))


def _read(captures: Captures, owner: Any, kind: str, name: str) -> Any:
    if kind == "attribute":
        value = getattr(owner, name, _ABSENT)
        if value is not _ABSENT:
            captures.read_attribute(owner, name, value, name)
        return value
    if kind == "presence":
        captures.read_presence(owner, name, is_there := hasattr(owner, name))
        return is_there
    function = plain_function(owner)
    if function is None:
        return _ABSENT
    if kind == "global":
        namespace = function.__globals__
        if name not in namespace:
            value = getattr(builtins, name, _ABSENT)
            if value is not _ABSENT:
                captures.read_builtin(namespace, name, value)
            return value
        captures.read_global(namespace, name, namespace[name])
        return namespace[name]
    if name not in function.__code__.co_freevars or not function.__closure__:
        return _ABSENT
    cell = function.__closure__[function.__code__.co_freevars.index(name)]
    for value in cell_contents(cell):
        captures.read_cell(cell, name, value)
        return value
    return _ABSENT


def _is_ours(owner: object) -> bool:
    """Whether it is a module that only weft's own functions have named: it is as the key says."""
    return isinstance(owner, ModuleType) and (owner in (math, operator) or is_of_weft(owner))


def _own(owners: dict[int, int], value: Any, number: int) -> None:
    """Notes that an object, and a function's namespace and cells, are reached by a read."""
    owners.setdefault(id(value), number)
    function = plain_function(value)
    if function is not None:
        owners.setdefault(id(function.__globals__), number)
        for cell in function.__closure__ or ():
            owners.setdefault(id(cell), number)


def _constants(signature: Signature) -> dict[str, Any]:
    """The values of the compile-time parameters."""
    kinds = ((parameter.name, parameter.kind) for parameter in signature.parameters)
    return {name: kind.value for name, kind in kinds if isinstance(kind, ConstantKind)}
