# SPDX-License-Identifier: Apache-2.0
"""The variables that a loop carries from one round to the next, and their types.

In: names that the body assigns and that are live. Out: what goes into block arguments and yields; the body is
traced until the types are stable, so that `acc = 0.0; acc += x` takes the type of x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft._native import constant_key
from weft.errors import CompileError, TypeMismatchError
from weft.frontend.context import BoundMethod, LocalFunction
from weft.frontend.control_flow.joins import (
    Mismatch,
    blank_like,
    describe_side,
    is_number,
    joined_constants,
    joined_dtype,
    typed_leaf,
    weak_dtype,
)
from weft.frontend.scope import Conflict, LeftEarly, Undefined, return_type_error
from weft.frontend.source.names import RESULT
from weft.frontend.structure import Shape, flatten, rebuild
from weft.language.ir_types import ir_type
from weft.language.numbers.convert import constant
from weft.language.values import Scalar

if TYPE_CHECKING:
    import ast
    from collections.abc import Hashable, Iterator, Sequence

    from xdsl.ir import Attribute, SSAValue

    from weft.dialects.builder import Builder
    from weft.frontend.context import Frame
    from weft.location import SourceLocation
    from weft.types.dtype import DType

MOST_ROUNDS: Final = 8
_HINT: Final = "give it the type before the loop, such as x = weft.f32(0)"


class _Variable:
    """One variable that is carried.

    Attributes:
        name: the variable.
        shape: of its container; None for a plain value.
        first: its leaves before the loop. A leaf that nobody looks at is a blank.
        dtypes: of the leaves; None for one that is the same compile-time value in each round.
        place: where it was assigned before the loop, or None.
        is_early: whether it has a value only where the loop is left by a break.
    """

    __slots__ = ("dtypes", "first", "is_early", "name", "place", "shape")

    def __init__(
        self, name: str, value: Any, place: SourceLocation | None, *, is_early: bool = False
    ) -> None:
        self.name = name
        self.is_early = is_early
        self.place = place
        self.first: list[Any] = []
        self.shape: Shape | None = flatten(value, self.first)
        self.dtypes: list[DType | None] = [
            leaf.dtype if isinstance(leaf, Scalar) else None for leaf in self.first
        ]

    def value(self, arguments: Iterator[SSAValue]) -> Any:
        """The variable at the start of a round, or after the loop."""
        leaves = [
            leaf if dtype is None else Scalar(next(arguments), dtype)
            for leaf, dtype in zip(self.first, self.dtypes, strict=True)
        ]
        return rebuild(self.shape, iter(leaves))


class Carried:
    """The carried variables of one loop.

    Args:
        frame: the call being traced.
        node: the loop.
        names: candidates, in order.
        always_runs: whether the body surely runs, so that it may be the first to assign.
    """

    __slots__ = ("_always_runs", "_early", "_frame", "_key", "_unknown", "_variables")

    def __init__(
        self, frame: Frame, node: ast.stmt, names: Sequence[str], *, always_runs: bool
    ) -> None:
        self._frame = frame
        self._always_runs = always_runs
        self._early = frame.loop.left_early if frame.loop is not None else None
        may_break = frame.loop is not None and frame.loop.exits.breaks
        self._key = _loop_key(frame, node)
        self._variables: list[_Variable] = []
        # Variables without a value before the loop; the first round shows what they will be.
        self._unknown: list[str] = []
        scope = frame.scope
        for name in names:
            value = scope.values.get(name)
            if name not in scope.values or isinstance(value, Undefined | Conflict):
                if always_runs or may_break or name == RESULT:
                    self._unknown.append(name)
                continue
            leaves, shape = _leaves(frame.builder, value)
            frame.context.state.forget(value)  # after the loop it may be another one
            value = rebuild(shape, iter(leaves))
            self._variables.append(_Variable(name, value, scope.places.get(name)))
        self._recall()

    def _recall(self) -> None:
        """Begins with the types that this loop had before, where everything that it reads was the same.

        A loop in the body of another one is traced again with it; without this, each level would double
        the number of rounds.
        """
        known = self._frame.context.session.loop_types.get(self._key)
        for variable in self._variables if known else ():
            dtypes = known.get(variable.name, ()) if known else ()
            if len(dtypes) == len(variable.dtypes):
                variable.dtypes = list(dtypes)

    def remember(self) -> None:
        """Notes the types, which turned out to be stable."""
        if self._key is not None:
            found = {variable.name: tuple(variable.dtypes) for variable in self._variables}
            self._frame.context.session.loop_types[self._key] = found

    @property
    def names(self) -> list[str]:
        """The variables that have a value after the loop."""
        return [variable.name for variable in self._variables]

    def early_places(self) -> dict[str, SourceLocation]:
        """Where the variables are assigned that only have a value where the loop is left by a break."""
        return {v.name: v.place for v in self._variables if v.is_early and v.place is not None}

    def types(self) -> list[Attribute]:
        """Types of the block arguments."""
        return [ir_type(dtype) for v in self._variables for dtype in v.dtypes if dtype is not None]

    def hints(self) -> list[str]:
        """A name for each block argument, for printed IR."""
        return [
            v.name if v.shape is None else f"{v.name}_{index}"
            for v in self._variables
            for index, dtype in enumerate(v.dtypes)
            if dtype is not None
        ]

    def first_values(self, builder: Builder) -> list[SSAValue]:
        """What the variables hold before the loop."""
        return [
            _typed(builder, leaf, dtype)
            for v in self._variables
            for leaf, dtype in zip(v.first, v.dtypes, strict=True)
            if dtype is not None
        ]

    def bind(self, values: dict[str, Any], arguments: Sequence[SSAValue]) -> None:
        """Gives the variables the values of block arguments or results."""
        remaining = iter(arguments)
        for variable in self._variables:
            value = variable.value(remaining)
            if variable.is_early and self._early is not None:
                value = self._early(value)
            values[variable.name] = value

    def last_values(self, builder: Builder, values: dict[str, Any]) -> list[SSAValue]:
        """What a round leaves behind, in the variables' types; only once `update` found them stable."""
        found: list[SSAValue] = []
        for variable in self._variables:
            leaves, _ = _leaves(builder, _early_value(values[variable.name]))
            for leaf, dtype in zip(leaves, variable.dtypes, strict=True):
                if dtype is not None:
                    found.append(_typed(builder, leaf, dtype))
        return found

    def update(self, values: dict[str, Any], places: dict[str, SourceLocation]) -> bool:
        """Learns from a traced round; returns whether it has to be traced again.

        Raises:
            TypeMismatchError: for a variable that changes its type from round to round.
        """
        changed = False
        for name in list(self._unknown):
            value = values.get(name)
            if name == RESULT and isinstance(value, Conflict):
                raise self._not_joined(name, value, places.get(name))
            is_early = isinstance(value, LeftEarly)
            value = _early_value(value)
            if name in values and not isinstance(value, Undefined | Conflict):
                builder = self._frame.builder
                leaves, shape = _leaves(builder, value)
                blank = rebuild(shape, iter([blank_like(builder, leaf) for leaf in leaves]))
                is_early = is_early or not (self._always_runs or name == RESULT)
                place = places.get(name) if is_early else None
                self._variables.append(_Variable(name, blank, place, is_early=is_early))
                self._unknown.remove(name)
                changed = True
        for variable in list(self._variables):
            value = _early_value(values.get(variable.name))
            if variable.is_early and isinstance(value, Undefined | Conflict):
                # Another break leaves it without a value, so it has none after the loop.
                self._variables.remove(variable)
                changed = True
                continue
            if isinstance(value, Undefined | Conflict):
                raise self._not_joined(variable.name, value, places.get(variable.name))
            changed |= self._update(variable, value, places.get(variable.name))
        return changed

    def _not_joined(
        self, name: str, value: Undefined | Conflict, place: SourceLocation | None
    ) -> CompileError:
        """The error for a variable that has no one value at the end of a round."""
        error = value.error(name)
        if name == RESULT and isinstance(value, Conflict):
            error = return_type_error(self._frame.name, value)
        error.location = place
        return error

    def _update(self, variable: _Variable, value: Any, place: SourceLocation | None) -> bool:
        leaves, shape = _leaves(self._frame.builder, value)
        if shape != variable.shape:
            raise self._changes(variable, value, place, "a container keeps its type and length")
        changed = False
        for index, leaf in enumerate(leaves):
            before = variable.dtypes[index]
            try:
                dtype = _leaf_dtype(variable.first[index], before, leaf)
            except Mismatch as mismatch:
                raise self._changes(variable, value, place, mismatch.hint) from None
            if dtype is not before:
                variable.dtypes[index] = dtype
                changed = True
        return changed

    def _changes(
        self, variable: _Variable, value: Any, place: SourceLocation | None, hint: str
    ) -> TypeMismatchError:
        first = rebuild(variable.shape, iter(variable.first))
        before = f" (line {variable.place.line})" if variable.place is not None else ""
        after = f" (line {place.line})" if place is not None else ""
        what = "the returned value" if variable.name == RESULT else f"'{variable.name}'"
        return TypeMismatchError(
            "TYPE_LOOP",
            f"{what} is {describe_side(first)} before the loop{before} and {describe_side(value)} "
            f"at the end of its body{after}",
            hint=hint,
            location=place,
        )

    def unstable(self) -> TypeMismatchError:
        """The error for types that never settle."""
        names = ", ".join(f"'{name}'" for name in self.names)
        return TypeMismatchError(
            "TYPE_LOOP", f"the types of {names} do not settle in this loop", hint=_HINT
        )


