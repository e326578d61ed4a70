# SPDX-License-Identifier: Apache-2.0
"""Decides when loads happen: before long arithmetic, and in every iteration of a loop that waits for another thread.

In: a traced module. Out, for a GPU: loads of global memory moved up in their block, and what computes their addresses.
An assembler moves loads among the instructions of a basic block, but a division's rare cases are a branch: a load after
one waits for what was loaded before it. Out, everywhere: the loads that a loop waits for, volatile. A compiler could
otherwise read once before the loop and wait forever, since no store in the loop changes the element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import IntegerType, UnitAttr
from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from weft.dialects.definition import DependsOnWarps
from weft.dialects.flow import alternatives, end_of, origins, sources, walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import LoadOp, LoadVectorOp, StoreOp
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp
from weft.dialects.simt.threads import BarrierReduceOp
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue


_SIMPLE: Final = (math.FmaOp, math.AbsFOp, math.AbsIOp, math.CopySignOp, math.RsqrtOp)
# Loads that are moved to one place; each takes registers from there on.
_MOST_LOADS: Final = 8


def hoist_loads(module: ModuleOp, on_host: bool = False) -> None:
    """Starts loads before divisions, roots and functions whose machine code branches.

    Loads move over nothing that writes, waits or branches.

    Args:
        module: with kernels and a host function.
        on_host: whether the kernels run on the CPU, which needs none of it.
    """
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp) and not on_host:
            blocks = [
                block for op in walk(kernel) for region in op.regions for block in region.blocks
            ]
            for block in blocks:
                _start_early(block)


def is_long(operation: Operation) -> bool:
    """Whether an operation is a division or function of mathematics, and thus many instructions."""
    if isinstance(operation, arith.DivfOp | FloorDivOp | FloorModOp):
        return True
    return operation.dialect_name() == "math" and not isinstance(operation, _SIMPLE)


def _start_early(block: Block) -> None:
    place: Operation | None = None
    after: dict[Operation, None] = {}  # what stands at the place and after it
    moved = 0
    for op in list(block.ops):
        needed = _needed(op, after) if place is not None and moved < _MOST_LOADS else None
        if needed is not None and place is not None:
            for one in needed:
                after.pop(one, None)
                one.detach()
                block.insert_op_before(one, place)
            moved += 1
            continue
        if not _is_plain(op) and not _only_reads(op):
            place = None
        elif is_long(op) and (place is None or moved == _MOST_LOADS):
            place, moved = op, 0
            after.clear()
        if place is not None:
            after[op] = None


def _is_plain(op: Operation) -> bool:
    return op.has_trait(Pure) and not op.regions


def _only_reads(op: Operation) -> bool:
    """Whether an operation reads memory, and may do so earlier."""
    return isinstance(op, LoadVectorOp) or (isinstance(op, LoadOp) and op.volatile is None)


def _needed(load: Operation, after: dict[Operation, None]) -> list[Operation] | None:
    """A load of global memory and what its address is computed from there, in order; None if it cannot move."""
    if not _only_reads(load) or cast("TensorType", load.operands[0].type).space.data != "global":
        return None
    found: dict[Operation, None] = {load: None}
    for op in (waiting := [load]):
        for operand in op.operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner in after and owner not in found:
                if not _is_plain(owner) or is_long(owner):
                    return None
                found[owner] = None
                waiting.append(owner)
    return [op for op in after if op in found] + [load]


def keep_spin_loads(module: ModuleOp) -> None:
    """Makes volatile the loads that a loop waits for, so that it reads memory in every iteration."""
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            for load in awaited_loads(kernel):
                load.properties["volatile"] = UnitAttr()


def awaited_loads(kernel: KernelOp) -> Iterator[LoadOp]:
    """The loads that a `while` waits for.

    A loop waits if its condition depends on loads of global or shared memory, and on nothing else that changes from
    iteration to iteration: no counter, timer or atomic, and no element that the loop itself stores.
    """
    for loop in walk(kernel):
        if isinstance(loop, scf.WhileOp):
            yield from _Condition(loop).awaited()


class _ChangesItselfError(Exception):
    """The loop may end without another thread."""


class _Condition:
    """The values that a loop's condition depends on."""

    def __init__(self, loop: scf.WhileOp) -> None:
        self._loop = loop
        self._seen: set[SSAValue] = set()
        self._path: dict[SSAValue, None] = {}
        self._loads: list[LoadOp] = []

    def awaited(self) -> list[LoadOp]:
        """The loads that the loop waits for; empty if it may end by itself."""
        before = self._loop.before_region.block
        stores = [op for op in walk(self._loop) if isinstance(op, StoreOp)]
        try:
            self._follow(end_of(before).operands[0])
        except _ChangesItselfError:
            return []
        is_stored = any(_may_be_one(load, store) for load in self._loads for store in stores)
        return [] if is_stored else self._loads

    def _follow(self, value: SSAValue) -> None:
        if value in self._path:
            # A flag has two states, and tensors that are only exchanged are few, so neither can count iterations; an
            # inner loop starts over in each.
            is_carried = isinstance(value.owner, Block) and value.owner.parent_op() is self._loop
            if is_carried and value.type != IntegerType(1) and not self._is_exchanged(value):
                raise _ChangesItselfError
            return
        if value in self._seen or not self._loop.is_ancestor(value.owner):
            return
        self._seen.add(value)
        self._path[value] = None
        for source in self._checked_sources(value):
            if source is not value:
                self._follow(source)
        del self._path[value]

    def _is_exchanged(self, value: SSAValue) -> bool:
        """Whether the values from here to the end of the path are tensors that become each other."""
        path = list(self._path)
        cycle = path[path.index(value) :]
        return all(isinstance(one.type, TensorType) and alternatives(one) for one in cycle)

    def _checked_sources(self, value: SSAValue) -> Iterator[SSAValue]:
        """The values that a value is computed from; notes loads."""
        owner = value.owner
        if isinstance(owner, LoadOp) and _is_seen_by_others(owner):
            self._loads.append(owner)
        elif not (
            isinstance(owner, Block | scf.IfOp | scf.WhileOp | scf.ForOp) or _is_of_operands(owner)
        ):
            raise _ChangesItselfError
        return sources(value)


def _may_be_one(load: LoadOp, store: StoreOp) -> bool:
    """Whether a load and a store have the same indices, in tensors that control flow may have exchanged."""
    if tuple(load.indices) != tuple(store.indices):
        return False
    first, second = (origins(op.tensor, through_views=False) for op in (load, store))
    return not first.isdisjoint(second)


def _is_seen_by_others(load: LoadOp) -> bool:
    return isinstance(load.tensor.type, TensorType) and load.tensor.type.space.data != "local"


def _is_of_operands(operation: Operation) -> bool:
    """Whether its results change only with its operands, those of other threads included."""
    is_collective = operation.has_trait(DependsOnWarps) or isinstance(operation, BarrierReduceOp)
    return is_collective or operation.has_trait(Pure)
