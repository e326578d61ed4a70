# SPDX-License-Identifier: Apache-2.0
"""Clocks, the worker's number, fences and a thread's lane and warp, on the CPU.

In: simt.timer, simt.record, simt.sm_id, simt.fence, simt.lane_id, simt.warp_id, nvgpu.warpgroup_id. Out: calls of the
runtime table, plain arithmetic. None of them makes a thread wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.debug import linear_thread
from weft.codegen.runtime_abi import call_row
from weft.dialects.nvgpu.threads import WarpgroupIdOp
from weft.dialects.simt.profiling import RecordOp, SmIdOp, TimerOp
from weft.dialects.simt.threads import FenceOp, LaneIdOp, WarpIdOp
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


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
