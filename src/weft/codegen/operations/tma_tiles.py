# SPDX-License-Identifier: Apache-2.0
"""Where a box of a tensor map lies in a tile of shared memory.

In: the types of the map and of the tile, which lies in panels or in a row. Out: each copy of the machine; data for the
CPU.
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
    """Strides of the box's dimensions in elements, in panels within one; 0 where the box has one index."""
    steps = [1]
    for dimension in reversed(range(1, len(kind.box))):
        is_row = dimension == len(kind.box) - 1 and tile.panels is not None
        steps.append(tile.panel_columns if is_row else steps[-1] * kind.box[dimension])
    return [step if size != 1 else 0 for size, step in zip(kind.box, reversed(steps), strict=True)]


def piece_places(kind: TensorMapType, tile: TensorType) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each copy of the machine: bytes from the tile's address, and the element of the box that it begins with."""
    width, panel_stride = _panels(kind, tile)
    strides = _strides(kind, tile)
    steps = zip(kind.box, kind.piece, strict=True)
    for start in product(*(range(0, size, step) for size, step in steps)):
        panel, column = divmod(start[-1], width)
        offset = panel * panel_stride + column
        offset += sum(s * place for s, place in zip(strides, start[:-1], strict=False))
        yield offset * kind.itemsize, start


def tile_constant(kind: TensorMapType, tile: TensorType) -> str:
    """A constant `weft_tma_tile` (native/include/weft/tensor_map.h)."""
    width, panel_stride = _panels(kind, tile)
    unused = MOST_RANK - len(kind.box)
    mask = tile.panels.mask if tile.panels is not None else 0
    fields = [
        *(f"i32 {size}" for size in (*kind.box, *[1] * unused, mask)),
        *(f"i64 {stride}" for stride in (*_strides(kind, tile), *[0] * unused)),
        f"i64 {width}",
        f"i64 {panel_stride}",
    ]
    types = ", ".join(field.partition(" ")[0] for field in fields)
    return f"private unnamed_addr constant {{ {types} }} {{ {', '.join(fields)} }}, align 8"


def _panels(kind: TensorMapType, tile: TensorType) -> tuple[int, int]:
    """Columns of a panel, and elements from one to the next; without a swizzle there is one."""
    if tile.panels is None:
        return kind.box[-1], 0
    return tile.panel_columns, tile.panels.panel_stride.data
