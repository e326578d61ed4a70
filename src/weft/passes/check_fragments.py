# SPDX-License-Identifier: Apache-2.0
"""Checks that accumulators are read only when initialized and complete, and used once until then.

In: a traced module. Out: the same; an error names the place that reads and the place of the MMA. Follows each
kernel's paths: a value is complete if it is on all of them, and holds nothing if it does so on all of them.
Where some paths leave a value without sums, the sanitizer looks at it while the kernel runs. Of values of rows only
complete ones are stored.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.dialects import scf

from weft.dialects.builder import constant_integer, source_location
from weft.dialects.definition import DependsOnWarps
from weft.dialects.flow import alternatives, end_of, walk
from weft.dialects.nvgpu.mma import (
    MOST_PENDING,
    WgmmaAccumulatorOp,
    WgmmaHoldsSumsOp,
    WgmmaMmaOp,
    WgmmaWaitOp,
)
from weft.dialects.simt.fragment import (
    FragmentBitcastOp,
    FragmentMapOp,
    FragmentPartOp,
    FragmentRedAddOp,
    FragmentReduceOp,
    FragmentStoreOp,
    FragmentType,
)
from weft.dialects.simt.kernel import KernelOp
from weft.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block, Operation, SSAValue

_MAKERS: Final = (WgmmaAccumulatorOp, WgmmaMmaOp)
CARRIERS: Final = (
    WgmmaWaitOp,
    WgmmaHoldsSumsOp,
    scf.ForOp,
    scf.WhileOp,
    scf.YieldOp,
    scf.ConditionOp,
)
"""Operations that forward a fragment without reading it."""


def check_fragments(module: ModuleOp) -> None:
    """Checks that accumulators are read only when they are complete, and used once until then.

    Raises:
        CompileError: for a fragment that is read while its MMA may be in flight or that is uninitialized, or one that
            another operation has used up; for values of rows that are stored although threads have parts of them.
    """
    for kernel in module.body.block.ops:
        if not isinstance(kernel, KernelOp):
            continue
        found = list(walk(kernel))
        if any(isinstance(op, _MAKERS) for op in found):
            _Paths().follow(kernel.body.block)
        for op in found:
            if isinstance(op, FragmentStoreOp | FragmentRedAddOp) and len(op.indices) == 1:
                _check_whole(op)


def _check_whole(op: FragmentStoreOp | FragmentRedAddOp) -> None:
    """Checks that the values of rows that are stored are the same in all threads that share a row."""
    waiting = [op.fragment]
    seen: set[SSAValue] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        made = value.owner
        if isinstance(made, FragmentReduceOp):
            raise CompileError(
                "FRAGMENT_PARTIAL",
                f"row values are stored while each thread only has a part of them, as computed{_line(made)}",
                hint="write total.quad_sum().store(...)",
                location=source_location(op.location),
            )
        if isinstance(made, FragmentMapOp):
            if not any(inner.has_trait(DependsOnWarps) for inner in walk(made.body.block)):
                waiting += made.inputs
        elif isinstance(made, FragmentBitcastOp | FragmentPartOp):
            waiting.append(made.source)
        else:
            waiting += alternatives(value)


class _Flight(NamedTuple):
    """An MMA that may be in flight: how many were started after it, at least, and where it was started."""

    age: int
    mma: Operation


class _Nothing(IntEnum):
    """Whether a fragment holds nothing."""

    NO = 0
    MAYBE = 1
    YES = 2


class _State(NamedTuple):
    """Facts about a fragment."""

    flight: _Flight | None = None
    nothing: _Nothing = _Nothing.NO


_COMPLETE: Final = _State()
_EMPTY: Final = _State(nothing=_Nothing.YES)


class _Paths:
    """Facts about fragments at a place of a kernel, over all paths to it.

    Attributes:
        states: of the fragments that are not complete, or may hold nothing.
        users: of those that were used up, by what.
    """

    def __init__(self) -> None:
        self.states: dict[SSAValue, _State] = {}
        self.users: dict[SSAValue, Operation] = {}

    def follow(self, block: Block) -> None:
        """Follows a block's operations in order."""
        for op in block.ops:
            self._follow(op)

    def _follow(self, op: Operation) -> None:
        for value in op.operands:
            if isinstance(value.type, FragmentType):
                self._check(value, op)
        match op:
            case WgmmaAccumulatorOp():
                self._define(op.result, _EMPTY)
            case WgmmaMmaOp():
                self._start(op)
            case WgmmaWaitOp():
                self._wait(op)
            case scf.IfOp():
                self._branch(op)
            case scf.ForOp():
                self._for(op)
            case scf.WhileOp():
                self._while(op)
            case _:
                for region in op.regions:
                    for block in region.blocks:
                        self.follow(block)
                for result in op.results:
                    self._define(result, _COMPLETE)

    def _check(self, value: SSAValue, op: Operation) -> None:
        user = self.users.get(value)
        if user is not None:
            word = "MMA" if isinstance(user, WgmmaMmaOp) else "wait"
            raise CompileError(
                "FRAGMENT_USED",
                f"this fragment was used up by the {word}{_line(user)}, which returned it anew",
                hint="go on with its result, as in acc = weft.wgmma.mma(a, b, acc)",
                location=source_location(op.location),
            )
        state = self.state(value)
        if isinstance(op, CARRIERS):
            return
        adding = op if isinstance(op, WgmmaMmaOp) and value is op.acc else None
        if state.flight is not None and adding is None:
            raise CompileError(
                "FRAGMENT_IN_FLIGHT",
                f"this fragment is read, but its MMA{_line(state.flight.mma)} may not be complete",
                hint="read the result of a wait: acc = weft.wgmma.wait(acc, pending=0)",
                location=source_location(op.location),
            )
        if state.nothing is _Nothing.YES and (adding is None or _begins_anew(adding) is False):
            raise CompileError(
                "FRAGMENT_EMPTY",
                "this fragment is an accumulator that holds nothing yet",
                hint="the first MMA takes accumulate=False, or a condition that is false then; sums that begin "
                "with 0 are weft.wgmma.zeros(shape)",
                location=source_location(op.location),
            )

    def state(self, value: SSAValue) -> _State:
        return self.states.get(value, _COMPLETE)

    def _define(self, value: SSAValue, state: _State) -> None:
        self.users.pop(value, None)
        if state == _COMPLETE:
            self.states.pop(value, None)
        else:
            self.states[value] = state

    def _start(self, op: WgmmaMmaOp) -> None:
        for value, state in self.states.items():
            if state.flight is not None:
                age = min(state.flight.age + 1, MOST_PENDING + 1)
                self.states[value] = state._replace(flight=_Flight(age, state.flight.mma))
        if op.acc is not None and self.state(op.acc).nothing is not _Nothing.YES:
            self.users[op.acc] = op
        # It holds something: a conditional MMA into nothing is found while the kernel runs.
        self._define(op.result, _State(_Flight(0, op)))

    def _wait(self, op: WgmmaWaitOp) -> None:
        for value, result in zip(op.fragments, op.outputs, strict=True):
            state = self.state(value)
            if state.flight is not None:
                self.users[value] = op
                if state.flight.age >= op.pending.value.data:
                    state = state._replace(flight=None)
            self._define(result, state)

    def _branch(self, op: scf.IfOp) -> None:
        ends: list[tuple[_Paths, Sequence[SSAValue]]] = []
        for region in op.regions:
            path = self._copy()
            if not region.blocks:  # no else
                ends.append((path, ()))
                continue
            path.follow(region.block)
            ends.append((path, end_of(region.block).operands))
        self._take(_joined_paths([path for path, _ in ends]))
        for number, result in enumerate(op.results):
            of_ends = [path.state(values[number]) for path, values in ends]
            self._define(result, _joined(of_ends))

    def _for(self, op: scf.ForOp) -> None:
        block = op.body.block

        def run(path: _Paths) -> Sequence[SSAValue]:
            path.follow(block)
            return end_of(block).operands

        initial = [self.state(value) for value in op.iter_args]
        passed = self._repeat(op.iter_args, block.args[1:], run)
        iterations = _iterations(op)
        if iterations is None:
            found = [_joined(list(both)) for both in zip(initial, passed, strict=True)]
        else:
            found = passed if iterations else initial
        self._define_all(op.results, found)

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        passed = end_of(before).operands[1:]
        leaving = self

        def run(path: _Paths) -> Sequence[SSAValue]:
            nonlocal leaving
            path.follow(before)
            leaving = path._copy()
            path._define_all(after.args, [path.state(value) for value in passed])
            path.follow(after)
            return end_of(after).operands

        self._repeat(op.operands, before.args, run)
        self._take(leaving)
        self._define_all(op.results, [self.state(value) for value in passed])

    def _repeat(
        self,
        initial: Sequence[SSAValue],
        arguments: Sequence[SSAValue],
        run: Callable[[_Paths], Sequence[SSAValue]],
    ) -> list[_State]:
        """Follows iterations of a loop until the state is unchanged; returns the last one's yielded state.

        `run` returns the values that an iteration passes on.
        """
        self._define_all(arguments, [self.state(value) for value in initial])
        while True:
            path = self._copy()
            passed = [path.state(value) for value in run(path)]
            path._define_all(arguments, passed)
            known = self._copy()
            self._take(_joined_paths([self, path]))
            if (self.states, self.users) == (known.states, known.users):
                return passed

    def _define_all(self, values: Sequence[SSAValue], states: Sequence[_State]) -> None:
        for value, state in zip(values, states, strict=True):
            self._define(value, state)

    def _copy(self) -> _Paths:
        path = _Paths()
        path.states, path.users = dict(self.states), dict(self.users)
        return path

    def _take(self, path: _Paths) -> None:
        self.states, self.users = path.states, path.users


