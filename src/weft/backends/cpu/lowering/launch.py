# SPDX-License-Identifier: Apache-2.0
"""A launch on the CPU: passes the kernel's blocks function and its parameters to the runtime.

In: simt.launch_ex in a host function. Out: a call of `table->launch_cpu`, with the blocks' global scratch taken before
and given back after; streams are ignored, and of the attributes only the cluster's size counts, which must divide the
grid.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.func import FuncOp as HostOp

from weft.backends.cpu.lowering.check import launch_checks
from weft.backends.cpu.lowering.fission import uses_coroutines
from weft.backends.cpu.lowering.loops import coresident_blocks
from weft.backends.cpu.lowering.memory import SCRATCH_ALIGNMENT, LocalMemory, uses_shared_memory
from weft.backends.cpu.lowering.overlap import overlap_bits
from weft.backends.cpu.lowering.split_kernel import scratch_symbol, waiting_operation
from weft.backends.cpu.lowering.thread_loop import kernel_symbol
from weft.codegen import runtime_abi as abi
from weft.codegen.operations.host_function import print_take
from weft.codegen.operations.launch import (
    launched_kernel,
    parameter_bytes,
    print_launch_structure,
    print_parameter_buffer,
    print_return_on_failure,
    scratch_bytes,
)
from weft.codegen.runtime_abi import call_row, table_of_frame
from weft.dialects.simt.kernel import KernelOp, LaunchExOp
from weft.ffi_wrapper import takes_scratch

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_BLOCK, _CLUSTER, _GRID, _FEW = range(4)
_KERNEL_TYPE: Final = "i32 (ptr, ptr, i64, i64, ptr)"


def _print_launch(printer: FunctionPrinter, op: LaunchExOp) -> None:
    _, kernel = launched_kernel(op)
    symbol = printer.module.declare(kernel_symbol(kernel.sym_name.data)[1:], _KERNEL_TYPE)
    before, arrays = _print_allocations(printer, op, kernel)
    buffer, parameters = print_parameter_buffer(printer, op, kernel, arrays)
    launch = print_launch_structure(printer, op, "null", 0)
    for offset, value in _declared(op, kernel):
        field = printer.let(f"getelementptr i8, ptr {launch}, i64 {offset}")
        printer.line(f"store i64 {value}, ptr {field}, align 8")
    table = table_of_frame(printer)
    scratch = _print_scratch_bytes(printer, kernel, table, launch)
    code = call_row(
        printer,
        table,
        "launch_cpu",
        "ptr %frame",
        f"ptr {symbol}",
        f"ptr {launch}",
        f"ptr {buffer}",
        f"i64 {parameter_bytes(parameters)}",
        f"i64 {scratch}",
    )
    if arrays:
        code = call_row(
            printer, table, "release_scratch", "ptr %frame", f"ptr {before}", f"i32 {code}"
        )
    print_return_on_failure(printer, code)


def _declared(op: LaunchExOp, kernel: KernelOp) -> list[tuple[int, int]]:
    """(offset, value) of the kernel's facts for the runtime, which a driver would know."""
    return [
        (
            abi.LAUNCH_CORESIDENCY,
            _coresidency(kernel)
            | launch_checks(kernel, has_scratch=_has_scratch(op))
            | overlap_bits(op),
        ),
        (abi.LAUNCH_MOST_THREADS, kernel.max_threads or 0),
        *(
            (abi.LAUNCH_CLUSTER + 8 * axis, size)
            for axis, size in enumerate(op.cluster or (0, 0, 0))
        ),
    ]


def _has_scratch(op: LaunchExOp) -> bool:
    """Whether the frame of the call has a chain of scratch arrays: without any it is not initialized."""
    host = op.parent_op()
    while host is not None and not isinstance(host, HostOp):
        host = host.parent_op()
    return host is not None and takes_scratch(host, on_host=True)


def _coresidency(kernel: KernelOp) -> int:
    """Blocks that run at once: enum weft_coresidency."""
    found = coresident_blocks(kernel)
    if found:
        return _GRID if found == 1 else _FEW
    in_clusters = math.prod(kernel.cluster or ()) > 1 and uses_coroutines(kernel)
    return _CLUSTER if in_clusters else _BLOCK


def _print_scratch_bytes(
    printer: FunctionPrinter, kernel: KernelOp, table: str, launch: str
) -> str:
    """A worker's memory: shared arrays, threads that can wait, and arrays too large for a stack."""
    if waiting_operation(kernel) is not None:
        symbol = scratch_symbol(kernel.sym_name.data)[1:]
        callee = printer.module.declare(symbol, "i64 (ptr, ptr)")
        return printer.let(f"call i64 {callee}(ptr {table}, ptr {launch})", "scratch")
    local = LocalMemory(kernel).bytes
    if not uses_shared_memory(kernel) and not local:
        return "0"
    shared = printer.let(f"getelementptr i8, ptr {launch}, i64 {abi.LAUNCH_SHARED_MEMORY}")
    size = printer.let(f"load i64, ptr {shared}, align 8", "shared")
    if not local:
        return size
    end = printer.let(f"add i64 {size}, {SCRATCH_ALIGNMENT - 1}")
    begin = printer.let(f"and i64 {end}, {-SCRATCH_ALIGNMENT}")
    return printer.let(f"add i64 {begin}, {local}", "scratch")


def _print_allocations(
    printer: FunctionPrinter, op: LaunchExOp, kernel: KernelOp
) -> tuple[str, list[str]]:
    """Takes each scratch array for all blocks of the grid: the call's scratch before, and the names of the pointers.

    Leaves the host function with an error if there is not enough memory.
    """
    sizes = scratch_bytes(kernel)
    if not sizes:
        return "null", []
    slot = printer.let(f"getelementptr i8, ptr %frame, i64 {abi.FRAME_SCRATCH}")
    before = printer.let(f"load ptr, ptr {slot}, align 8", "before")
    # A grid with a negative size is refused by the launch; one without blocks needs no memory.
    blocks = [printer.intrinsic("llvm.smax", "i64", printer.values[size], "0") for size in op.grid]
    place = f"launch of '{kernel.sym_name.data}', weft.global_scratch"
    return before, [print_take(printer, "null", place, size, blocks) for size in sizes]


LAUNCH: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    LaunchExOp: _print_launch,
}
