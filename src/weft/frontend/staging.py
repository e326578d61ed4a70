# SPDX-License-Identifier: Apache-2.0
"""Which Python functions belong to the kernel language although no argument of theirs is staged.

In: a Python function. Out: whether it, or a function that it calls, names something of weft's. Next: inlining.
"""

from __future__ import annotations

from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from weft.language import LanguageName
from weft.language.functions import StagedFunction
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Iterator


def uses_language(function: FunctionType) -> bool:
    """Whether a function must be inlined even for compile-time arguments, as its code is not plain Python.

    Plain Python runs as it is, with all that Python can do; a helper such as
    ``def thread(): return weft.thread_idx.x`` cannot.
    """
    return _uses(function, set())


def _uses(function: FunctionType, seen: set[FunctionType]) -> bool:
    if function in seen:
        return False
    seen.add(function)
    return any(
        _is_language(value) or (isinstance(value, FunctionType) and _uses(value, seen))
        for value in _named_values(function)
    )


def _is_language(value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ == "weft"
    return isinstance(value, LanguageName | StagedFunction | DType)


def _named_values(function: FunctionType) -> Iterator[Any]:
    """What the names in a function's code currently stand for: globals, free variables, names in modules."""
    names = list(_names(function.__code__))
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value)[inner] for inner in names if inner in vars(value))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # a variable that is not assigned yet


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
