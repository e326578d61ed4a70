# SPDX-License-Identifier: Apache-2.0
"""The items of a compile-time iterable, taken on demand as in Python; comprehensions, unpacking.

In: a compile-time object. Out: `Items`, which may be staged; `Lazy`, for generator expressions and `map`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, cast

from weft.errors import TypeMismatchError, WeftError
from weft.frontend.paths import Scope
from weft.frontend.state import constants
from weft.frontend.state.reachable import is_inert, is_plain_iterator
from weft.frontend.structure import Deferred
from weft.language.control import StagedRange
from weft.language.memory.arrays import TableRow
from weft.language.threads.each import Iterations
from weft.language.values import RunTimeIterable, Tensor, describe, is_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from weft.frontend.context import Evaluator, Frame
    from weft.frontend.paths import Binding

_MOST_ITEMS: Final = 1 << 16
"""For iterables with a length."""
_MOST_OF_AN_ITERATOR: Final = 1 << 12
"""For iterables that may never end: each iteration is compiled before the next item is taken."""


_END: Final = object()


class Items:
    """The items of a compile-time iterable, one after the other.

    Args:
        frame: where they are taken.
        value: the iterable.
        node: its place.

    Attributes:
        iterator: the source of the items.

    Raises:
        TypeMismatchError: for a run-time value, or one without items.
    """

    __slots__ = ("_count", "_frame", "_is_plain", "_most", "_node", "iterator")

    def __init__(self, frame: Frame, value: Any, node: ast.AST) -> None:
        if isinstance(value, TableRow):
            value = tuple(value.items(frame.mark(node)))
        if is_staged(value) or isinstance(value, RunTimeIterable):
            raise _no_items(frame, value, node)
        self._frame = frame
        self._node = node
        self._count = 0
        self._most = _MOST_ITEMS if hasattr(value, "__len__") else _MOST_OF_AN_ITERATOR
        state = frame.state
        if is_plain_iterator(value):
            self.iterator = value
        elif is_inert(value):
            self._check_count(len(value) if hasattr(value, "__len__") else 0, self._most)
            self.iterator = state.note(constants.python("the iteration", iter, value))
        else:
            self.iterator = state.run("the iteration", iter, value)
        self._is_plain = state.may_advance(self.iterator)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._is_plain:
            item = constants.python("the iteration", next, self.iterator, _END)
        else:
            item = self._frame.state.run("the iteration", next, self.iterator, _END)
        if item is _END:
            raise StopIteration
        self._count += 1
        self._check_count(self._count, self._most)
        return item

    def _check_count(self, count: int, most: int) -> None:
        if count > most:
            raise TypeMismatchError(
                "UNROLL_LIMIT",
                f"a compile-time sequence has more than {most} items",
                hint="loop over range(...)",
                location=self._frame.locate(self._node),
            )

    def leave(self) -> None:
        """Marks that the number of items taken is no longer known at compile time."""
        self._frame.state.lose(self.iterator)

    def adopt(self) -> None:
        """From now on items are taken only in the region being traced."""
        state = self._frame.state
        state.adopt(self.iterator)
        self._is_plain = state.may_advance(self.iterator)


def _no_items(frame: Frame, value: Any, node: ast.AST) -> TypeMismatchError:
    hint = "loop over range(...)"
    if isinstance(value, Tensor):
        hint = f"write for i in range({value.name}.shape[0]) and use {value.name}[i]"
    elif isinstance(value, Iterations):
        hint = "its iterations are only for a for loop: for i in weft.each(n): b[i] = a[i]"
    elif isinstance(value, StagedRange):
        hint = "only a for loop goes over a run-time range: total = 0, then for i in range(n): total += a[i]"
    return TypeMismatchError(
        "ITERATION",
        f"{describe(value) if is_staged(value) else value} has no items at compile time",
        hint=hint,
        location=frame.locate(node),
    )


class Lazy(Deferred):
    """An iterator whose items the front end computes on demand.

    Args:
        frame: where it is made.
        kind: its name in messages.
        sources: the iterators it pulls from.
        steps: computes the items.
    """

    __slots__ = ("_frame", "_steps", "kind", "sources")

    def __init__(
        self, frame: Frame, kind: str, sources: Sequence[Items], steps: Iterator[Any]
    ) -> None:
        self._frame = frame
        self._steps = steps
        self.kind = kind
        self.sources = [source.iterator for source in sources]
        frame.state.note(self)

    def __repr__(self) -> str:
        return f"<{self.kind}>"

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._frame.state.change(self, "the iteration")
        return next(self._steps)


def comprehension(
    visitor: Evaluator, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> Any:
    """A comprehension, unrolled at compile time; a generator expression computes items on demand."""

    def element() -> Any:
        if isinstance(node, ast.DictComp):
            return visitor.evaluate(node.key), visitor.evaluate(node.value)
        return visitor.evaluate(node.elt)

    frame = visitor.frame
    first = node.generators[0].iter
    items = Items(frame, visitor.evaluate(first), first)  # outside the comprehension
    inside = _Inside(frame, _own_variables(frame, node.generators))
    iterations = _iterations(visitor, node.generators, items, inside.own, element)
    if isinstance(node, ast.GeneratorExp):
        return Lazy(frame, "generator expression", [items], _each(inside, iterations))
    with inside:
        values = list(iterations)
    created = frame.state.note
    if isinstance(node, ast.ListComp):
        return created(values)
    if isinstance(node, ast.SetComp):
        constants.refuse_staged(values, "a set")
        return created(constants.python("the set", set, values))
    constants.refuse_staged([key for key, _ in values], "a key")
    return created(constants.python("the dict", dict, values))


def _own_variables(frame: Frame, generators: list[ast.comprehension]) -> Scope:
    """The comprehension's variables as seen by functions made in it, even later: the last values, as in Python."""
    names = frame.source.analysis.assigned([generator.target for generator in generators])
    around = frame.comprehension or frame.scope
    return Scope(frame.source, names, frame.context.session.captures, around)


