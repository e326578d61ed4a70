# SPDX-License-Identifier: Apache-2.0
"""Two regions of which control flow takes one: `if`, ternary, short-circuit, and what follows an early exit.

In: a staged condition and what to trace in each region. Out: `scf.if`, or `arith.select` where both regions
are empty, and the joined variables.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region
from xdsl.traits import Pure

from weft.dialects.simt.kernel import EXIT, UNIT
from weft.frontend.control_flow.joins import Join, Mismatch, conflict
from weft.frontend.scope import Conflict, LeftEarly, Undefined, WhenDecided
from weft.frontend.source.names import ACTIVE, BROKEN, LIVE, LOOPING, RESULT
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from xdsl.ir import SSAValue

    from weft.frontend.context import Frame
    from weft.location import SourceLocation

_ABSENT: Final = object()
_FLAGS: Final = (LIVE, LOOPING, ACTIVE)
_DEAD: Final = Undefined("has no value after this branch")


class _Side:
    """One of the two regions.

    Attributes:
        block: its operations.
        values, places: the function's variables as the region leaves them.
        region: stands for it in the context's list of regions.
    """

    __slots__ = ("block", "places", "region", "values")

    def __init__(
        self,
        values: dict[str, Any],
        places: dict[str, SourceLocation],
        decided: tuple[Scalar, bool],
    ) -> None:
        self.block = Block()
        self.values = dict(values)
        condition, holds = decided
        for name, value in values.items():
            if isinstance(value, WhenDecided) and value.holds is holds:
                if value.condition is condition.ssa:
                    self.values[name] = value.value
        self.places = dict(places)
        self.region = object()

    def may_break(self) -> bool:
        """Whether the innermost loop may have been left by a break in this region."""
        return self.values.get(BROKEN, False)


class Fork:
    """Control flow that takes the first region where a condition holds, else the second.

    Args:
        frame: the call being traced; its variables are forked and joined.
        condition: a ``bool_``.
    """

    __slots__ = ("_condition", "_frame", "_location", "_sides")

    def __init__(self, frame: Frame, condition: Scalar) -> None:
        self._frame = frame
        self._condition = condition
        self._location = frame.builder.location
        scope = frame.scope
        self._sides = (
            _Side(scope.values, scope.places, (condition, True)),
            _Side(scope.values, scope.places, (condition, False)),
        )

    def trace(self, side: int, body: Callable[[], Any]) -> Any:
        """Traces `body` at the end of region 0 or 1, with that region's variables."""
        frame, taken = self._frame, self._sides[side]
        scope, builder, context = frame.scope, frame.builder, frame.context
        outer = scope.values, scope.places, builder.block
        scope.values, scope.places, builder.block = taken.values, taken.places, taken.block
        context.regions.append(taken.region)
        try:
            return body()
        finally:
            context.regions.pop()
            scope.values, scope.places, builder.block = outer

    def value(self, side: int, name: str) -> Any:
        """A variable as a region leaves it."""
        return self._sides[side].values.get(name)

    def finish(
        self,
        names: Collection[str],
        pair: tuple[Any, Any] | None = None,
        *,
        evaluated: int | None = None,
    ) -> Any:
        """Emits the operation and gives each of `names` its joined value; the others are dead.

        Args:
            names: variables that may be read after the operation.
            pair: what the two regions evaluated to, for an expression.
            evaluated: for ``and`` and ``or``: the region with the part that may be skipped. What it is the first
                to assign has a value where the result says that it was evaluated.
        Returns:
            One value for the pair.
        Raises:
            Mismatch: if there is none for the pair. A variable that cannot be joined fails when it is used.
        """
        scope = self._frame.scope
        before = scope.values
        join = Join(self._frame.builder, self._frame.context.state)
        value = None if pair is None else join.add(*pair)
        joined: dict[str, Any] = {}
        before[BROKEN] = any(side.may_break() for side in self._sides)
        # An `and` may decide anew what a part of it had decided.
        for name in self._changed(before, anew=evaluated is not None):
            joined[name] = self._join(join, name, before) if name in names else _DEAD
            if evaluated is not None and isinstance(joined[name], Undefined) and pair is not None:
                joined[name] = self._when_decided(join, joined[name], name, pair, evaluated)
        results = self._emit(join)
        first, second = self._sides
        for name, found in joined.items():
            if isinstance(found, LeftEarly) or (
                isinstance(found, WhenDecided) and found.condition is None
            ):
                found.value = join.finish(found.value, results)
            is_marker = isinstance(found, Undefined | Conflict)
            before[name] = found if is_marker else join.finish(found, results)
            place = first.places.get(name) or second.places.get(name)
            if place is not None:
                scope.places[name] = place
        value = join.finish(value, results)
        for name, found in joined.items():
            if isinstance(found, WhenDecided) and found.condition is None:
                is_bool = isinstance(value, Scalar) and value.dtype.is_bool
                found.condition = value.ssa if is_bool else None
                if not is_bool:
                    before[name] = Undefined(found.reason, found.hint)
        return value

    def _when_decided(
        self, join: Join, undefined: Undefined, name: str, pair: tuple[Any, Any], side: int
    ) -> Undefined:
        """A variable that a part of a condition assigns: it has a value where that part was evaluated."""
        value = self._sides[side].values.get(name, _ABSENT)
        if isinstance(value, WhenDecided):
            later = pair[side]
            is_same = isinstance(later, Scalar) and later.ssa is value.condition
            value = value.value if is_same and value.holds is (side == 0) else _ABSENT
        if value is _ABSENT or isinstance(value, Undefined | Conflict):
            return undefined
        return WhenDecided(undefined, join.add_beside_nothing(value, side), holds=side == 0)

    def _changed(self, before: dict[str, Any], *, anew: bool) -> list[str]:
        """Variables that a region assigned or deleted, in the order of their assignment."""
        first, second = (side.values for side in self._sides)
        return [
            name
            for name in dict.fromkeys((*first, *second, *before))
            if name != BROKEN
            and not all(
                _is_kept(side.get(name, _ABSENT), before.get(name, _ABSENT), anew=anew)
                for side in (first, second)
            )
        ]

    def _join(self, join: Join, name: str, before: dict[str, Any]) -> Any:
        first, second = self._sides
        one, other = first.values.get(name, _ABSENT), second.values.get(name, _ABSENT)
        try:
            if name == RESULT:
                for value in (one, other):
                    if isinstance(value, Conflict):
                        return value
                return join.add_result(*(_DEAD if v is _ABSENT else v for v in (one, other)))
            if self._ignores(first, name) and not self._ignores(second, name):
                return _kept(join, other, before.get(name, _ABSENT), 1)
            if self._ignores(second, name) and not self._ignores(first, name):
                return _kept(join, one, before.get(name, _ABSENT), 0)
            early = self._left_early(join, one, other)
            if early is not None:
                return early
            for value in (one, other):
                if isinstance(value, LeftEarly | WhenDecided):
                    # The other region assigned it anew, so what it depended on decides nothing any more.
                    return Undefined(value.reason, value.hint)
                if isinstance(value, Undefined | Conflict):
                    return value
            if one is _ABSENT or other is _ABSENT:
                return self._one_sided(name)
            return join.add(one, other)
        except Mismatch as mismatch:
            lines = [side.places.get(name, self._location).line for side in self._sides]
            return conflict(one, lines[0], other, lines[1], mismatch.hint)

    def _left_early(self, join: Join, one: Any, other: Any) -> LeftEarly | None:
        """A variable that has a value where the innermost loop ends here by a break; None for any other."""
        loop = self._frame.loop
        if loop is None:
            return None
        found: list[Any] = []
        for side, value in zip(self._sides, (one, other), strict=True):
            if isinstance(value, LeftEarly) and value.loop is loop:
                found.append(value.value)
            elif value is _ABSENT or isinstance(value, Undefined):
                if side.may_break():
                    return None
                found.append(_ABSENT)
            elif isinstance(value, Conflict):
                return None
            else:
                found.append(value)
        missing = [value is _ABSENT for value in found]
        if missing == [True, True]:
            return None
        if not any(missing):
            if not any(isinstance(value, LeftEarly) for value in (one, other)):
                return None
            return loop.left_early(join.add(*found))
        side = missing.index(False)
        given = (one, other)[side]
        # Where the loop goes on, a value on one side only is none at all.
        if not isinstance(given, LeftEarly) and self._sides[side].values.get(LOOPING) is not False:
            return None
        return loop.left_early(join.add_beside_nothing(found[side], side))

    def _ignores(self, side: _Side, name: str) -> bool:
        """Whether what a region leaves in a variable is never read, since control does not go on after it."""
        values = side.values
        if values.get(LIVE) is not False or name in _FLAGS:
            return False
        return values.get(ACTIVE) is False or name not in self._frame.exit_names

    def _one_sided(self, name: str) -> Undefined:
        first, second = self._sides
        given, condition = (first, "holds") if name in first.values else (second, "does not hold")
        place = given.places.get(name)
        where = f" in line {place.line}" if place is not None else ""
        return Undefined(
            f"is assigned{where} only where the condition in line {self._location.line} {condition}",
            "assign it in both branches, or before the if",
        )

    def inline(self, side: int) -> bool:
        """Moves a region's operations in front of the fork if they may run whatever the condition says."""
        block = self._sides[side].block
        if not all(not op.regions and op.has_trait(Pure) for op in block.ops):
            return False
        target = self._frame.builder.block
        for operation in list(block.ops):
            target.add_op(block.detach_op(operation))
        return True

    def _emit(self, join: Join) -> list[SSAValue]:
        builder = self._frame.builder
        builder.location = self._location
        first, second = (side.block for side in self._sides)
        exits = [self._exits(side) for side in self._sides]
        if not first.ops and not second.ops and not any(exits):
            return [self._select(*pair) for pair in zip(join.firsts, join.seconds, strict=True)]
        for block, yields, is_exit in (
            (first, join.firsts, exits[0]),
            (second, join.seconds, exits[1]),
        ):
            if join.firsts or block is first or block.ops or is_exit:
                end = scf.YieldOp(*yields)
                block.add_op(end)
                if is_exit:
                    end.attributes[EXIT] = UNIT
        types = [value.type for value in join.firsts]
        otherwise = Region(second) if second.ops else None
        operation = scf.IfOp(self._condition.ssa, types, Region(first), otherwise)
        return list(builder.emit(operation).results)

    def _exits(self, side: _Side) -> bool:
        """Whether the thread is done at the end of a region: a kernel has returned there."""
        return not self._frame.returns_value and side.values.get(ACTIVE) is False

    def _select(self, one: SSAValue, other: SSAValue) -> SSAValue:
        operation = arith.SelectOp(self._condition.ssa, one, other)
        return self._frame.builder.emit(operation).result


