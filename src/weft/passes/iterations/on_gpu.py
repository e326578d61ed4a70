# SPDX-License-Identifier: Apache-2.0
"""Iterations on a GPU: adjacent threads run adjacent groups of iterations, whose accesses are vectors.

In: a `simt.each`. Out: a loop over groups, each of which is aligned where the iterations write; what they read may lie
differently. A group that a row does not fill runs iteration by iteration. Where a body has no vectors, or writes to
arrays that the run finds aligned differently, there is a loop over iterations, several in turn, and one over the
iterations that are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects import math, scf
from xdsl.dialects.builtin import i64
from xdsl.dialects.math import Math
from xdsl.ir import Block, Region
from xdsl.traits import Pure

from weft.dialects.access import element_access
from weft.dialects.flow import walk
from weft.dialects.simt.atomics import AtomicRmwOp
from weft.dialects.simt.debug import AssertOp, AssumeOp
from weft.dialects.simt.memory import VECTOR_BYTES, LoadOp, StoreOp
from weft.passes.iterations.alignment import Alignment
from weft.passes.iterations.body import Body, access_key, element_bytes, extent_of, runs_along

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

    from weft.dialects.simt.threads import EachOp
    from weft.dialects.simt.types import TensorType
    from weft.passes.iterations.body import Extent
    from weft.passes.iterations.emitter import Emitter

# Iterations in turn where nothing is a vector; more take registers from all others. Of bytes, eight are needed.
_SINGLES = 4
_SINGLES_OF_BYTES = 8
# Operations in all copies of a body, for the compiler's sake; a function of the math library counts as several.
_MOST_OPERATIONS = 1024
_INSTRUCTIONS = frozenset((math.AbsFOp, math.AbsIOp, math.CopySignOp, math.FmaOp))
_FUNCTIONS = frozenset(Math.operations) - _INSTRUCTIONS
_OF_A_FUNCTION = 16


class Plan(NamedTuple):
    """How a thread runs iterations.

    Attributes:
        width: iterations of a group, whose accesses are vectors; 1 for none.
        singles: iterations in turn that are in no group; 0 where all are in groups.
    """

    width: int
    singles: int

    @property
    def iterations(self) -> int:
        """Of a thread, in a launch that chooses its grid: more than one group is slower."""
        return max(self.width, self.singles)

    @classmethod
    def of(cls, loop: EachOp) -> Plan:
        """Vectors of 16 bytes of the widest elements, whose threads then leave no gaps; fewer for a long body."""
        body = loop.body.block
        operations = [op for op in walk(loop) if op is not loop]
        if not all(map(_may_alternate, operations)):
            return cls(1, 1)
        along = [cast("LoadOp | StoreOp", op) for op in body.ops if runs_along(op, body)]
        others = [op for op in operations if isinstance(op, LoadOp | StoreOp) and op not in along]
        width, sizes = 1, [element_bytes(op) for op in along] or [VECTOR_BYTES]
        if along and not any(op.indices and op.indices[-1] is body.args[-1] for op in others):
            width = VECTOR_BYTES // max(sizes)
        length = sum(_OF_A_FUNCTION if type(op) in _FUNCTIONS else 1 for op in operations)
        singles = _SINGLES_OF_BYTES if min(sizes) == 1 else _SINGLES
        plans = [cls(1, singles)]
        if width > 1:
            written = {access_key(op) for op in along if isinstance(op, StoreOp)}
            needed = (singles, 1) if len(written) > 1 else (0,)
            plans = [cls(width, count) for count in needed] + [cls(1, _SINGLES)]
        fitting = (plan for plan in plans if plan._copies * length <= _MOST_OPERATIONS)
        return next(fitting, cls(1, 1))

    @property
    def _copies(self) -> int:
        return (self.width + 1) * (self.width > 1) + self.singles + (self.singles > 1)


def _may_alternate(op: Operation) -> bool:
    """Whether an operation may alternate with those of other iterations, and is short; local arrays belong to one."""
    if isinstance(op, LoadOp | StoreOp):
        return op.volatile is None and cast("TensorType", op.tensor.type).space.data != "local"
    if isinstance(op, AtomicRmwOp):
        return op.order.data == "relaxed"
    access = element_access(op)
    if access is not None and access.is_atomic and not op.results:
        return access.kind == "updated"  # a reduction, which is relaxed
    return isinstance(op, scf.IfOp | scf.YieldOp | AssertOp | AssumeOp) or (
        op.has_trait(Pure) and not isinstance(op, scf.ForOp | scf.WhileOp)
    )


def map_on_gpu(emitter: Emitter, loop: EachOp, plan: Plan, *, is_row: bool) -> None:
    """Groups go to threads in turn; so do iterations, where there are no groups."""
    extent = extent_of(emitter, loop)
    at = emitter.position(is_row)
    thread = emitter.plus(emitter.times(at.block, at.threads), at.thread)
    threads = emitter.times(at.blocks, at.threads)
    if plan.width > 1:
        alignment = Alignment(emitter, loop, plan.width)
        _spread_groups(emitter, loop, extent, alignment, thread, threads)
        if alignment.is_possible is None:
            return
        columns = emitter.choose(alignment.is_possible, emitter.number(0), extent.columns)
        extent = extent._replace(columns=columns)
    _map_each(emitter, Body(emitter, loop), extent, plan.singles, thread, threads)


def _spread_groups(
    emitter: Emitter,
    loop: EachOp,
    extent: Extent,
    alignment: Alignment,
    thread: SSAValue,
    threads: SSAValue,
) -> None:
    """A thread's groups, each as vectors if the row fills it."""
    body, width = Body(emitter, loop, alignment.places), alignment.width
    rows, columns = extent
    of_a_row = alignment.groups(body, extent)
    total = of_a_row if rows is None else emitter.times(rows, of_a_row)
    if alignment.is_possible is not None:
        total = emitter.choose(alignment.is_possible, total, 0)
    with emitter.striding(thread, 0, total, threads) as (number, _):
        row, place = _split(emitter, number, rows, of_a_row)
        leading = body.leading(row)
        first = emitter.minus(emitter.times(place, width), alignment.shift(leading))
        end = emitter.plus(first, width)
        is_after = emitter.is_("sge", first, alignment.margin)
        is_before = emitter.is_("sle", emitter.plus(end, alignment.margin), columns)
        vectors, single = Block(), Block()
        with emitter.at(vectors):
            body.group(leading, first, width)
            emitter.emit(scf.YieldOp())
        with emitter.at(single):
            start, last = emitter.most(first, 0), emitter.least(end, columns)
            with emitter.counted(start, last, unrolled=1) as column:
                body.iterations([(leading, column)])
            emitter.emit(scf.YieldOp())
        is_whole = emitter.both(is_after, is_before)
        emitter.emit(scf.IfOp(is_whole, [], Region(vectors), Region(single)))


