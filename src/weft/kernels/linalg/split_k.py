# SPDX-License-Identifier: Apache-2.0
"""How products are cut beyond tiles: long sums into parts, packed rows and packed sums into groups.

In: a product's sizes, maybe where its groups begin. Out: a `Cut`, which kernels take; what runs before and after them.
Blocks that share a sum leave their parts in memory, and a second kernel adds them up, always in the same order. Groups
of rows have rows of tiles of their own; a kernel of one block lists them first, so that every tile has work.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.api import kernel
from weft.kernels.device.row import index_of, row_count, sum_type
from weft.kernels.device.views import aligned
from weft.kernels.host.arrays import Array, Constant, Int32
from weft.kernels.linalg.epilogue import Ending
from weft.language.control import ceil_div, unroll
from weft.language.memory.scratch import scratch
from weft.language.memory.vectors import load_vector
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.scans import exclusive_scan
from weft.types.dtype import i32

THREADS: Final = 256  # of a block that lists rows of tiles, or adds parts
ACCESS: Final = 16  # bytes of a part that a thread adds to others at a time
BLOCKS: Final = 33  # of which one lists them
GROUP, ROW, END = range(3)  # of the list


class Cut(NamedTuple):
    """How a product's work is cut; what is None is not.

    Attributes:
        length: of a part of the sums; the result has such parts along its first dimension.
        rows: the group, the first row and the end of the group of each row of tiles; in the last line how many there
            are.
        starts: where the sums of each matrix of the result begin, and where the last ones end.
    """

    length: Int32 | None = None
    rows: Array | None = None
    starts: Array | None = None

    @property
    def is_grouped(self) -> bool:
        """Whether there are groups, maybe none of them, and so maybe no tile for the one block of a launch."""
        return self.rows is not None or self.starts is not None


WHOLE: Final = Cut()
"""Whole sums of a stack of products."""


def parts_for(tiles: int, k: int, blocks: int, shortest: int, most: int) -> int | None:
    """Into how many parts sums are cut, or None for whole ones.

    As many as give every block of a GPU one, where that is two or more.

    Args:
        tiles: of the result.
        k: products of a sum.
        blocks: that a GPU runs at once.
        shortest: products of a part; fewer take less time than their sums on their way through memory.
        most: parts that move no more memory than is worth it.

    Example:
        >>> parts_for(32, 8192, 132, 512, 64), parts_for(100, 8192, 132, 512, 64)
        (4, None)
    """
    parts = min(blocks // max(tiles, 1), k // shortest, most)
    return parts if parts > 1 else None


def cut_of(c: Any, dtype: Any, k: Any, step: Any, side: Any, parts: Any, starts: Any) -> Any:
    """What a product writes to, and how it is cut; traced in host functions.

    Args:
        c: the result.
        dtype: of the factors.
        k: products of a sum.
        step: of a sum.
        side: rows of a tile.
        parts: of a sum, or None.
        starts: of groups of rows, where the result is a matrix, or of sums, where it is a stack; or None.
    """
    if parts is not None:
        length = step * ceil_div(ceil_div(k, step), parts)
        total = sum_type(dtype)
        neighbors = ACCESS // total.itemsize
        columns = neighbors * ceil_div(c.shape[-1], neighbors)
        shape = ceil_div(k, length), *c.shape[:-1], columns
        return scratch(shape, total), Cut(length)
    if starts is None:
        return c, WHOLE
    if c.ndim > 2:
        return c, Cut(starts=starts)
    rows = scratch((c.shape[0] // side + starts.shape[0], 3), i32)
    rows_kernel(starts, rows, c, side).launch(grid=BLOCKS, block=THREADS)
    return c, Cut(rows=rows)


def within(start: Any, count: Any) -> Any:
    """A start, not beyond so many; traced in kernels."""
    return greater(lesser(i32(start), count), 0)


def bounds_of(starts: Any, group: Any, count: Any) -> Any:
    """Where a group begins and ends among so many; traced in kernels. What starts say is checked on the CPU."""
    begin, end = starts[group], starts[group + 1]
    assert 0 <= begin <= end <= count, "starts is not a row of bounds"
    begin = within(begin, count)
    return begin, greater(within(end, count), begin)


@kernel(max_threads=THREADS)
def rows_kernel(starts: Array, rows: Array, c: Array, side: Constant) -> None:
    """The first block lists the rows of tiles of `c`; the others write zeros into rows of no group."""
    if block_idx.x == 0:
        _list_rows(starts, rows, i32(c.shape[0]), side)
    else:
        count = i32(c.shape[0])
        first = within(starts[0], count)
        end = greater(within(starts[starts.shape[0] - 1], count), first)
        for number in range(block_idx.x - 1, first + count - end, BLOCKS - 1):
            row = number if number < first else number - first + end
            for column in range(thread_idx.x, c.shape[1], THREADS):
                c[row, column] = c.dtype(0.0)


def _list_rows(starts: Any, rows: Any, count: Any, side: Any) -> None:
    groups, most, before = starts.shape[0] - 1, rows.shape[0] - 1, i32(0)
    for first in range(0, groups, THREADS):
        group, begin, end = first + thread_idx.x, i32(0), i32(0)
        if group < groups:
            begin, end = bounds_of(starts, group, count)
        own = ceil_div(end - begin, side)
        at, total = exclusive_scan(own, with_total=True)
        for tile in range(own):
            place = before + at + tile
            if place < most:
                rows[place, GROUP] = group
                rows[place, ROW] = begin + side * tile
                rows[place, END] = end
        before += total
    if thread_idx.x == 0:
        rows[most, GROUP] = lesser(before, most)


def add_up(parts: Any, c: Any, ending: Any) -> None:
    """Launches what adds parts up and finishes the sums; traced in host functions."""
    groups = row_count(c.shape) * ceil_div(c.shape[-1], ACCESS // parts.dtype.itemsize)
    sum_kernel(parts, c, ending).launch(grid=ceil_div(groups, THREADS), block=THREADS)


@kernel(max_threads=THREADS)
def sum_kernel(parts: Array, c: Array, ending: Ending) -> None:
    """A thread: neighbors of a row."""
    count = ACCESS // parts.dtype.itemsize
    row, group = divmod(block_idx.x * THREADS + thread_idx.x, ceil_div(c.shape[-1], count))
    if row < row_count(c.shape):
        place, first = index_of(row, c.shape[:-1]), count * group
        totals = [parts.dtype(0.0)] * count
        for part in unroll(range(parts.shape[0]), 4):
            values = load_vector(aligned(parts[(part, *place)], count), first, count)
            totals = [total + value for total, value in zip(totals, values, strict=True)]
        for i, total in enumerate(totals):
            at = (*place, first + i)
            if first + i < c.shape[-1]:
                bias = None if ending.bias is None else ending.bias[first + i]
                residual = None if ending.residual is None else ending.residual[at]
                c[at] = c.dtype(ending.finished(total, bias, residual))
