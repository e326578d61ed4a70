# SPDX-License-Identifier: Apache-2.0
"""Tensor maps in host functions, and where a box of one lies in a tile of shared memory.

In: nvgpu.make_tensor_map. Out: a call of `table->make_tensor_map`, which fills 128 bytes of stack memory; the host
function is left where the tensor allows no map.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.types import widened
from weft.codegen.operations.host_function import place_text
from weft.codegen.operations.launch import MAP_ALIGNMENT, MAP_BYTES, print_return_on_failure
from weft.codegen.runtime_abi import call_row, table_of_frame
from weft.dialects.nvgpu.tensor_map import MOST_RANK, MakeTensorMapOp
from weft.driver.tensor_map import ELEMENTS, FILLS, L2_PROMOTIONS, SWIZZLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.nvgpu.tensor_map import TensorMapType
    from weft.dialects.simt.types import TensorType


def _site(printer: FunctionPrinter, op: MakeTensorMapOp) -> str:
    """A constant `weft_tensor_map_site`."""
    kind = op.result.type
    data_type, element_bytes = ELEMENTS[op.element.data]
    box = [*kind.piece, *[1] * (MOST_RANK - len(kind.box))]
    corners = [one.data for one in op.corners or ()]
    # The three numbers of each spatial dimension, all first ones first.
    spatial = [[*corners[place::3], 0, 0, 0][:3] for place in range(3)]
    numbers = [
        data_type,
        element_bytes,
        kind.rank,
        SWIZZLES[f"{kind.swizzle}B" if kind.swizzle else "none"],
        L2_PROMOTIONS[op.l2_promotion.data],
        FILLS[op.fill.data],
        *box,
        int(kind.is_im2col),
        *(number for numbers in spatial for number in numbers),
        0,
    ]
    texts = (printer.module.string(text) for text in (place_text(op), op.tensor.data))
    fields = [*(f"ptr {text}" for text in texts), *(f"i32 {number}" for number in numbers)]
    types = ", ".join(field.partition(" ")[0] for field in fields)
    return printer.module.add_global(
        f"private unnamed_addr constant {{ {types} }} {{ {', '.join(fields)} }}, align 8",
        "tensor_map",
    )


def _print_make_tensor_map(printer: FunctionPrinter, op: MakeTensorMapOp) -> None:
    tensor = printer.tensors[op.source]
    rank, bits = tensor.type.rank, tensor.type.dim_bits.data
    numbers = [widened(printer, tensor.dim(axis), bits, 64) for axis in range(rank)]
    numbers += [tensor.stride(printer, axis) for axis in range(rank)]
    slots = printer.alloca(f"[{2 * rank} x i64]", 8, "sizes")
    for index, number in enumerate(numbers):
        slot = printer.let(f"getelementptr i64, ptr {slots}, i64 {index}")
        printer.line(f"store i64 {number}, ptr {slot}, align 8")
    strides = printer.let(f"getelementptr i64, ptr {slots}, i64 {rank}")
    made = printer.alloca(f"[{MAP_BYTES} x i8]", MAP_ALIGNMENT, "map")
    code = call_row(
        printer,
        table_of_frame(printer),
        "make_tensor_map",
        "ptr %frame",
        f"ptr {_site(printer, op)}",
        f"ptr {tensor.pointer}",
        f"ptr {slots}",
        f"ptr {strides}",
        f"ptr {made}",
    )
    print_return_on_failure(printer, code)
    printer.values[op.result] = made


TENSOR_MAPS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    MakeTensorMapOp: _print_make_tensor_map,
}


def _strides(kind: TensorMapType, tile: TensorType) -> list[int]:
    """Strides of the box's dimensions in elements, within a swizzle atom if swizzled; 0 where the box has one index."""
    steps = [1]
    for dimension in reversed(range(1, len(kind.box))):
        is_row = dimension == len(kind.box) - 1 and tile.swizzle_atoms is not None
        steps.append(tile.atom_columns if is_row else steps[-1] * kind.box[dimension])
    return [step if size != 1 else 0 for size, step in zip(kind.box, reversed(steps), strict=True)]


def piece_places(kind: TensorMapType, tile: TensorType) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each copy of the machine: bytes from the tile's address, and the element of the box that it begins with."""
    width, atom_stride = _atoms(kind, tile)
    strides = _strides(kind, tile)
    steps = zip(kind.box, kind.piece, strict=True)
    for start in product(*(range(0, size, step) for size, step in steps)):
        atom, column = divmod(start[-1], width)
        offset = atom * atom_stride + column
        offset += sum(s * place for s, place in zip(strides, start[:-1], strict=False))
        yield offset * kind.itemsize, start


def gathered_row_bytes(kind: TensorMapType, tile: TensorType) -> int:
    """Bytes from a row of a tile to the next, of rows with an index each."""
    return _atoms(kind, tile)[0] * kind.itemsize


def tile_constant(kind: TensorMapType, tile: TensorType) -> str:
    """A constant `weft_tma_tile` (native/include/weft/tensor_map.h)."""
    width, atom_stride = _atoms(kind, tile)
    unused = MOST_RANK - len(kind.box)
    mask = tile.swizzle_atoms.mask if tile.swizzle_atoms is not None else 0
    fields = [
        *(f"i32 {size}" for size in (*kind.box, *[1] * unused, mask)),
        *(f"i64 {stride}" for stride in (*_strides(kind, tile), *[0] * unused)),
        f"i64 {width}",
        f"i64 {atom_stride}",
    ]
    types = ", ".join(field.partition(" ")[0] for field in fields)
    return f"private unnamed_addr constant {{ {types} }} {{ {', '.join(fields)} }}, align 8"


def _atoms(kind: TensorMapType, tile: TensorType) -> tuple[int, int]:
    """Columns of an atom, and elements from one column of atoms to the next; without a swizzle there is one."""
    if tile.swizzle_atoms is None:
        return kind.box[-1], 0
    return tile.atom_columns, tile.swizzle_atoms.atom_stride.data
