# SPDX-License-Identifier: Apache-2.0
"""Loops that may be long: they yield to the threads they wait for, and count their work, so that Ctrl-C works.

In: scf.while and scf.for in a kernel, blocks of operations. Out: before each further iteration, a suspension if a
`while` may wait for another thread's writes, else the iteration's work in operations, subtracted from the budget, a
number in memory; the runtime is called once it is used up. An innermost `for` counts strip by strip, so that LLVM
vectorizes the strips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf
from xdsl.ir import Block

from weft.backends.cpu.lowering.affine import is_pure
from weft.backends.cpu.lowering.check import launch_checks
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.lowering.coroutine_printer import READY, CoroutinePrinter
from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.operations.control_flow import print_for, print_for_in_strips, print_while
from weft.codegen.operations.launch import launched_kernel
from weft.codegen.runtime_abi import call_row
from weft.dialects.builder import constant_integer
from weft.dialects.flow import constant_trips, end_of, sources, walk
from weft.dialects.simt.atomics import AtomicCasOp, AtomicLoadOp, AtomicRmwOp
from weft.dialects.simt.kernel import LaunchExOp
from weft.dialects.simt.memory import LoadOp
from weft.dialects.simt.threads import GridBarrierOp
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.dialects.simt.kernel import KernelOp


_LEAST_STRIP: Final = 256  # iterations, so that a strip is worth vectorizing


def coresident_blocks(kernel: KernelOp) -> int:
    """Blocks that are alive at once: those of the grid (1), of a grid of few (2), or as if none waited for others (0).

    Blocks that wait in loops for later ones go on only beside them. A cooperative launch promises that, and one that
    the sanitizer or a test of orders looks at runs on a single thread of the machine.
    """
    if any(isinstance(op, GridBarrierOp) for op in walk(kernel)):
        return 1
    if not any(isinstance(op, scf.WhileOp) and may_wait(op) for op in walk(kernel)):
        return 0
    if _is_cooperative(kernel):
        return 1
    return 2 if launch_checks(kernel, has_scratch=True) else 0


def _is_cooperative(kernel: KernelOp) -> bool:
    """Whether a launch of the kernel is cooperative."""
    module = kernel.parent_op()
    return module is not None and any(
        isinstance(op, LaunchExOp) and op.is_cooperative and launched_kernel(op)[1] is kernel
        for op in walk(module)
    )


def may_wait(loop: scf.WhileOp) -> bool:
    """Whether a loop may wait for another thread: it reads atomically, or the same place again, and that may end it."""
    return any(_may_await(inner, loop) for inner in walk(loop)) and _memory_decides(loop)


def awaits_other_blocks(loop: scf.WhileOp) -> bool:
    """Whether a loop may wait for another block: it reads global memory again and does nothing else to it."""
    return may_wait(loop) and any(_reads_again(inner) for inner in walk(loop))


def _reads_again(operation: Operation) -> bool:
    """Whether an operation reads what other blocks write, each time anew, and does not change it."""
    if isinstance(operation, LoadOp):
        is_read = operation.volatile is not None
    elif isinstance(operation, AtomicRmwOp):
        is_read = constant_integer(operation.value) == 0
    else:
        is_read = isinstance(operation, AtomicLoadOp | AtomicCasOp)
    if not is_read:
        return False
    reading: Any = operation
    tensor_type = reading.tensor.type
    return isinstance(tensor_type, TensorType) and tensor_type.space.data == "global"


def _may_await(operation: Operation, loop: Operation) -> bool:
    """Whether an operation in a loop may read what another thread writes meanwhile."""
    if isinstance(operation, AtomicLoadOp | AtomicRmwOp | AtomicCasOp):
        return True
    if not isinstance(operation, LoadOp) or not _is_seen_by_others(operation):
        return False
    return operation.volatile is not None or all(
        _is_outside(value.owner, loop) for value in operation.operands
    )


def _memory_decides(loop: scf.WhileOp) -> bool:
    """Whether the loop's condition may depend on loads in the loop."""
    waiting: list[SSAValue] = [end_of(loop.before_region.block).operands[0]]
    seen = set(waiting)
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if _is_outside(owner, loop):
            continue
        if not isinstance(owner, Block) and not is_pure(owner) and not owner.regions:
            return True
        found = [source for source in sources(value) if source not in seen]
        seen.update(found)
        waiting += found
    return False


def _is_seen_by_others(load: LoadOp) -> bool:
    tensor_type = load.tensor.type
    return isinstance(tensor_type, TensorType) and tensor_type.space.data != "local"


def _is_outside(owner: Any, loop: Operation) -> bool:
    while owner is not None:
        if owner is loop:
            return False
        owner = owner.parent
    return True


def _print_while(printer: FunctionPrinter, op: scf.WhileOp) -> None:
    if isinstance(printer, CoroutinePrinter) and may_wait(op):
        site = printer.add_site("yield", op.location)
        print_while(printer, op, lambda inner: printer.suspend(READY, site))
        return
    amount = str(sum(work(region.block) for region in op.regions))
    print_while(printer, op, lambda inner: _print_iteration(inner, amount))


def _print_iteration(printer: FunctionPrinter, amount: str) -> None:
    print_work(printer, amount)
    print_cancellation_check(printer)


def _print_for(printer: FunctionPrinter, op: scf.ForOp) -> None:
    body = op.body.block
    if short_trips(op) is not None:
        print_for(printer, op)
        return
    each = work(body)
    if any(_has_own_count(inner) for inner in walk(body)):
        print_for(printer, op, lambda inner: _print_iteration(inner, str(each)))
        return

    def count_strip(inner: FunctionPrinter, text: str, count: str) -> None:
        trips = count if text == "i32" else inner.let(f"trunc {text} {count} to i32")
        print_work(inner, inner.let(f"mul i32 {trips}, {each}") if each != 1 else trips)

    most = max(BUDGET // each, _LEAST_STRIP)
    print_for_in_strips(printer, op, most, count_strip, print_cancellation_check)


def _has_own_count(operation: Operation) -> bool:
    """Whether a loop around it counts each iteration: it waits, or is a loop that counts."""
    if isinstance(operation, scf.ForOp):
        return short_trips(operation) is None
    return isinstance(operation, scf.WhileOp) or type(operation) in COOPERATION


LOOPS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    scf.ForOp: _print_for,
    scf.WhileOp: _print_while,
}


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
    """Trip count of a loop, if it is known and little work; 0 for a loop that never runs."""
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
