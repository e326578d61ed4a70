# SPDX-License-Identifier: Apache-2.0
"""Barriers of some of a block's warps, which the hardware numbers: 0 is the block's, 8 to 15 are the warpgroups'.

In: a number from 1 to 7. Out: threads that wait for each other, or arrive for others to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.irdl import IRDLOperation, operand_def, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import CalledAs, Synchronizes
from weft.dialects.definition import DependsOnWarps, operation_definition
from weft.types.launch_limits import MOST_THREADS, WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

MOST_BARRIERS: Final = 7
_I32 = IntegerAttr.constr(i32)


def _check_threads(threads: int) -> None:
    if not 1 <= threads <= MOST_THREADS or threads % WARP_SIZE:
        raise VerifyException(f"{threads} threads are not a number of whole warps of a block")


@operation_definition
class NamedBarriersOp(IRDLOperation):
    """The kernel has `count` named barriers, numbered from `first`; it does nothing at run time."""

    name = "nvgpu.named_barriers"

    first = prop_def(_I32)
    count = prop_def(_I32)

    traits = traits_def(DependsOnWarps(), MemoryWriteEffect())
    assembly_format = "$first `count` $count attr-dict"

    def __init__(self, first: int, count: int) -> None:
        properties = {"first": IntegerAttr(first, i32), "count": IntegerAttr(count, i32)}
        super().__init__(properties=properties)

    @property
    def end(self) -> int:
        """The number after the last."""
        return self.first.value.data + self.count.value.data

    def verify_(self) -> None:
        if not 1 <= self.first.value.data < self.end <= MOST_BARRIERS + 1:
            raise VerifyException(f"named barriers are numbered 1 to {MOST_BARRIERS}")


class _NamedBarrierOp(IRDLOperation):
    """Base of what warps do at a named barrier; all lanes of a warp execute it together."""

    number = operand_def(i32)
    threads = prop_def(_I32)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), DependsOnWarps())
    assembly_format = "$number `threads` $threads attr-dict"

    def __init__(self, number: SSAValue, threads: int) -> None:
        super().__init__(operands=[number], properties={"threads": IntegerAttr(threads, i32)})

    def verify_(self) -> None:
        _check_threads(self.threads.value.data)


@operation_definition
class NamedBarrierSyncOp(_NamedBarrierOp):
    """Arrives at a barrier and waits until `threads` threads have arrived."""

    name = "nvgpu.named_barrier_sync"

    traits = traits_def(Synchronizes("threads"), CalledAs("NamedBarrier.sync"))


@operation_definition
class NamedBarrierArriveOp(_NamedBarrierOp):
    """Arrives at a barrier, at which `threads` threads arrive in all, without waiting."""

    name = "nvgpu.named_barrier_arrive"

    traits = traits_def(CalledAs("NamedBarrier.arrive"))
