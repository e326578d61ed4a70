# SPDX-License-Identifier: Apache-2.0
"""Loops that may be long: they yield to the threads they wait for, and count their work.

In: scf.while and scf.for in a kernel. Out: before each further iteration, a suspension if a `while` may wait for
another thread's writes, else the iteration's work; an innermost `for` counts strip by strip, so that
LLVM vectorizes the strips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf
from xdsl.ir import Block

from weft.backends.cpu.lowering.affine import is_pure
from weft.backends.cpu.lowering.budget import (
    BUDGET,
    print_cancellation_check,
    print_work,
    short_trips,
    work,
)
from weft.backends.cpu.lowering.check import launch_checks
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.lowering.coroutine_printer import READY, CoroutinePrinter
from weft.codegen.operations.control_flow import print_for, print_for_in_strips, print_while
from weft.codegen.operations.launch import launched_kernel
from weft.dialects.builder import constant_integer
from weft.dialects.flow import end_of, sources, walk
from weft.dialects.simt.atomics import AtomicCasOp, AtomicLoadOp, AtomicRmwOp
from weft.dialects.simt.kernel import LaunchExOp
from weft.dialects.simt.memory import LoadOp
from weft.dialects.simt.threads import GridBarrierOp
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp

_LEAST_STRIP: Final = 256  # iterations, so that a strip is worth vectorizing


def coresident_blocks(kernel: KernelOp) -> int:
    """Which blocks are alive at once: those of the grid (1), of a grid of few (2), or as if none waited for others (0).

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
    """Whether an operation reads what other blocks write, each time anew, and leaves it as it was."""
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
    """Whether the loop's condition may depend on what is read from memory in the loop."""
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
