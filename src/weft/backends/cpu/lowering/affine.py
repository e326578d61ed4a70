# SPDX-License-Identifier: Apache-2.0
"""Uniform, affine and shared values: how a value varies among the threads.

In: SSA values of a kernel. Out: whether a value at the top of its body varies with thread_idx.x, and its growth per
thread (only operations that can be re-evaluated anywhere are followed); the group that sees the same value: all of the
block, all of a warp, or none. Loads are never shared: another thread may write in between.
"""

from __future__ import annotations

from enum import IntEnum
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.dialects import arith, scf, ub
from xdsl.ir import Block

from weft.codegen.operations.arithmetic import FLOATING_POINT, INTEGER, MATHEMATICS
from weft.codegen.operations.conversions import CONVERSIONS
from weft.dialects.builder import constant_integer
from weft.dialects.flow import end_of, walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import (
    AdvanceOp,
    DimOp,
    ReinterpretOp,
    ReshapeOp,
    SharedOp,
    StrideOp,
    TableOp,
    ViewOp,
)
from weft.dialects.simt.threads import (
    BarrierReduceOp,
    BlockDimOp,
    BlockIdxOp,
    CoordinateOp,
    GridDimOp,
    LaneIdOp,
    MatchOp,
    ShuffleOp,
    ThreadIdxOp,
    VoteOp,
    WarpIdOp,
    WarpReduceOp,
)
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Operation, SSAValue


_PURE: Final = frozenset(
    {
        *INTEGER,
        *CONVERSIONS,
        *FLOATING_POINT,
        *MATHEMATICS,
        DimOp,
        StrideOp,
        ViewOp,
        AdvanceOp,
        ReinterpretOp,
        ReshapeOp,
        TableOp,
    }
)
# Growth beyond this would not fit the 64-bit arithmetic on bounds.
_LARGEST_GROWTH: Final = 1 << 24


def is_pure(operation: Operation) -> bool:
    """Whether an operation only computes its results, for any operands."""
    return type(operation) in _PURE or isinstance(operation, CoordinateOp)


class Checkpoint(NamedTuple):
    """A value that must not wrap for its growth to continue in a wider type or a comparison.

    Attributes:
        value: grows by `growth` per thread, modulo its width.
        growth: per thread, positive.
        signed: whether it is read as a signed integer.
    """

    value: SSAValue
    growth: int
    signed: bool


class RowAnalysis:
    """Facts about one kernel's values along x, cached."""

    def __init__(self) -> None:
        self._varies: dict[SSAValue, bool] = {}

    def varies(self, value: SSAValue) -> bool:
        """Whether threads of a row may see different values; True if unknown."""
        found = self._varies.get(value)
        if found is None:
            found = self._varies[value] = self._compute_varies(value)
        return found

    def _compute_varies(self, value: SSAValue) -> bool:
        owner = value.owner
        if isinstance(owner, Block):
            # Arguments of the kernel are uniform; those of loops are not followed.
            return not isinstance(owner.parent_op(), KernelOp)
        if isinstance(owner, ThreadIdxOp):
            return owner.dimension.data == "x"
        if not is_pure(owner):
            return True
        return any(self.varies(operand) for operand in owner.operands)

    def growth(self, value: SSAValue, checkpoints: list[Checkpoint]) -> int | None:
        """Growth of an integer per thread, modulo its width; None if that is not constant.

        Values that must not wrap for this to hold are added to `checkpoints`.
        """
        if not self.varies(value):
            return 0
        owner = value.owner
        if isinstance(owner, ThreadIdxOp):
            return 1
        if isinstance(owner, arith.AddiOp | arith.SubiOp):
            left = self.growth(owner.lhs, checkpoints)
            right = self.growth(owner.rhs, checkpoints)
            if left is None or right is None:
                return None
            return _bounded(left + right if isinstance(owner, arith.AddiOp) else left - right)
        if isinstance(owner, arith.MuliOp):
            return self._scaled(owner.lhs, owner.rhs, checkpoints)
        if isinstance(owner, arith.ExtSIOp | arith.ExtUIOp):
            inner = owner.input
            growth = self.growth(inner, checkpoints)
            if growth is None or growth < 0:
                return None
            checkpoints.append(Checkpoint(inner, growth, isinstance(owner, arith.ExtSIOp)))
            return growth
        return None

    def _scaled(self, left: SSAValue, right: SSAValue, checkpoints: list[Checkpoint]) -> int | None:
        factor, other = constant_integer(right), left
        if factor is None:
            factor, other = constant_integer(left), right
        growth = self.growth(other, checkpoints) if factor is not None else None
        return None if growth is None or factor is None else _bounded(growth * factor)


def _bounded(growth: int) -> int | None:
    return growth if abs(growth) < _LARGEST_GROWTH else None


