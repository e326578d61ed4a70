# SPDX-License-Identifier: Apache-2.0
"""Calls: operations of the language, conversions, builtins, inlined helpers, functions over sequences, Python itself.

In: a callee and its arguments. Out: the call's value. Inlining needs the statement visitor, so the session provides it.
Functions of a fragment's elements are traced once, into a region. Of ``sum``, ``any``, ``map``, ``reduce`` and so on
some items may be staged, and functions are inlined.
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

from xdsl.dialects.builtin import UnitAttr
from xdsl.traits import Pure

from weft.arguments.records import is_dataclass
from weft.dialects.simt.debug import UNDEFINES
from weft.dialects.simt.threads import BarrierOp
from weft.driver import memory
from weft.errors import CompileError, NameResolutionError, TypeMismatchError, UnavailableError
from weft.frontend.context import BoundMethod, FrontendCallable, LocalFunction
from weft.frontend.events import untraced
from weft.frontend.expressions import attributes, comparisons
from weft.frontend.expressions.attributes import is_mover, refuse_misplaced
from weft.frontend.expressions.items import Items, Lazy
from weft.frontend.expressions.staging import needs_tracing
from weft.frontend.paths import resolved
from weft.frontend.state import constants
from weft.frontend.state.reachable import CACHED, is_iterator
from weft.frontend.structure import contains_staged
from weft.frontend.syntax import call_hint, refused_call
from weft.language import LANGUAGE, resolve
from weft.language.builtins import BUILTINS, max_, min_
from weft.language.functions import (
    BoundFunction,
    DeviceFunction,
    HostFunction,
    KernelFunction,
    MarkedFunction,
    TunedFunction,
)
from weft.language.memory import arrays, undefined
from weft.language.memory.access import attribute_names
from weft.language.memory.arrays import TableRow
from weft.language.numbers.complex import Conjugate
from weft.language.numbers.convert import accumulator, convert
from weft.language.operation import Operation
from weft.language.values import Scalar, StagedNamespace, Tensor, is_instance, is_staged
from weft.types.dtype import DType, library_dtype

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator

    from xdsl.ir import Block

    from weft.frontend.context import Evaluator, Frame
    from weft.language.operation import Operation

    Emit = Callable[[Evaluator, ast.AST, list[Any], dict[str, Any]], Any]


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
    """Place of an element's index in a call, its second argument."""
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
        return _emitted(visitor, node, callee, arguments, keywords)
    if (dtype := _conversion_to(callee, arguments)) is not None:
        return _converted(frame, dtype, arguments, keywords)
    if isinstance(callee, BoundFunction):
        given = [callee.owner, *arguments]
        return call_value(visitor, node, callee.function, given, keywords)
    if isinstance(callee, TunedFunction):
        if not callee.has_all(len(arguments), keywords):
            raise _needs_measuring(callee)
        return call_value(visitor, node, callee.tuned_function, arguments, keywords)
    if isinstance(callee, FrontendCallable | Conjugate):
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
        found = attributes.base_methods(frame)
        if found is not attributes.NONE:
            return found
    if frame.context.is_host and callee in _NEW_TENSORS and isinstance(callee, FunctionType):
        return _new_tensor(frame, callee, arguments, keywords)
    refused = refused_call(callee, arguments)
    if refused is not None:
        raise refused
    staged = contains_staged(arguments) or contains_staged(keywords)
    callee = _without_cache(callee, arguments, keywords)
    fold = FOLDS.get(callee) if _is_hashable(callee) else None
    if fold and (staged or callee in ALWAYS or any(map(is_iterator, arguments))):
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
    made = attributes.make(frame, callee, arguments, keywords)
    if made is not attributes.NONE:
        return made
    return _other(visitor, node, callee, arguments, keywords, staged)


