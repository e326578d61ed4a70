# SPDX-License-Identifier: Apache-2.0
"""Barriers on NVIDIA's GPUs: of a block, named, of a grid and of a cluster; mbarriers; dependent launches.

In: operations on barriers and clusters. Out: NVVM's barriers, the block's with the constant number 0; for a grid, the
counter that the driver gives each cooperative launch; clusters (launches with them are refused before sm_90): the
rank's register and `mapa`; a wait for an mbarrier is a loop of `try_wait`, in which the thread sleeps. `griddepcontrol`
is assembly that touches memory: LLVM's intrinsics say that they touch none, and it moves loads and drops stores across
them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent
from weft.codegen.gpu import coordinate, thread_number
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.operations.memory import print_vector
from weft.dialects.flow import walk
from weft.dialects.nvgpu.mbarrier import (
    MbarrierArriveOp,
    MbarrierInitOp,
    MbarrierReleaseOp,
    MbarrierTryWaitOp,
    MbarrierWaitOp,
)
from weft.dialects.nvgpu.threads import (
    ClusterBarrierOp,
    ClusterRankOp,
    GridDependencyLaunchOp,
    GridDependencyWaitOp,
    MapSharedOp,
    NamedBarrierArriveOp,
    NamedBarriersOp,
    NamedBarrierSyncOp,
    StAsyncOp,
)
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.threads import BarrierOp, BarrierReduceOp, GridBarrierOp, WarpBarrierOp
from weft.dialects.simt.types import TensorType

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


def _print_nothing(_printer: FunctionPrinter, _op: NamedBarriersOp) -> None:
    pass


def _print(printer: FunctionPrinter, op: Any, verb: str) -> None:
    arguments = f"i32 {printer.values[op.number]}", f"i32 {op.threads.value.data}"
    call_convergent(printer, "void", f"barrier.cta.{verb}.aligned.count", *arguments)


NAMED_BARRIERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    NamedBarriersOp: _print_nothing,
    NamedBarrierSyncOp: lambda printer, op: _print(printer, op, "sync"),
    NamedBarrierArriveOp: lambda printer, op: _print(printer, op, "arrive"),
}


def _print_rank(printer: FunctionPrinter, op: ClusterRankOp) -> None:
    callee = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.cluster.ctarank")
    blocks = math.prod(kernel_of(op).cluster or (1,))
    printer.define(op.result, f"call range(i32 0, {blocks}) i32 {callee}()")


def is_in_cluster(op: Operation) -> bool:
    """Whether the blocks of the operation's kernel have others in their cluster."""
    return math.prod(kernel_of(op).cluster or ()) > 1


def print_cluster_barrier(printer: FunctionPrinter) -> None:
    """Barrier of the cluster."""
    call_convergent(printer, "void", "barrier.cluster.arrive.aligned")
    call_convergent(printer, "void", "barrier.cluster.wait.aligned")


def _print_cluster_barrier(printer: FunctionPrinter, op: ClusterBarrierOp) -> None:
    print_cluster_barrier(printer)


def map_shared(printer: FunctionPrinter, place: str, rank: str) -> str:
    """The address of a place in the block of a rank; all with their types."""
    kind = printer.module.target.pointer("cluster")
    callee = printer.module.intrinsic("llvm.nvvm.mapa.shared.cluster")
    return f"{kind} {printer.let(f'call {kind} {callee}({place}, {rank})', 'mapped')}"


def _print_map_shared(printer: FunctionPrinter, op: MapSharedOp) -> None:
    source = printer.tensors[op.tensor]
    place = f"{printer.module.target.pointer('shared')} {source.pointer}"
    pointer = map_shared(printer, place, printer.typed(op.rank)).rpartition(" ")[2]
    kind: Any = op.result.type
    printer.tensors[op.result] = TensorValue(kind, pointer, source.dims, source.strides)


def _print_st_async(printer: FunctionPrinter, op: StAsyncOp) -> None:
    """Words of 32 bits, whatever the elements are."""
    value, place, size = print_vector(printer, op)
    count = size // 4
    words = printer.let(f"bitcast {value} to <{count} x i32>", "words")
    parts = [printer.let(f"extractelement <{count} x i32> {words}, i32 {n}") for n in range(count)]
    listed = ", ".join(f"${2 + number}" for number in range(count))
    form, listed = ("b32", listed) if count == 1 else (f"v{count}.b32", f"{{{listed}}}")
    space = printer.module.target.pointer("cluster")
    word = f"{space} {printer.tensors[op.words].address(printer, [op.index])}"
    printer.line(
        "call void asm sideeffect "
        f'"st.async.shared::cluster.mbarrier::complete_tx::bytes.{form} [$0], {listed}, [$1];", '
        f'"l,l{",r" * count},~{{memory}}"({place}, {word}, {", ".join(f"i32 {part}" for part in parts)}) '
        "convergent nounwind"
    )


CLUSTERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ClusterRankOp: _print_rank,
    ClusterBarrierOp: _print_cluster_barrier,
    MapSharedOp: _print_map_shared,
    StAsyncOp: _print_st_async,
}


def word(printer: FunctionPrinter, op: Any) -> str:
    """The address of an operation's barrier, with its type."""
    space = printer.module.target.pointer("shared")
    return f"{space} {printer.tensors[op.words].address(printer, [op.index])}"


def _print_init(printer: FunctionPrinter, op: MbarrierInitOp) -> None:
    """The fence makes the barriers visible to copies, and to other blocks of the cluster."""
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


def _print_mbarrier_wait(printer: FunctionPrinter, op: MbarrierWaitOp) -> None:
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
    MbarrierWaitOp: _print_mbarrier_wait,
    MbarrierTryWaitOp: _print_try_wait,
}


def _print_dependency_wait(printer: FunctionPrinter, op: GridDependencyWaitOp) -> None:
    printer.line(
        'call void asm sideeffect "griddepcontrol.wait;", "~{memory}"() convergent nounwind'
    )


def _print_launch(printer: FunctionPrinter, op: GridDependencyLaunchOp) -> None:
    printer.line(
        'call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"() convergent nounwind'
    )


DEPENDENCIES: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    GridDependencyWaitOp: _print_dependency_wait,
    GridDependencyLaunchOp: _print_launch,
}
