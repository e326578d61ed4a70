# SPDX-License-Identifier: Apache-2.0
"""The `simt` dialect, which every target prints: one file per family, one table here.

Out: `SIMT`, which a context loads.
"""

from __future__ import annotations

from typing import Final

from xdsl.ir import Dialect

from weft.dialects.simt.barrier import (
    BarrierOp,
    BarrierReduceOp,
    FenceOp,
    GridBarrierOp,
    WarpBarrierOp,
)
from weft.dialects.simt.check import CheckOp
from weft.dialects.simt.debug import AssertOp, AssumeOp, PrintfOp
from weft.dialects.simt.event import EventOp
from weft.dialects.simt.fragment import (
    FragmentFillOp,
    FragmentMapOp,
    FragmentPartOp,
    FragmentRedAddOp,
    FragmentReduceOp,
    FragmentStoreOp,
    FragmentType,
    FragmentValuesOp,
    FragmentYieldOp,
)
from weft.dialects.simt.grid import (
    BlockDimOp,
    BlockIdxOp,
    EachOp,
    GridDimOp,
    MaxClustersOp,
    MultiprocessorsOp,
    ThreadIdxOp,
)
from weft.dialects.simt.kernel import ExitOp, KernelOp, LaunchAttributeAttr, LaunchExOp, ReturnOp
from weft.dialects.simt.memory import (
    AddressOp,
    AllocaOp,
    ArgumentNumberOp,
    AtomicCasOp,
    AtomicLoadOp,
    AtomicRmwOp,
    AtomicStoreOp,
    DimOp,
    GlobalScratchOp,
    LoadOp,
    ScratchOp,
    StoreOp,
    StrideOp,
)
from weft.dialects.simt.profiling import MarkOp, ProfilerType, TirxProfilerOp, TrackProfilerOp
from weft.dialects.simt.reductions import RedAddOp
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp
from weft.dialects.simt.shared import DynamicSharedOp, SharedOp
from weft.dialects.simt.timing import RecordOp, SmIdOp, TimerOp
from weft.dialects.simt.types import StreamType, TensorType
from weft.dialects.simt.views import AdvanceOp, LoadVectorOp, ReinterpretOp, StoreVectorOp, ViewOp
from weft.dialects.simt.warp import (
    LaneIdOp,
    MatchOp,
    ShuffleOp,
    VoteOp,
    WarpIdOp,
    WarpReduceOp,
)
from weft.dialects.simt.watch import WatchCopyOp, WatchEventOp, WatchOp

SIMT: Final = Dialect(
    "simt",
    [
        KernelOp,
        ReturnOp,
        ExitOp,
        LaunchExOp,
        ThreadIdxOp,
        BlockIdxOp,
        BlockDimOp,
        GridDimOp,
        EachOp,
        MaxClustersOp,
        MultiprocessorsOp,
        LoadOp,
        StoreOp,
        DimOp,
        StrideOp,
        AddressOp,
        ArgumentNumberOp,
        AllocaOp,
        GlobalScratchOp,
        ScratchOp,
        ViewOp,
        AdvanceOp,
        ReinterpretOp,
        LoadVectorOp,
        StoreVectorOp,
        AtomicLoadOp,
        AtomicStoreOp,
        AtomicRmwOp,
        RedAddOp,
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
        TrackProfilerOp,
        TirxProfilerOp,
        MarkOp,
        FragmentFillOp,
        FragmentValuesOp,
        FragmentMapOp,
        FragmentYieldOp,
        FragmentPartOp,
        FragmentReduceOp,
        FragmentStoreOp,
        FragmentRedAddOp,
        FloorDivOp,
        FloorModOp,
        PrintfOp,
        AssertOp,
        AssumeOp,
        CheckOp,
        WatchOp,
        WatchCopyOp,
        WatchEventOp,
        EventOp,
    ],
    [TensorType, FragmentType, StreamType, ProfilerType, LaunchAttributeAttr],
)