def _emitted(
    visitor: Evaluator,
    node: ast.AST,
    callee: Operation[...],
    arguments: list[Any],
    keywords: dict[str, Any],
) -> Any:
    """The value of an operation of the language."""
    frame = visitor.frame
    refuse_misplaced(frame, callee)
    name = callee.function_parameter
    if name:
        arguments, keywords = with_region(visitor, node, name, arguments, keywords)
    if callee.takes_cpu_function and callable(keywords.get("cpu")):
        keywords = {**keywords, "cpu": _inlined(visitor, node, keywords["cpu"])}
    made = callee.emit(frame.builder, *arguments, **keywords)
    if callee is arrays.shared and keywords.get("reuse") is not None:
        _undefine(frame, made)
    if callee is arrays.scratch and keywords.get("zeroed"):
        zero = cast("Any", resolve("Tensor.zero_"))
        frame.inline(zero.function, [made], {"stream": keywords.get("stream")})
    return made


def _undefine(frame: Frame, array: Tensor) -> None:
    """Sets the bits of an array in reused memory on the CPU, where that is made after a barrier, outside loops.

    Elsewhere a thread may still read the old array. `_keep_undefined` removes the stores from kernels whose reads
    outlast barriers; the sanitizer reports unwritten elements by itself.
    """
    session, last = frame.context.session, frame.builder.block.last_op
    while last is not None and last.has_trait(Pure):
        last = last.prev_op
    word = undefined.word_of(array)
    if not session.undefines_reused or not isinstance(last, BarrierOp) or word is None:
        return
    if (
        frame.builder.loops
    ):  # its iterations have the same array, and may leave elements to each other
        return
    before = frame.builder.block.last_op
    frame.inline(undefined.undefine, [array, word])
    made = frame.builder.block.last_op
    while made is not None and made is not before:
        if not made.has_trait(Pure):
            made.attributes[UNDEFINES] = UnitAttr()
        made = made.prev_op


_NEW_TENSORS: Final = (memory.empty, memory.full, memory.zeros)


