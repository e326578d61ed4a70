# SPDX-License-Identifier: Apache-2.0
"""Contents of compile-time objects as a digest that is the same in every process and every checkout.

In: functions, classes, containers, arrays. Out: a digest, without paths and addresses; `Unknown` for an object whose
content cannot be told.
"""

from __future__ import annotations

import enum
import functools
import marshal
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.base import ArgumentKind
from weft.arguments.constant import ConstantKind
from weft.blame import is_of_weft, package_of
from weft.cache.digest import blake2b
from weft.errors import WeftError
from weft.frontend.source.text import read_source
from weft.language import LanguageName
from weft.language.functions import BoundFunction, KernelFunction, StagedFunction
from weft.types.dtype import DType
from weft.types.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.frontend.source.text import FunctionSource
    from weft.language.source_text import SourceTexts

_SCALARS: Final = frozenset((bool, int, float, complex, str, bytes, type(None), type(...)))
# Equal ones may be one object or several.
_WITHOUT_IDENTITY: Final = (tuple, frozenset, ModuleType, DType, LanguageName, Frozen)
_STARRED: Final = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS; such functions' annotations are ignored
_BOUNDS: Final = ("max_threads", "min_blocks", "max_registers", "cluster", "fp_contract", "math")
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
    """The content of an object cannot be told; the message names its type."""


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
        """Of everything added so far."""
        return self._hash.hexdigest()

    def say(self, *words: object) -> None:
        """Adds words; each ends where the next begins."""
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode(errors="backslashreplace")
            self._hash.update(b"%d:" % len(data) + data)

    def add(self, value: Any) -> None:
        """Adds an object and what it reaches.

        Raises:
            Unknown: if its content, or that of something inside it, cannot be told.
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
