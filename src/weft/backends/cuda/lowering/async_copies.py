# SPDX-License-Identifier: Apache-2.0
"""Asynchronous copies on NVIDIA's GPUs: `cp.async`, `cp.async.bulk`, TMA, and tensor maps that kernels write.

In: operations of copies and tensor maps. Out: NVVM's intrinsics: in a `cp.async` (sm_80) 16 bytes pass the L1 cache by;
TMA's are convergent, with coordinates fastest first. sm_90a's `tensormap.replace` and `tensormap.cp_fenceproxy` are
assembly, which LLVM does not analyze; one thread of a warp writes a map.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.cached import print_policy
from weft.backends.cuda.lowering.convergent import call_convergent, has
from weft.codegen.llvm.function_printer import widened
from weft.codegen.operations.tensor_map import gathered_row_bytes, piece_places
from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.async_copy import (
    GATHERED_ROWS,
    BulkLoadOp,
    BulkReduceOp,
    BulkStoreOp,
    CpAsyncCommitOp,
    CpAsyncCopyOp,
    CpAsyncWaitOp,
    FenceProxyOp,
    TmaLoadOp,
    TmaPrefetchOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
    gathered_rows,
)
from weft.dialects.nvgpu.tensor_map import MAP_BYTES, CopyMapOp, EditMapOp, MapAtOp
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from xdsl.dialects.builtin import StringAttr
    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _call(printer: FunctionPrinter, name: str, *arguments: str) -> None:
    callee = printer.module.intrinsic(f"llvm.nvvm.cp.async.{name}")
    printer.line(f"call void {callee}({', '.join(arguments)})")


def _print_copy(printer: FunctionPrinter, op: CpAsyncCopyOp) -> None:
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
    _call(printer, "commit.group")


def _print_cp_async_wait(printer: FunctionPrinter, op: CpAsyncWaitOp) -> None:
    _call(printer, "wait.group", f"i32 {op.pending.value.data}")


CP_ASYNC: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    CpAsyncCopyOp: _print_copy,
    CpAsyncCommitOp: _print_commit,
    CpAsyncWaitOp: _print_cp_async_wait,
}


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
    rows = gathered_rows(op.tensor_map.type, op.indices)
    if rows:
        numbers = [printer.typed(row) for row in op.indices[:-1]]
        column, pitch = (
            printer.values[op.indices[-1]],
            gathered_row_bytes(op.tensor_map.type, tile.type),
        )
        for offset, (_, start) in piece_places(op.tensor_map.type, tile.type):
            first = printer.let(f"add i32 {column}, {start}") if start else column
            for row in range(0, rows, GATHERED_ROWS):
                distance = offset + row * pitch
                place = printer.let(f"getelementptr i8, {space} {tile.pointer}, i32 {distance}")
                yield f"{space} {place}", [f"i32 {first}", *numbers[row : row + GATHERED_ROWS]]
        return
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


def _print_tma_load(printer: FunctionPrinter, op: TmaLoadOp) -> None:
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
    kind: Any = op.tensor_map.type
    if gathered_rows(kind, op.indices):
        mode = "tile.gather4"
    for place, coordinates in _pieces(printer, op):
        to = place
        if form == "g2s":
            cluster = printer.module.target.pointer("cluster")
            to = f"{cluster} {printer.let(f'addrspacecast {place} to {cluster}')}"
        name = f"cp.async.bulk.tensor.{form}.{mode}.{kind.rank}d"
        pointer = f"ptr {printer.values[op.tensor_map]}"
        call_convergent(printer, "void", name, to, word, pointer, *coordinates, *offsets, *last)


def _print_out(printer: FunctionPrinter, op: TmaStoreOp | TmaReduceOp, form: str) -> None:
    policy = policy_arguments(printer, op.cache)
    kind: Any = op.tensor_map.type
    mode = "tile.scatter4" if gathered_rows(kind, op.indices) else "tile"
    for place, coordinates in _pieces(printer, op):
        name = f"cp.async.bulk.tensor.{form}.{mode}.{kind.rank}d"
        pointer = f"ptr {printer.values[op.tensor_map]}"
        call_convergent(printer, "void", name, place, pointer, *coordinates, *policy)
    call_convergent(printer, "void", "cp.async.bulk.commit.group")


def _print_tma_store(printer: FunctionPrinter, op: TmaStoreOp) -> None:
    _print_out(printer, op, "s2g")


def _print_reduce(printer: FunctionPrinter, op: TmaReduceOp) -> None:
    _print_out(printer, op, f"reduce.{op.kind.data}")


def _print_tma_wait(printer: FunctionPrinter, op: TmaWaitOp) -> None:
    name = "cp.async.bulk.wait.group" + (".read" if op.read is not None else "")
    call_convergent(printer, "void", name, f"i32 {op.pending.value.data}")


def _print_fence(printer: FunctionPrinter, op: FenceProxyOp) -> None:
    space = "global" if op.is_global is not None else "shared_cta"
    call_convergent(printer, "void", f"fence.proxy.async.{space}")


TMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    FenceProxyOp: _print_fence,
    TmaLoadOp: _print_tma_load,
    TmaPrefetchOp: _print_prefetch,
    TmaReduceOp: _print_reduce,
    TmaStoreOp: _print_tma_store,
    TmaWaitOp: _print_tma_wait,
}


def _print_bulk_load(printer: FunctionPrinter, op: BulkLoadOp) -> None:
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


def _print_bulk_store(printer: FunctionPrinter, op: BulkStoreOp) -> None:
    pointer = printer.module.target.pointer
    to = f"{pointer('global')} {printer.tensors[op.to].pointer}"
    source = f"{pointer('shared')} {printer.tensors[op.source].pointer}"
    name = "cp.async.bulk.shared.cta.to.global"
    policy = policy_arguments(printer, op.cache)
    call_convergent(printer, "void", name, to, source, printer.typed(op.size), *policy)
    call_convergent(printer, "void", "cp.async.bulk.commit.group")


def _print_bulk_reduce(printer: FunctionPrinter, op: BulkReduceOp) -> None:
    pointer, info = printer.module.target.pointer, INFO[op.element.data]
    to = f"{pointer('global')} {printer.tensors[op.to].pointer}"
    source = f"{pointer('shared')} {printer.tensors[op.source].pointer}"
    operands, constraints, hint, policy = [to, source, printer.typed(op.size)], "l r r", "", ""
    if op.cache is not None:
        operands.append(policy_arguments(printer, op.cache)[0])
        constraints, hint, policy = "l r r l", ".L2::cache_hint", ", $3"
    kind = op.kind.data
    bits = info.storage_bytes(1) * 8
    if kind in ("and", "or", "xor"):
        element = f"b{bits}"
    elif kind == "add" and info.kind == "int" and bits == 64:
        element = "u64"  # sums wrap; there are none of s64
    else:
        element = info.ptx
    rounding = ".noftz" if kind == "add" and element in ("f16", "bf16") else ""
    name = f"cp.reduce.async.bulk.global.shared::cta.bulk_group{hint}.{kind}{rounding}.{element}"
    _assembly(printer, f"{name} [$0], [$1], $2{policy};", constraints, *operands)
    call_convergent(printer, "void", "cp.async.bulk.commit.group")


BULK_COPIES: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    BulkLoadOp: _print_bulk_load,
    BulkReduceOp: _print_bulk_reduce,
    BulkStoreOp: _print_bulk_store,
}


def _assembly(printer: FunctionPrinter, text: str, constraints: str, *operands: str) -> None:
    listed = ",".join([*constraints.split(), "~{memory}"])
    printer.line(
        f'call void asm sideeffect "{text}", "{listed}"({", ".join(operands)}) convergent nounwind'
    )


def _acquire(printer: FunctionPrinter, pointer: str) -> None:
    """Makes writes to the map visible to this thread's later copies."""
    text = f"fence.proxy.tensormap::generic.acquire.gpu [$0], {MAP_BYTES};"
    _assembly(printer, text, "l", pointer)


