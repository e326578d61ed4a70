# SPDX-License-Identifier: Apache-2.0
"""`setmaxnreg` on NVIDIA's GPUs: up or down from the share that a launch gives each thread.

In: the operations of dialects/nvgpu/registers, kernels. Out: an instruction; the share as the kernel's limit, without
which ptxas ignores the instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent, require
from weft.codegen.operations.registers import register_share
from weft.dialects.nvgpu.threads import SetmaxnregOp
from weft.dialects.simt.kernel import kernel_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_setmaxnreg(printer: FunctionPrinter, op: SetmaxnregOp) -> None:
    require(printer, op, "setmaxnreg", "weft.setmaxnreg")
    share = register_share(kernel_of(op))
    count = op.count.value.data
    direction = "inc" if share is not None and count > share else "dec"
    call_convergent(printer, "void", f"setmaxnreg.{direction}.sync.aligned.u32", f"i32 {count}")


REGISTERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    SetmaxnregOp: _print_setmaxnreg,
}
