# SPDX-License-Identifier: Apache-2.0
"""Which Python code gives the same result again, in any process, if what it is seen to read is the same.

In: a callable that Python is about to run at compile time. Out: whether; when in doubt, not.
"""

from __future__ import annotations

import builtins
import enum
import functools
import math
import opcode
import operator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.records import is_record
from weft.frontend.state.captured import code_names
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
_IMPORT: Final = opcode.opmap["IMPORT_NAME"]
_CONTAINERS: Final = frozenset((list, tuple, dict, set, frozenset))
_PLAIN_ITEMS: Final = frozenset(
    (bool, int, float, complex, str, bytes, type(None), type(...), range, slice)
)
_COMPARED_BY_IDENTITY: Final = (type, FunctionType, BuiltinFunctionType, ModuleType)
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
    if isinstance(function, type):
        known = function.__module__ == "builtins" and function not in _UNREPEATABLE
        return known or (is_record(function) and _is_made_by_python(function))
    if isinstance(function, BuiltinFunctionType):
        owner = function.__self__
        if isinstance(owner, ModuleType) or owner is None:
            return function.__module__ in _MODULES and function not in _UNREPEATABLE
        return type(owner) in _RECEIVERS and is_plain_data(owner)
    if not isinstance(function, FunctionType) or function.__module__.partition(".")[0] == "weft":
        return False
    if _imports(function.__code__):
        return False
    return all(_is_known(value, function, seen) for value in _named(function))


def _imports(code: CodeType) -> bool:
    """Whether a function or a nested one has an import statement."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return _IMPORT in code.co_code[::2] or any(map(_imports, inner))


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
        elif not (kind.__module__.partition(".")[0] == "weft" or kind in _COMPARED_BY_IDENTITY):
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
    """What the names in a function's code may stand for."""
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