@contextmanager
def _elected(printer: FunctionPrinter, op: CopyMapOp | EditMapOp) -> Generator[None]:
    """Edits by the warp's elected thread, before a barrier of the warp."""
    writes, written = printer.new_label("write_map"), printer.new_label("map_written")
    printer.branch_if(printer.values[op.elected], writes, written)
    printer.start(writes)
    yield
    printer.branch(written)
    printer.start(written)
    call_convergent(printer, "void", "bar.warp.sync", "i32 -1")


def _copy(printer: FunctionPrinter, source: str, target: str) -> None:
    """A map's bytes, 16 at a time."""
    words = "<4 x i32>"
    places = [
        [printer.let(f"getelementptr {words}, {side}, i32 {n}") for side in (source, target)]
        for n in range(MAP_BYTES // 16)
    ]
    spaces = [side.rpartition(" ")[0] for side in (source, target)]
    # An edit has written to memory by assembly: volatile.
    found = [
        printer.let(f"load volatile {words}, {spaces[0]} {own}, align 16") for own, _ in places
    ]
    for word, (_, place) in zip(found, places, strict=True):
        printer.line(f"store {words} {word}, {spaces[1]} {place}, align 16")


def _place(printer: FunctionPrinter, op: CopyMapOp | MapAtOp) -> str:
    """The place's address, generic as that of a launch's map."""
    own = f"{printer.module.target.pointer('global')} {printer.tensors[op.place].pointer}"
    return f"ptr {printer.let(f'addrspacecast {own} to ptr', 'map')}"


def _print_copy_map(printer: FunctionPrinter, op: CopyMapOp) -> None:
    place = _place(printer, op)
    with _elected(printer, op):
        _copy(printer, f"ptr {printer.values[op.tensor_map]}", place)
        _assembly(printer, "fence.proxy.tensormap::generic.release.gpu;", "")
    _acquire(printer, place)
    printer.values[op.result] = place.rpartition(" ")[2]


def _print_map_at(printer: FunctionPrinter, op: MapAtOp) -> None:
    place = _place(printer, op)
    _acquire(printer, place)
    printer.values[op.result] = place.rpartition(" ")[2]


def _print_edit_map(printer: FunctionPrinter, op: EditMapOp) -> None:
    pointer = f"ptr {printer.values[op.tensor_map]}"
    slot = f"{printer.module.target.pointer('shared')} {printer.tensors[op.slot].pointer}"
    with _elected(printer, op):
        _copy(printer, pointer, slot)
        _print_fields(printer, op, slot)
        # The thread's copies have read the map before it changes.
        call_convergent(printer, "void", "cp.async.bulk.commit.group")
        call_convergent(printer, "void", "cp.async.bulk.wait.group.read", "i32 0")
    form = "global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    _assembly(
        printer, f"tensormap.cp_fenceproxy.{form} [$0], [$1], {MAP_BYTES};", "l r", pointer, slot
    )
    _acquire(printer, pointer)


