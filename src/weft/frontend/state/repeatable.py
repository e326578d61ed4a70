# SPDX-License-Identifier: Apache-2.0
"""Which Python code gives the same result again, in any process, if what it is seen to read is the same.

In: a callable that Python is about to run at compile time. Out: whether; when in doubt, not.
"""

from __future__ import annotations

import builtins
import math
import operator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
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
        return type(owner) in _RECEIVERS
    if not isinstance(function, FunctionType) or function.__module__.partition(".")[0] == "weft":
        return False
    return all(_is_known(value, function, seen) for value in _named(function))


def _is_made_by_python(kind: type) -> bool:
    """Whether only generated code makes instances of a record."""
    makers = [kind.__dict__.get(name) for name in ("__new__", "__init__", "__post_init__")]
    codes = [getattr(getattr(maker, "__func__", maker), "__code__", None) for maker in makers]
    return all(code is None or code.co_filename[:1] == "<" for code in codes)


def _named(function: FunctionType) -> Iterator[Any]:
    """What the names in a function's code may stand for."""
    namespace = function.__globals__
    for name in code_names(function.__code__):
        if name in namespace:
            yield namespace[name]
        elif hasattr(builtins, name):
            yield getattr(builtins, name)
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
