# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel whose threads wait can be loops over threads, split where they wait.

In: simt.kernel. Out: the operation that forbids it, if any, and why. Between two barriers no thread waits, so the
threads may run one after the other; that is possible where all of them come to the barrier together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.dialects import scf

from weft.backends.cpu.lowering.check import (
    has_orders,
    looks_at_threads,
    needs_coroutines,
)
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.lowering.loops import awaits_other_blocks, coresident_blocks, may_wait
from weft.backends.cpu.lowering.sharing import Group, Sharing, is_full_mask
from weft.dialects.flow import end_of, walk
from weft.dialects.nvgpu.threads import ElectOneOp
from weft.dialects.simt.kernel import ExitOp, KernelOp
from weft.dialects.simt.threads import (
    BarrierOp,
    BarrierReduceOp,
    MatchOp,
    ShuffleOp,
    VoteOp,
    WarpBarrierOp,
    WarpReduceOp,
)

if TYPE_CHECKING:
    from xdsl.ir import Block, Operation, SSAValue

COROUTINES: Final = "coroutines"
"""An attribute of a kernel whose threads are to be coroutines even where loops would do."""
MOST_WAITS: Final = 64
"""Loops end and begin at each wait; LLVM optimizes a kernel of 180 for 4 seconds, its coroutine for half of one."""
_BARRIERS: Final = (BarrierOp, BarrierReduceOp)
_COLLECTIVES: Final = (WarpBarrierOp, ShuffleOp, VoteOp, MatchOp, WarpReduceOp, ElectOneOp)


class Obstacle(NamedTuple):
    """Why a kernel's threads are coroutines.

    Attributes:
        waiting: the operation at which they wait.
        around: the branch or loop around it that they may take differently, if that is the reason.
        others: how many more such operations there are, if that is the reason.
    """

    waiting: Operation
    around: Operation | None = None
    others: int = 0


class Waits:
    """Operations at which a kernel's threads wait, themselves or inside.

    Attributes:
        count: how many there are.
        first: one of them.
        inside: the first that is not a barrier of the block outside of branches and loops. Coroutines run such a kernel
            in another order, which decides what the sanitizer tells of two accesses that race.
    """

    def __init__(self, kernel: KernelOp) -> None:
        self._groups: dict[Operation, set[Group]] = {}
        self.count = 0
        self.inside: Operation | None = None
        # The order of a test is one of coroutines.
        self.first: Operation | None = kernel if has_orders(kernel) else None
        for operation in walk(kernel):
            if isinstance(operation, _BARRIERS):
                self._note(operation, Group.BLOCK)
            elif isinstance(operation, _COLLECTIVES):
                self._note(operation, Group.WARP)
            elif type(operation) in COOPERATION or (
                isinstance(operation, scf.WhileOp) and may_wait(operation)
            ):
                self._note(operation, Group.THREAD)

    def of(self, operation: Operation, group: Group) -> bool:
        """Whether an operation is or contains one at which the threads of a group wait for each other."""
        return group in self._groups.get(operation, ())

    def _note(self, operation: Operation, group: Group) -> None:
        self.count += 1
        if self.first is None:
            self.first = operation
        is_outside = group is Group.BLOCK and isinstance(operation.parent_op(), KernelOp)
        if self.inside is None and not is_outside:
            self.inside = operation
        around: Operation | None = operation
        while around is not None:
            self._groups.setdefault(around, set()).add(group)
            around = around.parent_op()


def uses_coroutines(kernel: KernelOp) -> bool:
    """Whether each thread of a kernel is a coroutine."""
    waits = Waits(kernel)
    return waits.first is not None and find_obstacle(kernel, waits) is not None


def find_obstacle(kernel: KernelOp, waits: Waits) -> Obstacle | None:
    """What forbids loops for a kernel whose threads wait; None if nothing does."""
    assert waits.first is not None
    if COROUTINES in kernel.attributes or needs_coroutines(kernel):
        return Obstacle(waits.first)
    if looks_at_threads(kernel) and waits.inside is not None:
        return Obstacle(waits.inside)
    if waits.count > MOST_WAITS:
        return Obstacle(waits.first, others=waits.count - 1)
    found = _Search(kernel, waits).obstacle
    return found or (Obstacle(waits.first) if coresident_blocks(kernel) else None)


class _Search:
    """Looks for the first obstacle in a kernel, outer ones first."""

    def __init__(self, kernel: KernelOp, waits: Waits) -> None:
        self._waits = waits
        self._sharing = Sharing(kernel)
        self.obstacle: Obstacle | None = None
        for operation in walk(kernel):
            if waits.of(operation, Group.THREAD) and not operation.regions:
                self.obstacle = Obstacle(operation)
            elif isinstance(operation, scf.WhileOp) and may_wait(operation):
                condition = end_of(operation.before_region.block).operands[0]
                # One condition of all threads does not wait for one of them, but perhaps for another block.
                if self._sharing.of(condition) != Group.BLOCK or awaits_other_blocks(operation):
                    self.obstacle = Obstacle(operation)
            if self.obstacle is not None:
                return
        self._look(kernel.body.block, is_whole=True)

    def _look(self, block: Block, is_whole: bool) -> None:
        """Looks through a block.

        Args:
            block: of the kernel or a branch or loop in it.
            is_whole: whether all lanes of a warp that come here have come so far.
        """
        for operation in block.ops:
            if self.obstacle is not None:
                return
            if isinstance(operation, _COLLECTIVES):
                mask = getattr(operation, "mask", None)
                if not is_whole or (mask is not None and not is_full_mask(mask)):
                    self.obstacle = Obstacle(operation)
            elif operation.regions:
                self._look_inside(operation, is_whole)

    def _look_inside(self, operation: Operation, is_whole: bool) -> None:
        has_barrier = self._waits.of(operation, Group.BLOCK)
        if not has_barrier and not self._waits.of(operation, Group.WARP):
            return
        decided = max(map(self._sharing.of, deciding(operation)))
        if decided > (Group.BLOCK if has_barrier else Group.WARP):
            leaving = leaving_arm(operation)
            if (
                not has_barrier
                or leaving is None
                or self._waits_in(operation.regions[leaving].block)
            ):
                self.obstacle = Obstacle(self._first_inside(operation), operation)
                return
            is_whole = is_whole and decided <= Group.WARP
        for region in operation.regions:
            for block in region.blocks:
                self._look(block, is_whole)

    def _waits_in(self, block: Block) -> bool:
        return any(self._waits.of(operation, group) for operation in block.ops for group in Group)

    def _first_inside(self, operation: Operation) -> Operation:
        return next(
            inner for inner in walk(operation) if isinstance(inner, (*_BARRIERS, *_COLLECTIVES))
        )


def deciding(operation: Operation) -> tuple[SSAValue, ...]:
    """What decides which region of a branch or loop runs, and how often; every value for another operation."""
    if isinstance(operation, scf.IfOp):
        return (operation.cond,)
    if isinstance(operation, scf.ForOp):
        return operation.lb, operation.ub, operation.step
    if isinstance(operation, scf.WhileOp):
        return (end_of(operation.before_region.block).operands[0],)
    return tuple(operation.operands)


def leaving_arm(operation: Operation) -> int | None:
    """Which arm of a branch ends with threads that have returned, if exactly one does and the other exists."""
    if not isinstance(operation, scf.IfOp):
        return None
    leaves = [
        bool(region.blocks) and isinstance(end_of(region.block).prev_op, ExitOp)
        for region in operation.regions
    ]
    others = [bool(region.blocks) for region in operation.regions]
    return leaves.index(True) if sum(leaves) == 1 and all(others) else None