def _print_fields(printer: FunctionPrinter, op: EditMapOp, slot: str) -> None:
    """The tensor's address, dims and strides; the machine counts dimensions from the last one."""
    tensor = printer.tensors[op.tensor]
    kind, rank = tensor.type, tensor.type.rank

    def replace(field: str, bits: int, number: str, value: str) -> None:
        text = f"tensormap.replace.tile.{field}.shared::cta.b1024.b{bits} [$0], {number}$1;"
        _assembly(printer, text, "r l" if bits == 64 else "r r", slot, value)

    replace("global_address", 64, "", f"{printer.module.target.pointer('global')} {tensor.pointer}")
    for axis in reversed(range(rank)):
        size = widened(printer, tensor.dim(axis), kind.dim_bits.data, 64)
        short = printer.let(f"trunc i64 {size} to i32")
        replace("global_dim", 32, f"{rank - 1 - axis}, ", f"i32 {short}")
        if axis < rank - 1:
            pitch = printer.let(f"mul i64 {tensor.stride(printer, axis)}, {op.itemsize}")
            replace("global_stride", 64, f"{rank - 2 - axis}, ", f"i64 {pitch}")


MAP_EDITS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    CopyMapOp: _print_copy_map,
    EditMapOp: _print_edit_map,
    MapAtOp: _print_map_at,
}
