# SPDX-License-Identifier: Apache-2.0
"""Two alternative regions: `if`, ternary, short-circuit, and the code after an early exit.

In: a staged condition and the code of each region. Out: `scf.if`, or `arith.select` if both regions are empty, and the
joined variables.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region
from xdsl.traits import Pure

from weft.dialects.simt.kernel import ExitOp
from weft.errors import TypeMismatchError
from weft.frontend.control_flow.joins import Join, Mismatch, conflict, describe_side
from weft.frontend.paths import Assigned, Conflict, LeftEarly, Undefined, WhenDecided
from weft.frontend.state.reachable import ABSENT
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from xdsl.ir import SSAValue

    from weft.frontend.context import Frame
    from weft.frontend.paths import Binding, Path
    from weft.frontend.state.reachable import Slot

_DEAD: Final = Undefined("has no value after this branch")


class _Side:
    """One of the two regions: its operations, and the path at its end."""

    __slots__ = ("block", "path")

    def __init__(self, path: Path) -> None:
        self.block = Block()
        self.path = path


class Fork:
    """Control flow that takes the first region if a condition holds, else the second.

    Args:
        frame: the call being traced; its path is forked and joined.
        condition: a ``bool_``.
    """

    __slots__ = ("_condition", "_frame", "_location", "_sides")

    def __init__(self, frame: Frame, condition: Scalar) -> None:
        self._frame = frame
        self._condition = condition
        self._location = frame.builder.location
        path = frame.scope.path
        self._sides = (
            _Side(path.where(condition.ssa, holds=True)),
            _Side(path.where(condition.ssa, holds=False)),
        )

    def trace(self, side: int, body: Callable[[], Any]) -> Any:
        """Traces `body` at the end of region 0 or 1, on that region's path."""
        taken = self._sides[side]
        value, taken.path = self._frame.trace_in(taken.block, taken.path, body)
        return value

    def path(self, side: int) -> Path:
        """The path at the end of a region."""
        return self._sides[side].path

    def finish(
        self,
        names: Collection[str],
        pair: tuple[Any, Any] | None = None,
        *,
        live: bool = True,
        evaluated: int | None = None,
    ) -> Any:
        """Emits the operation and joins the two paths.

        Args:
            names: variables that may be read after the operation; the others are dead there.
            pair: the values of the two regions, for an expression.
            live: whether later code checks if control continues.
            evaluated: for ``and`` and ``or``: the region with the part that may be skipped. Variables first assigned
                there have a value if the result implies its evaluation.
        Returns:
            One value for the pair.
        Raises:
            Mismatch: if the pair cannot be joined. A variable that cannot be joined fails when used.
        """
        path = self._frame.scope.path
        blocks = self._sides[0].block, self._sides[1].block
        join = Join(self._frame.builder, self._frame.state, blocks, self.changed)
        value = None if pair is None else join.add(*pair)
        path.broken = any(side.path.broken for side in self._sides)
        joined: dict[str, Binding] = {}
        # An `and` may decide again after one of its parts.
        for name in self._changed(path, anew=evaluated is not None):
            found = self._join(join, name, path.variables.get(name)) if name in names else _DEAD
            if pair is not None and evaluated is not None and isinstance(found, Undefined):
                found = self._when_decided(join, found, name, pair[evaluated], evaluated)
            joined[name] = found
        flags = self._join_flags(join, path, live=live)
        path.result = self._join_result(join)
        slots = self._join_slots(join)
        results = self._emit(join)
        value = join.finish(value, results)
        for found in (*joined.values(), path.result):
            if isinstance(found, Assigned | LeftEarly | WhenDecided):
                found.value = join.finish(found.value, results)
        for name, found in joined.items():
            path.variables[name] = _decided_by(value, found)
        for name, flag in flags.items():
            setattr(path, name, join.finish(flag, results))
        for slot, found in slots.items():
            self._frame.state.put(slot, join.finish(found, results))
        return value

    @property
    def changed(self) -> tuple[dict[Slot, Any], dict[Slot, Any]]:
        """The changes of each region to items and attributes of objects made before it."""
        first, second = self._sides
        return first.path.changed, second.path.changed

    def _join_slots(self, join: Join) -> dict[Slot, Any]:
        """One value for each item and attribute that a region changed."""
        first, second = self.changed
        is_over = [self._exits(side) for side in self._sides]
        joined: dict[Slot, Any] = {}
        for slot in {**first, **second}:
            before = slot.found()
            one, other = (each.get(slot, before) for each in (first, second))
            if is_over[0] != is_over[1]:
                side = int(is_over[0])
                if (one, other)[side] is not ABSENT:
                    joined[slot] = join.add_beside_nothing((one, other)[side], side)
                continue
            if one is ABSENT or other is ABSENT:
                continue  # as a variable that one side assigns: it has no value after the join
            try:
                joined[slot] = join.add(one, other, None if before is ABSENT else before)
            except Mismatch as mismatch:
                raise TypeMismatchError(
                    "TYPE_JOIN",
                    f"{slot} is {describe_side(one)} where the condition in line "
                    f"{self._location.line} holds and {describe_side(other)} where it does not",
                    hint=mismatch.hint,
                ) from None
        return joined

    def _changed(self, path: Path, *, anew: bool) -> list[str]:
        """Variables that a region assigned or deleted, in order of assignment."""
        first, second = (side.path.variables for side in self._sides)
        before = path.variables
        return [
            name
            for name in dict.fromkeys((*first, *second, *before))
            if not all(
                _is_kept(side.get(name), before.get(name), anew=anew) for side in (first, second)
            )
        ]

    def _join(self, join: Join, name: str, before: Binding | None) -> Binding:
        first, second = self._sides
        one, other = first.path.variables.get(name), second.path.variables.get(name)
        ignored = self._ignores(first.path, name), self._ignores(second.path, name)
        if ignored[0] != ignored[1]:
            return _kept(join, other if ignored[0] else one, before, int(ignored[0]))
        early = self._left_early(join, one, other)
        if early is not None:
            return early
        for binding in (one, other):
            if isinstance(binding, LeftEarly | WhenDecided):
                # The other region reassigned it, so its old condition no longer matters.
                return binding.without_value()
            if isinstance(binding, Undefined | Conflict):
                return binding
        if not isinstance(one, Assigned) or not isinstance(other, Assigned):
            return self._one_sided(name)
        return self._meet(join, one, other, before, name)

    def _meet(
        self,
        join: Join,
        one: Assigned | LeftEarly,
        other: Assigned | LeftEarly,
        before: Binding | None = None,
        name: str = "",
    ) -> Binding:
        """One value for both, or a marker that there is none."""
        place = one.place or other.place
        try:
            old = before.value if isinstance(before, Assigned) else None
            return Assigned(join.add(one.value, other.value, old, name), place)
        except Mismatch as mismatch:
            lines = [(binding.place or self._location).line for binding in (one, other)]
            text = conflict(one.value, lines[0], other.value, lines[1])
            return Conflict(text, mismatch.hint, place)

    def _join_result(self, join: Join) -> Binding:
        """Joins the function's result; a path that has not returned accepts any value."""
        one, other = (side.path.result for side in self._sides)
        for binding in (one, other):
            if isinstance(binding, Conflict):
                return binding
        if isinstance(one, Assigned) and isinstance(other, Assigned):
            return one if one is other else self._meet(join, one, other)
        if isinstance(one, Assigned):
            return Assigned(join.add_beside_nothing(one.value, 0), one.place)
        if isinstance(other, Assigned):
            return Assigned(join.add_beside_nothing(other.value, 1), other.place)
        return one

    def _join_flags(self, join: Join, path: Path, *, live: bool) -> dict[str, Any]:
        """Joins the path's flags."""
        loop = self._frame.loop
        asked = {
            "live": live,
            "looping": loop is not None and loop.exits.leave_loop,
            "active": loop is not None and loop.exits.returns,
        }
        flags: dict[str, Any] = {}
        for name, is_asked in asked.items():
            one, other = (getattr(side.path, name) for side in self._sides)
            if one is not other or one is not getattr(path, name):
                flags[name] = join.add(one, other) if is_asked else None
        return flags

    def _when_decided(
        self, join: Join, undefined: Undefined, name: str, later: Any, side: int
    ) -> Undefined:
        """A variable assigned in part of a condition: it has a value if that part was evaluated."""
        binding = self._sides[side].path.variables.get(name)
        if isinstance(binding, WhenDecided):
            is_same = isinstance(later, Scalar) and later.ssa is binding.condition
            if not is_same or binding.holds is not (side == 0):
                return undefined
        elif not isinstance(binding, Assigned):
            return undefined
        value = join.add_beside_nothing(binding.value, side)
        place = undefined.place or binding.place
        return WhenDecided(undefined.reason, undefined.hint, place, value, holds=side == 0)

    def _left_early(self, join: Join, one: Binding | None, other: Binding | None) -> Binding | None:
        """A variable with a value if the innermost loop ends here by a break; else None."""
        loop = self._frame.loop
        if loop is None:
            return None
        found: list[Assigned | LeftEarly | None] = []
        for side, binding in zip(self._sides, (one, other), strict=True):
            if isinstance(binding, Assigned):
                found.append(binding)
            elif isinstance(binding, LeftEarly) and binding.loop is loop:
                found.append(binding)
            elif isinstance(binding, Conflict) or side.path.broken:
                return None
            else:
                found.append(None)
        first, second = found
        if first is not None and second is not None:
            if isinstance(first, Assigned) and isinstance(second, Assigned):
                return None
            met = self._meet(join, first, second)
            return loop.left_early(met.value, met.place) if isinstance(met, Assigned) else met
        given = first or second
        if given is None:
            return None
        side = 0 if first is not None else 1
        # If the loop continues, a value on only one side does not count.
        if isinstance(given, Assigned) and self._sides[side].path.looping is not False:
            return None
        return loop.left_early(join.add_beside_nothing(given.value, side), given.place)

    def _ignores(self, path: Path, name: str) -> bool:
        """Whether a region's final value of a variable is never read, since control ends there."""
        loop = self._frame.loop
        if path.live is not False:
            return False
        return path.active is False or loop is None or name not in loop.head

    def _one_sided(self, name: str) -> Undefined:
        first, second = (side.path for side in self._sides)
        given, condition = (
            (first, "holds") if name in first.variables else (second, "does not hold")
        )
        place = given.place(name)
        where = f" in line {place.line}" if place is not None else ""
        return Undefined(
            f"is assigned{where} only where the condition in line {self._location.line} {condition}",
            "assign it in both branches, or before the if",
            place,
        )

    def inline(self, side: int) -> bool:
        """Moves a region's operations before the fork if they may run unconditionally."""
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
            if is_exit:
                block.add_op(ExitOp())
            if join.firsts or block is first or block.ops:
                block.add_op(scf.YieldOp(*yields))
        types = [value.type for value in join.firsts]
        otherwise = Region(second) if second.ops else None
        operation = scf.IfOp(self._condition.ssa, types, Region(first), otherwise)
        return list(builder.emit(operation).results)

    def _exits(self, side: _Side) -> bool:
        """Whether the thread is done at the end of a region, as a kernel has returned."""
        return not self._frame.returns_value and side.path.active is False

    def _select(self, one: SSAValue, other: SSAValue) -> SSAValue:
        operation = arith.SelectOp(self._condition.ssa, one, other)
        return self._frame.builder.emit(operation).result


