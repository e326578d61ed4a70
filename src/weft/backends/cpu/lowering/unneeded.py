# SPDX-License-Identifier: Apache-2.0
"""What a GPU must be told and a CPU need not: operations that print nothing.

In: fences between ways to memory, registers of warpgroups, dependent launches. Out: no code; kernels run one after the
other here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.operations.registers import register_share
from weft.dialects.nvgpu.dependencies import LaunchDependentsOp, WaitForDependenciesOp
from weft.dialects.nvgpu.registers import SetmaxnregOp
from weft.dialects.nvgpu.tma import FenceProxyOp
from weft.dialects.simt.kernel import kernel_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_nothing(printer: FunctionPrinter, op: Operation) -> None:
    """The operation has no effect here."""


def _print_setmaxnreg(printer: FunctionPrinter, op: SetmaxnregOp) -> None:
    """Registers are the compiler's; but what a GPU would wait for without end is refused here, too."""
    register_share(kernel_of(op))


UNNEEDED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    **dict.fromkeys((FenceProxyOp, LaunchDependentsOp, WaitForDependenciesOp), _print_nothing),
    SetmaxnregOp: _print_setmaxnreg,
}
