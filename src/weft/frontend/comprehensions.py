# SPDX-License-Identifier: Apache-2.0
"""Sequences known at compile time: what `for` unrolls over, comprehensions, unpacking.

In: a compile-time object. Out: its items, which may be staged. Next: calls.
"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any, Final, cast

from weft.errors import TypeMismatchError, WeftError
from weft.frontend import constants
from weft.frontend.scope import Scope
from weft.language.control import StagedRange
from weft.language.values import Tensor, describe, is_staged

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.frontend.context import Frame
    from weft.frontend.expressions import Expressions

_MOST_ITEMS: Final = 1 << 16


def iterate(frame: Frame, value: Any, node: ast.AST) -> list[Any]:
    """The items of a compile-time iterable.

    Raises:
        TypeMismatchError: for what is only known at run time, or has no items.
    """
    if is_staged(value) or isinstance(value, StagedRange):
        hint = "loop over range(...)"
        if isinstance(value, Tensor):
            hint = f"write for i in range({value.name}.shape[0]) and use {value.name}[i]"
        raise TypeMismatchError(
            "ITERATION",
            f"{describe(value) if is_staged(value) else value} has no items at compile time",
            hint=hint,
            location=frame.locate(node),
        )
    items = constants.python("the iteration", _first_items, value)
    if len(items) > _MOST_ITEMS:
        raise TypeMismatchError(
            "UNROLL_LIMIT",
            f"a compile-time sequence has more than {_MOST_ITEMS} items",
            hint="loop over range(...)",
            location=frame.locate(node),
        )
    return items


def _first_items(value: Any) -> list[Any]:
    return list(itertools.islice(value, _MOST_ITEMS + 1))


def comprehension(
    visitor: Expressions, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> Any:
    """A comprehension, unrolled at compile time; a generator expression is evaluated at once, as a tuple."""
    values: list[Any] = []

    def collect() -> None:
        if isinstance(node, ast.DictComp):
            values.append((visitor.evaluate(node.key), visitor.evaluate(node.value)))
        else:
            values.append(visitor.evaluate(node.elt))

    frame = visitor.frame
    items = _items(visitor, node.generators[0])  # outside of the comprehension, as in Python
    around = frame.comprehension
    frame.comprehension = own = _own_variables(frame, node.generators)
    covered = frame.scope.cover(own.local_names)
    try:
        _generate(visitor, node.generators, items, own, collect)
    finally:
        frame.scope.uncover(covered)
        frame.comprehension = around
    created = frame.context.note_created
    if isinstance(node, ast.GeneratorExp):
        return tuple(values)
    if isinstance(node, ast.ListComp):
        return created(values)
    if isinstance(node, ast.SetComp):
        constants.refuse_staged(values, "a set")
        return created(constants.python("the set", set, values))
    constants.refuse_staged([key for key, _ in values], "a key")
    return created(constants.python("the dict", dict, values))


def _items(visitor: Expressions, generator: ast.comprehension) -> list[Any]:
    return iterate(visitor.frame, visitor.evaluate(generator.iter), generator.iter)


def _own_variables(frame: Frame, generators: list[ast.comprehension]) -> Scope:
    """What functions that the comprehension makes see of it, also behind it: the last values, as in Python."""
    names = frame.source.analysis.assigned([generator.target for generator in generators])
    around = frame.comprehension or frame.scope
    return Scope(frame.source, names, frame.context.session.captures, around)


def _generate(
    visitor: Expressions,
    generators: list[ast.comprehension],
    items: list[Any],
    own: Scope,
    collect: Callable[[], None],
) -> None:
    first, rest = generators[0], generators[1:]
    frame = visitor.frame
    scope = frame.scope
    names = frame.source.analysis.assigned([first.target])
    # The variables are the comprehension's own: what they hide comes back behind it.
    hidden = {name: scope.values[name] for name in names if name in scope.values}
    for item in items:
        bind(frame, first.target, item)
        for name in names:
            own.assign(name, scope.values[name], scope.places[name])
        if all(_holds(visitor, condition) for condition in first.ifs):
            if rest:
                _generate(visitor, rest, _items(visitor, rest[0]), own, collect)
            else:
                collect()
    for name in names:
        scope.values.pop(name, None)
    scope.values.update(hidden)


def _holds(visitor: Expressions, condition: ast.expr) -> bool:
    value = visitor.condition(condition)
    if not isinstance(value, bool):
        raise TypeMismatchError(
            "NOT_CONSTANT",
            "the condition of a comprehension must be known at compile time",
            hint="write a loop with an if",
            location=visitor.frame.locate(condition),
        )
    return value


def bind(frame: Frame, target: ast.expr, value: Any) -> None:
    """Assigns to names and to nested tuples of names.

    Raises:
        TypeMismatchError: for a wrong number of items.
    """
    if isinstance(target, ast.Name):
        frame.scope.assign(target.id, value, frame.locate(target))
        return
    if not isinstance(target, ast.Tuple | ast.List):
        raise TypeMismatchError(
            "TARGET", "only names can be assigned here", location=frame.locate(target)
        )
    try:
        for part, item in unpack(frame, target, value):
            bind(frame, part, item)
    except WeftError as error:
        if error.location is None:
            error.location = frame.locate(target)
        raise


def unpack(frame: Frame, target: ast.Tuple | ast.List, value: Any) -> list[tuple[ast.expr, Any]]:
    """The parts of a target, each with its item of the value; ``*rest`` takes a list."""
    items = iterate(frame, value, target)
    parts = target.elts
    starred = [index for index, part in enumerate(parts) if isinstance(part, ast.Starred)]
    if len(items) < len(parts) - len(starred) or (not starred and len(items) != len(parts)):
        expected = f"at least {len(parts) - 1}" if starred else str(len(parts))
        raise TypeMismatchError("UNPACK", f"{expected} values are unpacked here, got {len(items)}")
    if not starred:
        return list(zip(parts, items, strict=True))
    first = starred[0]
    behind = len(parts) - first - 1
    end = len(items) - behind
    rest = cast("ast.Starred", parts[first]).value
    middle: Any = frame.context.note_created(items[first:end])
    return [
        *zip(parts[:first], items[:first], strict=True),
        (rest, middle),
        *zip(parts[first + 1 :], items[end:], strict=True),
    ]
