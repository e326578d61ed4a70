# SPDX-License-Identifier: Apache-2.0
"""The CPU's tables: codegen's shared rows, and those of this folder.

In: the families. Out: `KERNEL_ROWS`, `HOST_ROWS`, and `UNSUPPORTED`, the operations refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.atomics import ATOMICS
from weft.backends.cpu.lowering.check import CHECKS
from weft.backends.cpu.lowering.cluster import CLUSTERS
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.lowering.debug import DEBUG
from weft.backends.cpu.lowering.fragment import FRAGMENTS
from weft.backends.cpu.lowering.launch import LAUNCH
from weft.backends.cpu.lowering.local import LOCAL
from weft.backends.cpu.lowering.loops import LOOPS
from weft.backends.cpu.lowering.map_edits import MAP_EDITS
from weft.backends.cpu.lowering.named_barrier import print_nothing
from weft.backends.cpu.lowering.shared import SHARED
from weft.backends.cpu.lowering.thread_loop import COORDINATES
from weft.backends.cpu.lowering.timing import TIMING
from weft.backends.cpu.lowering.tma import TMA
from weft.backends.cpu.lowering.unneeded import UNNEEDED
from weft.backends.cpu.lowering.wgmma import ACCUMULATOR
from weft.codegen.operations.tensor_map import TENSOR_MAPS
from weft.codegen.tables import HOST_FUNCTION, KERNEL
from weft.dialects.nvgpu.inline_ptx import InlinePtxOp
from weft.dialects.nvgpu.threads import NamedBarriersOp

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import OperationPrinter

# What a kernel of either engine may contain.
_ANY_KERNEL: Final[dict[type[Operation], OperationPrinter]] = {
    **KERNEL,
    **ATOMICS,
    **CHECKS,
    **CLUSTERS,
    **COORDINATES,
    **DEBUG,
    **FRAGMENTS,
    **LOCAL,
    **SHARED,
    **TIMING,
    NamedBarriersOp: print_nothing,
    **LOOPS,
    **UNNEEDED,
    **MAP_EDITS,
    **TMA,
    **ACCUMULATOR,
}
# The rows of COOPERATION take the printer of coroutines, which is the one that prints such kernels.
KERNEL_ROWS: Final[dict[type[Operation], Any]] = {**_ANY_KERNEL, **COOPERATION}
HOST_ROWS: Final[dict[type[Operation], OperationPrinter]] = {
    **HOST_FUNCTION,
    **TENSOR_MAPS,
    **LAUNCH,
}

UNSUPPORTED: Final[dict[type[Operation], str]] = {
    InlinePtxOp: "PTX is for GPUs; give inline_ptx a function for the CPU: cpu=function",
}
