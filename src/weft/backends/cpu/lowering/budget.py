# SPDX-License-Identifier: Apache-2.0
"""The work that a kernel may do before it checks whether to stop, so that Ctrl-C works.

In: blocks of operations. Out: their work in operations; code that subtracts it from the budget, a number in memory, and
calls the runtime once it is used up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import scf

from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.runtime_abi import call_row
from weft.dialects.flow import constant_trips

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Block, Operation

    from weft.codegen.llvm.module_printer import ModulePrinter

BUDGET: Final = 1 << 18  # operations: 0.1 ms of simple ones, compared to 20 ns for a check
# Key of the budget's address, a `ptr` to an i32, among a printer's coordinates.
BUDGET_PLACE: Final = "budget"
# A loop that never does more than this does not count.
_SHORT: Final = 1 << 12


def work(block: Block) -> int:
    """Operations of one run through a block, at most `BUDGET`; loops that count their own work are one."""
    return work_of(block.ops)


def work_of(operations: Iterable[Operation]) -> int:
    """Likewise of one run through several operations."""
    total = 0
    for operation in operations:
        total += 1
        if isinstance(operation, scf.ForOp):
            total += trips * work(operation.body.block) if (trips := short_trips(operation)) else 0
        elif isinstance(operation, scf.IfOp):
            total += sum(work(region.block) for region in operation.regions if region.blocks)
    return min(total, BUDGET)


def short_trips(loop: scf.ForOp) -> int | None:
    """How often a loop runs, if that is known and little work; 0 for a loop that never runs."""
    trips = constant_trips(loop)
    return trips if trips is not None and trips * work(loop.body.block) <= _SHORT else None


def print_work(printer: FunctionPrinter, amount: str) -> None:
    """Takes an i32 from the budget."""
    place = printer.coordinates[BUDGET_PLACE]
    left = printer.let(f"load i32, ptr {place}, align 4")
    less = printer.let(f"sub i32 {left}, {amount}", "budget")
    printer.line(f"store i32 {less}, ptr {place}, align 4")


def print_cancellation_check(printer: FunctionPrinter) -> None:
    """If the budget is used up, checks whether to stop; then the kernel fails, or has a new budget."""
    place = printer.coordinates[BUDGET_PLACE]
    left = printer.let(f"load i32, ptr {place}, align 4")
    is_due = printer.let(f"icmp slt i32 {left}, 0")
    ask, go_on = printer.new_label("ask"), printer.new_label("iteration")
    printer.branch_if(is_due, ask, go_on)
    printer.start(ask)
    printer.line(f"store i32 {BUDGET}, ptr {place}, align 4")
    stop = printer.let("call preserve_mostcc i32 @weft.ask(ptr %launch)")
    must_stop = printer.let(f"icmp ne i32 {stop}, 0")
    assert printer.failure_label is not None
    printer.branch_if(must_stop, printer.failure_label, go_on)
    printer.start(go_on)


def print_ask(module: ModulePrinter) -> None:
    """The function that calls the runtime. It preserves its caller's registers."""
    printer = FunctionPrinter(module)
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    printer.line(f"ret i32 {call_row(printer, table, 'kernel_poll', 'ptr %launch')}")
    module.add_function(
        "define internal preserve_mostcc i32 @weft.ask(ptr %launch) noinline cold nounwind "
        f"{{\n{printer.body()}\n}}\n"
    )
