# SPDX-License-Identifier: Apache-2.0
"""Clusters on NVIDIA's GPUs, from sm_90 on: launches with clusters are refused before.

In: the operations of dialects/nvgpu/cluster. Out: the rank's register, the cluster's barrier, `mapa`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.operations.memory import print_vector
from weft.dialects.nvgpu.threads import ClusterBarrierOp, ClusterRankOp, MapSharedOp, StAsyncOp
from weft.dialects.simt.kernel import kernel_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


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


def _print_barrier(printer: FunctionPrinter, op: ClusterBarrierOp) -> None:
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
    ClusterBarrierOp: _print_barrier,
    MapSharedOp: _print_map_shared,
    StAsyncOp: _print_st_async,
}
