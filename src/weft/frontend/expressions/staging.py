# SPDX-License-Identifier: Apache-2.0
"""Which Python functions need tracing although none of their arguments is staged.

In: a Python function and its arguments. Out: whether it, or a function it calls, uses one of weft's names; whether an
argument is meaningful only in a kernel.
"""

from __future__ import annotations

import functools
from enum import Enum
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any, Final, cast

from weft.frontend.context import BoundMethod, FrontendCallable, LocalFunction
from weft.frontend.expressions.language_use import reaches_language
from weft.frontend.state.reachable import attributes_of
from weft.frontend.structure import PLAIN, Deferred, passed_on
from weft.language import LanguageName
from weft.language.operation import Operation
from weft.language.values import StagedContext, StagedNamespace, is_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_OF_THE_KERNEL: Final = (
    StagedNamespace,
    StagedContext,
    Operation,
    LocalFunction,
    BoundMethod,
    FrontendCallable,
    Deferred,
)
_LEAVES: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, Enum)


def holds_kernel_object(value: object) -> bool:
    """Whether a value, or something inside it, is staged or emits code when used, such as a profiler.

    Searches containers and attributes of objects, at every depth: Python cannot run a function that uses such a value.
    """
    return _reaches(value, _is_of_kernel, set())


def needs_tracing(function: FunctionType, *given: object) -> bool:
    """Whether a function must be inlined, because of names in its code or its arguments."""
    return _reaches(given, _is_used_in_kernel, set()) or reaches_language(function, *given)


def _is_of_kernel(value: object) -> bool:
    return is_staged(value) or isinstance(value, _OF_THE_KERNEL)


def _is_used_in_kernel(value: object) -> bool:
    """The same, or a name or function of the language passed in order to be called."""
    if isinstance(value, FunctionType):
        return reaches_language(value)
    return _is_of_kernel(value) or isinstance(value, LanguageName)


def _reaches(value: object, is_found: Callable[[object], bool], seen: set[int]) -> bool:
    if is_found(value):
        return True
    if type(value) in PLAIN or isinstance(value, _LEAVES) or id(value) in seen:
        return False
    seen.add(id(value))
    return any(_reaches(item, is_found, seen) for item in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    """The contents of a container or an object."""
    if isinstance(value, dict):
        yield from cast("dict[Any, Any]", value).values()
    elif isinstance(value, tuple | list | set | frozenset):
        yield from cast("Iterable[Any]", value)
    elif isinstance(value, functools.partial):
        bound = cast("functools.partial[Any]", value)
        yield from (bound.func, bound.args, bound.keywords)
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    yield from passed_on(value)
    yield from (item for _, item in attributes_of(value))
