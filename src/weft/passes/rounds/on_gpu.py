# SPDX-License-Identifier: Apache-2.0
"""Rounds on a GPU: neighboring threads run neighboring rounds, with vector accesses where addresses are aligned.

In: a `simt.each`. Out: loops over vectors of rounds, then over the rounds that are left. If the run finds an array that
is not aligned, all rounds are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i64
from xdsl.dialects.math import Math
from xdsl.ir import Block, Region
from xdsl.traits import Pure

from weft.dialects.flow import walk
from weft.dialects.simt.debug import AssertOp, AssumeOp
from weft.dialects.simt.memory import AddressOp, AtomicRmwOp, LoadOp, StoreOp, StrideOp
from weft.dialects.simt.reductions import RedAddOp
from weft.dialects.simt.views import VECTOR_BYTES
from weft.passes.rounds.body import Body, Extent, element_bytes, extent_of, runs_along

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

    from weft.dialects.simt.grid import EachOp
    from weft.dialects.simt.types import TensorType
    from weft.passes.rounds.emitter import Emitter

# Vector loads that a thread has under way at least, if the rounds are short.
_LOADS = 2
# Rounds in turn where nothing is a vector; more take registers from all others. Of bytes, eight are needed.
_SINGLES = 4
_SINGLES_OF_BYTES = 8
# Operations in all copies of a body, for the compiler's sake; a function of the math library counts as several.
_MOST_OPERATIONS = 1024
_FUNCTIONS = frozenset(Math.operations)
_OF_A_FUNCTION = 16
# Operations of a body that loads more than it computes, and so has several loads under way.
_SHORT = 16


class Plan(NamedTuple):
    """How a thread runs rounds.

    Attributes:
        width: rounds of a group, whose accesses are vectors; 1 for none.
        groups: in turn.
        singles: rounds in turn that are in no group.
    """

    width: int
    groups: int
    singles: int

    @property
    def rounds(self) -> int:
        """Of a thread, in a launch that chooses its grid."""
        return max(self.width * self.groups, self.singles)

    @classmethod
    def of(cls, loop: EachOp) -> Plan:
        """Vectors of 16 bytes of the widest elements, whose threads then leave no gaps; fewer for a long body."""
        body = loop.body.block
        operations = [op for op in walk(loop) if op is not loop]
        if not all(map(_may_alternate, operations)):
            return Plan(1, 1, 1)
        along = [cast("LoadOp | StoreOp", op) for op in body.ops if runs_along(op, body)]
        others = [op for op in operations if isinstance(op, LoadOp | StoreOp) and op not in along]
        width, sizes = 1, [element_bytes(op) for op in along] or [VECTOR_BYTES]
        if along and not any(op.indices and op.indices[-1] is body.args[-1] for op in others):
            width = VECTOR_BYTES // max(sizes)
        loads = sum(
            width * element_bytes(op) // VECTOR_BYTES or 1 for op in along if isinstance(op, LoadOp)
        )
        length = sum(_OF_A_FUNCTION if type(op) in _FUNCTIONS else 1 for op in operations)
        groups = -(-_LOADS // max(loads, 1)) if width > 1 and length < _SHORT else 1
        singles = _SINGLES_OF_BYTES if min(sizes) == 1 else _SINGLES
        plans = [cls(width, groups, singles), cls(width, 1, 1), cls(1, 1, _SINGLES)]
        fitting = (plan for plan in plans if plan._copies * length <= _MOST_OPERATIONS)
        return next(fitting, cls(1, 1, 1))

    @property
    def _copies(self) -> int:
        vectors = self.width * self.groups if self.width > 1 else 0
        return vectors + self.singles + (self.singles > 1)


def _may_alternate(op: Operation) -> bool:
    """Whether an operation is as good between those of other rounds, and short; a thread's arrays are the round's."""
    if isinstance(op, LoadOp | StoreOp):
        return op.volatile is None and cast("TensorType", op.tensor.type).space.data != "local"
    if isinstance(op, AtomicRmwOp):
        return op.order.data == "relaxed"
    return isinstance(op, RedAddOp | scf.IfOp | scf.YieldOp | AssertOp | AssumeOp) or (
        op.has_trait(Pure) and not isinstance(op, scf.ForOp | scf.WhileOp)
    )


def spread_out(emitter: Emitter, loop: EachOp, plan: Plan, *, is_row: bool) -> None:
    """Groups go to threads in turn, the rounds that are in none too."""
    body = Body(emitter, loop)
    extent = extent_of(emitter, loop)
    at = emitter.position(is_row)
    thread = emitter.plus(emitter.times(at.block, at.threads), at.thread)
    threads = emitter.times(at.blocks, at.threads)
    rows, columns = extent
    left, lead, grouped = columns, None, columns
    if plan.width > 1:
        lead, groups = begin, _ = _groups(emitter, loop, extent, plan.width)
        if rows is None:
            # A block's part is `tile` groups; one that is not whole is among the rounds in no group.
            tile = emitter.times(at.threads, plan.groups)
            tiles = emitter.quotient(groups, tile)
            with emitter.striding(at.block, 0, tiles, at.blocks) as (number, _):
                first = emitter.plus(emitter.times(number, tile), at.thread)
                numbers = [
                    emitter.plus(first, emitter.times(at.threads, each))
                    for each in range(plan.groups)
                ]
                body.rounds(
                    [(None, emitter.plus(begin, emitter.times(n, plan.width))) for n in numbers],
                    plan.width,
                )
            groups = emitter.times(tiles, tile)
        else:
            every = emitter.times(rows, groups)
            with emitter.striding(thread, 0, every, threads) as (number, _):
                row, place = _split(emitter, number, rows, groups)
                body.rounds(
                    [(row, emitter.plus(begin, emitter.times(place, plan.width)))], plan.width
                )
        grouped = emitter.times(groups, plan.width)
        left = emitter.minus(columns, grouped)

    def single(number: SSAValue) -> tuple[SSAValue | None, SSAValue]:
        row, place = _split(emitter, number, rows, left)
        if lead is not None:
            is_before = emitter.is_("slt", place, lead)
            place = emitter.choose(is_before, place, emitter.plus(place, grouped))
        return row, place

    total = left if rows is None else emitter.times(rows, left)
    first = thread
    for count in dict.fromkeys((plan.singles, 1)):
        reach, step = (emitter.times(threads, times) for times in (count - 1, count))
        with emitter.striding(first, reach, total, step) as (number, after):
            numbers = [emitter.plus(number, emitter.times(threads, each)) for each in range(count)]
            body.rounds([single(one) for one in numbers])
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


def _groups(
    emitter: Emitter, loop: EachOp, extent: Extent, width: int
) -> tuple[SSAValue, SSAValue]:
    """The first columns of a row that are in no group, so that what follows is aligned, and the groups of a row.

    There is no group unless the accesses of every array are aligned in every row.
    """
    block = loop.body.block
    along = [cast("LoadOp | StoreOp", op) for op in block.ops if runs_along(op, block)]
    places = {(op.tensor, *op.indices): op for op in along}
    narrowest = min(along, key=element_bytes)
    size = element_bytes(narrowest)
    missing = emitter.minus(emitter.number(0), _address(emitter, loop, narrowest))
    lead = emitter.quotient(emitter.bits(missing, width * size - 1), size)
    aligned = None
    for op in places.values():
        size = element_bytes(op)
        mask = min(width * size, VECTOR_BYTES) - 1
        address = emitter.plus(_address(emitter, loop, op), emitter.times(lead, size))
        if extent.rows is not None:
            for dimension, index in enumerate(op.indices[:-1]):
                if index in block.args:
                    stride = emitter.emit(StrideOp(op.tensor, dimension)).result
                    address = emitter.compute(arith.OrIOp, address, emitter.times(stride, size))
        is_aligned = emitter.is_("eq", emitter.bits(address, mask), 0)
        aligned = emitter.both(aligned, is_aligned)
    assert aligned is not None
    lead = emitter.choose(aligned, emitter.least(lead, extent.columns), 0)
    rest = emitter.minus(extent.columns, lead)
    return lead, emitter.choose(aligned, emitter.quotient(rest, width), 0)


def _address(emitter: Emitter, loop: EachOp, op: LoadOp | StoreOp) -> SSAValue:
    """The address of an access in the first round."""
    zero = emitter.number(0)
    indices = [zero if index in loop.body.block.args else index for index in op.indices]
    return emitter.emit(AddressOp(op.tensor, indices)).result
