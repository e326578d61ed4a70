# SPDX-License-Identifier: Apache-2.0
"""The tiles of a stack of matrices, in the order in which blocks take them.

In: a tile's number, or the result of a product. Out: where the tile is; how many there are.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.kernels.arrays import Int32
from weft.kernels.rows import index_of
from weft.language.control import ceil_div
from weft.language.numbers.math import min as lesser
from weft.types.dtype import i64

BAND: Final = 16  # rows of tiles that run together, so that they share the columns in the L2 cache


class Cut(NamedTuple):
    """How a product's work is cut beyond tiles; what is None is not.

    Attributes:
        steps: of a part of the sums; the result has such parts along its first dimension.
    """

    steps: Int32 | None = None


WHOLE: Final = Cut()
"""Whole sums of a stack of products."""


class Place(NamedTuple):
    """Where a tile is.

    Attributes:
        matrix: the index of its factors in their stacks.
        result: the index of its matrix in the result.
        row, column: of the tile's first element.
    """

    matrix: Any
    result: Any
    row: Any
    column: Any


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
    band, rest = divmod(tile, BAND * n_tiles)
    rows = lesser(m_tiles - BAND * band, BAND)
    matrix = result if cut.steps is None else result[1:]
    return Place(matrix, result, sides[0] * (BAND * band + rest % rows), sides[1] * (rest // rows))


def steps_of(place: Any, steps: Any, cut: Any) -> Any:
    """The first step of a tile's sum, and the one after its last; traced in kernels."""
    if cut.steps is None:
        return 0, steps
    first = cut.steps * place.result[0]
    return first, lesser(first + cut.steps, steps)


def tiles_of(c: Any, sides: Any) -> Any:
    """The numbers of matrices along the stack's dimensions, and of tiles along m and n. Traced in host functions."""
    return (*c.shape[:-2], ceil_div(c.shape[-2], sides[0]), ceil_div(c.shape[-1], sides[1]))


def count_of(tiles: Any) -> Any:
    """How many tiles there are, an i64. Traced in host functions."""
    count = i64(1)
    for size in tiles:
        count *= size
    return count
