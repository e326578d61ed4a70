# SPDX-License-Identifier: Apache-2.0
"""Tensor maps that kernels write, on the CPU: the numbers of `weft_cpu_tensor_map` (native/include/weft/tensor_map.h).

In: the operations of dialects/nvgpu/map_edits. Out: what one lane of a warp stores, between two barriers of the warp.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.debug import print_check
from weft.codegen.llvm.function_printer import widened
from weft.dialects.nvgpu.tensor_map import MAP_BYTES, MOST_RANK, CopyMapOp, EditMapOp, MapAtOp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_SIZES: Final = 8
_PITCHES: Final = _SIZES + 8 * MOST_RANK
_ELEMENTS_FOUND: Final = 104
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
