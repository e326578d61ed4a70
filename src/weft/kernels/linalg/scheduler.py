# SPDX-License-Identifier: Apache-2.0
"""The tile scheduler: which tile of C a block computes, in what order, and over which range of K.

In: the index of a tile. Out: its `TileCoord`. Tiles are visited in groups of `GROUP_M` rows of tiles, column by column
within a group, so that blocks that run together share columns of B in the L2 cache.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import weft
from weft.kernels.annotations import Int, Numbers, Shape
from weft.kernels.device.row import index_of
from weft.kernels.linalg.split_k import GROUP, NO_SPLIT, ROW, ROW_END, Split, group_bounds

GROUP_M: Final = 16


class TileCoord(NamedTuple):
    """The position of a tile.

    Attributes:
        batch: the index of its operands in their stacks.
        c_batch: the index of its matrix in C.
        row, column: of the tile's first element.
        row_end: the end of the tile's group of rows; None without groups.
    """

    batch: Shape
    c_batch: Shape
    row: Int
    column: Int
    row_end: Int | None = None

    def slice_c(self, c: weft.Tensor) -> weft.Tensor:
        """The matrix of C that the tile belongs to, cut off at the end of its group."""
        if self.row_end is not None:
            return c[: self.row_end]
        return c[self.c_batch] if self.c_batch else c


def tile_counts(c: weft.Tensor, tile_shape: Shape, split: Split = NO_SPLIT) -> Shape:
    """The dimensions of C's stack, then the number of tiles along m (an upper bound with groups) and n.

    Traced in host functions.
    """
    if split.row_tiles is None:
        m_tiles = weft.ceil_div(c.shape[-2], tile_shape[0])
    else:
        m_tiles = split.row_tiles.shape[0] - 1
    return (*c.shape[:-2], m_tiles, weft.ceil_div(c.shape[-1], tile_shape[1]))


def grid_size(tiles: Shape) -> Int:
    """The number of blocks for `tile_counts`, an i64, at least 1: no grid is empty. Traced in host functions."""
    count = weft.i64(1)
    for size in tiles:
        count *= size
    return max(count, 1)


def num_tiles(tiles: Shape, split: Split = NO_SPLIT) -> Int:
    """The number of tiles that have work."""
    *stack, m_tiles, n_tiles = tiles
    if split.row_tiles is not None:
        m_tiles = split.row_tiles[m_tiles, GROUP]
    for size in stack:
        m_tiles *= size
    return m_tiles * n_tiles


@weft.device
def tile_coord(tile: Int, tiles: Shape, tile_shape: Shape, split: Split = NO_SPLIT) -> TileCoord:
    """The position of a tile.

    Args:
        tile: its index.
        tiles: `tile_counts`.
        tile_shape: rows and columns.
        split: of K, or the groups of rows.
    """
    *stack, m_tiles, n_tiles = tiles
    c_batch = ()
    if stack:
        number, tile = divmod(tile, m_tiles * n_tiles)
        c_batch = index_of(number, stack)
    if split.row_tiles is not None:
        m_tiles = split.row_tiles[m_tiles, GROUP]
    group, within = divmod(tile, GROUP_M * n_tiles)
    height = min(m_tiles - GROUP_M * group, GROUP_M)
    row, column = GROUP_M * group + within % height, tile_shape[1] * (within // height)
    if split.row_tiles is not None:
        number, first, end = (split.row_tiles[row, field] for field in (GROUP, ROW, ROW_END))
        return TileCoord((number,), (), first, column, end)
    batch = c_batch if split.k_per_split is None else c_batch[1:]
    return TileCoord(batch, c_batch, tile_shape[0] * row, column)


@weft.device
def k_bounds(coord: TileCoord, k: Int, split: Split) -> Numbers:
    """The range of K that is summed for a tile."""
    if split.k_per_split is not None:
        first = split.k_per_split * coord.c_batch[0]
        return first, min(first + split.k_per_split, k)
    if split.offsets is not None:
        return group_bounds(split.offsets, coord.c_batch[0], k)
    return 0, k
