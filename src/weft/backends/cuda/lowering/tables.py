# SPDX-License-Identifier: Apache-2.0
"""CUDA's tables: shared rows of codegen and those of this folder.

In: the families. Out: `KERNEL_ROWS`, `HOST_ROWS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.cuda.lowering.atomics import ATOMICS
from weft.backends.cuda.lowering.barrier import BARRIERS
from weft.backends.cuda.lowering.bulk_copy import BULK_COPIES
from weft.backends.cuda.lowering.byte_floats import BYTE_FLOATS
from weft.backends.cuda.lowering.cached import CACHED
from weft.backends.cuda.lowering.cluster import CLUSTERS
from weft.backends.cuda.lowering.cp_async import CP_ASYNC
from weft.backends.cuda.lowering.debug import DEBUG
from weft.backends.cuda.lowering.dependencies import DEPENDENCIES
from weft.backends.cuda.lowering.fragment import FRAGMENTS
from weft.backends.cuda.lowering.fragment_store import FRAGMENT_STORES
from weft.backends.cuda.lowering.inline_ptx import INLINE_PTX
from weft.backends.cuda.lowering.kernel import launch_attributes
from weft.backends.cuda.lowering.loops import LOOPS
from weft.backends.cuda.lowering.map_edits import MAP_EDITS
from weft.backends.cuda.lowering.mbarrier import MBARRIERS
from weft.backends.cuda.lowering.mma import MMA
from weft.backends.cuda.lowering.named_barrier import NAMED_BARRIERS
from weft.backends.cuda.lowering.packed import PACKED
from weft.backends.cuda.lowering.reductions import REDUCTIONS
from weft.backends.cuda.lowering.registers import REGISTERS
from weft.backends.cuda.lowering.reports import REPORTS
from weft.backends.cuda.lowering.timing import TIMING
from weft.backends.cuda.lowering.tma import TMA
from weft.backends.cuda.lowering.warp import WARP
from weft.backends.cuda.lowering.warpgroup import WARPGROUP
from weft.backends.cuda.lowering.wgmma import WGMMA
from weft.codegen.gpu.kernel import KERNEL_OPERATIONS
from weft.codegen.gpu.launch import launch_rows
from weft.codegen.gpu.shared import SHARED
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
    **BYTE_FLOATS,
    **PACKED,
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
