# SPDX-License-Identifier: Apache-2.0
"""CUDA's tables: shared rows of codegen and those of this folder.

In: the families. Out: `KERNEL_ROWS`, `HOST_ROWS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.cuda.lowering.async_copies import BULK_COPIES, CP_ASYNC, MAP_EDITS, TMA
from weft.backends.cuda.lowering.atomics import ATOMICS, REDUCTIONS
from weft.backends.cuda.lowering.barriers import (
    BARRIERS,
    CLUSTERS,
    DEPENDENCIES,
    MBARRIERS,
    NAMED_BARRIERS,
)
from weft.backends.cuda.lowering.cached import CACHED
from weft.backends.cuda.lowering.convergent import WARP
from weft.backends.cuda.lowering.conversions import NARROW_FLOATS, PACKED
from weft.backends.cuda.lowering.debug import DEBUG, REPORTS
from weft.backends.cuda.lowering.float_pairs import FLOAT_PAIRS
from weft.backends.cuda.lowering.fragment_memory import FRAGMENT_STORES
from weft.backends.cuda.lowering.fragments import FRAGMENTS
from weft.backends.cuda.lowering.inline_ptx import INLINE_PTX, TIMING, WAITS, WORDS
from weft.backends.cuda.lowering.kernel import LOOPS, launch_attributes
from weft.backends.cuda.lowering.tensor_cores import MMA, REGISTERS, WARPGROUP, WGMMA
from weft.codegen.gpu import KERNEL_OPERATIONS, SHARED, launch_rows
from weft.codegen.operations.tensor_map import TENSOR_MAPS
from weft.codegen.tables import HOST_FUNCTION, KERNEL
from weft.dialects.nvgpu.async_copy import WatchBoxOp
from weft.dialects.nvgpu.mma import WgmmaHoldsSumsOp
from weft.dialects.simt.debug import EventOp, WatchCopyOp, WatchEventOp, WatchOp

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import OperationPrinter


KERNEL_ROWS: Final[dict[type[Operation], OperationPrinter]] = {
    **KERNEL,
    **KERNEL_OPERATIONS,
    **SHARED,
    **CACHED,
    **NARROW_FLOATS,
    **PACKED,
    **FLOAT_PAIRS,
    **ATOMICS,
    **REDUCTIONS,
    **DEBUG,
    **BARRIERS,
    **MBARRIERS,
    **NAMED_BARRIERS,
    **CLUSTERS,
    **CP_ASYNC,
    **WARP,
    **REGISTERS,
    **REPORTS,
    **DEPENDENCIES,
    **WARPGROUP,
    **WGMMA,
    **FRAGMENTS,
    **FRAGMENT_STORES,
    **MMA,
    **LOOPS,
    **TIMING,
    **INLINE_PTX,
    **WAITS,
    **WORDS,
    **BULK_COPIES,
    **MAP_EDITS,
    **TMA,
}
UNSUPPORTED: Final[dict[type[Operation], str]] = dict.fromkeys(
    (WatchOp, WatchCopyOp, WatchBoxOp, WatchEventOp, WgmmaHoldsSumsOp, EventOp),
    "threads are watched on the CPU alone",
)
HOST_ROWS: Final[dict[type[Operation], OperationPrinter]] = {
    **HOST_FUNCTION,
    **TENSOR_MAPS,
    **launch_rows(launch_attributes),
}
