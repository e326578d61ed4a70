# SPDX-License-Identifier: Apache-2.0
"""The `nvgpu` dialect: features of NVIDIA GPUs only, one file per family, one table here.

Out: `NVGPU`, which a context loads.
"""

from __future__ import annotations

from typing import Final

from xdsl.ir import Dialect

from weft.dialects.nvgpu.bulk_copy import BulkLoadOp, BulkStoreOp
from weft.dialects.nvgpu.cluster import ClusterBarrierOp, ClusterRankOp, MapSharedOp, StAsyncOp
from weft.dialects.nvgpu.cp_async import CpAsyncCommitOp, CpAsyncCopyOp, CpAsyncWaitOp
from weft.dialects.nvgpu.dependencies import GridDependencyLaunchOp, GridDependencyWaitOp
from weft.dialects.nvgpu.inline_ptx import InlinePtxOp
from weft.dialects.nvgpu.map_edits import CopyMapOp, EditMapOp, MapAtOp
from weft.dialects.nvgpu.mbarrier import (
    MbarrierArriveOp,
    MbarrierInitOp,
    MbarrierReleaseOp,
    MbarrierTryWaitOp,
    MbarrierWaitOp,
)
from weft.dialects.nvgpu.mma import LoadMatrixOp, MmaOp
from weft.dialects.nvgpu.named_barrier import (
    NamedBarrierArriveOp,
    NamedBarriersOp,
    NamedBarrierSyncOp,
)
from weft.dialects.nvgpu.registers import SetmaxnregOp
from weft.dialects.nvgpu.tensor_map import MakeTensorMapOp, TensorMapType
from weft.dialects.nvgpu.tma import (
    FenceProxyOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
    WatchBoxOp,
)
from weft.dialects.nvgpu.warpgroup import ElectOneOp, WarpgroupBarrierOp, WarpgroupIdOp
from weft.dialects.nvgpu.wgmma import WgmmaAccumulatorOp, WgmmaHoldsSumsOp, WgmmaMmaOp, WgmmaWaitOp

NVGPU: Final = Dialect(
    "nvgpu",
    [
        BulkLoadOp,
        BulkStoreOp,
        ClusterBarrierOp,
        ClusterRankOp,
        CopyMapOp,
        CpAsyncCommitOp,
        CpAsyncCopyOp,
        CpAsyncWaitOp,
        EditMapOp,
        ElectOneOp,
        FenceProxyOp,
        InlinePtxOp,
        GridDependencyLaunchOp,
        LoadMatrixOp,
        MakeTensorMapOp,
        MapAtOp,
        MapSharedOp,
        MbarrierArriveOp,
        MbarrierInitOp,
        MbarrierReleaseOp,
        MbarrierTryWaitOp,
        MbarrierWaitOp,
        MmaOp,
        NamedBarrierArriveOp,
        NamedBarrierSyncOp,
        NamedBarriersOp,
        SetmaxnregOp,
        StAsyncOp,
        TmaLoadOp,
        TmaPrefetchOp,
        TmaReduceOp,
        TmaStoreOp,
        TmaWaitOp,
        WatchBoxOp,
        GridDependencyWaitOp,
        WarpgroupBarrierOp,
        WarpgroupIdOp,
        WgmmaAccumulatorOp,
        WgmmaHoldsSumsOp,
        WgmmaMmaOp,
        WgmmaWaitOp,
    ],
    [TensorMapType],
)
