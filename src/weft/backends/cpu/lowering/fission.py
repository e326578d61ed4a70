# SPDX-License-Identifier: Apache-2.0
"""Loop fission: whether a kernel whose threads wait can be loops over threads, split where they wait.

In: simt.kernel. Out: the operation that forbids it, if any, and why. Between two barriers no thread waits, so the
threads may run one after the other; that is possible where all of them come to the barrier together. Then loops inside
threads become loops around the threads (interchange), so that adjacent threads run one after the other and those that
have no iteration left are left out: worth it only where adjacent threads access adjacent elements in each iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr, i64
from xdsl.ir import Block, Region

from weft.backends.cpu.lowering.affine import Group, Sharing, is_full_mask, is_pure
from weft.backends.cpu.lowering.check import has_orders, looks_at_threads, needs_coroutines
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.lowering.loops import awaits_other_blocks, coresident_blocks, may_wait
from weft.dialects.flow import constant_trips, end_of, walk
from weft.dialects.nvgpu.threads import ElectOneOp
from weft.dialects.simt.kernel import ExitOp, KernelOp
from weft.dialects.simt.memory import AdvanceOp, LoadOp, StoreOp
from weft.dialects.simt.scalar import NO_WRAP
from weft.dialects.simt.threads import (
    BarrierOp,
    BarrierReduceOp,
    LaneIdOp,
    MatchOp,
    ShuffleOp,
    ThreadIdxOp,
    VoteOp,
    WarpBarrierOp,
    WarpReduceOp,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue


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
            in another order, on which reports of the sanitizer about two racing accesses depend.
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
    """Obstacle to loops for a kernel whose threads wait; None without one."""
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
    """Values on which the executed region of a branch or loop and its trip count depend; all for another operation."""
    if isinstance(operation, scf.IfOp):
        return (operation.cond,)
    if isinstance(operation, scf.ForOp):
        return operation.lb, operation.ub, operation.step
    if isinstance(operation, scf.WhileOp):
        return (end_of(operation.before_region.block).operands[0],)
    return tuple(operation.operands)


def leaving_arm(operation: Operation) -> int | None:
    """Arm of a branch that ends with threads that have returned, if exactly one does and the other exists."""
    if not isinstance(operation, scf.IfOp):
        return None
    leaves = [
        bool(region.blocks) and isinstance(end_of(region.block).prev_op, ExitOp)
        for region in operation.regions
    ]
    others = [bool(region.blocks) for region in operation.regions]
    return leaves.index(True) if sum(leaves) == 1 and all(others) else None


AROUND: Final = "around_threads"
"""An attribute of a loop whose iterations the group runs together."""
_SHORT: Final = 32  # iterations that LLVM unrolls


def interchange_loops(kernel: KernelOp, waits: Waits) -> None:
    """Rewrites and marks a kernel's loops where that is worth it."""
    sharing = Sharing(kernel)
    loops = [op for op in walk(kernel) if isinstance(op, scf.ForOp) and AROUND not in op.attributes]
    for loop in loops:
        group = _group(loop, sharing, waits)
        if group is None or not _is_simple(loop):
            continue
        if max(map(sharing.of, (loop.ub, loop.step))) > group:
            continue
        part = None
        if sharing.of(loop.lb) > group:
            part = _thread_part(loop.lb, sharing, group)
            if part is None:
                continue
        elif (constant_trips(loop) or _SHORT + 1) <= _SHORT:
            continue
        if not _Strides(loop, part is not None, sharing).all_near():
            continue
        if part is not None:
            loop = _around(loop, part)
        loop.attributes[AROUND] = UnitAttr()


def _group(loop: scf.ForOp, sharing: Sharing, waits: Waits) -> Group | None:
    """Threads that reach a loop together, if its iterations wait for nothing: the block's, or a warp's."""
    if any(waits.of(loop, group) for group in Group):
        return None
    decided, has_collectives = Group.BLOCK, False
    around = loop.parent_op()
    while around is not None and not isinstance(around, KernelOp):
        if not isinstance(around, scf.IfOp | scf.ForOp | scf.WhileOp):
            return None
        decided = max(decided, *map(sharing.of, deciding(around)))
        has_collectives = has_collectives or waits.of(around, Group.WARP)
        if not any(waits.of(around, group) for group in Group):
            return None  # it is a thread's own
        around = around.parent_op()
    if decided is Group.WARP and not has_collectives:
        return None
    return decided if decided is not Group.THREAD else None


def _is_simple(loop: scf.ForOp) -> bool:
    """Whether the order of the threads' iterations cannot be observed: there are loads and stores, and no loops."""
    return all(
        is_pure(op)
        or isinstance(op, scf.IfOp | scf.YieldOp)
        or (isinstance(op, LoadOp | StoreOp) and not op.properties.get("volatile"))
        for op in walk(loop.body.block)
    )


