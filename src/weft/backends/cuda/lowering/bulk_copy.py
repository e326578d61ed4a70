# SPDX-License-Identifier: Apache-2.0
"""Bulk copies through TMA: sm_90's `cp.async.bulk`.

In: the operations of dialects/nvgpu/bulk_copy. Out: NVVM's intrinsics, convergent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent, require
from weft.backends.cuda.lowering.tma import copies_into_block, policy_arguments
from weft.dialects.nvgpu.async_copy import BulkLoadOp, BulkStoreOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_load(printer: FunctionPrinter, op: BulkLoadOp) -> None:
    require(printer, op, "bulk_copy", "weft.bulk_copy")
    pointer = printer.module.target.pointer
    to = f"{pointer('shared')} {printer.tensors[op.to].pointer}"
    word = f"{pointer('shared')} {printer.tensors[op.words].address(printer, [op.index])}"
    source = f"{pointer('global')} {printer.tensors[op.source].pointer}"
    size = printer.typed(op.size)
    policy = policy_arguments(printer, op.cache)
    name = "cp.async.bulk.global.to.shared"
    if copies_into_block(printer):
        call_convergent(printer, "void", f"{name}.cta", to, word, source, size, *policy)
        return
    cluster = pointer("cluster")
    to = f"{cluster} {printer.let(f'addrspacecast {to} to {cluster}')}"
    last = ("i16 0", policy[0], "i1 false", policy[1])
    call_convergent(printer, "void", f"{name}.cluster", to, word, source, size, *last)


def _print_store(printer: FunctionPrinter, op: BulkStoreOp) -> None:
    require(printer, op, "bulk_copy", "weft.bulk_copy")
    pointer = printer.module.target.pointer
    to = f"{pointer('global')} {printer.tensors[op.to].pointer}"
    source = f"{pointer('shared')} {printer.tensors[op.source].pointer}"
    name = "cp.async.bulk.shared.cta.to.global"
    policy = policy_arguments(printer, op.cache)
    call_convergent(printer, "void", name, to, source, printer.typed(op.size), *policy)
    call_convergent(printer, "void", "cp.async.bulk.commit.group")


BULK_COPIES: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    BulkLoadOp: _print_load,
    BulkStoreOp: _print_store,
}
