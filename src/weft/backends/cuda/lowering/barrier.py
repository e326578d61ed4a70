# SPDX-License-Identifier: Apache-2.0
"""Barriers on NVIDIA's GPUs.

In: the operations of dialects/simt/barrier. Out: NVVM barriers with the constant number 0; a grid barrier on the
counter that the driver gives each cooperative launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent, require
from weft.codegen.gpu.kernel import coordinate
from weft.dialects.simt.threads import (
    BarrierOp,
    BarrierReduceOp,
    GridBarrierOp,
    WarpBarrierOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_REDUCTIONS: Final = {"count": ("i32", "popc"), "and": ("i1", "and"), "or": ("i1", "or")}
# The workspace of a cooperative launch: its address is in two environment registers, the high half first; after
# a word with its size comes the barrier's counter (CUDA's cooperative_groups/details/driver_abi.h).
_WORKSPACE_REGISTERS: Final = ("envreg1", "envreg2")
_COUNTER_OFFSET: Final = 4


def _print_barrier(printer: FunctionPrinter, op: Operation) -> None:
    call_convergent(printer, "void", "barrier.cta.sync.aligned.all", "i32 0")


def _print_barrier_reduce(printer: FunctionPrinter, op: Any) -> None:
    kind, name = _REDUCTIONS[op.kind.data]
    predicate = printer.values[op.predicate]
    printer.values[op.results[0]] = call_convergent(
        printer, kind, f"barrier.cta.red.{name}.aligned.all", "i32 0", f"i1 {predicate}"
    )


def _print_warp_barrier(printer: FunctionPrinter, op: Any) -> None:
    call_convergent(printer, "void", "bar.warp.sync", f"i32 {printer.values[op.mask]}")


def _print_grid_barrier(printer: FunctionPrinter, op: Operation) -> None:
    """One thread of each block adds to the counter and waits until its highest bit has changed.

    All but the first block add 1, the first adds the rest to 2³¹: once all have, the bit flips and the
    other bits are unchanged, so the counter is ready for the next barrier. The block's barriers on
    both sides and release and acquire between them order all threads' writes.
    """
    require(printer, op, "grid_sync", "weft.sync_grid")
    _print_barrier(printer, op)
    lead, done = printer.new_label("lead"), printer.new_label("joined")
    printer.branch_if(_all_zero(printer, "thread_idx"), lead, done)
    printer.start(lead)
    counter = _counter(printer)
    amount = _amount(printer)
    # LLVM prints no order on an atomicrmw for PTX, so the release is a fence before it.
    printer.line('fence syncscope("device") release')
    before = printer.let(
        f"atomicrmw add ptr addrspace(1) {counter}, i32 {amount} "
        'syncscope("device") monotonic, align 4',
        "before",
    )
    spin, passed = printer.new_label("spin"), printer.new_label("passed")
    printer.branch(spin)
    printer.start(spin)
    now = printer.let(
        f'load atomic i32, ptr addrspace(1) {counter} syncscope("device") acquire, align 4', "now"
    )
    changed = printer.let(f"xor i32 {before}, {now}")
    printer.branch_if(printer.let(f"icmp slt i32 {changed}, 0"), passed, spin)
    printer.start(passed)
    printer.branch(done)
    printer.start(done)
    _print_barrier(printer, op)


def _counter(printer: FunctionPrinter) -> str:
    high, low = (
        printer.let(f"call i32 {printer.module.intrinsic(f'llvm.nvvm.read.ptx.sreg.{name}')}()")
        for name in _WORKSPACE_REGISTERS
    )
    high_wide, low_wide = (printer.let(f"zext i32 {text} to i64") for text in (high, low))
    shifted = printer.let(f"shl i64 {high_wide}, 32")
    address = printer.let(f"or i64 {shifted}, {low_wide}")
    workspace = printer.let(f"inttoptr i64 {address} to ptr addrspace(1)", "workspace")
    return printer.let(
        f"getelementptr i8, ptr addrspace(1) {workspace}, i64 {_COUNTER_OFFSET}", "counter"
    )


def _amount(printer: FunctionPrinter) -> str:
    """This block's addend: 1, or 2³¹ − (blocks − 1) for the first."""
    sizes = [coordinate(printer, "grid_dim", axis) for axis in "xyz"]
    plane = printer.let(f"mul i32 {sizes[0]}, {sizes[1]}")
    blocks = printer.let(f"mul i32 {plane}, {sizes[2]}", "blocks")
    rest = printer.let(f"sub i32 {-(1 << 31) + 1}, {blocks}")
    first = _all_zero(printer, "block_idx")
    return printer.let(f"select i1 {first}, i32 {rest}, i32 1", "amount")


def _all_zero(printer: FunctionPrinter, name: str) -> str:
    texts = [coordinate(printer, name, axis) for axis in "xyz"]
    either = printer.let(f"or i32 {texts[0]}, {texts[1]}")
    any_bit = printer.let(f"or i32 {either}, {texts[2]}")
    return printer.let(f"icmp eq i32 {any_bit}, 0")


BARRIERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    BarrierOp: _print_barrier,
    BarrierReduceOp: _print_barrier_reduce,
    WarpBarrierOp: _print_warp_barrier,
    GridBarrierOp: _print_grid_barrier,
}
