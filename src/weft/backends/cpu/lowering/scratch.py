# SPDX-License-Identifier: Apache-2.0
"""A block's global scratch on the CPU: memory from `malloc`, for the duration of a launch.

In: a launch of a kernel with scratch arrays. Out: `malloc` for all blocks before, `free` after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft import _native
from weft.codegen.llvm.types import f64_text
from weft.codegen.operations.launch import scratch_bytes
from weft.codegen.runtime_abi import call_row, table_of_frame

if TYPE_CHECKING:
    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp, LaunchExOp

_KIND: Final = _native.FAILURE_KINDS.index("integer_range")
_MOST_BYTES: Final = float(1 << 46)  # of all blocks; a product that is larger has not wrapped yet


def print_allocations(printer: FunctionPrinter, op: LaunchExOp, kernel: KernelOp) -> list[str]:
    """Allocates each scratch array for all blocks of the grid; names of the pointers.

    Leaves the host function with an error if memory does not suffice.
    """
    found: list[str] = []
    for size in scratch_bytes(kernel):
        found.append(_print_allocation(printer, op, kernel, size, found))
    return found


def print_frees(printer: FunctionPrinter, pointers: list[str]) -> None:
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
    print_frees(printer, before)
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
