# SPDX-License-Identifier: Apache-2.0
"""Python code that gives the same result again, in any process, if its observed inputs are the same.

In: a callable that Python is about to run at compile time. Out: whether; when in doubt, not.
"""

from __future__ import annotations

import builtins
import enum
import functools
import math
import operator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.records import is_record
from weft.blame import is_of_weft, package_of
from weft.frontend.state.captured import cell_contents, code_names, has_imports
from weft.language import LanguageName
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULES: Final = ("builtins", "math", "_operator")
# Builtins that read or change something else, or differ between processes.
_UNREPEATABLE: Final = frozenset(
    getattr(builtins, name)
    for name in (
        *("open", "input", "id", "hash", "globals", "locals", "vars", "dir", "eval", "exec"),
        *("compile", "__import__", "getattr", "setattr", "delattr", "hasattr", "object"),
        *("breakpoint", "super", "print", "repr"),
    )
)
_RECEIVERS: Final = (tuple, list, dict, set, frozenset, str, bytes, int, float)
_CONTAINERS: Final = frozenset((list, tuple, dict, set, frozenset))
_PLAIN_ITEMS: Final = frozenset(
    (bool, int, float, complex, str, bytes, type(None), type(...), range, slice)
)
_COMPARED_BY_IDENTITY: Final = (type, FunctionType, BuiltinFunctionType, ModuleType)
# weft's own functions that Python runs while a kernel is compiled. The key of an entry has the content of all of weft.
_OWN: Final = (
    "weft.kernels.",
    "weft.primitives.",
    "weft.language.",
    "weft.types.",
    "weft.arguments.",
)
_STANDARD: Final = (
    "typing",
    "functools",
    "itertools",
    "operator",
    "_operator",
    "math",
    "dataclasses",
    "builtins",
)
_READABLE: Final = (bool, int, float, str, bytes, type(None), DType, LanguageName)


def is_repeatable(function: Any) -> bool:
    """Whether a call depends only on its arguments and on the globals and free variables that its code names.

    Example:
        >>> is_repeatable(len), is_repeatable(open)
        (True, False)
    """
    return _is_repeatable(function, set())


def _is_repeatable(function: Any, seen: set[int]) -> bool:
    if id(function) in seen:
        return True
    seen.add(id(function))
    if is_of_weft(function) and (wrapped := getattr(function, "__wrapped__", None)) is not None:
        return _is_repeatable(wrapped, seen)
    if isinstance(function, type):
        known = package_of(function) == "builtins" and function not in _UNREPEATABLE
        return known or (is_record(function) and _is_made_by_python(function))
    if isinstance(function, BuiltinFunctionType):
        owner = function.__self__
        if isinstance(owner, ModuleType) or owner is None:
            return function.__module__ in _MODULES and function not in _UNREPEATABLE
        return type(owner) in _RECEIVERS and is_plain_data(owner)
    if not isinstance(function, FunctionType):
        return False
    if is_of_weft(function):
        return _reads_nothing(function, set())
    if has_imports(function.__code__):
        return False
    return all(_is_known(value, function, seen) for value in _named(function))


