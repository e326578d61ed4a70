# SPDX-License-Identifier: Apache-2.0
"""Markers: what a profiler's methods leave in the IR until the kernel is traced to its end.

Only then is known which events occur, how often, and whether a buffer's bounds can be proved. In: calls in a
kernel. Out: `MarkOp`s, each replaced by plain operations before the kernel is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from weft.dialects.walk import walk
from weft.errors import CompileError, ValueRangeError
from weft.language.profiling.emit import Emitter
from weft.language.values import Scalar, Tensor
from weft.types.record_format import END, FINALIZE, START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xdsl.ir import Operation, SSAValue

    from weft.dialects.builder import Builder
    from weft.location import SourceLocation

INIT: Final = -1
"""A mark's kind where a thread takes its track; the other kinds are those of records."""


class Mark:
    """What a marker says.

    Attributes:
        kind: `INIT`, or a kind of record of `weft.types.record_format`.
        event: number of the event; 0 where there is none.
        leader: which threads record, a bool or a staged one; None for the profiler's default.
        payload: what is recorded beside the event, or None.
        group: of an `INIT`, the track's group.
        anchor: a 32-bit value whose computation the record separates from what follows or precedes.
        memory: where a profiler is made, what it records into; else None.
    """

    __slots__ = ("anchor", "event", "group", "kind", "leader", "memory", "payload")

    def __init__(
        self,
        kind: int,
        event: int = 0,
        *,
        leader: Scalar | bool | None = None,
        payload: Scalar | int | None = None,
        group: Scalar | int = 0,
        anchor: Scalar | None = None,
        memory: Tensor | None = None,
    ) -> None:
        self.anchor = anchor
        self.memory = memory
        self.kind = kind
        self.event = event
        self.leader = leader
        self.payload = payload
        self.group = group

    @property
    def operands(self) -> list[SSAValue]:
        """The staged values that it needs where it stands."""
        values = (self.leader, self.payload, self.group, self.anchor)
        return [value.ssa for value in values if isinstance(value, Scalar)]


@irdl_op_definition
class MarkOp(IRDLOperation):
    """A marker where its code will stand; no kernel that leaves the front end holds one."""

    name = "weft.profiler_mark"
    values = var_operand_def()
    anchored = opt_result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, mark: Mark, owner: Marks, location: SourceLocation) -> None:
        anchor = mark.anchor
        super().__init__(
            operands=[mark.operands], result_types=[[] if anchor is None else [anchor.ssa.type]]
        )
        self.mark = mark
        self.owner = owner
        self.place = location

    def current_mark(self) -> Mark:
        """What it says, with its operands as they are now: a value that a marker anchored has changed since."""
        operands = iter(self.values)

        def now(value: Any) -> Any:
            return Scalar(next(operands), value.dtype) if isinstance(value, Scalar) else value

        mark = self.mark
        leader, payload, group, anchor = (
            now(v) for v in (mark.leader, mark.payload, mark.group, mark.anchor)
        )
        return Mark(
            mark.kind, mark.event, leader=leader, payload=payload, group=group, anchor=anchor
        )


class Marks:
    """The marks of one profiler object, from the first call to the end of its kernel.

    Args:
        builder: of the kernel.
        finish: expands them; called once, when the kernel is traced, with its name.
    """

    __slots__ = ()

    def __init__(
        self, builder: Builder, finish: Callable[[Builder, str, list[MarkOp]], None]
    ) -> None:
        def end(name: str) -> None:
            # What a discarded attempt at tracing a loop left behind is not in the IR.
            placed = [op for op in walk(builder.entry) if isinstance(op, MarkOp)]
            finish(builder, name, [op for op in placed if op.owner is self])

        builder.at_end(end)

    def add(self, builder: Builder, mark: Mark) -> Scalar | None:
        """Leaves a marker where the builder stands; the value stands for its anchor from here on."""
        made = builder.emit(MarkOp(mark, self, builder.location))
        if mark.anchor is None or made.anchored is None:
            return None
        return Scalar(made.anchored, mark.anchor.dtype)


def replace(builder: Builder, op: MarkOp, expand: Callable[[Emitter, Mark], Scalar | None]) -> None:
    """Puts what `expand` emits in a marker's place, and the value that it returns in its anchor's."""
    block = Block()
    previous, builder.location = builder.location, op.place
    with builder.at(block):
        anchored = expand(Emitter(builder), op.current_mark())
    builder.location = previous
    target = op.parent
    assert target is not None
    for made in list(block.ops):
        target.insert_op_before(block.detach_op(made), op)
    if op.anchored is not None:
        op.anchored.replace_all_uses_with(op.values[-1] if anchored is None else anchored.ssa)
    target.detach_op(op)
    op.drop_all_references()


def check_pairs(marks: Iterable[MarkOp], name_of: Callable[[int], str]) -> None:
    """Raises if an event is ended that the kernel never starts.

    Raises:
        CompileError: at the first such `end`.
    """
    ops = list(marks)
    started = {op.mark.event for op in ops if op.mark.kind == START}
    for op in ops:
        if op.mark.kind == END and op.mark.event not in started:
            raise CompileError(
                "PROFILER_PAIR",
                f"end({name_of(op.mark.event)}) stands in a kernel that has no start of it",
                hint="start and end take the same event",
                location=op.place,
            )


def check_initialized(marks: Iterable[MarkOp], what: str) -> None:
    """Raises if there are records and no `init`, or a record that always comes before it.

    Raises:
        CompileError: at the first such record.
    """
    ops = list(marks)
    first = next((op for op in ops if op.mark.kind == INIT), None)
    if ops and first is None:
        raise CompileError(
            "PROFILER_INIT",
            f"this kernel records with {what} and never calls its init()",
            hint="call p.init(group_id) before the first start",
            location=ops[0].place,
        )
    # In the text's order; a later round of a loop around both comes after its first round's init.
    early = next((op for op in ops if op.mark.kind not in (INIT, FINALIZE)), None)
    if first is None or early is None or ops.index(first) < ops.index(early):
        return
    if not _share_a_loop(early, first):
        raise CompileError(
            "PROFILER_INIT",
            "this record is made before init(), which names the thread's track: it would be lost",
            hint="call p.init(group_id) before the first start",
            location=early.place,
        )


def _share_a_loop(one: Operation, other: Operation) -> bool:
    parent = one.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp) and parent.is_ancestor(other):
            return True
        parent = parent.parent_op()
    return False


def most_times(op: Operation) -> int | None:
    """How often a thread can come by an operation at most; None where only the run can tell."""
    times = 1
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.WhileOp):
            return None
        if isinstance(parent, scf.ForOp):
            trips = _trips(parent)
            if trips is None:
                return None
            times *= trips
        parent = parent.parent_op()
    return times


def _trips(loop: scf.ForOp) -> int | None:
    bounds = [_constant(value) for value in (loop.lb, loop.ub, loop.step)]
    lower, upper, step = bounds
    if lower is None or upper is None or step is None or step < 1:
        return None
    return len(range(lower, upper, step))


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def checked_range(name: str, value: object, most: int, what: str) -> None:
    """Raises unless a constant lies in 0 .. most.

    Raises:
        ValueRangeError: naming it.
    """
    if isinstance(value, int) and not 0 <= value <= most:
        raise ValueRangeError(
            "PROFILER_RANGE", f"{name} is {value}; expected {what} from 0 to {most}"
        )
