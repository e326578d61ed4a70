# SPDX-License-Identifier: Apache-2.0
"""How a Hopper GPU multiplies: which tiles, and what the blocks of a cluster share.

In: the sizes of a product. Out: a `Plan`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final, NamedTuple

from weft.kernels.host.arrays import Constant

ROW_BYTES: Final = 128  # of a and b in a tile: 64 elements of 16 bits, 128 of 8
SHARED_BYTES: Final = 226 * 1024  # of a block, without barriers
MOST_STAGES: Final = 12
ROWS: Final = 128
COLUMNS: Final = 256
FEW: Final = 64  # rows that are too few for a tile
SHORTEST: Final = 512  # part of a sum that passes through memory

# Of an H200, by measurement: per µs and multiprocessor, but for what is read and copied again; constant times are µs.
OPERATIONS: Final = 6.7e6  # of 16-bit floats
LEAST_COLUMNS: Final = 64  # fewer take a warpgroup as long
COPIED: Final = 160e3  # bytes
READ: Final = 4.1e6  # bytes from memory
READ_BY_ONE: Final = 40e3  # by the blocks that run at once
CACHE: Final = 40e6  # bytes that are not read from memory
COPIED_AGAIN: Final = 35e6  # bytes by all, while others are read from memory
EXCHANGED: Final = 32e3  # bytes of sums
STEP: Final = 0.12
TILE: Final = 2.9
CLUSTER: Final = 1.0
SECOND_LAUNCH: Final = 4.0
CLUSTERS: Final = {
    1: 1.0,
    2: 1.0,
    4: 0.85,
    8: 0.75,
}  # share of the multiprocessors that clusters reach


class Plan(NamedTuple):
    """How the matrices lie, and what a block does; known when the kernel is compiled.

    Attributes:
        rows_of_a: whether a row of `a` has no gaps in memory, else a column.
        columns_of_b: whether a column of `b` has none, else a row.
        stacks: whether there is a matrix of `a` and of `b` for each of the result, or one for all.
        by_copies: whether the result is a tensor map, else a tensor.
        columns: of a tile, a multiple of 8 for each of `parts`, of 64 where `b` has no `columns_of_b` or the result is
            by copies; 128 where factors are scaled, which needs two sets of sums.
        rows: of a tile, 64 for each warpgroup that multiplies.
        parts: blocks of a cluster that have a part of a tile's sums each.
        neighbors: blocks of a cluster whose tiles have the same columns, of which each copies a share to all.
        pending: products that are under way while the next one begins.
        is_scaled: whether blocks of the factors have scales.
        profiled: whether a `weft.profiler.capture` shows what the block does when.
    """

    rows_of_a: Constant = True
    columns_of_b: Constant = True
    stacks: Constant = (False, False)
    by_copies: Constant = True
    columns: Constant = COLUMNS
    rows: Constant = ROWS
    parts: Constant = 1
    neighbors: Constant = 1
    pending: Constant = 0
    is_scaled: Constant = False
    profiled: Constant = False

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.parts * self.neighbors  # type: ignore[operator]

    @property
    def owners(self) -> int:
        """Blocks of a cluster that add up the parts of a share of the columns each, whole groups of eight."""
        groups = self.columns // 8
        return max(count for count in range(1, self.parts + 1) if groups % count == 0)

    def stages(self, itemsize: int) -> int:
        """Of the ring: as many as shared memory has, beside what results of that size take."""
        rows, columns = self.rows, self.columns
        result = 2 * 64 * rows * itemsize if self.by_copies else 0
        inbox = 4 * rows * columns * self.parts // self.owners if self.parts > 1 else 0
        stage = ROW_BYTES * (rows + columns) + (4 * rows if self.is_scaled else 0)
        return min((SHARED_BYTES - result - inbox) // stage, MOST_STAGES)


USUAL: Final = Plan()
"""One matrix of each; sums run along rows of both in memory; tiles of the result are copied."""


class Choice(NamedTuple):
    """Tiles, and how many blocks share the sums of one.

    Attributes:
        rows, columns: of a tile.
        parts: blocks of a cluster for a tile.
        neighbors: blocks of a cluster that share columns.
        cut: parts of a sum whose sums pass through memory, or None.
    """

    rows: int = ROWS
    columns: int = COLUMNS
    parts: int = 1
    neighbors: int = 1
    cut: int | None = None


@cache
def choose(
    shape: tuple[int, ...], k: int, itemsize: int, multiprocessors: int, widths: tuple[int, ...]
) -> Choice:
    """The tiles and parts that take the least time, by `time_of`.

    Args:
        shape: of the result, (..., m, n).
        k: products of a sum.
        itemsize: of the factors' elements.
        multiprocessors: of the GPU.
        widths: columns of tiles that may be chosen.
    """
    m, steps = shape[-2], -(-k * itemsize // ROW_BYTES)
    found: list[tuple[float, Choice]] = []

    def add(choice: Choice) -> None:
        plan = Plan(rows=choice.rows, columns=choice.columns, parts=choice.parts)
        if plan.stages(2) > 2:
            found.append((time_of(choice, shape, k, itemsize, multiprocessors), choice))

    for columns in widths:
        for rows in (64, 128):
            tiles = _count(shape, rows, columns)
            if (rows == 128 and m <= 64) or (rows == 64 and m > 64 and tiles > multiprocessors):
                continue  # half of each tile is empty; one warpgroup has to do the work of two
            for parts in (1, 2, 4, 8):
                if parts <= max(steps, 1):
                    add(Choice(rows, columns, parts))
            if rows == 64 < m and columns >= 64:
                add(Choice(rows, columns, neighbors=2))
            cut = min(multiprocessors // tiles, k // SHORTEST)
            if cut > 8:
                add(Choice(rows, columns, cut=cut))
    return min(found)[1]


def time_of(
    choice: Choice, shape: tuple[int, ...], k: int, itemsize: int, multiprocessors: int
) -> float:
    """What a product takes in µs, roughly: the slowest of copies and tensor cores, and what is not hidden by them."""
    rows, columns, parts, neighbors, cut = choice
    m, n = shape[-2:]
    blocks = _count(shape, rows, columns) * parts * (cut or 1)
    waves = -(-blocks // max(int(multiprocessors * CLUSTERS[parts * neighbors]), 1))
    steps = -(-k * itemsize // (ROW_BYTES * parts * (cut or 1)))
    step = max(
        rows * max(columns, LEAST_COLUMNS) * ROW_BYTES / OPERATIONS,
        ROW_BYTES * (rows + columns) / COPIED,
        STEP,
    )
    time = waves * (steps * step + TILE)
    read = k * itemsize * (m + n) * math.prod(shape[:-2])
    if read > CACHE:
        copied = blocks * steps * ROW_BYTES * (rows + columns / neighbors)
        reading = read / min(READ, READ_BY_ONE * min(blocks // waves, multiprocessors))
        time = max(time, TILE + reading + max(copied - read, 0.0) / COPIED_AGAIN)
    if parts * neighbors > 1:
        time += CLUSTER
    if parts > 1:
        time += 4 * rows * columns / EXCHANGED
    if cut:
        time += SECOND_LAUNCH + 8 * cut * m * n / READ
    return time


def _count(shape: tuple[int, ...], rows: int, columns: int) -> int:
    return -(-shape[-2] // rows) * -(-shape[-1] // columns) * math.prod(shape[:-2])


def widths_of(n: int, columns_of_b: bool, is_scaled: bool) -> tuple[int, ...]:
    """Columns of tiles for a result of n, of factors that lie, and are scaled, in that way."""
    if is_scaled:
        return (128,)
    if columns_of_b and n <= 64:
        return (8 * -(-n // 8),)
    return tuple(width for width in (32, 64, 128, 256) if width >= 64 or columns_of_b)


def columns_for(n: int) -> int:
    """Columns of a tile, for a result of n whose rows have groups."""
    return next((columns for columns in (64, 128) if n <= columns), COLUMNS)
