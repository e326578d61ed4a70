# SPDX-License-Identifier: Apache-2.0
"""printf, assert, assume, clocks, and a thread's place on the CPU. None of them makes a thread wait.

In: simt.printf, simt.assert, simt.assume, simt.timer, simt.record, simt.sm_id, simt.fence, simt.lane_id, simt.warp_id,
nvgpu.warpgroup_id. Out: a call of libc's printf; a branch to the kernel's end, with the error recorded through the
runtime table; calls of that table; plain arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.codegen.llvm.debug_info import source_position
from weft.codegen.runtime_abi import call_row
from weft.dialects.nvgpu.threads import WarpgroupIdOp
from weft.dialects.simt.debug import AssertOp, AssumeOp, PrintfOp
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.profiling import RecordOp, SmIdOp, TimerOp
from weft.dialects.simt.threads import FenceOp, LaneIdOp, WarpIdOp
from weft.types.launch_limits import WARP_SIZE

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
    """Checks an assumption of a GPU, since here a wrong one can be reported."""
    print_check(printer, op, printer.values[op.condition], op.message)


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


def _print_timer(printer: FunctionPrinter, op: TimerOp) -> None:
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    now = call_row(printer, table, "read_clock")
    result = op.results[0]
    if op.kind.data == "clock32":
        printer.define(result, f"trunc i64 {now} to i32")
    else:
        printer.values[result] = now


def _print_sm_id(printer: FunctionPrinter, op: SmIdOp) -> None:
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    printer.values[op.results[0]] = call_row(printer, table, "worker_number")


def _print_record(printer: FunctionPrinter, op: RecordOp) -> None:
    records, done = printer.new_label("record"), printer.new_label("recorded")
    printer.branch_if(printer.values[op.condition], records, done)
    printer.start(records)
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    now = call_row(printer, table, "read_clock")
    high = printer.let(f"shl i64 {now}, 32")
    low = printer.let(f"zext i32 {printer.values[op.tag]} to i64")
    word = printer.let(f"or i64 {high}, {low}")
    address = printer.tensors[op.tensor].address(printer, [op.index])
    printer.line(f"store i64 {word}, ptr {address}, align 8")
    printer.branch(done)
    printer.start(done)


def _print_fence(printer: FunctionPrinter, op: FenceOp) -> None:
    # The threads of a block run on one thread of the machine.
    scope = 'syncscope("singlethread") ' if op.scope.data == "block" else ""
    printer.line(f"fence {scope}seq_cst")


def _print_lane_id(printer: FunctionPrinter, op: LaneIdOp) -> None:
    if "lane_id" in printer.coordinates:
        printer.values[op.result] = printer.coordinates["lane_id"]
        return
    lane = printer.let(f"and i64 {linear_thread(printer)}, {WARP_SIZE - 1}")
    printer.define(op.results[0], f"trunc i64 {lane} to i32")


def _print_warp_id(printer: FunctionPrinter, op: WarpIdOp) -> None:
    if "warp_id" in printer.coordinates:
        printer.values[op.result] = printer.coordinates["warp_id"]
        return
    _print_group(printer, op, WARP_SIZE)


def _print_warpgroup_id(printer: FunctionPrinter, op: WarpgroupIdOp) -> None:
    _print_group(printer, op, 4 * WARP_SIZE)


def _print_group(printer: FunctionPrinter, op: Operation, size: int) -> None:
    number = printer.let(f"udiv i64 {linear_thread(printer)}, {size}")
    printer.define(op.results[0], f"trunc i64 {number} to i32")


TIMING: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TimerOp: _print_timer,
    SmIdOp: _print_sm_id,
    RecordOp: _print_record,
    FenceOp: _print_fence,
    LaneIdOp: _print_lane_id,
    WarpIdOp: _print_warp_id,
    WarpgroupIdOp: _print_warpgroup_id,
}
