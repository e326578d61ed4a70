# SPDX-License-Identifier: Apache-2.0
"""Keeps loops that wait for another thread reading memory in every iteration.

In: a traced module. Out: the same, with the loads that such a loop waits for volatile. A compiler could otherwise read
once before the loop and wait forever, since no store in the loop changes the element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, UnitAttr
from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from weft.dialects.definition import DependsOnWarps
from weft.dialects.flow import alternatives, end_of, origins, sources, walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import LoadOp, StoreOp
from weft.dialects.simt.threads import BarrierReduceOp
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue


def keep_spin_loads(module: ModuleOp) -> None:
    """Makes volatile the loads that a `while` waits for."""
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
