# SPDX-License-Identifier: Apache-2.0
"""Asynchronous copies on the CPU: of single threads, bulk copies, TMA, and tensor maps that kernels write.

In: operations of copies and tensor maps. Out: calls that queue a copy (native/cpu/copies.h), or run a thread's stores;
nothing for a prefetch. Of a map, the numbers of `weft_cpu_tensor_map` (native/include/weft/tensor_map.h), which one
lane of a warp stores, between two barriers of the warp.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from weft.backends.cpu.lowering.barriers import map_shared
from weft.backends.cpu.lowering.debug import linear_thread, print_check
from weft.codegen.llvm.function_printer import widened
from weft.codegen.operations.tensor_map import gathered_row_bytes, tile_constant
from weft.codegen.runtime_abi import call_row
from weft.dialects.nvgpu.async_copy import (
    REDUCTIONS,
    BulkLoadOp,
    BulkReduceOp,
    BulkStoreOp,
    CpAsyncCommitOp,
    CpAsyncCopyOp,
    CpAsyncWaitOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
    gathered_rows,
)
from weft.dialects.nvgpu.tensor_map import MAP_BYTES, MOST_RANK, CopyMapOp, EditMapOp, MapAtOp
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.backends.cpu.lowering.coroutine_printer import CoroutinePrinter
    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.nvgpu.tensor_map import TensorMapType


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


def _print_cp_async_wait(printer: CoroutinePrinter, op: CpAsyncWaitOp) -> None:
    _call(printer, "cp_async_wait", f"i32 {op.pending.value.data}")


# Rows of coroutines: a copy belongs to a block whose threads wait.
CP_ASYNC: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    CpAsyncCopyOp: _print_copy,
    CpAsyncCommitOp: _print_commit,
    CpAsyncWaitOp: _print_cp_async_wait,
}


def _print_prefetch(_printer: FunctionPrinter, _op: TmaPrefetchOp) -> None:
    pass


_ELEMENTS_FOUND: Final = 104
"""Bytes from a `weft_cpu_tensor_map` to `elements_found`."""


def _boxes(printer: CoroutinePrinter, op: Any) -> list[tuple[tuple[str, ...], str]]:
    """As `boxes`, after a check that the tensor has elements."""
    place = printer.let(
        f"getelementptr i8, ptr {printer.values[op.tensor_map]}, i64 {_ELEMENTS_FOUND}"
    )
    found = printer.let(f"load i64, ptr {place}, align 8")
    name = op.tensor_map.name_hint or "the map"
    text = f"the tensor of {name} has elements; a GPU has no map of one without"
    print_check(printer, op, printer.let(f"icmp ne i64 {found}, 0"), text)
    return boxes(printer, op)


def boxes(printer: FunctionPrinter, op: Any) -> list[tuple[tuple[str, ...], str]]:
    """The arguments that say where a box is, in its tensor and in a tile, and the tile; of each row with an index."""
    kind = cast("TensorMapType", op.tensor_map.type)
    tile, rows = printer.tensors[op.tile], gathered_rows(kind, op.indices)
    if not rows:
        return [(_box(printer, op, op.indices), tile.pointer)]
    pitch = gathered_row_bytes(kind, tile.type)
    return [
        (
            _box(printer, op, (op.indices[row], op.indices[-1])),
            printer.let(f"getelementptr i8, ptr {tile.pointer}, i64 {row * pitch}"),
        )
        for row in range(rows)
    ]


def _box(printer: FunctionPrinter, op: Any, first: Sequence[SSAValue]) -> tuple[str, ...]:
    places = [*first, *getattr(op, "offsets", ())]
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


def _print_tma_load(printer: CoroutinePrinter, op: TmaLoadOp) -> None:
    word = printer.tensors[op.words].address(printer, [op.index])
    for box, tile in _boxes(printer, op):
        if not op.ranks:
            queue(printer, "tma_load", *box, f"ptr {tile}", f"ptr {word}")
        for rank in op.ranks:
            there = [f"ptr {map_shared(printer, op, place, rank)}" for place in (tile, word)]
            queue(printer, "tma_send", *box, *there)


def _print_out(printer: CoroutinePrinter, op: TmaStoreOp | TmaReduceOp) -> None:
    places = _boxes(printer, op)
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    row, last = "tma_store", ()
    if isinstance(op, TmaReduceOp):
        row, last = "tma_reduce", (f"i32 {1 + REDUCTIONS.index(op.kind.data)}",)
    for box, tile in places:
        queue(printer, row, *box, f"ptr {tile}", f"i32 {thread}", *last)


def _print_tma_wait(printer: CoroutinePrinter, op: TmaWaitOp) -> None:
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    queue(printer, "tma_wait", f"i32 {thread}", f"i32 {op.pending.value.data}")


# Rows of coroutines: a copy belongs to a block whose threads wait.
TMA_COPIES: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    TmaLoadOp: _print_tma_load,
    TmaReduceOp: _print_out,
    TmaStoreOp: _print_out,
    TmaWaitOp: _print_tma_wait,
}
TMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TmaPrefetchOp: _print_prefetch,
}


def _places(
    printer: CoroutinePrinter, op: BulkLoadOp | BulkStoreOp | BulkReduceOp
) -> tuple[str, ...]:
    tensors = printer.tensors[op.to], printer.tensors[op.source]
    return *(f"ptr {tensor.pointer}" for tensor in tensors), printer.typed(op.size)


def _print_bulk_load(printer: CoroutinePrinter, op: BulkLoadOp) -> None:
    word = printer.tensors[op.words].address(printer, [op.index])
    queue(printer, "bulk_load", *_places(printer, op), f"ptr {word}")


def _print_store(printer: CoroutinePrinter, op: BulkStoreOp) -> None:
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    queue(printer, "bulk_store", *_places(printer, op), f"i32 {thread}")


def _print_reduce(printer: CoroutinePrinter, op: BulkReduceOp) -> None:
    thread = printer.let(f"trunc i64 {linear_thread(printer)} to i32")
    numbers = thread, 1 + REDUCTIONS.index(op.kind.data), INFO[op.element.data].tensor_map
    queue(printer, "bulk_reduce", *_places(printer, op), *(f"i32 {number}" for number in numbers))


# Rows of coroutines: a copy belongs to a block whose threads wait.
BULK_COPIES: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    BulkLoadOp: _print_bulk_load,
    BulkReduceOp: _print_reduce,
    BulkStoreOp: _print_store,
}


_SIZES: Final = 8
_PITCHES: Final = _SIZES + 8 * MOST_RANK
"""Bytes from a map to its fields; the address is the first."""


@contextmanager
def _elected(printer: FunctionPrinter, op: CopyMapOp | EditMapOp) -> Generator[None]:
    stores, stored = printer.new_label("map"), printer.new_label("mapped")
    printer.branch_if(printer.values[op.elected], stores, stored)
    printer.start(stores)
    yield
    printer.branch(stored)
    printer.start(stored)


def _print_copy_map(printer: FunctionPrinter, op: CopyMapOp) -> None:
    place = printer.tensors[op.place].pointer
    with _elected(printer, op):
        words = f"<{MAP_BYTES // 8} x i64>"
        found = printer.let(f"load {words}, ptr {printer.values[op.tensor_map]}, align 8")
        printer.line(f"store {words} {found}, ptr {place}, align 8")
    printer.values[op.result] = place


def _print_map_at(printer: FunctionPrinter, op: MapAtOp) -> None:
    printer.values[op.result] = printer.tensors[op.place].pointer


def _check(printer: FunctionPrinter, op: EditMapOp, number: str, mask: int, text: str) -> None:
    """Checks that none of these bits of an i64 is set."""
    wrong = printer.let(f"and i64 {number}, {mask}")
    print_check(printer, op, printer.let(f"icmp eq i64 {wrong}, 0"), f"tma.edit_map: {text}")


def _print_edit_map(printer: FunctionPrinter, op: EditMapOp) -> None:
    tensor = printer.tensors[op.tensor]
    kind, rank = tensor.type, tensor.type.rank
    sizes = [widened(printer, tensor.dim(axis), kind.dim_bits.data, 64) for axis in range(rank)]
    pitches = [
        printer.let(f"mul i64 {tensor.stride(printer, axis)}, {op.itemsize}")
        for axis in range(rank - 1)
    ]
    address = printer.let(f"ptrtoint ptr {tensor.pointer} to i64")
    name = op.tensor.name_hint or "the tensor"
    _check(printer, op, address, 15, f"the address of {name} is a multiple of 16 bytes")
    for pitch in pitches:
        text = f"strides of {name} are multiples of 16 bytes, from 0 up and below 2^40"
        _check(printer, op, pitch, ~((1 << 40) - 16), text)
    for size in sizes:
        some = printer.let(f"sub i64 {size}, 1")
        text = f"{name} has elements, fewer than 2^32 along each dimension; a GPU has no map of one without"
        _check(printer, op, some, ~0xFFFFFFFF, text)
    with _elected(printer, op):
        fields = {0: address, _ELEMENTS_FOUND: "1"}
        fields |= {_SIZES + 8 * axis: size for axis, size in enumerate(sizes)}
        fields |= {_PITCHES + 8 * axis: pitch for axis, pitch in enumerate(pitches)}
        for offset, value in fields.items():
            place = printer.let(
                f"getelementptr i8, ptr {printer.values[op.tensor_map]}, i64 {offset}"
            )
            printer.line(f"store i64 {value}, ptr {place}, align 8")


MAP_EDITS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    CopyMapOp: _print_copy_map,
    EditMapOp: _print_edit_map,
    MapAtOp: _print_map_at,
}
