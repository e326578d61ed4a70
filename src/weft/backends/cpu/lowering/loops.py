# SPDX-License-Identifier: Apache-2.0
"""Loops that may never end: they give way to the threads they wait for, or ask whether to stop.

In: scf.while in a kernel. Out: before each further round, a suspension where the loop may wait for memory that
others write; elsewhere, once in many rounds, a question to the runtime. Next: cooperation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf

from weft.backends.cpu.lowering.coroutine_printer import READY, CoroutinePrinter
from weft.codegen.control_flow import print_while
from weft.codegen.runtime_abi import call_row
from weft.dialects.cuda.memory import AtomicCasOp, AtomicRmwOp, LoadOp
from weft.dialects.cuda.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.function_printer import FunctionPrinter

# Rounds between two questions: some 50 us of the shortest loop.
_ROUNDS: Final = 1 << 16


def may_wait(loop: Operation) -> bool:
    """Whether a loop may wait for another thread: it has an atomic, or reads one place again and again."""
    for operation in loop.walk():
        if isinstance(operation, AtomicRmwOp | AtomicCasOp):
            return True
        if isinstance(operation, LoadOp) and _is_seen_by_others(operation):
            if all(_is_outside(value.owner, loop) for value in operation.operands):
                return True
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
    counter = printer.alloca("i32", 4, "rounds")
    printer.line(f"store i32 {_ROUNDS}, ptr {counter}, align 4")
    print_while(printer, op, lambda inner: _print_poll(inner, counter))


def _print_poll(printer: FunctionPrinter, counter: str) -> None:
    left = printer.let(f"load i32, ptr {counter}, align 4")
    fewer = printer.let(f"sub i32 {left}, 1")
    printer.line(f"store i32 {fewer}, ptr {counter}, align 4")
    is_due = printer.let(f"icmp eq i32 {fewer}, 0")
    ask, go_on = printer.new_label("poll"), printer.new_label("round")
    printer.branch_if(is_due, ask, go_on)
    printer.start(ask)
    printer.line(f"store i32 {_ROUNDS}, ptr {counter}, align 4")
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    stop = call_row(printer, table, "kernel_poll", "ptr %launch")
    must_stop = printer.let(f"icmp ne i32 {stop}, 0")
    assert printer.failure_label is not None
    printer.branch_if(must_stop, printer.failure_label, go_on)
    printer.start(go_on)


LOOPS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    scf.WhileOp: _print_while,
}
