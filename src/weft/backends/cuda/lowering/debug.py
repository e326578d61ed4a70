# SPDX-License-Identifier: Apache-2.0
"""printf and assume on a GPU.

In: simt.printf, simt.assume. Out: calls of vprintf, which make the driver print when the stream is synchronized. LLVM
is told what is assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.types import llvm_type, size_in_bytes
from weft.dialects.simt.debug import AssumeOp, PrintfOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_printf(printer: FunctionPrinter, op: PrintfOp) -> None:
    """The arguments are in one buffer, each aligned to its size."""
    callee = printer.module.declare("vprintf", "i32 (ptr, ptr)")
    offsets: list[int] = []
    end = 0
    for operand in op.operands:
        size = size_in_bytes(llvm_type(operand.type))
        end = (end + size - 1) // size * size
        offsets.append(end)
        end += size
    buffer = printer.alloca(f"[{end} x i8]", 8, "arguments") if offsets else "null"
    for operand, offset in zip(op.operands, offsets, strict=True):
        slot = printer.let(f"getelementptr i8, ptr {buffer}, i64 {offset}")
        kind = llvm_type(operand.type)
        printer.line(
            f"store {kind} {printer.values[operand]}, ptr {slot}, align {size_in_bytes(kind)}"
        )
    text = printer.module.string(op.text.data)
    printer.let(f"call i32 {callee}(ptr {text}, ptr {buffer})")


def _print_assume(printer: FunctionPrinter, op: AssumeOp) -> None:
    callee = printer.module.declare("llvm.assume", "void (i1)")
    printer.line(f"call void {callee}(i1 {printer.values[op.condition]})")


DEBUG: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    PrintfOp: _print_printf,
    AssumeOp: _print_assume,
}
