# SPDX-License-Identifier: Apache-2.0
"""CUDA's tables: shared rows of codegen, those of this folder, and `rsqrt`, which has an instruction.

In: the families. Out: `KERNEL_ROWS`, `HOST_ROWS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import math

from weft.backends.cuda.lowering.atomics import ATOMICS
from weft.backends.cuda.lowering.barrier import BARRIERS
from weft.backends.cuda.lowering.debug import DEBUG
from weft.backends.cuda.lowering.inline_ptx import INLINE_PTX
from weft.backends.cuda.lowering.kernel import launch_attributes
from weft.backends.cuda.lowering.timing import TIMING
from weft.backends.cuda.lowering.warp import WARP
from weft.codegen.gpu.kernel import KERNEL_OPERATIONS
from weft.codegen.gpu.launch import launch_rows
from weft.codegen.gpu.shared import SHARED
from weft.codegen.operations.floating_point import define_rounded, operands_in_f32
from weft.codegen.tables import HOST_FUNCTION, KERNEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter, OperationPrinter


def _print_reciprocal_root(printer: FunctionPrinter, op: Operation) -> None:
    wide, kind, (value,) = operands_in_f32(printer, op)
    if wide == "f64":
        result = printer.call_library("rsqrt.f64", kind, f"double {value}")
    else:
        callee = printer.module.intrinsic("llvm.nvvm.rsqrt.approx.f")
        result = printer.let(f"call float {callee}(float {value})")
    define_rounded(printer, op, result)


MATHEMATICS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    math.RsqrtOp: _print_reciprocal_root,
}


KERNEL_ROWS: Final[dict[type[Operation], OperationPrinter]] = {
    **KERNEL,
    **KERNEL_OPERATIONS,
    **SHARED,
    **MATHEMATICS,
    **ATOMICS,
    **DEBUG,
    **BARRIERS,
    **WARP,
    **TIMING,
    **INLINE_PTX,
}
HOST_ROWS: Final[dict[type[Operation], OperationPrinter]] = {
    **HOST_FUNCTION,
    **launch_rows(launch_attributes),
}
