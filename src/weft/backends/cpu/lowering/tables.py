# SPDX-License-Identifier: Apache-2.0
"""The CPU's tables: codegen's shared rows, and those of this folder.

In: the families. Out: `KERNEL_ROWS`, `HOST_ROWS`, and `UNSUPPORTED`, the operations refused by name. Hints and fences
of GPUs print nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.async_copies import MAP_EDITS, TMA
from weft.backends.cpu.lowering.barriers import CLUSTERS, print_nothing
from weft.backends.cpu.lowering.check import CHECKS
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.lowering.debug import DEBUG, TIMING
from weft.backends.cpu.lowering.launch import LAUNCH
from weft.backends.cpu.lowering.loops import LOOPS
from weft.backends.cpu.lowering.memory import ATOMICS, LOCAL, SHARED
from weft.backends.cpu.lowering.tensor_cores import ACCUMULATOR, FRAGMENTS
from weft.backends.cpu.lowering.thread_loop import COORDINATES
from weft.codegen.operations.tensor_map import TENSOR_MAPS
from weft.codegen.tables import HOST_FUNCTION, KERNEL
from weft.dialects.nvgpu.async_copy import FenceProxyOp
from weft.dialects.nvgpu.inline_ptx import InlinePtxOp, NanosleepOp, PrefetchOp
from weft.dialects.nvgpu.threads import GridDependencyLaunchOp, NamedBarriersOp

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import OperationPrinter


# Operations of a kernel for either engine.
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
    **LOOPS,
    **dict.fromkeys(
        (NamedBarriersOp, FenceProxyOp, GridDependencyLaunchOp, NanosleepOp, PrefetchOp),
        print_nothing,
    ),
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
