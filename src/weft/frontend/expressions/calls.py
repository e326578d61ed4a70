# SPDX-License-Identifier: Apache-2.0
"""Calls: operations of the language, conversions, builtins, inlined helpers, Python itself.

In: a callee and its arguments. Out: the call's value. Inlining needs the statement visitor, so the session provides it.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import inspect
from collections.abc import ItemsView, ValuesView
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.records import is_dataclass
from weft.errors import CompileError, TypeMismatchError, UnavailableError
from weft.frontend.context import BoundMethod, FrontendCallable, LocalFunction
from weft.frontend.expressions import comparisons, folds, fragments, instances, methods
from weft.frontend.expressions.attributes import is_mover, refuse_misplaced
from weft.frontend.expressions.items import Items
from weft.frontend.expressions.staging import needs_tracing
from weft.frontend.scope import resolved
from weft.frontend.source.refusals import call_hint, refused_call
from weft.frontend.state import constants
from weft.frontend.state.reachable import CACHED, is_iterator
from weft.frontend.structure import contains_staged
from weft.language import LANGUAGE
from weft.language.builtins import BUILTINS
from weft.language.functions import (
    BoundFunction,
    DeviceFunction,
    HostFunction,
    KernelFunction,
    MarkedFunction,
    TunedFunction,
)
from weft.language.numbers.convert import convert
from weft.language.operation import Operation
from weft.language.values import Scalar, is_staged
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.frontend.context import Evaluator, Frame

# Builtins that only move items, which may be staged.
_CONTAINER_BUILTINS: Final = frozenset(
    (tuple, list, dict, enumerate, zip, reversed, slice, callable, id, iter, next)
)
# Builtins that leave an iterator unchanged, or take one item.
_LEAVING: Final = frozenset(
    (iter, next, print, isinstance, issubclass, callable, id, hasattr, getattr, repr, hash, format)
)
_METHODS_OF_BUILTINS: Final[dict[Any, str]] = {
    builtins.len: "__len__",
    builtins.abs: "__abs__",
    builtins.int: "__int__",
    builtins.float: "__float__",
    builtins.round: "__round__",
}
_MOVING_FUNCTIONS: Final = frozenset((dataclasses.replace, dataclasses.fields))


def call(visitor: Evaluator, node: ast.Call) -> Any:
    """The value of a call."""
    frame = visitor.frame
    callee = visitor.evaluate(node.func)
    arguments = visitor.items(node.args)
    keywords: dict[str, Any] = {}
    for keyword in node.keywords:
        value = visitor.evaluate(keyword.value)
        if keyword.arg is None:
            constants.python("**", keywords.update, value)
        else:
            keywords[keyword.arg] = value
    if isinstance(callee, Operation) and callee.takes_index:
        for place in _index_arguments(node):
            visitor.note_index(place)
    frame.mark(node)
    return call_value(visitor, node, callee, arguments, keywords)


def _index_arguments(node: ast.Call) -> list[ast.expr]:
    """Where a call gives the index of an element, its second argument."""
    leading = node.args[:2]
    if len(leading) == 2 and not any(isinstance(one, ast.Starred) for one in leading):
        return [leading[1]]
    return [keyword.value for keyword in node.keywords if keyword.arg == "index"]


def call_value(
    visitor: Evaluator, node: ast.AST, callee: Any, arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    """The value of calling a compile-time object.

    Raises:
        TypeMismatchError: if it cannot be called with staged arguments.
    """
    frame = visitor.frame
    callee = resolved(callee)  # an argument or item may be a name of the language
    if isinstance(callee, Operation):
        refuse_misplaced(frame, callee)
        if callee.takes_function:
            arguments, keywords = fragments.with_region(visitor, node, arguments, keywords)
        if callee.takes_cpu_function and callable(keywords.get("cpu")):
            keywords = {**keywords, "cpu": _inlined(visitor, node, keywords["cpu"])}
        return callee.emit(frame.builder, *arguments, **keywords)
    if isinstance(callee, DType):
        return _converted(frame, callee, arguments, keywords)
    if isinstance(callee, BoundFunction):
        given = [callee.owner, *arguments]
        return call_value(visitor, node, callee.function, given, keywords)
    if isinstance(callee, TunedFunction):
        if not callee.has_all(len(arguments), keywords):
            raise _needs_measuring(callee)
        return call_value(visitor, node, callee.tuned_function, arguments, keywords)
    if isinstance(callee, FrontendCallable):
        return callee.call(frame, arguments, keywords)
    if isinstance(callee, KernelFunction):
        return frame.context.call_kernel(frame, callee, arguments, keywords)
    if isinstance(callee, HostFunction | LocalFunction):
        function: Any = callee.function if isinstance(callee, HostFunction) else callee
        return frame.inline(function, arguments, keywords)
    if isinstance(callee, DeviceFunction):
        refuse_misplaced(frame, callee)
        marked: Any = callee if isinstance(callee, MarkedFunction) else cast("Any", callee).function
        return frame.inline(marked, arguments, keywords)
    if isinstance(callee, BoundMethod):
        return frame.inline(callee.function, (callee.owner, *arguments), keywords)
    if isinstance(callee, functools.partial):
        given, named = [*callee.args, *arguments], {**callee.keywords, **keywords}
        return call_value(visitor, node, callee.func, given, named)
    if callee is builtins.super and not arguments:
        found = instances.base_methods(frame)
        if found is not instances.NONE:
            return found
    refused = refused_call(callee, arguments)
    if refused is not None:
        raise refused
    staged = contains_staged(arguments) or contains_staged(keywords)
    callee = _without_cache(callee, arguments, keywords)
    fold = folds.FOLDS.get(callee) if _is_hashable(callee) else None
    if fold and (staged or callee in folds.ALWAYS or any(map(is_iterator, arguments))):
        return fold(visitor, node, arguments, keywords)
    if isinstance(callee, FunctionType | MethodType) and not _moves(callee):
        return _python_function(frame, callee, arguments, keywords)
    own_call = inspect.getattr_static(cast("Any", type(callee)), "__call__", None)
    staged = staged or contains_staged(callee)
    if isinstance(own_call, FunctionType) and needs_tracing(own_call, callee, arguments, keywords):
        frame.context.session.captures.read_member(
            cast("Any", type(callee)), "__call__", "__call__"
        )
        return frame.inline(own_call, [callee, *arguments], keywords)
    made = instances.make(frame, callee, arguments, keywords)
    if made is not instances.NONE:
        return made
    return _other(visitor, node, callee, arguments, keywords, staged)


def _needs_measuring(callee: TunedFunction) -> UnavailableError:
    name, chosen = callee.tuned_function.function.__name__, callee.chosen
    return UnavailableError(
        "AUTOTUNE_CALL",
        f"'{name}' chooses {', '.join(chosen)} by measuring with a call's arrays, which compiled code cannot",
        hint=f"pass {'it' if len(chosen) == 1 else 'all of them'} here, from {name}.best(...) of Python; or decorate "
        "this function with @weft.autotune instead",
    )


def _without_cache(callee: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """The function under `functools.cache`, for inlining, which runs and caches nothing."""
    function = callee.__wrapped__ if isinstance(callee, CACHED) else None
    if isinstance(function, FunctionType) and needs_tracing(function, arguments, keywords):
        return function
    return cast("Any", callee)


def _converted(
    frame: Frame, dtype: DType, arguments: list[Any], keywords: dict[str, Any]
) -> Scalar:
    if len(arguments) != 1 or keywords:
        raise TypeMismatchError(
            "CALL_ARGUMENTS",
            f"weft.{dtype} converts one value, received {len(arguments) + len(keywords)}",
            hint=f"write weft.{dtype}(x)",
        )
    return convert(frame.builder, arguments[0], dtype)


def _python_function(
    frame: Frame,
    callee: FunctionType | MethodType,
    arguments: list[Any],
    keywords: dict[str, Any],
) -> Any:
    """A Python function: inlined if it computes with kernel values, else run."""
    function = callee
    if isinstance(callee, MethodType):
        function = callee.__func__
        if isinstance(function, FunctionType):
            arguments = [callee.__self__, *arguments]
    if isinstance(function, FunctionType) and needs_tracing(function, arguments, keywords):
        return frame.inline(function, arguments, keywords)
    try:
        run = frame.state.run
        value = run(f"{callee.__name__}()", function, *arguments, **keywords)
    except RecursionError as error:
        raise CompileError(
            "RECURSION",
            f"'{callee.__name__}' calls itself without end",
            hint="this part runs in Python at compile time",
        ) from error
    if isinstance(function, FunctionType):
        frame.context.session.captures.read_function(function)
    return value


def _inlined(visitor: Evaluator, node: ast.AST, function: Any) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return visitor.call_value(node, function, list(arguments), {})

    return call


def _other(
    visitor: Evaluator,
    node: ast.AST,
    callee: Any,
    arguments: list[Any],
    keywords: dict[str, Any],
    staged: bool,
) -> Any:
    """Builtins, classes, and other callables."""
    frame = visitor.frame
    if is_staged(callee) or not callable(callee):
        raise TypeMismatchError("NOT_CALLABLE", f"{constants.kind(callee)} cannot be called")
    operation = _builtin(callee)
    if _takes_all_items(callee) and any(map(_is_expanded, arguments)):
        arguments = [
            tuple(Items(frame, value, node)) if _is_expanded(value) else value
            for value in arguments
        ]
        staged = contains_staged(arguments) or contains_staged(keywords)
    if isinstance(callee, BuiltinMethodType) and not keywords:
        owner = callee.__self__
        lookup = comparisons.find_lookup(owner, callee.__name__, len(arguments))
        if lookup is not None and (staged or contains_staged(owner)):
            return lookup(visitor, node, owner, arguments)
    if staged and len(arguments) == 1 and not keywords and not is_staged(arguments[0]):
        found = _of_class(visitor, node, callee, arguments[0])
        if found is not methods.NONE:
            return found
    if callee is builtins.print or (operation is not None and staged):
        assert operation is not None
        emit = operation.emit
        return constants.python(f"{operation.name}()", emit, frame.builder, *arguments, **keywords)
    name = getattr(callee, "__name__", repr(callee))
    is_asked = callee in (iter, next) and any(map(is_staged, arguments))
    if not staged or (_takes_staged(callee) and not is_asked):
        is_method = not isinstance(getattr(callee, "__self__", builtins), ModuleType)
        what = f".{name}()" if is_method else f"{name}()"
        return frame.state.run(what, callee, *arguments, **keywords)
    ours = f"math.{name}"
    known = getattr(callee, "__module__", "") in ("math", "numpy") and ours in LANGUAGE
    hint = call_hint(callee) or "only Python functions can be compiled; write one"
    if isinstance(callee, type) and not call_hint(callee):
        hint = (
            "make it a NamedTuple, a @dataclass, or a class with an __init__ in Python and without __slots__, which "
            "can hold run-time values"
        )
    raise TypeMismatchError(
        "CALL_STAGED",
        f"{name} cannot be called with values known only at run time",
        hint=f"use weft.{ours}" if known and not call_hint(callee) else hint,
    )


def _of_class(visitor: Evaluator, node: ast.AST, callee: Any, value: Any) -> Any:
    """A builtin that calls a method of its argument's class, such as ``abs(x)`` `__abs__`."""
    if callee is builtins.bool:
        return visitor.truth_of(value, node)
    names = _METHODS_OF_BUILTINS.get(callee) if _is_hashable(callee) else None
    return methods.call(visitor.frame, value, names) if names else methods.NONE


