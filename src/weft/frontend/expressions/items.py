# SPDX-License-Identifier: Apache-2.0
"""The items of a compile-time iterable, each taken when it is asked for, as Python does.

In: a compile-time object. Out: `Items`, which may be staged; `Lazy`, what generator expressions and `map` make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.errors import TypeMismatchError
from weft.frontend.state import constants
from weft.frontend.state.reachable import is_inert, is_plain_iterator
from weft.frontend.structure import Deferred
from weft.language.control import StagedRange
from weft.language.values import Tensor, describe, is_staged

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence

    from weft.frontend.context import Frame

_MOST_ITEMS: Final = 1 << 16
"""Of what says how many items it has."""
_MOST_OF_AN_ITERATOR: Final = 1 << 12
"""Of what may never end: each round has been compiled by the time that the next item is asked for."""


class _End:
    """What stands for no further item."""


_END: Final = _End()


class Items:
    """The items of a compile-time iterable, one after the other.

    Args:
        frame: where they are asked for.
        value: the iterable.
        node: where it stands.

    Attributes:
        iterator: what the items come from.

    Raises:
        TypeMismatchError: for what is only known at run time, or has no items.
    """

    __slots__ = ("_count", "_frame", "_is_plain", "_most", "_node", "iterator")

    def __init__(self, frame: Frame, value: Any, node: ast.AST) -> None:
        if is_staged(value) or isinstance(value, StagedRange):
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
        """From now on it is not known at compile time how many items Python would have taken."""
        self._frame.state.lose(self.iterator)

    def adopt(self) -> None:
        """From now on the items are taken in the region that is being traced, and nowhere else any more."""
        state = self._frame.state
        state.adopt(self.iterator)
        self._is_plain = state.may_advance(self.iterator)


def _no_items(frame: Frame, value: Any, node: ast.AST) -> TypeMismatchError:
    hint = "loop over range(...)"
    if isinstance(value, Tensor):
        hint = f"write for i in range({value.name}.shape[0]) and use {value.name}[i]"
    return TypeMismatchError(
        "ITERATION",
        f"{describe(value) if is_staged(value) else value} has no items at compile time",
        hint=hint,
        location=frame.locate(node),
    )


class Lazy(Deferred):
    """An iterator whose items the front end computes when they are asked for.

    Args:
        frame: where it is made.
        kind: what it is, for messages.
        sources: the iterators that it pulls from.
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
