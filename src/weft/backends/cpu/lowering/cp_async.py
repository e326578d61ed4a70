# SPDX-License-Identifier: Apache-2.0
"""Copies of single threads into shared memory on the CPU.

In: the operations of dialects/nvgpu/cp_async. Out: calls that queue a copy, or run a thread's (native/cpu/copies.h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.debug import linear_thread
from weft.codegen.runtime_abi import call_row
from weft.dialects.nvgpu.async_copy import CpAsyncCommitOp, CpAsyncCopyOp, CpAsyncWaitOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.backends.cpu.lowering.coroutine_printer import CoroutinePrinter


def _call(printer: CoroutinePrinter, row: str, *arguments: str) -> None:
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    call_row(printer, table, row, "ptr %block", f"i32 {thread}", *arguments)


def _print_copy(printer: CoroutinePrinter, op: CpAsyncCopyOp) -> None:
    to = printer.tensors[op.tensor].address(printer, op.indices)
    source = printer.tensors[op.source].address(printer, op.source_indices)
    if op.condition is not None:
        source = printer.let(f"select i1 {printer.values[op.condition]}, ptr {source}, ptr null")
    _call(printer, "cp_async_copy", f"ptr {to}", f"ptr {source}", f"i32 {op.bytes}")


def _print_commit(printer: CoroutinePrinter, _op: CpAsyncCommitOp) -> None:
    _call(printer, "cp_async_commit")


def _print_wait(printer: CoroutinePrinter, op: CpAsyncWaitOp) -> None:
    _call(printer, "cp_async_wait", f"i32 {op.pending.value.data}")


# Rows of coroutines: a copy belongs to a block whose threads wait.
CP_ASYNC: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    CpAsyncCopyOp: _print_copy,
    CpAsyncCommitOp: _print_commit,
    CpAsyncWaitOp: _print_wait,
}