def _builtin(callee: Any) -> Operation[...] | None:
    return BUILTINS.get(callee) if _is_hashable(callee) else None


def _takes_all_items(callee: Any) -> bool:
    """Whether a C function exhausts an iterator."""
    if isinstance(callee, type):
        return callee in (tuple, list, set, frozenset, dict)
    if not isinstance(callee, BuiltinFunctionType) or callee in _LEAVING:
        return False
    return callee.__module__ in ("builtins", "math") or callee.__name__ == "join"


def _is_expanded(value: Any) -> bool:
    return is_iterator(value) or isinstance(value, ValuesView | ItemsView)


def _is_hashable(callee: Any) -> bool:
    return (
        not contains_staged(callee)
        and getattr(cast("Any", type(callee)), "__hash__", None) is not None
    )


def _moves(callee: FunctionType | MethodType) -> bool:
    """Whether a library function only moves items between containers."""
    if isinstance(callee, MethodType):
        owner = callee.__self__
        return is_mover(owner, callee.__name__)
    return callee in _MOVING_FUNCTIONS


def _takes_staged(callee: Any) -> bool:
    """Whether a call only moves its arguments into or within a container."""
    if isinstance(callee, FunctionType | MethodType):
        return _moves(callee)
    if isinstance(callee, type):
        kind = cast("type[Any]", callee)
        return (
            kind in _CONTAINER_BUILTINS
            or issubclass(kind, tuple)
            or is_dataclass(kind, frozen=True)
        )
    if isinstance(callee, BuiltinMethodType):
        if isinstance(callee.__self__, list | dict | set | tuple):
            return True
        owner = callee.__self__
        return callee in _CONTAINER_BUILTINS or (
            isinstance(owner, type) and issubclass(owner, tuple)
        )
    return False
