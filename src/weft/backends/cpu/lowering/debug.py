# SPDX-License-Identifier: Apache-2.0
"""printf, assert and assume on the CPU.

In: simt.printf, simt.assert, simt.assume. Out: a call of libc's printf; a branch to the kernel's end, with the error
recorded through the runtime table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.codegen.llvm.debug_info import source_position
from weft.codegen.runtime_abi import call_row
from weft.dialects.simt.debug import AssertOp, AssumeOp, PrintfOp
from weft.dialects.simt.kernel import kernel_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

FAILURE_ASSERTION: Final = _native.FAILURE_KINDS.index("assertion")
"""enum weft_failure_kind: `place` is file and line, `expected` the condition's text."""


def _print_printf(printer: FunctionPrinter, op: PrintfOp) -> None:
    callee = printer.module.declare("printf", "i32 (ptr, ...)")
    text = printer.module.string(op.text.data)
    arguments = ", ".join([f"ptr {text}", *(printer.typed(value) for value in op.operands)])
    printer.let(f"call i32 (ptr, ...) {callee}({arguments})")


def _print_assert(printer: FunctionPrinter, op: AssertOp) -> None:
    print_check(printer, op, printer.values[op.operands[0]], op.text.data)


def _print_assume(printer: FunctionPrinter, op: AssumeOp) -> None:
    """Checks what a GPU assumes, since here a wrong assumption can be reported."""
    print_check(printer, op, printer.values[op.condition], "weft.assume, which promises this")


def print_check(printer: FunctionPrinter, op: Operation, condition: str, text: str) -> None:
    """Fails the launch if an i1 is false, with the operation's place, the text, block and thread."""
    good, bad = printer.new_label("asserted"), printer.new_label("failed")
    printer.branch_if(condition, good, bad)
    printer.start(bad)
    site = _failure_site(printer, op, text)
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    call_row(
        printer,
        table,
        "kernel_fail",
        "ptr %launch",
        f"ptr {site}",
        f"i64 {printer.coordinates['block']}",
        f"i64 {linear_thread(printer)}",
    )
    assert printer.failure_label is not None
    printer.branch(printer.failure_label)
    printer.start(good)


def linear_thread(printer: FunctionPrinter) -> str:
    """The thread's number in its block: x first, then y, then z; i64."""
    of = printer.coordinates
    if "thread" in of:
        return of["thread"]
    wide = {
        name: of[name]
        if not of[name].startswith("%")
        else printer.let(f"zext i32 {of[name]} to i64")
        for name in ("thread_idx.x", "thread_idx.y", "thread_idx.z", "block_dim.x", "block_dim.y")
    }
    plane = printer.let(f"mul i64 {wide['thread_idx.z']}, {wide['block_dim.y']}")
    row = printer.let(f"add i64 {plane}, {wide['thread_idx.y']}")
    rows = printer.let(f"mul i64 {row}, {wide['block_dim.x']}")
    return printer.let(f"add i64 {rows}, {wide['thread_idx.x']}")


def _failure_site(printer: FunctionPrinter, op: Operation, text: str) -> str:
    """A `weft_failure_site`: the kernel's name, the place, the text, the kind, the line."""
    module = printer.module
    name = kernel_of(op).sym_name.data
    position = source_position(op.location)
    place = f"{position.filename.data}:{position.line.data}" if position else ""
    line = position.line.data if position else 0
    return module.add_global(
        "private unnamed_addr constant { ptr, ptr, ptr, i32, i32 } { "
        f"ptr {module.string(name)}, ptr {module.string(place)}, ptr {module.string(text)}, "
        f"i32 {FAILURE_ASSERTION}, i32 {line} }}, align 8",
        "site",
    )


DEBUG: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    PrintfOp: _print_printf,
    AssertOp: _print_assert,
    AssumeOp: _print_assume,
}
