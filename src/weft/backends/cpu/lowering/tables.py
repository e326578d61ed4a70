# SPDX-License-Identifier: Apache-2.0
"""The CPU's tables: shared rows of codegen, and those of this folder.

In: the families. Out: `KERNEL_ROWS`, `HOST_ROWS`, and `UNSUPPORTED`: what is refused by name. Next: stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.cpu.lowering.coordinates import COORDINATES
from weft.backends.cpu.lowering.debug import DEBUG
from weft.backends.cpu.lowering.launch import LAUNCH
from weft.codegen.tables import HOST_FUNCTION, KERNEL
from weft.dialects.cuda.barrier import (
    BarrierOp,
    BarrierReduceOp,
    FenceOp,
    GridBarrierOp,
    WarpBarrierOp,
)
from weft.dialects.cuda.shared import DynamicSharedOp, SharedOp
from weft.dialects.cuda.timing import SmIdOp, TimerOp
from weft.dialects.cuda.warp import (
    LaneIdOp,
    MatchOp,
    ShuffleOp,
    VoteOp,
    WarpIdOp,
    WarpReduceOp,
)

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.module_printer import OperationPrinter

KERNEL_ROWS: Final[dict[type[Operation], OperationPrinter]] = {**KERNEL, **COORDINATES, **DEBUG}
HOST_ROWS: Final[dict[type[Operation], OperationPrinter]] = {**HOST_FUNCTION, **LAUNCH}

_COOPERATION: Final = "threads that cooperate are not available on the CPU in this version"
UNSUPPORTED: Final[dict[type[Operation], str]] = {
    SharedOp: _COOPERATION,
    DynamicSharedOp: _COOPERATION,
    BarrierOp: _COOPERATION,
    BarrierReduceOp: _COOPERATION,
    WarpBarrierOp: _COOPERATION,
    GridBarrierOp: _COOPERATION,
    FenceOp: _COOPERATION,
    LaneIdOp: _COOPERATION,
    WarpIdOp: _COOPERATION,
    ShuffleOp: _COOPERATION,
    VoteOp: _COOPERATION,
    MatchOp: _COOPERATION,
    WarpReduceOp: _COOPERATION,
    TimerOp: _COOPERATION,
    SmIdOp: _COOPERATION,
}