def _joined_paths(paths: Sequence[_Paths]) -> _Paths:
    """Joins the facts of several paths."""
    met = _Paths()
    for value in {value: None for path in paths for value in path.states}:
        state = _joined([path.state(value) for path in paths])
        if state != _COMPLETE:
            met.states[value] = state
    for path in paths:
        met.users.update(path.users)
    return met


def _joined(states: Sequence[_State]) -> _State:
    """The state of a value that is one of several."""
    flights = [state.flight for state in states if state.flight is not None]
    nothing = {state.nothing for state in states}
    return _State(
        min(flights, key=lambda flight: flight.age, default=None),
        nothing.pop() if len(nothing) == 1 else _Nothing.MAYBE,
    )


def _begins_anew(op: WgmmaMmaOp) -> bool | None:
    """Whether an MMA ignores its accumulator; None if a run-time condition decides it."""
    if op.accumulate is None:
        return False
    known = constant_integer(op.accumulate)
    return None if known is None else not known


def _iterations(op: scf.ForOp) -> bool | None:
    """Whether a loop has iterations; None if that is known when it runs."""
    first, end = constant_integer(op.lb), constant_integer(op.ub)
    return None if first is None or end is None else first < end


def _line(op: Operation) -> str:
    place = source_location(op.location)
    return f" in line {place.line}" if place is not None else ""
