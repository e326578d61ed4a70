# SPDX-License-Identifier: Apache-2.0
"""Loops inside threads that become loops around the threads, so that adjacent threads run one after the other.

In: a kernel that is split where its threads wait. Out: loops marked for the group to run, in which threads that have
no iteration left are left out. Worth it only where adjacent threads access adjacent elements in each iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr, i64
from xdsl.ir import Block, Region

from weft.backends.cpu.lowering.affine import is_pure
from weft.backends.cpu.lowering.fission import deciding
from weft.backends.cpu.lowering.sharing import Group, Sharing
from weft.dialects.flow import constant_trips, walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import AdvanceOp, LoadOp, StoreOp
from weft.dialects.simt.scalar import NO_WRAP
from weft.dialects.simt.threads import LaneIdOp, ThreadIdxOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.backends.cpu.lowering.fission import Waits

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
    """Which threads come to a loop together, if its iterations wait for nothing: the block's, or a warp's."""
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
    """Whether no order of the threads' iterations can be told: there are loads and stores, and no loops."""
    return all(
        is_pure(op)
        or isinstance(op, scf.IfOp | scf.YieldOp)
        or (isinstance(op, LoadOp | StoreOp) and not op.properties.get("volatile"))
        for op in walk(loop.body.block)
    )


def _thread_part(
    value: SSAValue, sharing: Sharing, group: Group
) -> tuple[SSAValue, SSAValue | None] | None:
    """A value as the thread's number in its row or warp, and what is added that the group shares; None if it is not."""
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
    """How far apart adjacent threads access memory in one iteration of a loop."""

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
        """How much an index grows from a thread to the next; None if that is not known."""
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
