# SPDX-License-Identifier: Apache-2.0
"""Bulk copies (`cp.async.bulk`) on the CPU.

In: the operations of dialects/nvgpu/bulk_copy. Out: calls that queue a copy (native/cpu/copies.h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.debug import linear_thread
from weft.backends.cpu.lowering.tma import queue
from weft.dialects.nvgpu.async_copy import BulkLoadOp, BulkStoreOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.backends.cpu.lowering.coroutine_printer import CoroutinePrinter


def _places(printer: CoroutinePrinter, op: BulkLoadOp | BulkStoreOp) -> tuple[str, ...]:
    tensors = printer.tensors[op.to], printer.tensors[op.source]
    return *(f"ptr {tensor.pointer}" for tensor in tensors), printer.typed(op.size)


def _print_load(printer: CoroutinePrinter, op: BulkLoadOp) -> None:
    word = printer.tensors[op.words].address(printer, [op.index])
    queue(printer, "bulk_load", *_places(printer, op), f"ptr {word}")


def _print_store(printer: CoroutinePrinter, op: BulkStoreOp) -> None:
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    queue(printer, "bulk_store", *_places(printer, op), f"i32 {thread}")


# Rows of coroutines: a copy belongs to a block whose threads wait.
BULK_COPIES: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    BulkLoadOp: _print_load,
    BulkStoreOp: _print_store,
}