def _new_tensor(
    frame: Frame, callee: FunctionType, arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    """A tensor of the caller's allocator: ``weft.empty(shape, dtype)``, in a host function."""
    name = callee.__name__
    try:
        given = inspect.signature(callee).bind(*arguments, **keywords).arguments
    except TypeError as error:
        raise TypeMismatchError("CALL_ARGUMENTS", f"{name}(): {error}") from None
    for keyword in given.keys() & {"device", "stream"}:
        raise TypeMismatchError(
            "EMPTY_PLACE",
            f"{name}: {keyword}= has no meaning in a host function, whose tensors are on the device and in the order "
            "of its call",
            hint=f"leave out {keyword}=",
        )
    made = arrays.host_empty.emit(frame.builder, name, given["shape"], given["dtype"])
    if name != "empty":
        fill = cast("Any", resolve("Tensor.fill_"))
        frame.inline(fill.function, [made, given.get("value", 0)], {})
    return made


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


def _conversion_to(callee: Any, arguments: list[Any]) -> DType | None:
    """The type that a call converts to: ``weft.f32(x)``, and of staged values ``np.float32(x)``."""
    if isinstance(callee, DType):
        return callee
    return (
        library_dtype(callee) if isinstance(callee, type) and contains_staged(arguments) else None
    )


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
    if isinstance(callee, type | BuiltinFunctionType) and callee not in _LEAVING:
        arguments = [
            tuple(Items(frame, value, node)) if isinstance(value, TableRow) else value
            for value in arguments
        ]
        staged = contains_staged(arguments) or contains_staged(keywords)
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
        if found is not attributes.NONE:
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
        hint = "make it a NamedTuple, a @dataclass, or a class with an __init__ in Python, which can hold "
        hint += "run-time values"
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
    return attributes.call(visitor.frame, value, names) if names else attributes.NONE


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


def with_region(
    visitor: Evaluator, node: ast.AST, name: str, arguments: list[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, with the function of that name as one of a block and its elements; a number stays one."""
    if name in keywords:
        return arguments, {**keywords, name: _into_region(visitor, node, keywords[name])}
    if len(arguments) < 2:
        return arguments, keywords
    fragment, function, *others = arguments
    return [fragment, _into_region(visitor, node, function), *others], keywords


def _into_region(visitor: Evaluator, node: ast.AST, function: Any) -> Any:
    if not callable(function):
        return function
    frame = visitor.frame

    def traced(block: Block, *elements: Any) -> Any:
        def body() -> Any:
            return visitor.call_value(node, function, list(elements), {})

        with untraced(frame):
            value, path = frame.trace_in(block, frame.scope.path.copy(), body)
        frame.mark(node)
        if path.changed:
            changed = ", ".join(str(slot) for slot in path.changed)
            raise TypeMismatchError(
                "FRAGMENT_FUNCTION",
                f"the function of a fragment's elements changes {changed}, but is traced once for all elements",
                hint="let it return a value",
            )
        return value

    return traced


_NONE: Final = object()


def _sum(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
    if not 1 <= len(given) + len(keywords) <= 2 or not given or keywords.keys() - {"start"}:
        raise TypeMismatchError(
            "CALL_ARGUMENTS", "sum() takes a sequence and start", hint="write sum(items)"
        )
    total: Any = given[1] if len(given) == 2 else keywords.get("start", 0)
    for item in Items(visitor.frame, given[0], node):
        total = accumulator(visitor.frame.mark(node), total, item)
        total = visitor.operate(node, "+", total, item)
    return total


def _extreme(operation: Operation[...], function: Callable[..., Any]) -> Emit:
    """The items of one sequence, or the arguments; keywords only for constants."""
    name = operation.name

    def emit(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
        if len(given) == 1 and isinstance(given[0], Scalar):
            raise TypeMismatchError(
                "CALL_ARGUMENTS",
                f"{name}() of one number; it takes two or more, or a sequence",
                hint=f"write {name}(x, y)",
            )
        frame = visitor.frame
        items = list(Items(frame, given[0], node)) if len(given) == 1 else given
        if keywords and (contains_staged(items) or contains_staged(keywords)):
            raise TypeMismatchError(
                "CALL_ARGUMENTS",
                f"{name}() of run-time values takes no {' or '.join(keywords)}",
                hint="write a loop with an if",
            )
        if keywords or not items:
            given = [tuple(items)] if len(given) == 1 else given
            return frame.state.run(f"{name}()", function, *given, **keywords)
        values = items if len(items) > 1 else [tuple(items)]
        return constants.python(f"{name}()", operation.emit, frame.mark(node), *values)

    return emit


def _truth(*, is_and: bool) -> Emit:
    name = "all" if is_and else "any"
    combine = comparisons.both if is_and else comparisons.either

    def emit(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
        _only(name, given, keywords, 1)
        items = Items(visitor.frame, given[0], node)
        value: Any = is_and
        for item in items:
            holds = visitor.truth_of(item, node)
            value = combine(visitor, node, value, holds)
            if isinstance(value, bool) and value is not is_and:
                break
        if isinstance(value, Scalar):
            items.leave()
        return value

    return emit


def _only(name: str, given: list[Any], keywords: dict[str, Any], count: int) -> None:
    if len(given) != count or keywords:
        raise TypeMismatchError(
            "CALL_ARGUMENTS",
            f"{name}() takes {count} positional arguments, received {len(given) + len(keywords)}",
        )


def _map(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
    """An iterator that calls the function on demand."""
    if len(given) < 2 or keywords:
        raise TypeMismatchError("CALL_ARGUMENTS", "map() takes a function and sequences")
    function, *sequences = given
    frame = visitor.frame
    columns = [Items(frame, items, node) for items in sequences]

    def values() -> Iterator[Any]:
        for row in zip(*columns, strict=False):
            frame.mark(node)
            yield visitor.call_value(node, function, list(row), {})

    return Lazy(frame, "map", columns, values())


def _filter(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
    """An iterator over the items for which a function holds, decided at compile time."""
    _only("filter", given, keywords, 2)
    function = given[0]
    frame = visitor.frame
    items = Items(frame, given[1], node)

    def kept() -> Iterator[Any]:
        for item in items:
            frame.mark(node)
            found = item if function is None else visitor.call_value(node, function, [item], {})
            holds = visitor.truth_of(found, node)
            constants.refuse_staged(holds, "what filter() keeps")
            if holds:
                yield item

    return Lazy(frame, "filter", [items], kept())


def _reduce(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
    if not 2 <= len(given) <= 3 or keywords:
        raise TypeMismatchError("CALL_ARGUMENTS", "reduce() takes a function, a sequence, a start")
    function = given[0]
    items = Items(visitor.frame, given[1], node)
    value = given[2] if len(given) == 3 else next(items, _NONE)
    if value is _NONE:
        raise TypeMismatchError("CALL_ARGUMENTS", "reduce() of an empty sequence needs a start")
    for item in items:
        value = visitor.call_value(node, function, [value, item], {})
    return value


def _isinstance(
    visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]
) -> Any:
    """A staged number counts as the Python number of its kind."""
    _only("isinstance", given, keywords, 2)
    return visitor.frame.state.ask("isinstance()", is_instance, *given)


def _type(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
    _only("type", given, keywords, 1)
    if is_staged(given[0]):
        hint = "use x.dtype" if isinstance(given[0], Scalar) else "use isinstance"
        raise TypeMismatchError(
            "CALL_STAGED", "type() of a run-time value is not a class", hint=hint
        )
    return cast("Any", type(given[0]))


def _getattr(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
    if not 2 <= len(given) <= 3 or keywords:
        raise TypeMismatchError("CALL_ARGUMENTS", "getattr() takes a value, a name, a default")
    constants.refuse_staged(given[1], "the name of an attribute")
    if len(given) == 3 and not _has(visitor, node, given[0], given[1]):
        return given[2]
    return attributes.read(visitor.frame, given[0], given[1], node)


def _hasattr(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
    _only("hasattr", given, keywords, 2)
    constants.refuse_staged(given[1], "the name of an attribute")
    return _has(visitor, node, given[0], given[1])


def _has(visitor: Evaluator, node: ast.AST, value: Any, name: Any) -> bool:
    """Whether a value has an attribute in kernels, rather than on the compiler's object."""
    if not is_staged(value) and not isinstance(value, StagedNamespace):
        return attributes.has(visitor.frame, value, name)
    if isinstance(value, Tensor):
        return name in attribute_names(value)
    try:
        attributes.read(visitor.frame, value, name, node)
    except NameResolutionError:
        return False
    return True


def _operator(name: str, sign: str) -> Emit:
    def emit(visitor: Evaluator, node: ast.AST, given: list[Any], keywords: dict[str, Any]) -> Any:
        _only(name, given, keywords, 2)
        if sign in constants.COMPARISONS:
            return comparisons.compare_values(visitor, node, sign, given[0], given[1])
        return visitor.operate(node, sign, given[0], given[1])

    return emit


# Callee → its implementation.
FOLDS: Final[dict[Any, Emit]] = {
    builtins.sum: _sum,
    builtins.min: _extreme(min_, builtins.min),
    builtins.max: _extreme(max_, builtins.max),
    builtins.any: _truth(is_and=False),
    builtins.all: _truth(is_and=True),
    builtins.map: _map,
    builtins.filter: _filter,
    functools.reduce: _reduce,
    builtins.isinstance: _isinstance,
    builtins.type: _type,
    builtins.getattr: _getattr,
    builtins.hasattr: _hasattr,
    **{
        function: _operator(function.__name__, sign)
        for sign, function in (constants.BINARY | constants.COMPARISONS).items()
    },
}
# Those used even without staged arguments: a function among them may need inlining, a class may be weft.Fragment.
ALWAYS: Final[frozenset[Any]] = frozenset(
    (min, max, map, filter, functools.reduce, getattr, hasattr, isinstance)
)
