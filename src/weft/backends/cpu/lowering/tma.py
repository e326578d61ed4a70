# SPDX-License-Identifier: Apache-2.0
"""The copy engine for tensors on the CPU.

In: the operations of dialects/nvgpu/tma. Out: calls that queue a copy (native/cpu/copies.h), or run a thread's
stores; nothing for a prefetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.debug import linear_thread
from weft.codegen.operations.tma_tiles import tile_constant
from weft.codegen.runtime_abi import call_row
from weft.dialects.nvgpu.tma import TmaLoadOp, TmaPrefetchOp, TmaStoreOp, TmaWaitOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.backends.cpu.lowering.coroutine_printer import CoroutinePrinter
    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_prefetch(_printer: FunctionPrinter, _op: TmaPrefetchOp) -> None:
    pass


def _copy(printer: CoroutinePrinter, op: Any, row: str, last: str) -> None:
    indices = printer.alloca(f"[{len(op.indices)} x i32]", 4, "indices")
    for number, index in enumerate(op.indices):
        slot = printer.let(f"getelementptr i32, ptr {indices}, i64 {number}")
        printer.line(f"store i32 {printer.values[index]}, ptr {slot}, align 4")
    tile = printer.tensors[op.tile]
    constant = printer.module.add_global(tile_constant(op.tensor_map.type, tile.type), "tile")
    call_row(
        printer,
        printer.let("load ptr, ptr %launch, align 8", "table"),
        row,
        "ptr %block",
        f"ptr {printer.values[op.tensor_map]}",
        f"ptr {constant}",
        f"ptr {indices}",
        f"ptr {tile.pointer}",
        last,
    )


def _print_load(printer: CoroutinePrinter, op: TmaLoadOp) -> None:
    word = printer.tensors[op.words].address(printer, [op.index])
    _copy(printer, op, "tma_load", f"ptr {word}")


def _print_store(printer: CoroutinePrinter, op: TmaStoreOp) -> None:
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    _copy(printer, op, "tma_store", f"i32 {thread}")


def _print_wait(printer: CoroutinePrinter, op: TmaWaitOp) -> None:
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    pending = op.pending.value.data
    call_row(printer, table, "tma_wait", "ptr %block", f"i32 {thread}", f"i32 {pending}")


# Rows of coroutines: a copy belongs to a block whose threads wait.
TMA_COPIES: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    TmaLoadOp: _print_load,
    TmaStoreOp: _print_store,
    TmaWaitOp: _print_wait,
}
TMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TmaPrefetchOp: _print_prefetch,
}
