# SPDX-License-Identifier: Apache-2.0
"""The printers common to all targets, in one table.

Out: `SCALAR`, for kernels and host functions; `KERNEL`, which adds memory. A
backend builds its own from these with `|`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.operations.atomics import ATOMICS
from weft.codegen.operations.control_flow import CONTROL_FLOW
from weft.codegen.operations.conversions import CONVERSIONS
from weft.codegen.operations.floating_point import FLOATING_POINT
from weft.codegen.operations.host_function import HOST
from weft.codegen.operations.integer import INTEGER
from weft.codegen.operations.mathematics import MATHEMATICS
from weft.codegen.operations.memory import MEMORY, print_dim, print_stride
from weft.codegen.operations.scratch import print_scratch
from weft.codegen.operations.views import VIEWS, print_view
from weft.dialects.simt.memory import DimOp, ScratchOp, StrideOp
from weft.dialects.simt.views import ViewOp

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import OperationPrinter

SCALAR: Final[dict[type[Operation], OperationPrinter]] = {
    **INTEGER,
    **CONVERSIONS,
    **FLOATING_POINT,
    **MATHEMATICS,
    **CONTROL_FLOW,
}

KERNEL: Final[dict[type[Operation], OperationPrinter]] = {
    **SCALAR,
    **MEMORY,
    **VIEWS,
    **ATOMICS,
}

HOST_FUNCTION: Final[dict[type[Operation], OperationPrinter]] = {
    **SCALAR,
    **HOST,
    DimOp: print_dim,
    StrideOp: print_stride,
    ScratchOp: print_scratch,
    ViewOp: print_view,
}