class Group(IntEnum):
    """The threads that share a value, or that code runs once for."""

    BLOCK = 0
    WARP = 1
    THREAD = 2


_OF_THE_BLOCK = (
    *(BlockIdxOp, BlockDimOp, GridDimOp, SharedOp),
    *(BarrierReduceOp, ub.PoisonOp),
)
_OF_A_WARP = (WarpIdOp, VoteOp, WarpReduceOp)
_AXES = "xyz"


class Sharing:
    """The group that shares each value of a kernel, wherever its threads run together."""

    def __init__(self, kernel: KernelOp) -> None:
        self._found: dict[SSAValue, Group] = {}
        self._block_size = kernel.block_size
        self._operations = list(walk(kernel.body.block))
        self._changed = True
        while self._changed:  # loops carry values back
            self._changed = False
            for operation in self._operations:
                self._visit(operation)

    def of(self, value: SSAValue) -> Group:
        """The largest group whose threads see the same value."""
        return self._found.get(value, Group.BLOCK)

    def _widest(self, values: Iterable[SSAValue]) -> Group:
        return max((self.of(value) for value in values), default=Group.BLOCK)

    def _raise(self, values: Iterable[SSAValue], group: Group) -> None:
        for value in values:
            if group > self.of(value):
                self._found[value] = group
                self._changed = True

    def _visit(self, operation: Operation) -> None:
        if isinstance(operation, scf.IfOp):
            for number, result in enumerate(operation.results):
                yielded = [end_of(region.block).operands[number] for region in operation.regions]
                self._raise([result], self._widest([operation.cond, *yielded]))
        elif isinstance(operation, scf.ForOp):
            self._visit_for(operation)
        elif isinstance(operation, scf.WhileOp):
            self._visit_while(operation)
        elif operation.results:
            self._raise(operation.results, self._computed(operation))

    def _visit_for(self, loop: scf.ForOp) -> None:
        decides = self._widest((loop.lb, loop.ub, loop.step))
        induction, *carried = loop.body.block.args
        self._raise([induction], decides)
        following = end_of(loop.body.block).operands
        for argument, first, value, result in zip(
            carried, loop.iter_args, following, loop.results, strict=True
        ):
            self._raise([argument], max(decides, self._widest((first, value))))
            self._raise([result], self.of(argument))

    def _visit_while(self, loop: scf.WhileOp) -> None:
        before, after = loop.before_region.block, loop.after_region.block
        condition, *passed = end_of(before).operands
        # Threads that leave in different iterations have different values of loop-carried variables.
        decides = self.of(condition)
        for argument, first, value in zip(
            before.args, loop.operands, end_of(after).operands, strict=True
        ):
            self._raise([argument], max(decides, self._widest((first, value))))
        for argument, value, result in zip(after.args, passed, loop.results, strict=True):
            self._raise([argument, result], max(decides, self.of(value)))

    def _computed(self, operation: Operation) -> Group:
        if isinstance(operation, _OF_THE_BLOCK):
            return Group.BLOCK
        if isinstance(operation, _OF_A_WARP):
            return Group.WARP
        if isinstance(operation, ThreadIdxOp):
            return self._of_thread_index(operation)
        if isinstance(operation, ShuffleOp):
            return self._of_shuffle(operation)
        if isinstance(operation, MatchOp):
            return Group.WARP if operation.kind.data == "all" else Group.THREAD
        if not is_pure(operation) or isinstance(operation, LaneIdOp):
            return Group.THREAD
        return self._widest(operation.operands)

    def _of_shuffle(self, operation: ShuffleOp) -> Group:
        """One lane's value is shared, if the warp has that lane; otherwise each lane keeps its own."""
        if operation.kind.data != "idx" or operation.width.value.data != WARP_SIZE:
            return Group.THREAD
        known = constant_integer(operation.lane)
        is_whole = self._block_size is not None and prod(self._block_size) % WARP_SIZE == 0
        if not is_whole and (known is None or known % WARP_SIZE != 0):
            return Group.THREAD
        return max(Group.WARP, self.of(operation.lane))

    def _of_thread_index(self, operation: ThreadIdxOp) -> Group:
        if self._block_size is None:
            return Group.THREAD
        axis = _AXES.index(operation.dimension.data)
        if self._block_size[axis] == 1:
            return Group.BLOCK
        before = 1
        for size in self._block_size[:axis]:
            before *= size
        return Group.WARP if before % WARP_SIZE == 0 else Group.THREAD


def is_full_mask(value: SSAValue) -> bool:
    """Whether a mask is that of all lanes, known at compile time."""
    known = constant_integer(value)
    return known is not None and known & 0xFFFFFFFF == 0xFFFFFFFF


def enclosing(operation: Operation, block: Block) -> Operation:
    """The operation of a block that is, or contains, an operation inside the block."""
    while operation.parent is not block:
        outer = operation.parent_op()
        assert outer is not None
        operation = outer
    return operation
