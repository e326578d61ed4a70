# SPDX-License-Identifier: Apache-2.0
"""Barriers and fences: `simt.barrier`, `simt.warp_barrier`, `simt.grid_barrier`.

In: an optional mask or predicate. Out: the combined predicate. Memory written before a barrier is seen after it by the
threads that meet there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerType, StringAttr, i1, i32
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import CalledAs, Orders, Synchronizes
from weft.dialects.definition import DependsOnWarps, operation_definition
from weft.dialects.simt.memory import MEMORY_SCOPES

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

BARRIER_REDUCTIONS: Final = ("count", "and", "or")


@operation_definition
class BarrierOp(IRDLOperation):
    """Barrier: all threads of the block that have not exited.

    A thread that reaches the kernel's end is no longer waited for. Threads of one block waiting at different barriers
    are undefined behavior on a GPU and an error on the CPU.
    """

    name = "simt.barrier"
    assembly_format = "attr-dict"
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), Synchronizes("block"), CalledAs("sync_threads")
    )


@operation_definition
class BarrierReduceOp(IRDLOperation):
    """A block barrier that combines the threads' predicates.

    `count` yields an i32, the number of threads with a true one; `and` and `or` yield an i1.
    """

    name = "simt.barrier_reduce"

    kind = prop_def(StringAttr)
    predicate = operand_def(i1)
    result = result_def(IntegerType)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Synchronizes("block"),
        CalledAs("sync_threads_{kind}"),
    )
    assembly_format = "$kind $predicate attr-dict `:` type($result)"

    def __init__(self, kind: str, predicate: SSAValue) -> None:
        super().__init__(
            operands=[predicate],
            properties={"kind": StringAttr(kind)},
            result_types=[i32 if kind == "count" else i1],
        )

    def verify_(self) -> None:
        if self.kind.data not in BARRIER_REDUCTIONS:
            raise VerifyException(f"kind {self.kind.data!r} is not one of {BARRIER_REDUCTIONS}")
        if self.result.type != (i32 if self.kind.data == "count" else i1):
            raise VerifyException("count yields an i32, and and or yield an i1")


@operation_definition
class WarpBarrierOp(IRDLOperation):
    """Barrier: the lanes of `mask`, each with the same mask."""

    name = "simt.warp_barrier"

    mask = operand_def(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Synchronizes("warp"),
        CalledAs("sync_warp"),
    )
    assembly_format = "$mask attr-dict"

    def __init__(self, mask: SSAValue) -> None:
        super().__init__(operands=[mask])


@operation_definition
class GridBarrierOp(IRDLOperation):
    """Barrier: all threads of the grid; the launch must be cooperative."""

    name = "simt.grid_barrier"
    assembly_format = "attr-dict"
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), Synchronizes("grid"), CalledAs("sync_grid")
    )


@operation_definition
class FenceOp(IRDLOperation):
    """Orders all of this thread's memory accesses before and after it, as seen by the threads of `scope`.

    It is sequentially consistent, as CUDA's `__threadfence` is: a store before it and a load after it are
    ordered too.
    """

    name = "simt.fence"

    scope = prop_def(StringAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), Orders("fence"))
    assembly_format = "$scope attr-dict"

    def __init__(self, scope: str) -> None:
        super().__init__(properties={"scope": StringAttr(scope)})

    def verify_(self) -> None:
        if self.scope.data not in MEMORY_SCOPES:
            raise VerifyException(f"scope {self.scope.data!r} is not one of {MEMORY_SCOPES}")
