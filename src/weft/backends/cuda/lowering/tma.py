# SPDX-License-Identifier: Apache-2.0
"""TMA, copies of boxes of tensors: sm_90's `cp.async.bulk.tensor` and what belongs to it.

In: the operations of dialects/nvgpu/tma. Out: NVVM's intrinsics, convergent, with coordinates fastest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.cached import print_policy
from weft.backends.cuda.lowering.convergent import call_convergent, has, require
from weft.codegen.operations.tma_tiles import piece_places
from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.async_copy import (
    FenceProxyOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from xdsl.dialects.builtin import StringAttr
    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


def policy_arguments(printer: FunctionPrinter, cache: StringAttr | None) -> tuple[str, str]:
    """The last arguments of a copy's intrinsic: what becomes of the data in the L2 cache, and whether that is said."""
    if cache is None:
        return "i64 0", "i1 false"
    return f"i64 {print_policy(printer, cache.data)}", "i1 true"


def block_mask(printer: FunctionPrinter, ranks: Sequence[SSAValue]) -> tuple[str, str]:
    """The blocks of a cluster that a copy goes to, as bits of an i16, and whether there are any."""
    constant = 0
    mask = ""
    for rank in ranks:
        known = constant_integer(rank)
        if known is not None:
            constant |= 1 << known
            continue
        bit = printer.let(f"shl i32 1, {printer.values[rank]}")
        mask = printer.let(f"or i32 {mask}, {bit}") if mask else bit
    if not mask:
        return f"i16 {constant}", f"i1 {'true' if ranks else 'false'}"
    if constant:
        mask = printer.let(f"or i32 {mask}, {constant}")
    return f"i16 {printer.let(f'trunc i32 {mask} to i16', 'blocks')}", "i1 true"


def _print_prefetch(printer: FunctionPrinter, op: TmaPrefetchOp) -> None:
    require(printer, op, "tma", "weft.tma.prefetch")
    pointer = f"ptr {printer.values[op.tensor_map]}"
    if not op.indices:
        call_convergent(printer, "void", "prefetch.tensormap", pointer)
        return
    coordinates = [printer.typed(index) for index in reversed(op.indices)]
    name = f"cp.async.bulk.tensor.prefetch.tile.{len(coordinates)}d"
    call_convergent(printer, "void", name, pointer, *coordinates, *policy_arguments(printer, None))


def _pieces(printer: FunctionPrinter, op: Any) -> Iterator[tuple[str, list[str]]]:
    """Each copy of the machine: the address of its part of the tile, and its coordinates, fastest first."""
    tile = printer.tensors[op.tile]
    space = printer.module.target.pointer("shared")
    for offset, starts in piece_places(op.tensor_map.type, tile.type):
        place = tile.pointer
        if offset:
            place = printer.let(f"getelementptr i8, {space} {place}, i32 {offset}")
        # Of an im2col map a box has pixels and channels; copies differ by the channels alone.
        starts = (*[0] * (len(op.indices) - len(starts)), *starts)
        coordinates = [
            printer.let(f"add i32 {printer.values[index]}, {start}")
            if start
            else printer.values[index]
            for index, start in zip(op.indices, starts, strict=True)
        ]
        yield f"{space} {place}", [f"i32 {text}" for text in reversed(coordinates)]


def copies_into_block(printer: FunctionPrinter) -> bool:
    """Whether PTX has copies into a block's own shared memory, not only those into a cluster's.

    PTX 8.6 has, the version of sm_100. On sm_120 a copy into a cluster's is a call that keeps a stack.
    """
    return has(printer, "copy_to_cta")


def _print_load(printer: FunctionPrinter, op: TmaLoadOp) -> None:
    require(printer, op, "tma", "weft.tma.load")
    space = printer.module.target.pointer("shared")
    word = f"{space} {printer.tensors[op.words].address(printer, [op.index])}"
    policy, has_policy = policy_arguments(printer, op.cache)
    offsets = [
        f"i16 {printer.let(f'trunc i32 {printer.values[offset]} to i16')}"
        for offset in reversed(op.offsets)
    ]
    form, last = "g2s.cta", (policy, has_policy)
    if op.ranks or not copies_into_block(printer):
        mask, has_mask = block_mask(printer, op.ranks)
        form, last = "g2s", (mask, policy, has_mask, has_policy, "i32 0")
    mode = "im2col" if offsets else "tile"
    for place, coordinates in _pieces(printer, op):
        to = place
        if form == "g2s":
            cluster = printer.module.target.pointer("cluster")
            to = f"{cluster} {printer.let(f'addrspacecast {place} to {cluster}')}"
        name = f"cp.async.bulk.tensor.{form}.{mode}.{len(coordinates)}d"
        pointer = f"ptr {printer.values[op.tensor_map]}"
        call_convergent(printer, "void", name, to, word, pointer, *coordinates, *offsets, *last)


def _print_out(printer: FunctionPrinter, op: TmaStoreOp | TmaReduceOp, form: str) -> None:
    policy = policy_arguments(printer, op.cache)
    for place, coordinates in _pieces(printer, op):
        name = f"cp.async.bulk.tensor.{form}.tile.{len(coordinates)}d"
        pointer = f"ptr {printer.values[op.tensor_map]}"
        call_convergent(printer, "void", name, place, pointer, *coordinates, *policy)
    call_convergent(printer, "void", "cp.async.bulk.commit.group")


def _print_store(printer: FunctionPrinter, op: TmaStoreOp) -> None:
    require(printer, op, "tma", "weft.tma.store")
    _print_out(printer, op, "s2g")


def _print_reduce(printer: FunctionPrinter, op: TmaReduceOp) -> None:
    require(printer, op, "tma", "weft.tma.reduce")
    _print_out(printer, op, f"reduce.{op.kind.data}")


def _print_wait(printer: FunctionPrinter, op: TmaWaitOp) -> None:
    require(printer, op, "tma", "weft.tma.wait")
    name = "cp.async.bulk.wait.group" + (".read" if op.read is not None else "")
    call_convergent(printer, "void", name, f"i32 {op.pending.value.data}")


def _print_fence(printer: FunctionPrinter, op: FenceProxyOp) -> None:
    require(printer, op, "tma", "weft.fence_proxy")
    space = "global" if op.is_global is not None else "shared_cta"
    call_convergent(printer, "void", f"fence.proxy.async.{space}")


TMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    FenceProxyOp: _print_fence,
    TmaLoadOp: _print_load,
    TmaPrefetchOp: _print_prefetch,
    TmaReduceOp: _print_reduce,
    TmaStoreOp: _print_store,
    TmaWaitOp: _print_wait,
}
