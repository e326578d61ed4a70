# SPDX-License-Identifier: Apache-2.0
"""The copy engine for tensors: sm_90's `cp.async.bulk.tensor` and what belongs to it.

In: the operations of dialects/nvgpu/tma. Out: NVVM's intrinsics, convergent, with coordinates fastest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent, require
from weft.codegen.operations.tma_tiles import piece_places
from weft.dialects.nvgpu.tma import (
    FenceProxyOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaStoreOp,
    TmaWaitOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_FIRST: Final = 90
_NO_POLICY: Final = ("i64 0", "i1 false")
# The mask of blocks, the policy, whether there are these, the group of blocks.
_NO_CLUSTER: Final = ("i16 0", "i64 0", "i1 false", "i1 false", "i32 0")


def _print_prefetch(printer: FunctionPrinter, op: TmaPrefetchOp) -> None:
    require(printer, op, _FIRST, "weft.tma.prefetch")
    pointer = f"ptr {printer.values[op.tensor_map]}"
    if not op.indices:
        call_convergent(printer, "void", "prefetch.tensormap", pointer)
        return
    coordinates = [printer.typed(index) for index in reversed(op.indices)]
    name = f"cp.async.bulk.tensor.prefetch.tile.{len(coordinates)}d"
    call_convergent(printer, "void", name, pointer, *coordinates, *_NO_POLICY)


def _pieces(printer: FunctionPrinter, op: Any) -> Iterator[tuple[str, list[str]]]:
    """Each copy of the machine: the address of its part of the tile, and its coordinates, fastest first."""
    tile = printer.tensors[op.tile]
    space = printer.module.target.pointer("shared")
    for offset, starts in piece_places(op.tensor_map.type, tile.type):
        place = tile.pointer
        if offset:
            place = printer.let(f"getelementptr i8, {space} {place}, i32 {offset}")
        coordinates = [
            printer.let(f"add i32 {printer.values[index]}, {start}")
            if start
            else printer.values[index]
            for index, start in zip(op.indices, starts, strict=True)
        ]
        yield f"{space} {place}", [f"i32 {text}" for text in reversed(coordinates)]


def _print_load(printer: FunctionPrinter, op: TmaLoadOp) -> None:
    require(printer, op, _FIRST, "weft.tma.load")
    space = printer.module.target.pointer("shared")
    word = f"{space} {printer.tensors[op.words].address(printer, [op.index])}"
    for place, coordinates in _pieces(printer, op):
        cluster = printer.let(f"addrspacecast {place} to ptr addrspace(7)")
        name = f"cp.async.bulk.tensor.g2s.tile.{len(coordinates)}d"
        call_convergent(
            printer,
            "void",
            name,
            f"ptr addrspace(7) {cluster}",
            word,
            f"ptr {printer.values[op.tensor_map]}",
            *coordinates,
            *_NO_CLUSTER,
        )


def _print_store(printer: FunctionPrinter, op: TmaStoreOp) -> None:
    require(printer, op, _FIRST, "weft.tma.store")
    for place, coordinates in _pieces(printer, op):
        name = f"cp.async.bulk.tensor.s2g.tile.{len(coordinates)}d"
        pointer = f"ptr {printer.values[op.tensor_map]}"
        call_convergent(printer, "void", name, place, pointer, *coordinates, *_NO_POLICY)
    call_convergent(printer, "void", "cp.async.bulk.commit.group")


def _print_wait(printer: FunctionPrinter, op: TmaWaitOp) -> None:
    require(printer, op, _FIRST, "weft.tma.wait")
    name = "cp.async.bulk.wait.group" + (".read" if op.read is not None else "")
    call_convergent(printer, "void", name, f"i32 {op.pending.value.data}")


def _print_fence(printer: FunctionPrinter, op: FenceProxyOp) -> None:
    require(printer, op, _FIRST, "weft.fence_proxy")
    call_convergent(printer, "void", "fence.proxy.async.shared_cta")


TMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    FenceProxyOp: _print_fence,
    TmaLoadOp: _print_load,
    TmaPrefetchOp: _print_prefetch,
    TmaStoreOp: _print_store,
    TmaWaitOp: _print_wait,
}
