# SPDX-License-Identifier: Apache-2.0
"""Clusters on the CPU: a block's rank, and the shared memory of the other blocks.

In: nvgpu.cluster_rank, nvgpu.map_shared. Out: arithmetic with the block's index; the memories of a cluster's blocks lie
at equal distances.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.debug import print_check
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.offsets import plus, times
from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.cluster import ClusterRankOp, MapSharedOp
from weft.dialects.simt.kernel import kernel_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

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


def print_map_shared(printer: FunctionPrinter, op: MapSharedOp) -> None:
    """The same place in another block's memory."""
    source, rank = printer.tensors[op.tensor], printer.values[op.rank]
    blocks = math.prod(kernel_of(op).cluster or (1,))
    if constant_integer(op.rank) is None:
        exists = printer.let(f"icmp ult i32 {rank}, {blocks}")
        print_check(printer, op, exists, f"the rank of map_shared is one of 0 to {blocks - 1}")
    steps = printer.let(f"sub i32 {rank}, {_rank(printer, op)}")
    wide = printer.let(f"sext i32 {steps} to i64")
    distance = printer.let(f"mul i64 {wide}, {printer.coordinates['cluster']}")
    pointer = printer.let(f"getelementptr i8, ptr {source.pointer}, i64 {distance}", "mapped")
    kind: Any = op.result.type
    printer.tensors[op.result] = TensorValue(kind, pointer, source.dims, source.strides)


CLUSTERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ClusterRankOp: _print_rank,
}
