# SPDX-License-Identifier: Apache-2.0
"""Where a box of a tensor map lies in a tile of shared memory.

In: the types of the map and of the tile, which lies in panels. Out: each copy of the machine; data for the CPU.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from weft.dialects.nvgpu.tensor_map import MOST_RANK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.dialects.nvgpu.tensor_map import TensorMapType
    from weft.dialects.simt.types import TensorType


def _strides(kind: TensorMapType, tile: TensorType) -> list[int]:
    """Elements between neighbors along each dimension of the box, within a panel; 0 where it has one."""
    return [*(tile.panel_columns if size != 1 else 0 for size in kind.box[:-1]), 1]


def piece_places(kind: TensorMapType, tile: TensorType) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each copy of the machine: bytes from the tile's address, and the element of the box that it begins with."""
    swizzle = tile.panels
    assert swizzle is not None
    width, strides = tile.panel_columns, _strides(kind, tile)
    steps = zip(kind.box, kind.piece, strict=True)
    for start in product(*(range(0, size, step) for size, step in steps)):
        panel, column = divmod(start[-1], width)
        offset = panel * swizzle.panel_stride.data + column
        offset += sum(s * place for s, place in zip(strides, start[:-1], strict=False))
        yield offset * kind.itemsize, start


def tile_constant(kind: TensorMapType, tile: TensorType) -> str:
    """A constant `weft_tma_tile` (native/include/weft/tensor_map.h)."""
    swizzle = tile.panels
    assert swizzle is not None
    unused = MOST_RANK - len(kind.box)
    fields = [
        *(f"i32 {size}" for size in (*kind.box, *[1] * unused, swizzle.mask)),
        *(f"i64 {stride}" for stride in (*_strides(kind, tile), *[0] * unused)),
        f"i64 {tile.panel_columns}",
        f"i64 {swizzle.panel_stride.data}",
    ]
    types = ", ".join(field.partition(" ")[0] for field in fields)
    return f"private unnamed_addr constant {{ {types} }} {{ {', '.join(fields)} }}, align 8"