def _thread_part(
    value: SSAValue, sharing: Sharing, group: Group
) -> tuple[SSAValue, SSAValue | None] | None:
    """A value as the thread's number in its row or warp, plus an offset uniform in the group; None if it is not."""
    owner = value.owner
    if isinstance(owner, LaneIdOp) or (
        isinstance(owner, ThreadIdxOp) and owner.dimension.data == "x"
    ):
        return value, None
    if isinstance(owner, arith.AddiOp):
        for one, other in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
            found = _thread_part(one, sharing, group)
            if found is not None and found[1] is None and sharing.of(other) <= group:
                return found[0], other
    return None


class _Strides:
    """Distance of adjacent threads' accesses in one iteration of a loop."""

    def __init__(self, loop: scf.ForOp, starts_at_thread: bool, sharing: Sharing) -> None:
        self._loop = loop
        self._sharing = sharing
        self._counter = int(starts_at_thread)

    def all_near(self) -> bool:
        """Whether each access is of adjacent elements or of one element, and some are of adjacent ones."""
        steps = [
            self._step(op) for op in walk(self._loop.body.block) if isinstance(op, LoadOp | StoreOp)
        ]
        return all(step in (0, 1) for step in steps) and 1 in steps

    def _step(self, access: LoadOp | StoreOp) -> int | None:
        """Elements from a thread's access to the next thread's."""
        tensor, total = access.tensor, 0
        places: list[Sequence[SSAValue]] = [access.indices]
        while isinstance(tensor.owner, AdvanceOp):
            places.append(tensor.owner.indices)
            tensor = tensor.owner.source
        if not self._is_shared(tensor):
            return None
        for indices in places:
            *leading, last = [self._growth(index) for index in indices] or [0]
            if last is None or any(leading):
                return None
            total += last
        return total

    def _is_shared(self, value: SSAValue) -> bool:
        return self._sharing.of(value) <= Group.WARP

    def _growth(self, value: SSAValue) -> int | None:
        """Growth of an index from a thread to the next; None if that is not known."""
        owner = value.owner
        if value is self._loop.body.block.args[0]:
            return self._counter
        if self._is_shared(value):
            return 0
        if isinstance(owner, LaneIdOp):
            return 1
        if isinstance(owner, ThreadIdxOp):
            return int(owner.dimension.data == "x")
        if isinstance(owner, arith.ExtSIOp | arith.ExtUIOp):
            return self._growth(owner.input)
        if isinstance(owner, arith.AddiOp | arith.SubiOp):
            left, right = self._growth(owner.lhs), self._growth(owner.rhs)
            if left is None or right is None:
                return None
            return left + right if isinstance(owner, arith.AddiOp) else left - right
        if isinstance(owner, arith.MuliOp):
            left, right = self._growth(owner.lhs), self._growth(owner.rhs)
            return 0 if left == 0 == right else None
        return None


def _around(loop: scf.ForOp, part: tuple[SSAValue, SSAValue | None]) -> scf.ForOp:
    """The loop from the first thread's counter on; a thread takes part while its own is below the end."""
    thread, base = part
    old = loop.body.block
    kind = old.args[0].type
    block = Block(arg_types=[kind, *(argument.type for argument in old.args[1:])])
    first, *carried = block.args
    before: list[Operation] = []
    if base is None:
        zero = arith.ConstantOp.from_int_and_width(0, kind)  # pyright: ignore
        before.append(zero)
        base = zero.result
    widths = [
        arith.ExtSIOp(value, i64) if kind != i64 else None for value in (first, thread, loop.ub)
    ]
    wide = [
        op.result if op is not None else value
        for op, value in zip(widths, (first, thread, loop.ub), strict=True)
    ]
    place = arith.AddiOp(wide[0], wide[1])
    inside = arith.CmpiOp(place.result, wide[2], "slt")
    runs = Block()
    counter = arith.AddiOp(first, thread, overflow=NO_WRAP)
    runs.add_op(counter)
    for argument, new in zip(old.args, (counter.result, *carried), strict=True):
        argument.replace_all_uses_with(new)
    for operation in list(old.ops):
        operation.detach()
        runs.add_op(operation)
    skips = Block([scf.YieldOp(*carried)])
    choice = scf.IfOp(
        inside.result, [argument.type for argument in carried], Region(runs), Region(skips)
    )
    block.add_ops([*(op for op in widths if op is not None), place, inside, choice])
    block.add_op(scf.YieldOp(*choice.results))
    found = scf.ForOp(base, loop.ub, loop.step, loop.iter_args, block)
    for operation in (*before, found, *block.ops, counter, skips.first_op):
        if operation is not None:
            operation.location = loop.location
    parent = loop.parent
    assert parent is not None
    parent.insert_ops_before([*before, found], loop)
    for old_result, new_result in zip(loop.results, found.results, strict=True):
        old_result.replace_all_uses_with(new_result)
    loop.detach()
    loop.erase()
    return found
