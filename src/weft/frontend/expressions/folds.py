# SPDX-License-Identifier: Apache-2.0
"""Python functions over the items of a compile-time sequence: sum, any, map, reduce and so on.

In: their arguments, some of them staged or functions to inline. Out: the value.
"""

from __future__ import annotations

import builtins
import functools
from typing import TYPE_CHECKING, Any, Final, cast

from weft.errors import NameResolutionError, TypeMismatchError
from weft.frontend.expressions import attributes, comparisons, short_circuit
from weft.frontend.expressions.items import Items, Lazy
from weft.frontend.state import constants
from weft.frontend.structure import contains_staged
from weft.language.builtins import max_, min_
from weft.language.memory.access import attribute_names
from weft.language.numbers.convert import accumulator
from weft.language.values import Scalar, StagedNamespace, Tensor, is_instance, is_staged

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator

    from weft.frontend.context import Evaluator
    from weft.language.operation import Operation

    Emit = Callable[[Evaluator, ast.AST, list[Any], dict[str, Any]], Any]


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
        return constants.python(f"{name}()", operation.emit, frame.mark(node), tuple(items))

    return emit


def _truth(*, is_and: bool) -> Emit:
    name = "all" if is_and else "any"
    combine = short_circuit.both if is_and else short_circuit.either

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
