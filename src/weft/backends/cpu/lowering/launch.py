# SPDX-License-Identifier: Apache-2.0
"""A launch on the CPU: the kernel's blocks function goes to the runtime with its parameters.

In: cuda.launch_ex in a host function. Out: a call of `table->launch_cpu`; streams and attributes mean nothing
here. Next: stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.thread_loop import kernel_symbol
from weft.codegen.kernel_parameters import parameter_bytes
from weft.codegen.launch import (
    launched_kernel,
    print_launch_structure,
    print_parameter_buffer,
    print_return_on_failure,
)
from weft.codegen.runtime_abi import call_row, table_of_frame
from weft.dialects.cuda.kernel import LaunchExOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.function_printer import FunctionPrinter

_KERNEL_TYPE: Final = "i32 (ptr, ptr, i64, i64, ptr)"
# The thread loop keeps everything in registers and on the stack.
_SCRATCH_BYTES: Final = 0


def _print_launch(printer: FunctionPrinter, op: LaunchExOp) -> None:
    _, kernel = launched_kernel(op)
    symbol = printer.module.declare(kernel_symbol(kernel.sym_name.data)[1:], _KERNEL_TYPE)
    buffer, parameters = print_parameter_buffer(printer, op, kernel)
    launch = print_launch_structure(printer, op, "null", 0)
    code = call_row(
        printer,
        table_of_frame(printer),
        "launch_cpu",
        "ptr %frame",
        f"ptr {symbol}",
        f"ptr {launch}",
        f"ptr {buffer}",
        f"i64 {parameter_bytes(parameters)}",
        f"i64 {_SCRATCH_BYTES}",
    )
    print_return_on_failure(printer, code)


LAUNCH: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    LaunchExOp: _print_launch,
}
