# SPDX-License-Identifier: Apache-2.0
"""A launch on the CPU: passes the kernel's blocks function and its parameters to the runtime.

In: simt.launch_ex in a host function. Out: a call of `table->launch_cpu`, between `malloc` and `free` of the blocks'
global scratch; streams are ignored, and of the attributes only the cluster's size counts, which must divide the grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.backends.cpu.lowering.coroutine import scratch_symbol, waiting_operation
from weft.backends.cpu.lowering.local import SCRATCH_ALIGNMENT, LocalMemory
from weft.backends.cpu.lowering.shared import uses_shared_memory
from weft.backends.cpu.lowering.thread_loop import kernel_symbol
from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.types import f64_text
from weft.codegen.operations.kernel_parameters import parameter_bytes
from weft.codegen.operations.launch import (
    launched_kernel,
    print_launch_structure,
    print_parameter_buffer,
    print_return_on_failure,
    scratch_bytes,
)
from weft.codegen.runtime_abi import call_row, table_of_frame
from weft.dialects.simt.barrier import GridBarrierOp
from weft.dialects.simt.kernel import KernelOp, LaunchExOp
from weft.dialects.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_KERNEL_TYPE: Final = "i32 (ptr, ptr, i64, i64, ptr)"
_KIND: Final = _native.FAILURE_KINDS.index("integer_range")
_MOST_BYTES: Final = float(1 << 46)  # of all blocks; a product that is larger has not wrapped yet


def _print_launch(printer: FunctionPrinter, op: LaunchExOp) -> None:
    _, kernel = launched_kernel(op)
    symbol = printer.module.declare(kernel_symbol(kernel.sym_name.data)[1:], _KERNEL_TYPE)
    arrays = _print_allocations(printer, op, kernel)
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
    _print_frees(printer, arrays)
    print_return_on_failure(printer, code)


def _declared(op: LaunchExOp, kernel: KernelOp) -> list[tuple[int, int]]:
    """(offset, value) of the kernel's facts for the runtime, which a driver would know."""
    whole = any(isinstance(inner, GridBarrierOp) for inner in walk(kernel))
    return [
        (abi.LAUNCH_WHOLE_GRID, int(whole)),
        (abi.LAUNCH_MOST_THREADS, kernel.max_threads or 0),
        *(
            (abi.LAUNCH_CLUSTER + 8 * axis, size)
            for axis, size in enumerate(op.cluster or (0, 0, 0))
        ),
    ]


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


def _print_allocations(printer: FunctionPrinter, op: LaunchExOp, kernel: KernelOp) -> list[str]:
    """Allocates each scratch array for all blocks of the grid; names of the pointers.

    Leaves the host function with an error if memory does not suffice.
    """
    found: list[str] = []
    for size in scratch_bytes(kernel):
        found.append(_print_allocation(printer, op, kernel, size, found))
    return found


def _print_frees(printer: FunctionPrinter, pointers: list[str]) -> None:
    """Frees the arrays."""
    callee = printer.module.declare("free", "void (ptr)") if pointers else ""
    for pointer in pointers:
        printer.line(f"call void {callee}(ptr {pointer})")


def _print_allocation(
    printer: FunctionPrinter, op: LaunchExOp, kernel: KernelOp, size: int, before: list[str]
) -> str:
    total, estimate = str(size), f64_text(float(size))
    for blocks in op.grid:
        text = printer.values[blocks]
        total = printer.let(f"mul i64 {total}, {text}")
        blocks_estimate = printer.let(f"sitofp i64 {text} to double")
        estimate = printer.let(f"fmul double {estimate}, {blocks_estimate}")
    fits = printer.let(f"fcmp ole double {estimate}, {f64_text(_MOST_BYTES)}")
    # A grid with a negative size is refused by the launch; one without blocks needs no memory.
    positive = printer.let(f"icmp sgt i64 {total}, 16")
    asked = printer.let(f"select i1 {positive}, i64 {total}, i64 16", "bytes")
    wanted = printer.let(f"select i1 {fits}, i64 {asked}, i64 -1")
    malloc = printer.module.declare("malloc", "ptr (i64)")
    pointer = printer.let(f"call ptr {malloc}(i64 {wanted})", "scratch")
    missing = printer.let(f"icmp eq ptr {pointer}, null")
    failed, good = printer.new_label("memoryless"), printer.new_label("allocated")
    printer.branch_if(missing, failed, good)
    printer.start(failed)
    _print_frees(printer, before)
    name = kernel.sym_name.data
    texts = (
        f"launch of '{name}'",
        "weft.global_scratch, bytes of all blocks",
        "as many as there is memory for",
    )
    site = printer.module.add_global(
        "private unnamed_addr constant { ptr, ptr, ptr, i32, i32 } { "
        + ", ".join(f"ptr {printer.module.string(text)}" for text in texts)
        + f", i32 {_KIND}, i32 0 }}, align 8",
        "site",
    )
    call_row(printer, table_of_frame(printer), "fail", f"ptr {site}", f"i64 {total}", "i64 0")
    printer.line("ret i32 -1")
    printer.start(good)
    return pointer


LAUNCH: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    LaunchExOp: _print_launch,
}
