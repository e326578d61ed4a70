# SPDX-License-Identifier: Apache-2.0
"""Work beyond one tile with all of K: split-K, groups of rows, and groups along K.

Split-K: blocks that share a tile write partial sums to scratch memory, and a second kernel adds them up, always in the
same order. Groups of rows: a kernel of one block lists the row tiles of all groups first, so that every block of the
GEMM has work. Groups along K: each matrix of C sums its own range.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import ElementType, Int, Numbers
from weft.kernels.device.row import aligned, index_of, row_count, sum_type
from weft.kernels.linalg.epilogue import Epilogue

THREADS: Final = 256
GROUP_BLOCKS: Final = 33  # the first lists row tiles, the others zero rows outside of all groups
GROUP, ROW, ROW_END = range(3)  # the columns of `Split.row_tiles`


class Split(NamedTuple):
    """Division of work beyond tiles; a field of None does not apply.

    Attributes:
        k_per_split: the length of a split of K; the first dimension of C counts the splits.
        row_tiles: the group, the first row and the end of the group of each row tile; the last line holds their number.
        offsets: the bounds of each group along K; a matrix of C for each group.
    """

    k_per_split: weft.i32 | None = None
    row_tiles: weft.Tensor | None = None
    offsets: weft.Tensor | None = None

    @property
    def is_grouped(self) -> bool:
        """Whether there are groups; there may be no tile then, but one block."""
        return self.row_tiles is not None or self.offsets is not None


NO_SPLIT: Final = Split()


def num_splits_for(tiles: int, k: int, blocks: int, min_k: int, max_splits: int) -> int | None:
    """The number of splits of K that gives every resident block a tile; None below 2.

    Args:
        tiles: of C.
        k: the length of K.
        blocks: that the GPU runs at once.
        min_k: the shortest split whose sums are worth a pass through memory.
        max_splits: a limit by memory traffic.

    Example:
        >>> num_splits_for(32, 8192, 132, 512, 64), num_splits_for(100, 8192, 132, 512, 64)
        (4, None)
    """
    splits = min(blocks // max(tiles, 1), k // min_k, max_splits)
    return splits if splits > 1 else None


def split_work(
    c: weft.Tensor,
    dtype: ElementType,
    k: Int,
    bk: Int,
    bm: Int,
    num_splits: Int,
    offsets: weft.Tensor,
) -> tuple[Any, Split]:
    """The array that the GEMM kernel writes, and the split; traced in host functions.

    Args:
        c: the result.
        dtype: of the operands.
        k: the length of K.
        bk: of a step.
        bm: rows of a tile.
        num_splits: of K, or None.
        offsets: of groups of rows where C is a matrix, of groups along K where it is a stack; or None.
    """
    if num_splits is not None:
        k_per_split = bk * weft.ceil_div(weft.ceil_div(k, bk), num_splits)
        accumulator = sum_type(dtype)
        vector = weft.VECTOR_BYTES // accumulator.itemsize
        columns = vector * weft.ceil_div(c.shape[-1], vector)
        shape = weft.ceil_div(k, k_per_split), *c.shape[:-1], columns
        return weft.scratch(shape, accumulator), Split(k_per_split)
    if offsets is None:
        return c, NO_SPLIT
    if c.ndim > 2:
        return c, Split(offsets=offsets)
    row_tiles = weft.scratch((c.shape[0] // bm + offsets.shape[0], 3), weft.i32)
    row_tiles_kernel(offsets, row_tiles, c, bm).launch(grid=GROUP_BLOCKS, block=THREADS)
    return c, Split(row_tiles=row_tiles)


@weft.device
def clamped(offset: Int, count: Int) -> Int:
    """An offset, limited to an array of `count` rows."""
    return max(min(weft.i32(offset), count), 0)


@weft.device
def group_bounds(offsets: weft.Tensor, group: Int, count: Int) -> Numbers:
    """The start and end of a group, limited to `count` on a GPU; the CPU asserts that they are in order."""
    begin, end = offsets[group], offsets[group + 1]
    assert 0 <= begin <= end <= count, "offsets decrease, or are out of range"
    begin = clamped(begin, count)
    return begin, max(clamped(end, count), begin)


@weft.kernel(max_threads=THREADS)
def row_tiles_kernel(
    offsets: weft.Tensor, row_tiles: weft.Tensor, c: weft.Tensor, bm: weft.Constexpr[int]
) -> None:
    """The first block lists the row tiles of C; the others write zeros to rows outside of all groups."""
    if weft.block_idx.x == 0:
        _list_row_tiles(offsets, row_tiles, weft.i32(c.shape[0]), bm)
    else:
        count = weft.i32(c.shape[0])
        first = clamped(offsets[0], count)
        end = max(clamped(offsets[offsets.shape[0] - 1], count), first)
        for number in range(weft.block_idx.x - 1, first + count - end, GROUP_BLOCKS - 1):
            row = number if number < first else number - first + end
            for column in range(weft.thread_idx.x, c.shape[1], THREADS):
                c[row, column] = c.dtype(0.0)


@weft.device
def _list_row_tiles(offsets: weft.Tensor, row_tiles: weft.Tensor, count: Int, bm: Int) -> None:
    groups, limit, before = offsets.shape[0] - 1, row_tiles.shape[0] - 1, weft.i32(0)
    for first in range(0, groups, THREADS):
        group, begin, end = first + weft.thread_idx.x, weft.i32(0), weft.i32(0)
        if group < groups:
            begin, end = group_bounds(offsets, group, count)
        tiles = weft.ceil_div(end - begin, bm)
        at, total = weft.block.exclusive_scan(tiles, with_total=True)
        for tile in range(tiles):
            place = before + at + tile
            if place < limit:
                row_tiles[place, GROUP] = group
                row_tiles[place, ROW] = begin + bm * tile
                row_tiles[place, ROW_END] = end
        before += total
    if weft.thread_idx.x == 0:
        row_tiles[limit, GROUP] = min(before, limit)


def reduce_splits(partials: weft.Tensor, c: weft.Tensor, epilogue: Epilogue) -> None:
    """Adds up the partial sums of all splits, then applies the epilogue; traced in host functions."""
    vectors = row_count(c.shape) * weft.ceil_div(
        c.shape[-1], weft.VECTOR_BYTES // partials.dtype.itemsize
    )
    reduce_splits_kernel(partials, c, epilogue).launch(
        grid=weft.ceil_div(vectors, THREADS), block=THREADS
    )


@weft.kernel(max_threads=THREADS)
def reduce_splits_kernel(partials: weft.Tensor, c: weft.Tensor, epilogue: Epilogue) -> None:
    """A thread reduces one vector of a row."""
    vector = weft.VECTOR_BYTES // partials.dtype.itemsize
    row, number = divmod(
        weft.block_idx.x * THREADS + weft.thread_idx.x, weft.ceil_div(c.shape[-1], vector)
    )
    if row < row_count(c.shape):
        *batch, m = index_of(row, c.shape[:-1])
        first = vector * number
        totals = [partials.dtype(0.0)] * vector
        for split in weft.unroll(range(partials.shape[0]), 4):
            values = weft.load_vector(aligned(partials[(split, *batch, m)], vector), first, vector)
            totals = [total + value for total, value in zip(totals, values, strict=True)]
        for i, total in enumerate(totals):
            if first + i < c.shape[-1]:
                result = epilogue.apply_at(total, (), tuple(batch), m, first + i)
                c[(*batch, m, first + i)] = c.dtype(result)
