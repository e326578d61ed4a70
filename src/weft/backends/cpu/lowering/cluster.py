# SPDX-License-Identifier: Apache-2.0
"""Clusters on the CPU: a block's rank, and the shared memory of the other blocks.

In: nvgpu.cluster_rank, nvgpu.cluster_barrier, nvgpu.map_shared. Out: arithmetic with the block's index; a suspension;
addresses, since the memories of a cluster's blocks lie at equal distances.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.coroutine_printer import BARRIER, CLUSTER
from weft.backends.cpu.lowering.debug import print_check
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.offsets import plus, times
from weft.codegen.operations.memory import print_vector
from weft.codegen.runtime_abi import call_row
from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.threads import ClusterBarrierOp, ClusterRankOp, MapSharedOp, StAsyncOp
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.memory import VECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.backends.cpu.lowering.coroutine_printer import CoroutinePrinter
    from weft.codegen.llvm.function_printer import FunctionPrinter


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
