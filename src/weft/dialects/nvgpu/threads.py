# SPDX-License-Identifier: Apache-2.0
"""Groups of threads: warpgroups, clusters, named barriers; their registers, and kernels that overlap.

A warpgroup is 128 adjacent threads, which Hopper's tensor cores serve together. A cluster's blocks run at the same
time and access each other's shared memory. Named barriers have the numbers 1 to 7: 0 is the block's, 8 to 15 are the
warpgroups'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import i1, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, CalledAs, Requires, StartsAsync, Synchronizes
from weft.dialects.definition import (
    BaseOperation,
    DependsOnWarps,
    fixed_result,
    integer,
    operand,
    operands,
    operation_definition,
    result_of,
)
from weft.dialects.simt.memory import check_indices
from weft.dialects.simt.types import TensorType
from weft.types.launch_limits import MAX_THREADS, WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import OpResult
    from xdsl.irdl import Operand

    from weft.dialects.definition import Integer, Operands


@operation_definition
class WarpgroupIdOp(BaseOperation):
    """The thread's warpgroup in its block: its number in the block divided by 128, in a register of the whole warp."""

    name = "nvgpu.warpgroup_id"

    result = fixed_result(i32)
    traits = traits_def(Pure(), DependsOnWarps())
    assembly_format = "attr-dict `:` type($result)"


@operation_definition
class WarpgroupBarrierOp(BaseOperation):
    """Barrier: the 128 threads of the warpgroup of this number; none of them may have exited."""

    name = "nvgpu.warpgroup_barrier"

    warpgroup: Operand = operand(i32)
    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Synchronizes("warpgroup"),
        CalledAs("sync_warpgroup"),
    )
    assembly_format = "$warpgroup attr-dict"


@operation_definition
class ElectOneOp(BaseOperation):
    """Whether this thread is the one of its warp that acts for it; all 32 lanes execute it together."""

    name = "nvgpu.elect_one"

    result = fixed_result(i1)
    # It is not pure: it may not move to where some of the lanes are.
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), DependsOnWarps(), CalledAs("elect_one")
    )
    assembly_format = "attr-dict `:` type($result)"


@operation_definition
class ClusterRankOp(BaseOperation):
    """The block's number in its cluster, x fastest; the kernel says how many blocks a cluster has."""

    name = "nvgpu.cluster_rank"

    result = fixed_result(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@operation_definition
class ClusterBarrierOp(IRDLOperation):
    """Barrier: all threads of the cluster that have not exited."""

    name = "nvgpu.cluster_barrier"

    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), Synchronizes("cluster"), CalledAs("sync_cluster")
    )
    assembly_format = "attr-dict"


@operation_definition
class MapSharedOp(BaseOperation):
    """A tensor at the same place in the shared memory of the cluster's block of that rank."""

    name = "nvgpu.map_shared"

    tensor: Operand = operand(TensorType)
    rank: Operand = operand(i32)
    result: OpResult[TensorType] = result_of(
        "tensor", TensorType, lambda kind: kind.in_space("cluster")
    )

    traits = traits_def(Pure(), CalledAs("map_shared"))
    assembly_format = "$tensor `,` $rank attr-dict `:` type($tensor) `to` type($result)"

    def verify_(self) -> None:
        source = self.tensor.type
        assert isinstance(source, TensorType)
        if source.space.data != "shared" or self.result.type != source.in_space("cluster"):
            raise VerifyException("a tensor in shared memory becomes the same one in the cluster's")


@operation_definition
class StAsyncOp(BaseOperation):
    """Begins to write consecutive elements into a mapped tensor; their bytes come to a barrier of the same block."""

    name = "nvgpu.st_async"

    elements: Operands = operands()
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    words: Operand = operand(TensorType)
    index: Operand = operand(i32)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("words", "updated", "barrier", indices="index"),
                Access("tensor", "written", elements="elements", argument=0),
            ),
            is_required=True,
        ),
        StartsAsync("phase"),
        CalledAs("st_async"),
        Requires("mbarrier", "mbarrier"),
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$elements `:` type($elements) `into` $tensor `[` $indices `:` type($indices) `]` `for` $words `[` $index `]` "
        "attr-dict `:` type($tensor) `,` type($words)"
    )

    def verify_(self) -> None:
        kind = check_indices(self.tensor, self.indices)
        if any(element.type != kind.element_type for element in self.elements):
            raise VerifyException("the values' type differs from the elements'")
        for tensor in (self.tensor, self.words):
            assert isinstance(tensor.type, TensorType)
            if tensor.type.space.data != "cluster":
                raise VerifyException(
                    "the tensor and its barrier are those of a block of the cluster"
                )


MOST_BARRIERS: Final = 7


def _check_threads(threads: int) -> None:
    if not 1 <= threads <= MAX_THREADS or threads % WARP_SIZE:
        raise VerifyException(f"{threads} threads are not a number of whole warps of a block")


@operation_definition
class NamedBarriersOp(BaseOperation):
    """The kernel has `count` named barriers, numbered from `first`; it does nothing at run time."""

    name = "nvgpu.named_barriers"

    first: Integer = integer(i32)
    count: Integer = integer(i32)

    traits = traits_def(DependsOnWarps(), MemoryWriteEffect())
    assembly_format = "$first `count` $count attr-dict"

    @property
    def end(self) -> int:
        """The number after the last."""
        return self.first.value.data + self.count.value.data

    def verify_(self) -> None:
        if not 1 <= self.first.value.data < self.end <= MOST_BARRIERS + 1:
            raise VerifyException(f"named barriers are numbered 1 to {MOST_BARRIERS}")


class _NamedBarrierOp(BaseOperation):
    """Base of what warps do at a named barrier; all lanes of a warp execute it together."""

    number: Operand = operand(i32)
    threads: Integer = integer(i32)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), DependsOnWarps())
    assembly_format = "$number `threads` $threads attr-dict"

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


REGISTER_COUNTS: Final = range(24, 257, 8)
"""Registers per thread, by PTX's `setmaxnreg`."""


@operation_definition
class SetmaxnregOp(BaseOperation):
    """Each thread of the warpgroup has `count` registers from here on, and waits until there are that many.

    All its warps execute it. A register file has as many as the launch gave each thread; some warpgroups ask for fewer
    so that others can have more.
    """

    name = "nvgpu.setmaxnreg"

    count: Integer = integer(i32)
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), CalledAs("setmaxnreg"), Requires("setmaxnreg")
    )
    assembly_format = "$count attr-dict"

    def verify_(self) -> None:
        if self.count.value.data not in REGISTER_COUNTS:
            raise VerifyException(
                f"{self.count.value.data} registers; expected a multiple of 8 from 24 to 256"
            )


@operation_definition
class GridDependencyWaitOp(IRDLOperation):
    """The thread waits until the kernel before this one has ended and its writes are seen."""

    name = "nvgpu.grid_dependency_wait"

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        CalledAs("grid_dependency_wait"),
        Requires("griddepcontrol", "grid_dependency_wait"),
    )
    assembly_format = "attr-dict"


@operation_definition
class GridDependencyLaunchOp(IRDLOperation):
    """The block does not hold the next kernel's begin up any longer; it begins once each block has said so or left."""

    name = "nvgpu.grid_dependency_launch"

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Requires("griddepcontrol", "grid_dependency_launch"),
    )
    assembly_format = "attr-dict"