def _is_kept(after: Binding | None, before: Binding | None, *, anew: bool) -> bool:
    """Whether a region leaves a variable unchanged; one decided by a condition may have been used in it."""
    if after is before or not isinstance(after, Assigned):
        return after is before
    if isinstance(before, Assigned) or (isinstance(before, WhenDecided) and not anew):
        return after.value is before.value
    return False


def _kept(join: Join, binding: Binding | None, before: Binding | None, side: int) -> Binding:
    """The value from a region after which control continues, if the other's does not matter."""
    if binding is None:
        return _DEAD
    if not isinstance(binding, Assigned | LeftEarly) or _is_kept(binding, before, anew=True):
        return binding
    made = copy(binding)
    made.value = join.add_beside_nothing(binding.value, side)
    return made


def _decided_by(value: Any, binding: Binding) -> Binding:
    """Settles the states that depend on a condition, now that its value is known."""
    if not isinstance(binding, WhenDecided) or binding.condition is not None:
        return binding
    if not isinstance(value, Scalar) or not value.dtype.is_bool:
        return binding.without_value()
    binding.condition = value.ssa
    return binding


def guard(frame: Frame, body: Callable[[], Any], names: Collection[str], *, live: bool) -> None:
    """Traces `body` under a flag, known only at run time, for whether control still flows.

    Args:
        frame: the call being traced.
        body: the following code.
        names: variables that may be read after it.
        live: whether later code checks if control continues.
    """
    flag = frame.scope.path.live
    assert isinstance(flag, Scalar)
    fork = Fork(frame, flag)

    def alive() -> None:
        frame.scope.path.resume(frame.loop)
        body()

    fork.trace(1, lambda: frame.scope.path.end(flag))
    fork.trace(0, alive)
    fork.finish(names, live=live)


def discard(*blocks: Block) -> None:
    """Drops blocks that were traced only to learn types."""
    for block in blocks:
        block.drop_all_references()
