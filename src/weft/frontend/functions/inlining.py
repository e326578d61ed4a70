# SPDX-License-Identifier: Apache-2.0
"""Calls of Python functions from compiled code: the callee's statements are traced in place.

In: a function and its arguments. Out: its result, and its operations, each with the chain of calls.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.base import MISSING
from weft.arguments.constant import ConstantAnnotation, Constexpr
from weft.arguments.pointer import PointerSpec
from weft.arguments.tensor_spec import Tensor, TensorMap, TensorSpec
from weft.blame import is_of_weft
from weft.errors import TypeMismatchError
from weft.frontend.context import Frame, LocalFunction
from weft.frontend.events import tell_call
from weft.frontend.functions.launch_arguments import checked_argument
from weft.frontend.statements.statement import Statements
from weft.frontend.structure import contains_staged
from weft.language.functions import MarkedFunction
from weft.language.numbers.convert import materialize
from weft.language.values import Scalar, describe
from weft.types import dtype as weft_types
from weft.types.dtype import DType, library_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FunctionType

    from weft.frontend.source import FunctionSource


# Annotations that are checked as those of kernels; numbers are converted, as in every function.
_CHECKED: Final = (Tensor, TensorMap, Constexpr)


def inline(
    caller: Frame,
    function: FunctionType | LocalFunction | MarkedFunction[...],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Any:
    """The value of ``function(*arguments, **keywords)``; its operations are emitted at the call.

    Raises:
        TypeMismatchError: for arguments that do not fit the parameters.
        CompileError: for recursion that does not end at compile time.
    """
    if isinstance(function, MarkedFunction):
        return call_marked(caller, function, arguments, keywords)
    context, place = caller.context, caller.builder.location
    parent, is_foreign, annotations = None, False, dict[str, object]()
    is_own = function.frame.is_own if isinstance(function, LocalFunction) else is_of_weft(function)
    if isinstance(function, LocalFunction):
        node, source, parent = function.node, function.frame.source, function.scope
        is_foreign = function.frame.context is not context
        defaults, keyword_defaults = function.defaults, function.keyword_defaults
        key: object = node
    else:
        source = context.session.source(function)
        node, key = source.tree, function.__code__
        defaults, keyword_defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
        annotations = {p.name: p.annotation for p in _declared(source)}
    frame = Frame(
        context, source, node, caller=place, parent=parent, is_foreign=is_foreign, is_own=is_own
    )
    values = bind_arguments(frame.name, node.args, arguments, keywords, defaults, keyword_defaults)
    with caller.called(key, frame.name):
        for parameter, value in values.items():
            frame.scope.assign(parameter, _typed(frame, value, annotations.get(parameter)), place)
        tell_call(frame, node, frame.scope.assigned())
        return Statements(frame).function_body(node)


def call_marked(
    caller: Frame,
    marked: MarkedFunction[...],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Any:
    """The value of a call of a ``@weft.device`` function, whose arguments and result fit its annotations.

    Raises:
        TypeMismatchError: if one does not.
    """
    function = cast("FunctionType", marked.function)
    source = caller.context.session.source(function)
    declared = {p.name: p for p in _declared(source)}
    defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
    if not declared:
        return inline(caller, function, arguments, keywords)
    values = bind_arguments(source.name, source.tree.args, arguments, keywords, *defaults)
    for name, value in values.items():
        said = declared[name].annotation
        if said in _CHECKED or isinstance(said, TensorSpec | PointerSpec | ConstantAnnotation):
            values[name] = checked_argument(
                caller, source, declared[name], value, "device function"
            )
    given = [values.pop(p.arg) for p in source.tree.args.posonlyargs]
    result = inline(caller, function, given, values)
    expected = function.__annotations__.get("return")
    if isinstance(expected, str):
        expected = source.globals.get(expected) or vars(weft_types).get(expected.rpartition(".")[2])
    expected = library_dtype(expected) or expected
    if not isinstance(expected, DType):
        return result
    if not isinstance(result, Scalar | int | float):
        raise _misfit(
            f"device function '{source.name}' returns {describe(result)}, expected {expected} by its annotation"
        )
    return materialize(caller.builder, result, expected)


def _declared(source: FunctionSource) -> Sequence[Any]:
    arguments = source.tree.args
    if arguments.vararg is not None or arguments.kwarg is not None:
        return ()  # a helper may take any number; its annotations are then ignored
    return source.parameters


def _typed(frame: Frame, value: Any, annotation: object) -> Any:
    """An argument converted by its annotation: ``x: weft.f32`` takes an f32, or a value convertible to it."""
    if isinstance(annotation, DType) and not (
        contains_staged(value) and not isinstance(value, Scalar)
    ):
        return materialize(frame.builder, value, annotation)
    return value


def bind_arguments(
    name: str,
    parameters: ast.arguments,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    defaults: Sequence[Any],
    keyword_defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """Parameter → value, by Python's rules.

    Raises:
        TypeMismatchError: in Python's words, for a wrong count or an unknown or missing parameter.
    """
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    keyword_only = [a.arg for a in parameters.kwonlyargs]
    values = dict(zip(positional, arguments, strict=False))
    extra = tuple(arguments[len(positional) :])
    if extra and parameters.vararg is None:
        raise _misfit(
            f"{name}() takes {len(positional)} positional arguments but {len(arguments)} were given"
        )
    named = {*positional[len(parameters.posonlyargs) :], *keyword_only}
    rest: dict[str, Any] = {}
    for key, value in keywords.items():
        if key in values and key in named:
            raise _misfit(f"{name}() got multiple values for argument '{key}'")
        if key in named:
            values[key] = value
        elif parameters.kwarg is not None:
            rest[key] = value
        else:
            raise _misfit(f"{name}() got an unexpected keyword argument '{key}'")
    first_default = len(positional) - len(defaults)
    for index, parameter in enumerate(positional):
        if parameter not in values and index >= first_default:
            values[parameter] = defaults[index - first_default]
    for parameter in keyword_only:
        values.setdefault(parameter, keyword_defaults.get(parameter, MISSING))
    missing = [p for p in (*positional, *keyword_only) if values.get(p, MISSING) is MISSING]
    if missing:
        raise _misfit(f"{name}() is missing the argument {' and '.join(repr(p) for p in missing)}")
    if parameters.vararg is not None:
        values[parameters.vararg.arg] = extra
    if parameters.kwarg is not None:
        values[parameters.kwarg.arg] = rest
    return values


def _misfit(text: str) -> TypeMismatchError:
    return TypeMismatchError("CALL_ARGUMENTS", text)