def _is_kept(value: Any, before: Any, *, anew: bool) -> bool:
    """Whether a region leaves a variable as it was; one that a condition had decided may have been used in it."""
    is_decided = isinstance(before, WhenDecided) and not anew
    return value is before or (is_decided and value is before.value)


def _kept(join: Join, value: Any, before: Any, side: int) -> Any:
    """The value of a region after which control goes on, where the other one's does not matter."""
    if isinstance(value, LeftEarly) and value is not before:
        early = copy(value)
        early.value = join.add_beside_nothing(value.value, side)
        return early
    if value is _ABSENT or value is before or isinstance(value, Undefined | Conflict):
        return _DEAD if value is _ABSENT else value
    return join.add_beside_nothing(value, side)


def guard(frame: Frame, body: Callable[[], Any], names: Collection[str]) -> None:
    """Traces `body` where control still flows, which a flag says that is only known at run time."""
    values = frame.scope.values
    flag: Scalar = values[LIVE]
    fork = Fork(frame, flag)

    def alive() -> None:
        values = frame.scope.values
        for name in _FLAGS:
            if name in values:
                values[name] = True
        if frame.loop is not None:
            frame.loop.goes_on()
        body()

    def ended() -> None:
        values = frame.scope.values
        for name in _FLAGS:
            value = values.get(name)
            if isinstance(value, Scalar) and value.ssa is flag.ssa:
                values[name] = False

    fork.trace(1, ended)
    fork.trace(0, alive)
    fork.finish(names)


def discard(*blocks: Block) -> None:
    """Drops blocks that were traced only to learn types."""
    for block in blocks:
        block.drop_all_references()
