# SPDX-License-Identifier: Apache-2.0
"""TMA, copies of boxes of tensors, on the CPU.

In: the operations of dialects/nvgpu/tma. Out: calls that queue a copy (native/cpu/copies.h), or run a thread's
stores; nothing for a prefetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from weft.backends.cpu.lowering.cluster import map_shared
from weft.backends.cpu.lowering.debug import linear_thread, print_check
from weft.codegen.operations.tma_tiles import tile_constant
from weft.codegen.runtime_abi import call_row
from weft.dialects.nvgpu.async_copy import (
    REDUCTIONS,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.backends.cpu.lowering.coroutine_printer import CoroutinePrinter
    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.nvgpu.tensor_map import TensorMapType


def _print_prefetch(_printer: FunctionPrinter, _op: TmaPrefetchOp) -> None:
    pass


_ELEMENTS_FOUND: Final = 104
"""Bytes from a `weft_cpu_tensor_map` to `elements_found`."""


def _box(printer: CoroutinePrinter, op: Any) -> tuple[str, ...]:
    """The arguments that say where a box is, after a check that the tensor has elements."""
    place = printer.let(
        f"getelementptr i8, ptr {printer.values[op.tensor_map]}, i64 {_ELEMENTS_FOUND}"
    )
    found = printer.let(f"load i64, ptr {place}, align 8")
    name = op.tensor_map.name_hint or "the map"
    text = f"the tensor of {name} has elements; a GPU has no map of one without"
    print_check(printer, op, printer.let(f"icmp ne i64 {found}, 0"), text)
    return box_arguments(printer, op)


def box_arguments(printer: FunctionPrinter, op: Any) -> tuple[str, ...]:
    """The arguments that say where a box is, in its tensor and in a tile."""
    places = [*op.indices, *getattr(op, "offsets", ())]
    indices = printer.alloca(f"[{len(places)} x i32]", 4, "indices")
    for number, index in enumerate(places):
        slot = printer.let(f"getelementptr i32, ptr {indices}, i64 {number}")
        printer.line(f"store i32 {printer.values[index]}, ptr {slot}, align 4")
    tile = printer.tensors[op.tile]
    kind = cast("TensorMapType", op.tensor_map.type)
    constant = printer.module.add_global(tile_constant(kind, tile.type), "tile")
    return f"ptr {printer.values[op.tensor_map]}", f"ptr {constant}", f"ptr {indices}"


def queue(printer: CoroutinePrinter, row: str, *arguments: str) -> None:
    """Calls a row of the runtime table with the running block first."""
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    call_row(printer, table, row, "ptr %block", *arguments)


def _print_load(printer: CoroutinePrinter, op: TmaLoadOp) -> None:
    box = _box(printer, op)
    tile = printer.tensors[op.tile].pointer
    word = printer.tensors[op.words].address(printer, [op.index])
    if not op.ranks:
        queue(printer, "tma_load", *box, f"ptr {tile}", f"ptr {word}")
    for rank in op.ranks:
        there = [f"ptr {map_shared(printer, op, place, rank)}" for place in (tile, word)]
        queue(printer, "tma_send", *box, *there)


def _print_out(printer: CoroutinePrinter, op: TmaStoreOp | TmaReduceOp) -> None:
    box = _box(printer, op)
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    row, last = "tma_store", ()
    if isinstance(op, TmaReduceOp):
        row, last = "tma_reduce", (f"i32 {1 + REDUCTIONS.index(op.kind.data)}",)
    place = f"ptr {printer.tensors[op.tile].pointer}"
    queue(printer, row, *box, place, f"i32 {thread}", *last)


def _print_wait(printer: CoroutinePrinter, op: TmaWaitOp) -> None:
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    queue(printer, "tma_wait", f"i32 {thread}", f"i32 {op.pending.value.data}")


# Rows of coroutines: a copy belongs to a block whose threads wait.
TMA_COPIES: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    TmaLoadOp: _print_load,
    TmaReduceOp: _print_out,
    TmaStoreOp: _print_out,
    TmaWaitOp: _print_wait,
}
TMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TmaPrefetchOp: _print_prefetch,
}
