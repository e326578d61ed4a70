# SPDX-License-Identifier: Apache-2.0
"""Remarks on how a kernel's threads run on the CPU, and which line decided.

In: simt.kernel. Out: a `Remark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf

from weft.backends.cpu.lowering.affine import RowAnalysis
from weft.backends.cpu.lowering.fission import Waits, find_obstacle
from weft.backends.cpu.lowering.guard import find_guard
from weft.dialects.builder import source_location
from weft.dialects.nvgpu.bulk_copy import BulkLoadOp, BulkStoreOp
from weft.dialects.nvgpu.cluster import ClusterBarrierOp, MapSharedOp, StAsyncOp
from weft.dialects.nvgpu.cp_async import CpAsyncCommitOp, CpAsyncCopyOp, CpAsyncWaitOp
from weft.dialects.nvgpu.mbarrier import (
    MbarrierArriveOp,
    MbarrierInitOp,
    MbarrierReleaseOp,
    MbarrierTryWaitOp,
    MbarrierWaitOp,
)
from weft.dialects.nvgpu.mma import MmaOp
from weft.dialects.nvgpu.named_barrier import NamedBarrierArriveOp, NamedBarrierSyncOp
from weft.dialects.nvgpu.registers import SetmaxnregOp
from weft.dialects.nvgpu.tma import TmaLoadOp, TmaReduceOp, TmaStoreOp, TmaWaitOp
from weft.dialects.nvgpu.warpgroup import ElectOneOp, WarpgroupBarrierOp
from weft.dialects.nvgpu.wgmma import WgmmaMmaOp, WgmmaWaitOp
from weft.dialects.simt.barrier import BarrierOp, BarrierReduceOp, GridBarrierOp, WarpBarrierOp
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.warp import MatchOp, ShuffleOp, VoteOp, WarpReduceOp
from weft.runtime.object_code import Remark

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation


_REDUCTIONS: Final = {"add": "sum", "umin": "min", "umax": "max"}
# The user-visible name of each operation at which a thread may wait.
_NAMES: Final[dict[type[Operation], Callable[[Any], str]]] = {
    KernelOp: lambda op: "--sanitize=orders",
    BarrierOp: lambda op: "sync_threads",
    BarrierReduceOp: lambda op: f"sync_threads_{op.kind.data}",
    GridBarrierOp: lambda op: "sync_grid",
    ClusterBarrierOp: lambda op: "sync_cluster",
    MapSharedOp: lambda op: "map_shared",
    StAsyncOp: lambda op: "st_async",
    WarpBarrierOp: lambda op: "sync_warp",
    ShuffleOp: lambda op: f"shfl_{op.kind.data}",
    VoteOp: lambda op: op.kind.data,
    MatchOp: lambda op: "match" if op.kind.data == "any" else "match_all",
    WarpReduceOp: lambda op: f"warp_{_REDUCTIONS.get(op.kind.data, op.kind.data)}",
    MmaOp: lambda op: "mma.mma",
    WgmmaMmaOp: lambda op: "wgmma.mma",
    WgmmaWaitOp: lambda op: "wgmma.wait",
    WarpgroupBarrierOp: lambda op: "sync_warpgroup",
    ElectOneOp: lambda op: "elect_one",
    SetmaxnregOp: lambda op: "setmaxnreg",
    MbarrierInitOp: lambda op: "mbarrier",
    MbarrierArriveOp: lambda op: "Mbarrier.arrive",
    MbarrierReleaseOp: lambda op: "Mbarrier.release",
    MbarrierWaitOp: lambda op: "Mbarrier.wait",
    MbarrierTryWaitOp: lambda op: "Mbarrier.try_wait",
    BulkLoadOp: lambda op: "bulk_copy",
    BulkStoreOp: lambda op: "bulk_copy",
    CpAsyncCopyOp: lambda op: "cp_async.copy",
    CpAsyncCommitOp: lambda op: "cp_async.commit",
    CpAsyncWaitOp: lambda op: "cp_async.wait",
    TmaLoadOp: lambda op: "tma.load",
    TmaReduceOp: lambda op: "tma.reduce",
    TmaStoreOp: lambda op: "tma.store",
    TmaWaitOp: lambda op: "tma.wait",
    NamedBarrierSyncOp: lambda op: "NamedBarrier.sync",
    NamedBarrierArriveOp: lambda op: "NamedBarrier.arrive",
    scf.WhileOp: lambda op: "a loop that may wait for what other threads write",
}


def engine_remark(kernel: KernelOp) -> Remark:
    """Whether a kernel is loops over threads or one coroutine per thread, and why.

    Example:
        ``reduce.py:12: one coroutine per thread, because of sync_threads (kernel reduce_kernel)``
    """
    waits = Waits(kernel)
    if waits.first is not None:
        obstacle = find_obstacle(kernel, waits)
        if obstacle is None:
            return _remark(kernel, f"thread loops, split at {_name(waits.first)}", waits.first)
        reason = f"one coroutine per thread, because of {_name(obstacle.waiting)}"
        if obstacle.others:
            reason += f" and {obstacle.others} more places to wait at: the loops would be too many"
        if obstacle.around is None:
            return _remark(kernel, reason, obstacle.waiting)
        what = "branch" if isinstance(obstacle.around, scf.IfOp) else "loop"
        return _remark(
            kernel, f"{reason} in a {what} that threads may take differently", obstacle.around
        )
    guard = find_guard(kernel.body.block.ops, RowAnalysis())
    if guard is not None:
        return _remark(kernel, "thread loop; this condition is its bounds", guard.operation)
    return _remark(kernel, "thread loop", None)


def _name(waiting: Operation) -> str:
    return _NAMES[type(waiting)](waiting)


def _remark(kernel: KernelOp, message: str, cause: Operation | None) -> Remark:
    place = source_location(cause.location) if cause is not None else None
    return Remark(
        kernel.sym_name.data,
        message,
        file=place.file if place else "",
        line=place.line if place else 0,
    )
