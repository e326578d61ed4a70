# SPDX-License-Identifier: Apache-2.0
"""mbarriers on NVIDIA's GPUs, from Hopper on.

In: the operations of dialects/nvgpu/mbarrier. Out: NVVM's intrinsics; a wait is a loop of `try_wait`, in which the
thread sleeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.cluster import is_in_cluster, map_shared, print_cluster_barrier
from weft.backends.cuda.lowering.convergent import call_convergent, require
from weft.codegen.gpu.kernel import thread_number
from weft.dialects.flow import walk
from weft.dialects.nvgpu.mbarrier import (
    MbarrierArriveOp,
    MbarrierInitOp,
    MbarrierReleaseOp,
    MbarrierTryWaitOp,
    MbarrierWaitOp,
)
from weft.dialects.nvgpu.threads import MapSharedOp, StAsyncOp
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def word(printer: FunctionPrinter, op: Any) -> str:
    """The address of an operation's barrier, with its type."""
    require(printer, op, "mbarrier", "weft.mbarrier")
    space = printer.module.target.pointer("shared")
    return f"{space} {printer.tensors[op.words].address(printer, [op.index])}"


def _print_init(printer: FunctionPrinter, op: MbarrierInitOp) -> None:
    """The fence makes the barriers visible to copies, and to other blocks of the cluster."""
    require(printer, op, "mbarrier", "weft.mbarrier")
    first, done = printer.new_label("first"), printer.new_label("initialized")
    space = printer.module.target.pointer("shared")
    printer.branch_if(printer.let(f"icmp eq i32 {thread_number(printer)}, 0"), first, done)
    printer.start(first)
    for words, arrivals in zip(op.words, op.counts, strict=True):
        kind = words.type
        assert isinstance(kind, TensorType)
        for index in range(kind.dims[0]):
            base = printer.tensors[words].pointer
            place = printer.let(f"getelementptr i8, {space} {base}, i32 {8 * index}")
            call_convergent(
                printer, "void", "mbarrier.init.shared", f"{space} {place}", f"i32 {arrivals}"
            )
    call_convergent(printer, "void", "fence.mbarrier_init.release.cluster")
    printer.branch(done)
    printer.start(done)
    if is_in_cluster(op):
        print_cluster_barrier(printer)
    else:
        call_convergent(printer, "void", "barrier.cta.sync.aligned.all", "i32 0")


def _print_arrive(printer: FunctionPrinter, op: MbarrierArriveOp) -> None:
    if op.expect_bytes is None:
        _arrive(printer, word(printer, op))
        return
    arguments = word(printer, op), f"i32 {printer.values[op.expect_bytes]}"
    call_convergent(printer, "i64", "mbarrier.arrive.expect.tx.scope.cta.space.cta", *arguments)


def _arrive(printer: FunctionPrinter, place: str) -> None:
    call_convergent(printer, "i64", "mbarrier.arrive.scope.cta.space.cta", place, "i32 1")


def _passes_data(op: Operation) -> bool:
    """Whether blocks of the kernel access each other's memory, so that barriers order that in the whole cluster.

    That costs a fence of all memory at each arrival elsewhere, and the first-level cache at each wait. What comes by
    `st_async` is seen by who waits for its barrier.
    """
    return any(
        isinstance(other, MapSharedOp)
        and not all(isinstance(use.operation, StAsyncOp) for use in other.result.uses)
        for other in walk(kernel_of(op))
    )


def _print_release(printer: FunctionPrinter, op: MbarrierReleaseOp) -> None:
    place = word(printer, op)
    call_convergent(printer, "void", "bar.warp.sync", "i32 -1")
    one, done = printer.new_label("one"), printer.new_label("released")
    pair = call_convergent(printer, "{ i32, i1 }", "elect.sync", "i32 -1")
    printer.branch_if(printer.let(f"extractvalue {{ i32, i1 }} {pair}, 1"), one, done)
    printer.start(one)
    if not op.ranks:
        _arrive(printer, place)
    for rank in op.ranks:
        there = map_shared(printer, place, printer.typed(rank))
        if _passes_data(op):
            name = "mbarrier.arrive.scope.cluster.space.cluster"
            call_convergent(printer, "void", name, there, "i32 1")
        else:
            printer.line(
                'call void asm sideeffect "mbarrier.arrive.shared::cluster.b64 _, [$0];", "l,~{memory}"'
                f"({there}) convergent nounwind"
            )
    printer.branch(done)
    printer.start(done)


def _try_wait(printer: FunctionPrinter, op: Any, place: str, parity: str) -> str:
    scope = "cluster" if _passes_data(op) else "cta"
    name = f"mbarrier.try.wait.parity.scope.{scope}.space.cta"
    return call_convergent(printer, "i1", name, place, f"i32 {parity}")


def _print_wait(printer: FunctionPrinter, op: MbarrierWaitOp) -> None:
    place = word(printer, op)
    again, passed = printer.new_label("again"), printer.new_label("passed")
    printer.branch(again)
    printer.start(again)
    complete = _try_wait(printer, op, place, printer.values[op.parity])
    printer.branch_if(complete, passed, again)
    printer.start(passed)


def _print_try_wait(printer: FunctionPrinter, op: MbarrierTryWaitOp) -> None:
    printer.values[op.result] = _try_wait(printer, op, word(printer, op), printer.values[op.parity])


MBARRIERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    MbarrierInitOp: _print_init,
    MbarrierArriveOp: _print_arrive,
    MbarrierReleaseOp: _print_release,
    MbarrierWaitOp: _print_wait,
    MbarrierTryWaitOp: _print_try_wait,
}
