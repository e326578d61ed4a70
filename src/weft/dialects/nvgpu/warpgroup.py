# SPDX-License-Identifier: Apache-2.0
"""A warpgroup: 128 threads that follow each other in a block, which the tensor cores of Hopper serve together.

In: nothing. Out: the thread's warpgroup; one thread of each warp. And the barrier of a warpgroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1, i32
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from weft.dialects.access import CalledAs, Synchronizes
from weft.dialects.definition import DependsOnWarps, operation_definition

if TYPE_CHECKING:
    from xdsl.ir import SSAValue


@operation_definition
class WarpgroupIdOp(IRDLOperation):
    """The thread's warpgroup in its block: its number in the block divided by 128, in a register of the whole warp."""

    name = "nvgpu.warpgroup_id"

    result = result_def(i32)
    traits = traits_def(Pure(), DependsOnWarps())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@operation_definition
class WarpgroupBarrierOp(IRDLOperation):
    """Barrier: the 128 threads of the warpgroup of this number; none of them may have exited."""

    name = "nvgpu.warpgroup_barrier"

    warpgroup = operand_def(i32)
    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Synchronizes("warpgroup"),
        CalledAs("sync_warpgroup"),
    )
    assembly_format = "$warpgroup attr-dict"

    def __init__(self, warpgroup: SSAValue) -> None:
        super().__init__(operands=[warpgroup])


@operation_definition
class ElectOneOp(IRDLOperation):
    """Whether this thread is the one of its warp that acts for it; all 32 lanes execute it together."""

    name = "nvgpu.elect_one"

    result = result_def(i1)
    # It is not pure: it may not move to where some of the lanes are.
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), DependsOnWarps(), CalledAs("elect_one")
    )
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i1])
