# SPDX-License-Identifier: Apache-2.0
"""The tiles of a stack of matrices, in the order in which blocks take them.

In: a tile's number, or the result of a product. Out: where the tile is, and which products its sums have; how many
tiles there are.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.kernels.device.row import index_of
from weft.kernels.linalg.split_k import END, GROUP, ROW, WHOLE, bounds_of
from weft.language.control import ceil_div
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.types.dtype import i64

BAND: Final = 16  # rows of tiles that run together, so that they share the columns in the L2 cache


class Place(NamedTuple):
    """Where a tile is.

    Attributes:
        matrix: the index of its factors in their stacks.
        result: the index of its matrix in the result.
        row, column: of the tile's first element.
        end: the row where its group ends, or None where that is the matrix.
    """

    matrix: Any
    result: Any
    row: Any
    column: Any
    end: Any = None

    def matrix_of(self, c: Any) -> Any:
        """The tile's matrix of the result, or its rows up to the group's end; traced in kernels."""
        if self.end is not None:
            return c[: self.end]
        return c[self.result] if self.result else c


def count_in(tiles: Any, cut: Any = WHOLE) -> Any:
    """How many tiles there are; traced in kernels."""
    *stack, count, n_tiles = tiles
    if cut.rows is not None:
        count = cut.rows[count, GROUP]
    for size in stack:
        count *= size
    return count * n_tiles


def place_of(tile: Any, tiles: Any, sides: Any, cut: Any = WHOLE) -> Any:
    """A tile's place; BAND rows of tiles at a time, column by column. Traced in kernels.

    Args:
        tile: its number.
        tiles: the numbers of matrices along the result's dimensions, and of tiles along m and n of each.
        sides: of a tile.
        cut: how the work is cut.
    """
    *stack, m_tiles, n_tiles = tiles
    result = ()
    if stack:
        number, tile = divmod(tile, m_tiles * n_tiles)
        result = index_of(number, stack)
    if cut.rows is not None:
        m_tiles = cut.rows[m_tiles, GROUP]
    band, rest = divmod(tile, BAND * n_tiles)
    rows = lesser(m_tiles - BAND * band, BAND)
    row, column = BAND * band + rest % rows, sides[1] * (rest // rows)
    if cut.rows is not None:
        group, first, end = (cut.rows[row, part] for part in (GROUP, ROW, END))
        return Place((group,), (), first, column, end)
    matrix = result if cut.length is None else result[1:]
    return Place(matrix, result, sides[0] * row, column)


def sums_of(place: Any, k: Any, cut: Any) -> Any:
    """The first of a tile's products in its sums, and the one after the last; traced in kernels."""
    if cut.length is not None:
        first = cut.length * place.result[0]
        return first, lesser(first + cut.length, k)
    if cut.starts is not None:
        return bounds_of(cut.starts, place.result[0], k)
    return 0, k


def tiles_of(c: Any, sides: Any, cut: Any = WHOLE) -> Any:
    """How many matrices there are along each dimension of the stack, and tiles along m and n, at most.

    Traced in host functions.
    """
    m_tiles = ceil_div(c.shape[-2], sides[0]) if cut.rows is None else cut.rows.shape[0] - 1
    return (*c.shape[:-2], m_tiles, ceil_div(c.shape[-1], sides[1]))


def count_of(tiles: Any) -> Any:
    """How many tiles there are at most, an i64; 1 for none, as no grid is empty. Traced in host functions."""
    count = i64(1)
    for size in tiles:
        count *= size
    return greater(count, 1)
