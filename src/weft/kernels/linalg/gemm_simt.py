# SPDX-License-Identifier: Apache-2.0
"""C = epilogue(A · B) without tensor cores: a thread computes some rows times some columns in registers.

In: two stacks of matrices of floats. Out: C, accumulated in f32, or f64 for f64. Tiles lie along K in shared memory, so
that a step reads vectors of rows and columns. `gemm_kernel` takes any type, layout and target and prefetches one tile
in registers. `gemm_f32_kernel` takes contiguous f32 on GPUs from sm_80 on; its tiles arrive by cp.async in a ring of
four stages.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Bool, Int, Number, Numbers, Shape
from weft.kernels.device.row import sum_type
from weft.kernels.linalg.epilogue import IDENTITY, Epilogue
from weft.kernels.linalg.operands import UNSCALED, Scales
from weft.kernels.linalg.scheduler import (
    TileCoord,
    grid_size,
    k_bounds,
    num_tiles,
    tile_coord,
    tile_counts,
)
from weft.kernels.linalg.split_k import NO_SPLIT, Split, reduce_splits, split_work

MIN_K_PER_SPLIT: Final = 256


class SimtConfig(NamedTuple):
    """Tiles of blocks and threads.

    Attributes:
        bm, bn, bk: of a block.
        tm, tn: of a thread, multiples of `vector`.
        vector: elements of an access of shared memory.
        min_blocks: that a multiprocessor runs at once.
    """

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    vector: int
    min_blocks: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.bm // self.tm * (self.bn // self.tn)


F32: Final = SimtConfig(128, 128, 16, 8, 8, 4)
F64: Final = SimtConfig(64, 64, 16, 4, 4, 2)
FEW_ROWS: Final = SimtConfig(16, 128, 16, 4, 4, 4, 4)
FEW_COLUMNS: Final = SimtConfig(128, 16, 16, 4, 4, 4, 4)
CPU: Final = SimtConfig(16, 16, 8, 4, 4, 1)
FEW: Final = 32


def simt_config(is_f64: bool, shape: tuple[int, ...], is_cpu: bool) -> SimtConfig:
    """The tiles of `gemm_kernel` for a shape of C."""
    if is_cpu:
        return CPU
    if is_f64:
        return F64
    if shape[-2] <= FEW:
        return FEW_ROWS
    return FEW_COLUMNS if shape[-1] <= FEW else F32


@weft.kernel
def gemm_kernel(
    a: weft.Tensor,
    b: weft.Tensor,
    c: weft.Tensor,
    tiles: Any,
    epilogue: Epilogue,
    config: weft.Constexpr[SimtConfig],
    k_major: weft.Constexpr[tuple[bool, bool]],
    split: Split = NO_SPLIT,
    scales: Scales = UNSCALED,
) -> None:
    """A block computes one tile of C; `k_major` says for A and B whether adjacent threads load along K."""
    wide = sum_type(a.dtype)
    a_tile = weft.shared((config.bk, config.bm + 4), wide)
    b_tile = weft.shared((config.bk, config.bn + 4), wide)
    if split.is_grouped and weft.block_idx.x >= num_tiles(tiles, split):
        return
    coord = tile_coord(weft.block_idx.x, tiles, (config.bm, config.bn), split)
    batch_a, batch_b = coord.batch if a.ndim > 2 else (), coord.batch if b.ndim > 2 else ()
    m, n, (begin, k) = c.shape[-2], b.shape[-1], k_bounds(coord, a.shape[-1], split)

    a_places = load_places(config.bm, config, k_major[0])
    b_places = load_places(config.bn, config, k_major[1])

    def load(first: Int) -> Any:
        """This thread's elements of both tiles; zeros out of bounds."""
        found: list[Any] = []
        for step, row in a_places:
            row, step = coord.row + row, first + step
            inside = (row < m) & (step < k)
            value = a[(*batch_a, row, step)] if inside else a.dtype(0.0)
            if scales.a is not None:
                value = wide(value) * (scales.of_a(coord, row, step) if inside else 0.0)
            found.append(value)
        for step, column in b_places:
            column, step = coord.column + column, first + step
            inside = (column < n) & (step < k)
            value = b[(*batch_b, step, column)] if inside else b.dtype(0.0)
            if scales.b is not None:
                value = wide(value) * (scales.of_b(coord, step, column) if inside else 0.0)
            found.append(value)
        return found

    def store_shared(values: Numbers) -> None:
        own = iter(values)
        for place in a_places:
            a_tile[place] = wide(next(own))
        for place in b_places:
            b_tile[place] = wide(next(own))

    ty, tx = divmod(weft.thread_idx.x, config.bn // config.tn)
    rows = thread_places(ty, config.bm, config.tm, config.vector)
    columns = thread_places(tx, config.bn, config.tn, config.vector)
    acc = [wide(0.0)] * (config.tm * config.tn)
    values = load(begin)
    for step in range(weft.ceil_div(k - begin, config.bk)):
        weft.sync_threads()
        store_shared(values)
        weft.sync_threads()
        values = load(begin + config.bk * (step + 1))
        for s in range(config.bk):
            outer_product(acc, a_tile, b_tile, s, rows, columns, config)
    rows = [coord.row + row for row in rows]
    columns = [coord.column + column for column in columns]
    store(acc, c, coord, rows, columns, epilogue)


@weft.device
def load_places(side: Int, config: SimtConfig, k_major: Bool) -> Numbers:
    """The positions of a thread's elements in a tile, along K and along the other side."""
    places: list[Any] = []
    for i in weft.static_range(side * config.bk // config.threads):
        number = weft.thread_idx.x + config.threads * i
        places.append(divmod(number, config.bk)[::-1] if k_major else divmod(number, side))
    return places


@weft.device
def thread_places(number: Int, side: Int, count: Int, vector: Int) -> Numbers:
    """The rows or columns of a thread: vectors, strided by those of all threads."""
    stride = vector * (side // count)
    return [stride * (i // vector) + vector * number + i % vector for i in weft.static_range(count)]


@weft.device
def outer_product(
    acc: Number,
    a_tile: weft.Tensor,
    b_tile: weft.Tensor,
    step: Int,
    rows: Numbers,
    columns: Numbers,
    config: SimtConfig,
) -> None:
    """Multiply-accumulate a step's rows and columns into a thread's accumulators."""
    x = load_shared(a_tile, step, rows, config.vector)
    y = load_shared(b_tile, step, columns, config.vector)
    for i in weft.static_range(config.tm):
        for j in weft.static_range(config.tn):
            acc[i * config.tn + j] += x[i] * y[j]


@weft.device
def load_shared(tile: weft.Tensor, step: Int, places: Numbers, vector: Int) -> Numbers:
    """A thread's elements of a step."""
    if vector == 1:
        return [tile[step, at] for at in places]
    found = ()
    for first in weft.static_range(0, len(places), vector):
        found = (*found, *weft.load_vector(tile, (step, places[first]), vector))
    return found


@weft.device
def store(
    acc: Number,
    c: weft.Tensor,
    coord: TileCoord,
    rows: Numbers,
    columns: Numbers,
    epilogue: Epilogue,
) -> None:
    """Stores a thread's elements of C."""
    end = c.shape[-2] if coord.row_end is None else coord.row_end
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if row < end and column < c.shape[-1]:
                total = acc[i * len(columns) + j]
                result = epilogue.apply_at(total, coord.batch, coord.c_batch, row, column)
                c[(*coord.c_batch, row, column)] = c.dtype(result)


@weft.jit
def gemm(
    a: weft.Tensor,
    b: weft.Tensor,
    c: weft.Tensor,
    epilogue: Epilogue,
    config: weft.Constexpr[SimtConfig],
    k_major: weft.Constexpr[tuple[bool, bool]],
    num_splits: weft.i32 | None = None,
    offsets: weft.Tensor | None = None,
    scales: Scales = UNSCALED,
) -> None:
    """C = epilogue(A · B), stacks of (m, k) and (k, n); `num_splits` and `offsets` as in `gemm_sm90.gemm`."""
    target, split = split_work(c, a.dtype, a.shape[-1], config.bk, config.bm, num_splits, offsets)
    tiles = tile_counts(target, (config.bm, config.bn), split)
    own = epilogue if num_splits is None else IDENTITY
    gemm_kernel(a, b, target, tiles, own, config, k_major, split, scales).launch(
        grid=grid_size(tiles), block=config.threads
    )
    if num_splits is not None:
        reduce_splits(target, c, epilogue)


THREADS: Final = 256
MIN_BLOCKS: Final = 2  # of a multiprocessor
STAGES: Final = 4
VECTOR: Final = 4  # elements of 16 bytes
UNROLL: Final = 8  # steps of K; 16 would need more registers
PADDING: Final = 4  # elements after a row of a tile
SQUARE: Final = SimtConfig(128, 128, 16, 8, 8, 4, MIN_BLOCKS)
FLAT: Final = SimtConfig(64, 128, 16, 4, 8, 4, MIN_BLOCKS)
TALL: Final = SimtConfig(128, 64, 16, 8, 4, 4, MIN_BLOCKS)


def f32_config(m: int, n: int) -> SimtConfig:
    """The tiles of `gemm_f32_kernel`."""
    if m <= FLAT.bm:
        return FLAT
    return TALL if n <= TALL.bn else SQUARE


@weft.kernel(max_threads=THREADS, min_blocks=MIN_BLOCKS)
def gemm_f32_kernel(
    a: weft.Tensor,
    b: weft.Tensor,
    c: weft.Tensor,
    tiles: Any,
    epilogue: Epilogue,
    config: weft.Constexpr[SimtConfig],
    a_k_major: weft.Constexpr[bool],
    b_k_major: weft.Constexpr[bool],
    vector: weft.Constexpr[int],
    split: Split = NO_SPLIT,
) -> None:
    """A block computes one tile of C; a warp is 4 x 8 of its 16 x 16 threads.

    A is stored as (m, k) or (k, m), B as (n, k) or (k, n).
    """
    a_ring = weft.shared((STAGES, config.bk, config.bm + PADDING), a.dtype)
    b_ring = weft.shared((STAGES, config.bk, config.bn + PADDING), a.dtype)
    if split.is_grouped and weft.block_idx.x >= num_tiles(tiles, split):
        return
    coord = tile_coord(weft.block_idx.x, tiles, (config.bm, config.bn), split)
    batch_a, batch_b = coord.batch if a.ndim > 2 else (), coord.batch if b.ndim > 2 else ()
    first, end = k_bounds(coord, a.shape[-1 if a_k_major else -2], split)
    m, n = a.shape[-2 if a_k_major else -1], b.shape[-2 if b_k_major else -1]

    def load_stage(step: Int, stage: Int) -> None:
        k = first + config.bk * step
        load_tile(a_ring[stage], a, batch_a, coord.row, k, (m, end), a_k_major, vector)
        load_tile(b_ring[stage], b, batch_b, coord.column, k, (n, end), b_k_major, vector)
        weft.cp_async.commit()

    for step in weft.static_range(STAGES - 1):
        load_stage(step, step)
    thread_row = weft.warp_id() // 2 * 4 + weft.lane_id() // 8
    thread_column = weft.warp_id() % 2 * 8 + weft.lane_id() % 8
    rows = thread_places(thread_row, config.bm, config.tm, config.vector)
    columns = thread_places(thread_column, config.bn, config.tn, config.vector)
    acc = [a.dtype(0.0)] * (config.tm * config.tn)
    for step in range(weft.ceil_div(end - first, config.bk)):
        weft.cp_async.wait(pending=STAGES - 2)
        weft.sync_threads()  # this stage has arrived, and the previous one is free
        now = step % STAGES
        load_stage(step + STAGES - 1, (step + STAGES - 1) % STAGES)
        for s in weft.unroll(range(config.bk), UNROLL):
            outer_product(acc, a_ring[now], b_ring[now], s, rows, columns, config)
    rows = [coord.row + row for row in rows]
    columns = [coord.column + column for column in columns]
    store(acc, c, coord, rows, columns, epilogue)


@weft.device
def load_tile(
    tile: weft.Tensor,
    source: weft.Tensor,
    batch: Shape,
    side: Int,
    k: Int,
    ends: Shape,
    k_major: Bool,
    vector: Int,
) -> None:
    """Loads this thread's elements of a tile; zeros out of bounds.

    Args:
        tile: K x side.
        source: side x K if `k_major`, else K x side; or a stack.
        batch: the index of the matrix in the stack.
        side: the first row or column.
        k: the first k.
        ends: of the side, and of K.
        k_major: the layout of `source`.
        vector: elements of a copy along the side.
    """
    height, width = tile.shape[0], tile.shape[1] - PADDING
    vector = 1 if k_major else vector
    source = weft.assume_aligned(source, vector * source.dtype.itemsize)
    for i in weft.static_range(height * width // vector // THREADS):
        number = weft.thread_idx.x + THREADS * i
        if k_major:
            at, step = divmod(number, height)
        else:
            step, at = divmod(number, width // vector)
            at *= vector
        inside = (side + at < ends[0]) & (k + step < ends[1])
        place = (side + at, k + step) if k_major else (k + step, side + at)
        weft.cp_async.copy(tile, (step, at), source, (*batch, *place), vector, pred=inside)


@weft.jit
def gemm_f32(
    a: weft.Tensor,
    b: weft.Tensor,
    c: weft.Tensor,
    epilogue: Epilogue,
    config: weft.Constexpr[SimtConfig],
    a_k_major: weft.Constexpr[bool],
    b_k_major: weft.Constexpr[bool],
    vector: weft.Constexpr[int],
    num_splits: weft.i32 | None = None,
    offsets: weft.Tensor | None = None,
) -> None:
    """C = epilogue(A · B) for f32 with contiguous rows, as stored; other arguments as in `gemm_sm90.gemm`.

    `vector` is the elements of a copy, of which the rows stored along M or N are whole vectors, aligned to their size.
    """
    k = a.shape[-1 if a_k_major else -2]
    target, split = split_work(c, a.dtype, k, config.bk, config.bm, num_splits, offsets)
    tiles = tile_counts(target, (config.bm, config.bn), split)
    own = epilogue if num_splits is None else IDENTITY
    gemm_f32_kernel(a, b, target, tiles, own, config, a_k_major, b_k_major, vector, split).launch(
        grid=grid_size(tiles), block=THREADS
    )
    if num_splits is not None:
        reduce_splits(target, c, epilogue)