def _reads_nothing(value: Any, seen: set[int]) -> bool:
    """Whether something that weft's own code names is the same in every process: no device, no settings."""
    if id(value) in seen:
        return True
    seen.add(id(value))
    if isinstance(value, FunctionType):
        if not is_of_weft(value):
            return value.__module__ in _STANDARD
        return (
            value.__module__.startswith(_OWN)
            and not has_imports(value.__code__)
            and all(_reads_nothing(one, seen) for one in _named_by_own(value))
        )
    if isinstance(value, ModuleType):  # names used from it are examined separately
        return value.__name__ in (*_STANDARD, "weft") or value.__name__.startswith(_OWN)
    if isinstance(value, tuple | list):
        return all(_reads_nothing(item, seen) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        return all(_reads_nothing(item, seen) for item in cast("dict[Any, Any]", value).values())
    if isinstance(value, functools.partial):
        parts = (value.func, *value.args, *value.keywords.values())
        return all(_reads_nothing(part, seen) for part in cast("tuple[Any, ...]", parts))
    if (wrapped := getattr(value, "__wrapped__", None)) is not None:  # functools.cache
        return _reads_nothing(wrapped, seen)
    if isinstance(value, BuiltinFunctionType):
        return value.__module__ in _STANDARD and value not in _UNREPEATABLE
    is_language = is_of_weft(value.__class__)
    return not callable(value) or isinstance(value, type | LanguageName) or is_language


def _named_by_own(function: FunctionType) -> Iterator[Any]:
    """Meanings of the names in a function, those of weft's modules that it names too."""
    names = list(code_names(function.__code__))
    spaces = [{**vars(builtins), **function.__globals__}]
    first = [spaces[0][name] for name in names if name in spaces[0]]
    modules = [one for one in first if isinstance(one, ModuleType)]
    spaces += [vars(one) for one in modules if one.__name__.startswith(_OWN)]
    for one in modules:
        if one.__name__ == "weft":  # its names are imported on first use
            spaces.append({name: getattr(one, name) for name in names if name in one.__all__})
    yield from (space[name] for name in names for space in spaces if name in space)
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        yield from cell_contents(cell)


def holds_foreign_code(values: Any) -> bool:
    """Whether a function that is not weft's is among values, or in the containers and records that these are."""
    pending: list[Any] = [values]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType | MethodType):
            if not is_of_weft(value):
                return True
        elif isinstance(value, tuple | list | set | frozenset):
            pending += cast("list[Any]", value)
        elif isinstance(value, dict):
            pending += cast("dict[Any, Any]", value).values()
        elif isinstance(value, functools.partial):
            made = cast("Any", value)
            pending += (made.func, *made.args, *made.keywords.values())
        else:
            fields: dict[str, Any] = getattr(value, "__dataclass_fields__", {})
            pending += [getattr(value, name, None) for name in fields]
    return False


def is_plain_data(value: object) -> bool:
    """Whether no code of a user's class runs when Python compares, orders, computes with or prints an object.

    Example:
        >>> is_plain_data([1, (2.0, "x")])
        True
    """
    pending, seen = [value], set[int]()
    while pending:
        item: Any = pending.pop()
        kind = cast("type[Any]", type(item))
        if kind in _PLAIN_ITEMS:
            continue
        if kind in _CONTAINERS:
            if id(item) not in seen:
                seen.add(id(item))
                pending += item
                pending += item.values() if kind is dict else ()
        elif isinstance(item, enum.Enum):
            if not _is_plain_enum(kind):
                return False
        elif kind.__module__ == "numpy":
            if getattr(getattr(item, "dtype", None), "hasobject", False):
                return False
        elif kind.__module__ != "typing" and not (
            is_of_weft(kind) or kind in _COMPARED_BY_IDENTITY
        ):
            return False
    return True


@functools.lru_cache(maxsize=256)
def _is_plain_enum(kind: type) -> bool:
    """Whether an enumeration leaves operators to Python."""
    return all(
        not isinstance(member, FunctionType)
        or member.__module__ == "enum"
        or name[:2] != "__"
        or name in ("__init__", "__new__")
        for base in kind.__mro__
        for name, member in vars(base).items()
    )


def _is_made_by_python(kind: type) -> bool:
    """Whether only generated code makes instances of a record."""
    makers = [getattr(kind, name, None) for name in ("__new__", "__init__", "__post_init__")]
    codes = [getattr(maker, "__code__", None) for maker in makers]
    fields: dict[str, Any] = getattr(kind, "__dataclass_fields__", {})
    has_factory = any(callable(field.default_factory) for field in fields.values())
    is_generated = all(code is None or code.co_filename[:1] == "<" for code in codes)
    return type(kind) is type and is_generated and not has_factory


def _named(function: FunctionType) -> Iterator[Any]:
    """Possible meanings of the names in a function's code."""
    namespace = function.__globals__
    for name in code_names(function.__code__):
        if name in namespace:
            yield namespace[name]
        elif hasattr(builtins, name):
            yield getattr(builtins, name)
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield open  # a variable without a value yet: in doubt


def _is_known(value: Any, reader: FunctionType, seen: set[int]) -> bool:
    if isinstance(value, ModuleType):
        return value in (math, operator)
    if isinstance(value, _READABLE):
        return True
    if isinstance(value, tuple):
        return all(_is_known(item, reader, seen) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, FunctionType) and value.__globals__ is not reader.__globals__:
        return False
    if isinstance(value, MethodType) or not callable(value):
        return False
    return _is_repeatable(value, seen)
