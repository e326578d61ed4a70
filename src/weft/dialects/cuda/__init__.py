# SPDX-License-Identifier: Apache-2.0
"""The `cuda` dialect, assembled from its families: one file each, one table here.

In: the families' operations. Out: `CUDA`, which a context loads. Next: context.
"""

from __future__ import annotations

from typing import Final

from xdsl.ir import Dialect

from weft.dialects.cuda.barrier import (
    BarrierOp,
    BarrierReduceOp,
    FenceOp,
    GridBarrierOp,
    WarpBarrierOp,
)
from weft.dialects.cuda.debug import AssertOp, PrintfOp
from weft.dialects.cuda.grid import BlockDimOp, BlockIdxOp, GridDimOp, ThreadIdxOp
from weft.dialects.cuda.inline_ptx import InlinePtxOp
from weft.dialects.cuda.kernel import KernelOp, LaunchExOp, ReturnOp
from weft.dialects.cuda.memory import (
    AllocaOp,
    AtomicCasOp,
    AtomicRmwOp,
    DimOp,
    LoadOp,
    StoreOp,
    StrideOp,
)
from weft.dialects.cuda.scalar import FloorDivOp, FloorModOp
from weft.dialects.cuda.shared import DynamicSharedOp, SharedOp
from weft.dialects.cuda.timing import RecordOp, SmIdOp, TimerOp
from weft.dialects.cuda.types import StreamType, TensorType
from weft.dialects.cuda.views import LoadVectorOp, StoreVectorOp, ViewOp
from weft.dialects.cuda.warp import (
    LaneIdOp,
    MatchOp,
    ShuffleOp,
    VoteOp,
    WarpIdOp,
    WarpReduceOp,
)

CUDA: Final = Dialect(
    "cuda",
    [
        KernelOp,
        ReturnOp,
        LaunchExOp,
        ThreadIdxOp,
        BlockIdxOp,
        BlockDimOp,
        GridDimOp,
        LoadOp,
        StoreOp,
        DimOp,
        StrideOp,
        AllocaOp,
        ViewOp,
        LoadVectorOp,
        StoreVectorOp,
        AtomicRmwOp,
        AtomicCasOp,
        SharedOp,
        DynamicSharedOp,
        BarrierOp,
        BarrierReduceOp,
        WarpBarrierOp,
        GridBarrierOp,
        FenceOp,
        LaneIdOp,
        WarpIdOp,
        ShuffleOp,
        VoteOp,
        MatchOp,
        WarpReduceOp,
        TimerOp,
        SmIdOp,
        RecordOp,
        FloorDivOp,
        FloorModOp,
        InlinePtxOp,
        PrintfOp,
        AssertOp,
    ],
    [TensorType, StreamType],
)