def _map_each(
    emitter: Emitter, body: Body, extent: Extent, singles: int, thread: SSAValue, threads: SSAValue
) -> None:
    """A thread's iterations, some of them in turn."""
    rows, columns = extent
    total = columns if rows is None else emitter.times(rows, columns)
    first = thread
    for count in dict.fromkeys((singles, 1)):
        reach, step = (emitter.times(threads, times) for times in (count - 1, count))
        with emitter.striding(first, reach, total, step) as (number, after):
            numbers = [emitter.plus(number, emitter.times(threads, each)) for each in range(count)]
            places = [_split(emitter, one, rows, columns) for one in numbers]
            body.iterations([(body.leading(row), column) for row, column in places])
        first = after[0]


def _split(
    emitter: Emitter, number: SSAValue, rows: SSAValue | None, columns: SSAValue
) -> tuple[SSAValue | None, SSAValue]:
    """The row and the column of a number; in the first row, which may be all there is, without a division."""
    if rows is None:
        return None, number
    first, other = Block(), Block()
    with emitter.at(first):
        emitter.emit(scf.YieldOp(emitter.number(0), number))
    with emitter.at(other):
        place = emitter.quotient(number, columns), emitter.rest(number, columns)
        emitter.emit(scf.YieldOp(*place))
    is_first = emitter.is_("slt", number, columns)
    row, column = emitter.emit(scf.IfOp(is_first, [i64, i64], Region(first), Region(other))).results
    return row, column
