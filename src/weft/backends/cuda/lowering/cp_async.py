# SPDX-License-Identifier: Apache-2.0
"""Copies of single threads into shared memory: sm_80's `cp.async`.

In: the operations of dialects/nvgpu/cp_async. Out: NVVM's intrinsics; 16 bytes pass the L1 cache by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import require
from weft.dialects.nvgpu.async_copy import CpAsyncCommitOp, CpAsyncCopyOp, CpAsyncWaitOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _call(printer: FunctionPrinter, name: str, *arguments: str) -> None:
    callee = printer.module.intrinsic(f"llvm.nvvm.cp.async.{name}")
    printer.line(f"call void {callee}({', '.join(arguments)})")


def _print_copy(printer: FunctionPrinter, op: CpAsyncCopyOp) -> None:
    require(printer, op, "cp_async", "weft.cp_async.copy")
    pointer = printer.module.target.pointer
    to = printer.tensors[op.tensor].address(printer, op.indices)
    source = printer.tensors[op.source].address(printer, op.source_indices)
    arguments = [f"{pointer('shared')} {to}", f"{pointer('global')} {source}"]
    name = f"{'cg' if op.bytes == 16 else 'ca'}.shared.global.{op.bytes}"
    if op.condition is not None:
        condition = printer.values[op.condition]
        size = printer.let(f"select i1 {condition}, i32 {op.bytes}, i32 0", "bytes")
        arguments.append(f"i32 {size}")
        name += ".s"
    _call(printer, name, *arguments)


def _print_commit(printer: FunctionPrinter, op: CpAsyncCommitOp) -> None:
    require(printer, op, "cp_async", "weft.cp_async.commit")
    _call(printer, "commit.group")


def _print_wait(printer: FunctionPrinter, op: CpAsyncWaitOp) -> None:
    require(printer, op, "cp_async", "weft.cp_async.wait")
    _call(printer, "wait.group", f"i32 {op.pending.value.data}")


CP_ASYNC: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    CpAsyncCopyOp: _print_copy,
    CpAsyncCommitOp: _print_commit,
    CpAsyncWaitOp: _print_wait,
}
