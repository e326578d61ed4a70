# SPDX-License-Identifier: Apache-2.0
"""The tiles of a stack of matrices, in the order in which blocks take them.

In: a tile's number, or the result of a product. Out: where the tile is; how many there are.
"""

from __future__ import annotations

from typing import Any, Final

from weft.kernels.rows import index_of
from weft.language.control import ceil_div
from weft.language.numbers.math import min as lesser
from weft.types.dtype import i64

BAND: Final = 16  # rows of tiles that run together, so that they share the columns in the L2 cache


def place_of(tile: Any, stack: Any, m_tiles: Any, n_tiles: Any, sides: Any) -> Any:
    """A tile's matrix, row and column; BAND rows of tiles at a time, column by column. Traced in kernels."""
    matrix = ()
    if stack:
        number, tile = divmod(tile, m_tiles * n_tiles)
        matrix = index_of(number, stack)
    band, rest = divmod(tile, BAND * n_tiles)
    rows = lesser(m_tiles - BAND * band, BAND)
    return matrix, sides[0] * (BAND * band + rest % rows), sides[1] * (rest // rows)


def tiles_of(c: Any, sides: Any) -> Any:
    """The numbers of matrices along the stack's dimensions, and of tiles along m and n. Traced in host functions."""
    return (*c.shape[:-2], ceil_div(c.shape[-2], sides[0]), ceil_div(c.shape[-1], sides[1]))


def count_of(tiles: Any) -> Any:
    """How many tiles there are, an i64. Traced in host functions."""
    count = i64(1)
    for size in tiles:
        count *= size
    return count
