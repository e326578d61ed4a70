# SPDX-License-Identifier: Apache-2.0
"""Keeps loops that wait for another thread reading memory in every round.

In: a traced module. Out: the same, with the loads that such a loop waits for volatile. A compiler could otherwise read
once before the loop and wait forever, since no store in the loop changes the element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult
from xdsl.traits import Pure

from weft.dialects.definition import DependsOnWarps
from weft.dialects.simt.barrier import BarrierReduceOp
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import LoadOp, StoreOp
from weft.dialects.simt.types import TensorType
from weft.dialects.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue


def keep_awaited_loads(module: ModuleOp) -> None:
    """Makes volatile the loads that a `while` waits for.

    A loop waits if its condition depends on loads of global or shared memory, and on nothing else that changes from
    round to round: no counter, timer or atomic, and no element that the loop itself stores.
    """
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            for loop in walk(kernel):
                if isinstance(loop, scf.WhileOp):
                    for load in _Condition(loop).awaited():
                        load.volatile = UnitAttr()


class _ChangesItselfError(Exception):
    """The loop may end without another thread."""


class _Condition:
    """The values that a loop's condition depends on."""

    def __init__(self, loop: scf.WhileOp) -> None:
        self._loop = loop
        self._seen: set[SSAValue] = set()
        self._path: set[SSAValue] = set()
        self._loads: list[LoadOp] = []

    def awaited(self) -> list[LoadOp]:
        """The loads that the loop waits for; empty if it may end by itself."""
        before = self._loop.before_region.block
        stored = {_element(op) for op in walk(self._loop) if isinstance(op, StoreOp)}
        try:
            self._follow(_end(before).operands[0])
        except _ChangesItselfError:
            return []
        return [] if any(_element(load) in stored for load in self._loads) else self._loads

    def _follow(self, value: SSAValue) -> None:
        if value in self._path:
            # A flag has two states, so it cannot count rounds; an inner loop starts over in each.
            is_carried = isinstance(value.owner, Block) and value.owner.parent_op() is self._loop
            if is_carried and value.type != IntegerType(1):
                raise _ChangesItselfError
            return
        if value in self._seen or not self._loop.is_ancestor(value.owner):
            return
        self._seen.add(value)
        self._path.add(value)
        for source in self._sources(value):
            if source is not value:
                self._follow(source)
        self._path.discard(value)

    def _sources(self, value: SSAValue) -> Iterator[SSAValue]:
        """The values that a value is computed from."""
        owner = value.owner
        index = value.index if isinstance(value, OpResult) else 0
        if isinstance(owner, Block):
            assert isinstance(value, BlockArgument)
            yield from self._carried(value)
        elif isinstance(owner, scf.IfOp):
            yield owner.cond
            yield from (_end(region.block).operands[index] for region in owner.regions)
        elif isinstance(owner, scf.WhileOp):
            condition, *passed = _end(owner.before_region.block).operands
            yield from (condition, passed[index])
        elif isinstance(owner, scf.ForOp):
            yield from (*owner.operands, _end(owner.body.block).operands[index])
        else:
            if isinstance(owner, LoadOp) and _is_seen_by_others(owner):
                self._loads.append(owner)
            elif not _is_of_operands(owner):
                raise _ChangesItselfError
            yield from owner.operands

    def _carried(self, argument: BlockArgument) -> Iterator[SSAValue]:
        """The values that a loop carries into one of its block arguments."""
        loop, index = argument.block.parent_op(), argument.index
        if isinstance(loop, scf.WhileOp):
            before, after = loop.before_region.block, loop.after_region.block
            if argument.block is after:
                yield _end(before).operands[1 + index]
                return
            following: SSAValue = _end(after).operands[index]
            if isinstance(following, BlockArgument) and following.block is after:
                following = _end(before).operands[1 + following.index]
            yield from (loop.operands[index], following)
        elif isinstance(loop, scf.ForOp):
            yield from loop.operands
            if index:
                yield _end(loop.body.block).operands[index - 1]


def _end(block: Block) -> Operation:
    end = block.last_op
    assert end is not None
    return end


def _element(access: LoadOp | StoreOp) -> tuple[SSAValue, ...]:
    return (access.tensor, *access.indices)


def _is_seen_by_others(load: LoadOp) -> bool:
    return isinstance(load.tensor.type, TensorType) and load.tensor.type.space.data != "local"


def _is_of_operands(operation: Operation) -> bool:
    """Whether its results change only with its operands, those of other threads included."""
    is_collective = operation.has_trait(DependsOnWarps) or isinstance(operation, BarrierReduceOp)
    return is_collective or operation.has_trait(Pure)
