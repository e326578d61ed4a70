# SPDX-License-Identifier: Apache-2.0
"""Dependent launches on NVIDIA's GPUs.

In: the operations of dialects/nvgpu/dependencies. Out: `griddepcontrol`, as assembly that touches memory: LLVM's
intrinsics say that they touch none, and it moves loads and drops stores across them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import require
from weft.dialects.nvgpu.threads import GridDependencyLaunchOp, GridDependencyWaitOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_wait(printer: FunctionPrinter, op: GridDependencyWaitOp) -> None:
    require(printer, op, "griddepcontrol", "weft.grid_dependency_wait")
    printer.line(
        'call void asm sideeffect "griddepcontrol.wait;", "~{memory}"() convergent nounwind'
    )


def _print_launch(printer: FunctionPrinter, op: GridDependencyLaunchOp) -> None:
    require(printer, op, "griddepcontrol", "weft.grid_dependency_launch")
    printer.line(
        'call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"() convergent nounwind'
    )


DEPENDENCIES: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    GridDependencyWaitOp: _print_wait,
    GridDependencyLaunchOp: _print_launch,
}
