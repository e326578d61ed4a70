# SPDX-License-Identifier: Apache-2.0
"""The matrix product of f32 on GPUs from sm_80 on, without tensor cores: threads copy tiles ahead of time.

In: two stacks of matrices whose rows or columns have no gaps. Out: sums in f32, finished and rounded. Tiles lie in
shared memory along k, in a ring of four stages: while a block multiplies one, copies of the next three are under way,
which pass no register. A thread multiplies some rows by some columns in registers.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.device.vector import BYTES, Aligned
from weft.kernels.host.arrays import Array, Constant, Int32
from weft.kernels.linalg.epilogue import PLAIN, Ending
from weft.kernels.linalg.gemm_simt import Sizes, at_places, places_of, write
from weft.kernels.linalg.scheduler import count_in, count_of, place_of, sums_of, tiles_of
from weft.kernels.linalg.split_k import WHOLE, Cut, add_up, cut_of
from weft.language.asynchronous import cp_async
from weft.language.control import ceil_div, static_range, unroll
from weft.language.memory.shared import shared
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, thread_idx
from weft.language.threads.warp import lane_id, warp_id

THREADS: Final = 256
BLOCKS: Final = 2  # of a multiprocessor
STAGES: Final = 4
UNROLLED: Final = 8  # steps; all 16 need more registers
PADDING: Final = 4  # elements after a row of a tile
SQUARE: Final = Sizes(128, 128, 16, 8, 8, 4, BLOCKS)
FEWER_ROWS: Final = Sizes(64, 128, 16, 4, 8, 4, BLOCKS)
FEWER_COLUMNS: Final = Sizes(128, 64, 16, 8, 4, 4, BLOCKS)


def sizes_for(m: int, n: int) -> Sizes:
    """What blocks and threads compute of a result of m x n."""
    if m <= FEWER_ROWS.m:
        return FEWER_ROWS
    return FEWER_COLUMNS if n <= FEWER_COLUMNS.n else SQUARE


def fetch(
    tile: Any, source: Any, matrix: Any, side: Any, k: Any, ends: Any, along_k: Any, chunk: Any
) -> None:
    """This thread's part of a tile; zeros from the ends of the side and of k on. Traced in the kernel.

    Args:
        tile: k x side.
        source: side x k if `along_k`, else k x side; or stacks.
        matrix: of the stack.
        side: the first row or column.
        k: the first product.
        ends: of the side, and of k.
        along_k: how `source` lies.
        chunk: elements of a copy along the side.
    """
    height, width = tile.shape[0], tile.shape[1] - PADDING
    chunk = 1 if along_k else chunk
    for part in static_range(height * width // chunk // THREADS):
        number = thread_idx.x + THREADS * part
        if along_k:
            at, step = divmod(number, height)
        else:
            step, at = divmod(number, width // chunk)
            at *= chunk
        inside = (side + at < ends[0]) & (k + step < ends[1])
        place = (side + at, k + step) if along_k else (k + step, side + at)
        cp_async.copy(tile, (step, at), source, (*matrix, *place), chunk, when=inside)


@kernel(max_threads=THREADS, min_blocks=BLOCKS)
def gemm_kernel(
    a: Array,
    b: Array,
    c: Array,
    tiles: Any,
    ending: Ending,
    sizes: Constant,
    rows_of_a: Constant,
    columns_of_b: Constant,
    chunk: Constant,
    cut: Cut = WHOLE,
) -> None:
    """One block: one tile of c. A warp's threads are four of the tile's 16 rows of threads, eight of its columns."""
    a_ring = shared((STAGES, sizes.k, sizes.m + PADDING), a.dtype)
    b_ring = shared((STAGES, sizes.k, sizes.n + PADDING), a.dtype)
    if cut.is_grouped and block_idx.x >= count_in(tiles, cut):
        return
    place = place_of(block_idx.x, tiles, (sizes.m, sizes.n), cut)
    of_a, of_b = place.matrix if a.ndim > 2 else (), place.matrix if b.ndim > 2 else ()
    top, left = place.row, place.column
    first, end = sums_of(place, a.shape[-1 if rows_of_a else -2], cut)
    m, n = a.shape[-2 if rows_of_a else -1], b.shape[-2 if columns_of_b else -1]

    def fetch_both(step: Any, stage: Any) -> None:
        k = first + sizes.k * step
        fetch(a_ring[stage], a, of_a, top, k, (m, end), rows_of_a, chunk)
        fetch(b_ring[stage], b, of_b, left, k, (n, end), columns_of_b, chunk)
        cp_async.commit()

    for step in static_range(STAGES - 1):
        fetch_both(step, step)
    vector = sizes.neighbors
    thread_row = warp_id() // 2 * 4 + lane_id() // 8
    thread_column = warp_id() % 2 * 8 + lane_id() % 8
    rows = places_of(thread_row, sizes.m, sizes.rows, vector)
    columns = places_of(thread_column, sizes.n, sizes.columns, vector)
    sums = [a.dtype(0.0)] * (sizes.rows * sizes.columns)
    for step in range(ceil_div(end - first, sizes.k)):
        cp_async.wait(pending=STAGES - 2)
        sync_threads()  # this stage is there for all, and the one before it is free
        now = step % STAGES
        fetch_both(step + STAGES - 1, (step + STAGES - 1) % STAGES)
        for s in unroll(range(sizes.k), UNROLLED):
            x = at_places(a_ring[now], s, rows, vector)
            y = at_places(b_ring[now], s, columns, vector)
            for i in static_range(sizes.rows):
                for j in static_range(sizes.columns):
                    sums[i * sizes.columns + j] += x[i] * y[j]
    rows, columns = [top + row for row in rows], [left + column for column in columns]
    write(sums, c, place, rows, columns, ending)


def _launch(
    a: Any,
    b: Any,
    c: Any,
    ending: Any,
    sizes: Any,
    rows_of_a: Any,
    columns_of_b: Any,
    parts: Any,
    starts: Any,
    chunk: Any,
) -> None:
    """Traced in host functions."""
    k = a.shape[-1 if rows_of_a else -2]
    target, cut = cut_of(c, a.dtype, k, sizes.k, sizes.m, parts, starts)
    tiles = tiles_of(target, (sizes.m, sizes.n), cut)
    own = ending if parts is None else PLAIN
    gemm_kernel(a, b, target, tiles, own, sizes, rows_of_a, columns_of_b, chunk, cut).launch(
        grid=count_of(tiles), block=THREADS
    )
    if parts is not None:
        add_up(target, c, ending)


@jit
def gemm(
    a: Array,
    b: Array,
    c: Array,
    ending: Ending,
    sizes: Constant,
    rows_of_a: Constant,
    columns_of_b: Constant,
    parts: Int32 | None = None,
    starts: Array | None = None,
) -> None:
    """``c = a · b``; `a` and `b` are as they lie in memory, with `parts` and `starts` as in `hopper_products.gemm`."""
    _launch(a, b, c, ending, sizes, rows_of_a, columns_of_b, parts, starts, 1)


@jit
def gemm_of_chunks(
    a: Aligned,
    b: Aligned,
    c: Array,
    ending: Ending,
    sizes: Constant,
    rows_of_a: Constant,
    columns_of_b: Constant,
    parts: Int32 | None = None,
    starts: Array | None = None,
) -> None:
    """``c = a · b`` of matrices whose rows, as they lie in memory, are whole chunks of 16 bytes."""
    chunk = BYTES // a.dtype.itemsize
    _launch(a, b, c, ending, sizes, rows_of_a, columns_of_b, parts, starts, chunk)