class _Inside:
    """A context in which a comprehension's variables hide others.

    Attributes:
        own: the comprehension's variables.
    """

    __slots__ = ("_around", "_covered", "_frame", "_hidden", "_kept", "own")

    def __init__(self, frame: Frame, own: Scope) -> None:
        self._frame = frame
        self.own = own
        self._around: Scope | None = None
        self._covered: list[str] = []
        self._hidden: dict[str, Binding] = {}
        self._kept: dict[str, Binding] = {}

    def __enter__(self) -> None:
        frame, own = self._frame, self.own
        self._around, frame.comprehension = frame.comprehension, own
        self._covered = frame.scope.cover(own.local_names)
        self._hidden = self._taken()
        frame.scope.path.variables.update(self._kept)

    def __exit__(self, *raised: object) -> None:
        frame = self._frame
        self._kept = self._taken()
        frame.scope.path.variables.update(self._hidden)
        frame.scope.uncover(self._covered)
        frame.comprehension = self._around

    def _taken(self) -> dict[str, Binding]:
        held = self._frame.scope.path.variables
        return {name: held.pop(name) for name in sorted(self.own.local_names) if name in held}


def _each(inside: _Inside, iterations: Iterator[Any]) -> Iterator[Any]:
    """The items of a generator expression; between them its variables are hidden."""
    while True:
        with inside:
            try:
                item = next(iterations)
            except StopIteration:
                return
        yield item


def _iterations(
    visitor: Evaluator,
    generators: list[ast.comprehension],
    items: Items,
    own: Scope,
    element: Callable[[], Any],
) -> Iterator[Any]:
    first, rest = generators[0], generators[1:]
    frame = visitor.frame
    scope = frame.scope
    names = frame.source.analysis.assigned([first.target])
    for item in items:
        bind(frame, first.target, item)
        for name in names:
            own.path.variables[name] = scope.path.variables[name]
        if all(_holds(visitor, condition) for condition in first.ifs):
            if rest:
                inner = rest[0].iter
                found = Items(frame, visitor.evaluate(inner), inner)
                yield from _iterations(visitor, rest, found, own, element)
            else:
                yield element()


def _holds(visitor: Evaluator, condition: ast.expr) -> bool:
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
        frame.note(error, target)
        raise


def unpack(frame: Frame, target: ast.Tuple | ast.List, value: Any) -> list[tuple[ast.expr, Any]]:
    """The parts of a target, each with its item of the value; ``*rest`` takes a list."""
    items = list(Items(frame, value, target))
    parts = target.elts
    starred = [index for index, part in enumerate(parts) if isinstance(part, ast.Starred)]
    if len(items) < len(parts) - len(starred) or (not starred and len(items) != len(parts)):
        expected = f"at least {len(parts) - 1}" if starred else str(len(parts))
        raise TypeMismatchError(
            "UNPACK", f"{expected} values are unpacked here, received {len(items)}"
        )
    if not starred:
        return list(zip(parts, items, strict=True))
    first = starred[0]
    behind = len(parts) - first - 1
    end = len(items) - behind
    rest = cast("ast.Starred", parts[first]).value
    middle: Any = frame.state.note(items[first:end])
    return [
        *zip(parts[:first], items[:first], strict=True),
        (rest, middle),
        *zip(parts[first + 1 :], items[end:], strict=True),
    ]
