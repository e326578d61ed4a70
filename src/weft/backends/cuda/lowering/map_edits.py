# SPDX-License-Identifier: Apache-2.0
"""Tensor maps that kernels write: sm_90a's `tensormap.replace` and `tensormap.cp_fenceproxy`, and the fences of maps.

In: the operations of dialects/nvgpu/map_edits. Out: what one thread of a warp writes, and assembly of which LLVM knows
nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent, require
from weft.codegen.llvm.function_printer import widened
from weft.dialects.nvgpu.tensor_map import MAP_BYTES, CopyMapOp, EditMapOp, MapAtOp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _assembly(printer: FunctionPrinter, text: str, constraints: str, *operands: str) -> None:
    listed = ",".join([*constraints.split(), "~{memory}"])
    printer.line(
        f'call void asm sideeffect "{text}", "{listed}"({", ".join(operands)}) convergent nounwind'
    )


def _acquire(printer: FunctionPrinter, pointer: str) -> None:
    """What was written to the map is what copies of this thread find from here on."""
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
    require(printer, op, "tensormap", "weft.tma.copy_map")
    place = _place(printer, op)
    with _elected(printer, op):
        _copy(printer, f"ptr {printer.values[op.tensor_map]}", place)
        _assembly(printer, "fence.proxy.tensormap::generic.release.gpu;", "")
    _acquire(printer, place)
    printer.values[op.result] = place.rpartition(" ")[2]


def _print_map_at(printer: FunctionPrinter, op: MapAtOp) -> None:
    require(printer, op, "tensormap", "weft.tma.map_at")
    place = _place(printer, op)
    _acquire(printer, place)
    printer.values[op.result] = place.rpartition(" ")[2]


def _print_edit_map(printer: FunctionPrinter, op: EditMapOp) -> None:
    require(printer, op, "tensormap", "weft.tma.edit_map")
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
