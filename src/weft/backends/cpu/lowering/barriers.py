# SPDX-License-Identifier: Apache-2.0
"""Named barriers, mbarriers and clusters on the CPU, where a thread suspends.

In: operations on them. Out: a suspension, with the barrier's number and its threads in the slot, which the scheduler
counts (native/cpu/rendezvous.cpp). mbarriers are words in shared memory (native/cpu/mbarrier.h): stores of the first
phase, calls of the runtime that arrive, a test of the word's highest bit before each suspension. A cluster's rank is
arithmetic with the block's index; the memories of its blocks lie at equal distances.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.coroutine_printer import (
    BARRIER,
    CLUSTER,
    COLLECTIVE,
    MBARRIER,
    NAMED,
    CoroutinePrinter,
)
from weft.backends.cpu.lowering.debug import linear_thread, print_check
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import plus, times
from weft.codegen.operations.memory import print_vector
from weft.codegen.runtime_abi import call_row
from weft.dialects.builder import constant_integer
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
    MapSharedOp,
    NamedBarrierArriveOp,
    NamedBarrierSyncOp,
    StAsyncOp,
)
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.types import TensorType
from weft.types.launch_limits import VECTOR_BYTES, WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


def print_nothing(_printer: FunctionPrinter, _op: Operation) -> None:
    """The operation has no effect here: barriers need no preparation, and hints are for GPUs."""


def _print(
    printer: CoroutinePrinter, op: NamedBarrierSyncOp | NamedBarrierArriveOp, site: str
) -> None:
    printer.post(op.number, mask="0", lane=str(op.threads.value.data))
    printer.suspend(NAMED, printer.add_site(site, op.location))


def _print_sync(printer: CoroutinePrinter, op: NamedBarrierSyncOp) -> None:
    _print(printer, op, "named_barrier_sync")


def _print_arrive(printer: CoroutinePrinter, op: NamedBarrierArriveOp) -> None:
    _print(printer, op, "named_barrier_arrive")


NAMED_BARRIERS: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    NamedBarrierSyncOp: _print_sync,
    NamedBarrierArriveOp: _print_arrive,
}


def _rank(printer: FunctionPrinter, op: Operation) -> str:
    """The block's number in its cluster, x first."""
    number = "0"
    for axis, size in reversed([*zip("xyz", kernel_of(op).cluster or (), strict=False)]):
        index = printer.coordinates[f"block_idx.{axis}"]
        place = "0" if size == 1 else printer.let(f"urem i32 {index}, {size}")
        number = plus(printer, times(printer, number, str(size), "i32"), place, "i32")
    return number


def _print_rank(printer: FunctionPrinter, op: ClusterRankOp) -> None:
    printer.values[op.result] = _rank(printer, op)


def print_cluster_barrier(printer: CoroutinePrinter, op: Operation) -> None:
    """Barrier of the cluster; without clusters, of the block."""
    if math.prod(kernel_of(op).cluster or ()) == 1:
        printer.suspend(BARRIER, printer.add_site("barrier", op.location))
    else:
        printer.suspend(CLUSTER, printer.add_site("cluster_barrier", op.location))


def map_shared(printer: FunctionPrinter, op: Operation, place: str, rank: SSAValue) -> str:
    """The same place in another block's memory."""
    number, blocks = printer.values[rank], math.prod(kernel_of(op).cluster or (1,))
    if constant_integer(rank) is None:
        exists = printer.let(f"icmp ult i32 {number}, {blocks}")
        print_check(printer, op, exists, f"the rank of a block is one of 0 to {blocks - 1}")
    steps = printer.let(f"sub i32 {number}, {_rank(printer, op)}")
    wide = printer.let(f"sext i32 {steps} to i64")
    distance = printer.let(f"mul i64 {wide}, {printer.coordinates['cluster']}")
    return printer.let(f"getelementptr i8, ptr {place}, i64 {distance}", "mapped")


def _print_map_shared(printer: CoroutinePrinter, op: MapSharedOp) -> None:
    source = printer.tensors[op.tensor]
    pointer = map_shared(printer, op, source.pointer, op.rank)
    kind: Any = op.result.type
    printer.tensors[op.result] = TensorValue(kind, pointer, source.dims, source.strides)


def _print_st_async(printer: CoroutinePrinter, op: StAsyncOp) -> None:
    value, place, size = print_vector(printer, op)
    data = printer.alloca(f"[{VECTOR_BYTES} x i8]", VECTOR_BYTES, "data")
    printer.line(f"store {value}, ptr {data}, align {VECTOR_BYTES}")
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    word = printer.tensors[op.words].address(printer, [op.index])
    call_row(
        *(printer, table, "st_async", "ptr %block"),
        *(place, f"ptr {word}", f"ptr {data}", f"i32 {size}"),
    )


CLUSTERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ClusterRankOp: _print_rank,
}
# Those for which the blocks of a cluster must run together.
CLUSTER_BARRIERS: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    ClusterBarrierOp: print_cluster_barrier,
    MapSharedOp: _print_map_shared,
    StAsyncOp: _print_st_async,
}


# enum weft_mbarrier_request
_WAIT: Final = "0"
_TRY: Final = "1"
_ARRIVALS: Final = (1 << 20) + 1  # a word of one arrival


def _print_init(printer: CoroutinePrinter, op: MbarrierInitOp) -> None:
    first, done = printer.new_label("first"), printer.new_label("initialized")
    is_first = printer.let(f"icmp eq i64 {linear_thread(printer)}, 0")
    printer.branch_if(is_first, first, done)
    printer.start(first)
    for words, arrivals in zip(op.words, op.counts, strict=True):
        kind = words.type
        assert isinstance(kind, TensorType)
        for index in range(kind.dims[0]):
            base = printer.tensors[words].pointer
            place = printer.let(f"getelementptr i8, ptr {base}, i64 {8 * index}")
            printer.line(f"store i64 {arrivals * _ARRIVALS}, ptr {place}, align 8")
    printer.branch(done)
    printer.start(done)
    print_cluster_barrier(printer, op)


def _word(printer: CoroutinePrinter, op: Any) -> str:
    return printer.tensors[op.words].address(printer, [op.index])


def _suspend(printer: CoroutinePrinter, op: Any, site: str, place: str, request: str) -> None:
    """Suspends in front of a barrier, whose word is at `place`."""
    name = op.words.name_hint or "mbarrier"
    printer.post(mask=request, pointer=place, array=printer.tensors[op.words].pointer)
    printer.suspend(MBARRIER, printer.add_site(site, op.location, barrier=name))


def _print_mbarrier_arrive(printer: CoroutinePrinter, op: MbarrierArriveOp) -> None:
    size = "0" if op.expect_bytes is None else printer.values[op.expect_bytes]
    _arrive(printer, op, _word(printer, op), size)


def _arrive(printer: CoroutinePrinter, op: Any, place: str, size: str) -> None:
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    arguments = f"ptr {place}", "i32 1", f"i32 {size}"
    wrong = call_row(printer, table, "mbarrier_arrive", *arguments)
    refused, arrived = printer.new_label("refused"), printer.new_label("arrived")
    printer.branch_if(printer.let(f"icmp eq i32 {wrong}, 0"), arrived, refused)
    printer.start(refused)
    _suspend(printer, op, "mbarrier_arrive", place, wrong)
    printer.branch(arrived)
    printer.start(arrived)


def _print_release(printer: CoroutinePrinter, op: MbarrierReleaseOp) -> None:
    printer.post(mask="-1")
    printer.suspend(COLLECTIVE, printer.add_site("warp_barrier", op.location))
    one, done = printer.new_label("one"), printer.new_label("released")
    lane = printer.let(f"and i64 {linear_thread(printer)}, {WARP_SIZE - 1}")
    printer.branch_if(printer.let(f"icmp eq i64 {lane}, 0"), one, done)
    printer.start(one)
    place = _word(printer, op)
    for there in [map_shared(printer, op, place, rank) for rank in op.ranks] or [place]:
        _arrive(printer, op, there, "0")
    printer.branch(done)
    printer.start(done)


def _is_complete(printer: CoroutinePrinter, place: str, parity: str) -> str:
    word = printer.let(f"load i64, ptr {place}, align 8")
    current = printer.let(f"lshr i64 {word}, 63")
    other = printer.let(f"zext i32 {parity} to i64")
    return printer.let(f"icmp ne i64 {current}, {other}")


def _print_wait(printer: CoroutinePrinter, op: MbarrierWaitOp) -> None:
    place, parity = _word(printer, op), printer.values[op.parity]
    again, waits, passed = (printer.new_label(stem) for stem in ("again", "waits", "passed"))
    printer.branch(again)
    printer.start(again)
    printer.branch_if(_is_complete(printer, place, parity), passed, waits)
    printer.start(waits)
    printer.post(lane=parity)
    _suspend(printer, op, "mbarrier_wait", place, _WAIT)
    printer.branch(again)
    printer.start(passed)


def _print_try_wait(printer: CoroutinePrinter, op: MbarrierTryWaitOp) -> None:
    printer.post(lane=printer.values[op.parity])
    _suspend(printer, op, "mbarrier_wait", _word(printer, op), _TRY)
    printer.answer(op.result)


MBARRIERS: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    MbarrierInitOp: _print_init,
    MbarrierArriveOp: _print_mbarrier_arrive,
    MbarrierReleaseOp: _print_release,
    MbarrierWaitOp: _print_wait,
    MbarrierTryWaitOp: _print_try_wait,
}