def _early_value(value: Any) -> Any:
    return value.value if isinstance(value, LeftEarly) else value


def _leaves(builder: Builder, value: Any) -> tuple[list[Any], Shape | None]:
    """The leaves as control flow joins them, and the shape."""
    leaves: list[Any] = []
    shape = flatten(value, leaves)
    return [typed_leaf(builder, leaf) for leaf in leaves], shape


def _loop_key(frame: Frame, node: ast.stmt) -> Hashable:
    """The loop, with what its types depend on; None where that cannot be told."""
    values = frame.scope.values
    found: list[Hashable] = [node]
    analysis = frame.source.analysis
    # What it assigns counts too: a variable may pass through the loop without being read in it.
    for name in sorted((analysis.read(node) | analysis.assigned([node])) & values.keys()):
        leaves: list[Any] = []
        found += [name, flatten(values[name], leaves)]
        for leaf in leaves:
            if isinstance(leaf, LocalFunction | BoundMethod):
                return None  # it reads variables of its own
            found.append(leaf.dtype if isinstance(leaf, Scalar) else _constant_key(leaf))
    return tuple(found)


def _constant_key(value: Any) -> Hashable:
    return constant_key(value) if isinstance(value, int | float | str) else id(value)


def _leaf_dtype(first: Any, dtype: DType | None, last: Any) -> DType | None:
    """The type of a leaf that was `first` before the loop, `dtype` in this round and `last` at its end.

    Raises:
        Mismatch: if it changes.
    """
    if dtype is None:
        return joined_dtype(first, last)
    if isinstance(last, Scalar):
        if last.dtype is dtype:
            return dtype
        if not is_number(first):
            raise Mismatch(_HINT)
        return weak_dtype(first, last.dtype)
    try:
        return weak_dtype(last, dtype)
    except Mismatch:
        if not is_number(first) or not is_number(last) or isinstance(first, bool):
            raise
        wider = joined_constants(first, last)
        if wider is dtype:
            raise
        return wider


def _typed(builder: Builder, leaf: Any, dtype: DType) -> SSAValue:
    return leaf.ssa if isinstance(leaf, Scalar) else constant(builder, leaf, dtype).ssa
