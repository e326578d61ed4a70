# SPDX-License-Identifier: Apache-2.0
"""How a Hopper GPU multiplies: which tiles, and what the blocks of a cluster share.

In: the sizes of a product. Out: a `Plan`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from weft.kernels.arrays import Constant

ROW_BYTES: Final = 128  # of a and b in a tile: 64 elements of 16 bits, 128 of 8
SHARED_BYTES: Final = 226 * 1024  # of a block, without barriers
MOST_STAGES: Final = 12
ROWS: Final = 128
COLUMNS: Final = 256
SHORTEST: Final = 512  # part of a sum that passes through memory

# Of an H200, by measurement: per µs and multiprocessor, but for COPIED_BY_ALL and READ; constant times are µs.
OPERATIONS: Final = 6.4e6  # of 16-bit floats
LEAST_COLUMNS: Final = 64  # fewer take a warpgroup as long
COPIED: Final = 80e3  # bytes
COPIED_BY_ALL: Final = 8e6
READ: Final = 4e6
EXCHANGED: Final = 40e3
STEP: Final = 0.12
TILE: Final = 1.5
CLUSTER: Final = 1.5
SECOND_LAUNCH: Final = 4.0


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
    overlaps: Constant = True
    profiled: Constant = False

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.parts * self.neighbors  # type: ignore[operator]

    def stages(self, itemsize: int) -> int:
        """Of the ring: as many as shared memory has, beside what results of that size take."""
        rows, columns = self.rows, self.columns
        result = 2 * 64 * rows * itemsize if self.by_copies else 0
        inbox = 4 * rows * columns if self.parts > 1 else 0
        return min((SHARED_BYTES - result - inbox) // (ROW_BYTES * (rows + columns)), MOST_STAGES)


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


def choose(
    shape: tuple[int, ...],
    k: int,
    itemsize: int,
    multiprocessors: int,
    columns: tuple[int, ...] = (16, 32, 64, 128, 256),
) -> Choice:
    """The tiles and parts that take the least time, by `time_of`.

    Args:
        shape: of the result, (..., m, n).
        k: products of a sum.
        itemsize: of the factors' elements.
        multiprocessors: of the GPU.
        columns: of tiles that may be chosen.
    """
    m, n = shape[-2:]
    most = n if n in columns else next((c for c in columns if c > n), columns[-1])
    found: list[tuple[float, Choice]] = []
    for rows in (64, 128):
        for width in columns:
            if width > most or (rows == 128 and m <= 64):
                continue
            for parts in (1, 2, 4, 8):
                choice = Choice(rows, width, parts)
                steps = -(-k * itemsize // ROW_BYTES)
                plan = Plan(rows=rows, columns=width, parts=parts, by_copies=parts == 1)
                if parts > max(steps, 1) or width % (8 * parts) or plan.stages(2) < 3:
                    continue
                found.append((time_of(choice, shape, k, itemsize, multiprocessors), choice))
    rows = ROWS if m > 64 else 64
    width = min(most, COLUMNS)
    tiles = _count(shape, rows, width)
    cut = min(multiprocessors // max(tiles, 1), k // SHORTEST)
    if cut > 8:
        choice = Choice(rows, width, 1, 1, cut)
        found.append((time_of(choice, shape, k, itemsize, multiprocessors), choice))
    return min(found)[1]


def time_of(
    choice: Choice, shape: tuple[int, ...], k: int, itemsize: int, multiprocessors: int
) -> float:
    """What a product takes in µs, roughly: the slowest of copies and tensor cores, and what is not hidden by them."""
    rows, columns, parts, neighbors, cut = choice
    cluster = parts * neighbors
    m, n = shape[-2:]
    tiles = _count(shape, rows, columns) * (cut or 1)
    room = multiprocessors // cluster * cluster if cluster < 8 else multiprocessors // 16 * 16
    busy = min(tiles * parts, room)
    waves = -(-tiles * parts // max(room, 1))
    steps = -(-k * itemsize // (ROW_BYTES * parts * (cut or 1)))
    copied = ROW_BYTES * (min(m, rows) + min(n, columns) / neighbors)
    step = max(
        2 * rows * max(columns, LEAST_COLUMNS) * ROW_BYTES / 2 / OPERATIONS,
        copied / COPIED,
        copied * busy / COPIED_BY_ALL,
        STEP,
    )
    time = waves * (steps * step + TILE)
    if parts > 1:
        time += CLUSTER + 4 * rows * columns / EXCHANGED
    if cut:
        time += SECOND_LAUNCH + 8 * cut * m * n / READ
    return time


def _count(shape: tuple[int, ...], rows: int, columns: int) -> int:
    count = -(-shape[-2] // rows) * -(-shape[-1] // columns)
    for size in shape[:-2]:
        count *= size
    return count


def widths_of(columns_of_b: bool, is_scaled: bool) -> tuple[int, ...]:
    """Columns of tiles for factors that lie, and are scaled, in that way."""
    if is_scaled:
        return (128,)
    return (16, 32, 64, 128, 256) if columns_of_b else (64, 128, 256)


def columns_for(n: int) -> int:
    """Columns of a tile, for a result of n."""
    return next((columns for columns in (64, 128) if n <= columns), COLUMNS)
