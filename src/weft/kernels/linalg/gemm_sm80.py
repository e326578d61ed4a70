# SPDX-License-Identifier: Apache-2.0
"""C = epilogue(A · B) by tensor cores of GPUs from sm_80 on: multistage cp.async and mma.sync.

In: two stacks of matrices of f16 or bf16. Out: C, accumulated in f32. Eight warps compute a tile of 128 x 128 from a
ring of four stages: while they multiply one, copies of the next three are in flight. Operands without rows of 16-byte
vectors are loaded through registers.
"""

from __future__ import annotations

from typing import Any, Final

import weft
from weft.kernels.annotations import ElementType, Int, Shape
from weft.kernels.linalg.epilogue import IDENTITY, Epilogue
from weft.kernels.linalg.scheduler import (
    grid_size,
    k_bounds,
    num_tiles,
    tile_coord,
    tile_counts,
)
from weft.kernels.linalg.split_k import NO_SPLIT, Split, reduce_splits, split_work

BM: Final = 128
BN: Final = 128
BK: Final = 32
STAGES: Final = 4
THREADS: Final = 256
WARP_M: Final = 64
WARP_N: Final = 32
VECTOR: Final = 8  # elements of 16 bytes
MIN_BLOCKS: Final = 2  # of a multiprocessor
MIN_K_PER_SPLIT: Final = 512


@weft.kernel(max_threads=THREADS, min_blocks=MIN_BLOCKS)
def gemm_kernel(
    a: weft.Tensor,
    b: weft.Tensor,
    c: weft.Tensor,
    tiles: Any,
    epilogue: Epilogue = IDENTITY,
    a_k_major: weft.Constexpr[bool] = True,
    b_k_major: weft.Constexpr[bool] = True,
    asynchronous: weft.Constexpr[bool] = True,
    split: Split = NO_SPLIT,
    profiled: weft.Constexpr[bool] = False,
) -> None:
    """A block computes one tile; A is stored as (m, k) or (k, m), B as (n, k) or (k, n), matrices or stacks."""
    p = weft.profiler.Profiler(groups=[f"warp {i}" for i in range(THREADS // 32)], enabled=profiled)
    p.init(weft.warp_id(), weft.lane_id() == 0)
    a_ring = stages_of(a.dtype, BM, a_k_major)
    b_ring = stages_of(a.dtype, BN, b_k_major)
    if split.is_grouped and weft.block_idx.x >= num_tiles(tiles, split):
        return
    coord = tile_coord(weft.block_idx.x, tiles, (BM, BN), split)
    batch_a, batch_b = coord.batch if a.ndim > 2 else (), coord.batch if b.ndim > 2 else ()
    row, column = coord.row, coord.column
    first, end = k_bounds(coord, a.shape[-1 if a_k_major else -2], split)
    warp_row, warp_column = divmod(weft.warp_id(), BN // WARP_N)

    def load_stage(step: Int, stage: Int) -> None:
        k = first + BK * step
        with p.range("copy"):
            for ring, source, batch, side, k_major in (
                (a_ring, a, batch_a, row, a_k_major),
                (b_ring, b, batch_b, column, b_k_major),
            ):
                at = (side, k) if k_major else (k, side)
                ends = (source.shape[-2], end) if k_major else (end, source.shape[-1])
                load_tile(ring[stage], source, batch, *at, ends, asynchronous)
            weft.cp_async.commit()

    for step in weft.static_range(STAGES - 1):
        load_stage(step, step)

    acc = weft.mma.zeros((WARP_M, WARP_N), weft.f32)
    for step in range(weft.ceil_div(end - first, BK)):
        with p.range("wait"):
            weft.cp_async.wait(pending=STAGES - 2)
            weft.sync_threads()  # this stage has arrived, and the previous one is free
        now = step % STAGES
        load_stage(step + STAGES - 1, (step + STAGES - 1) % STAGES)
        with p.range("multiply"):
            for k in weft.static_range(BK // 16):
                if a_k_major:
                    rows = a_ring[now].tile((WARP_M, BK), (warp_row, 0))
                    left = weft.mma.load_a(rows.tile((WARP_M, 16), (0, k)))
                else:
                    left = weft.mma.load_a(a_ring[now].tile((16, WARP_M), (k, warp_row)).T)
                if b_k_major:
                    columns = b_ring[now].tile((WARP_N, BK), (warp_column, 0)).T
                    right = weft.mma.load_b(columns.tile((16, WARP_N), (k, 0)))
                else:
                    right = weft.mma.load_b(b_ring[now].tile((16, WARP_N), (k, warp_column)))
                acc = weft.mma.mma(left, right, acc)
    row, column = row + WARP_M * warp_row, column + WARP_N * warp_column
    with p.range("store"):
        acc = epilogue.apply_fragment(acc, coord, row, column)
        acc.store(coord.slice_c(c), (row, column))


@weft.device
def stages_of(dtype: ElementType, side: int, k_major: bool) -> weft.Tensor:
    """Shared memory for the stages of an operand, in its layout."""
    if k_major:
        return weft.shared((STAGES, side, BK), dtype, swizzle=64)
    return weft.shared((STAGES, BK, side), dtype, swizzle=128)


@weft.device
def load_tile(
    tile: weft.Tensor,
    source: weft.Tensor,
    batch: Shape,
    row: Int,
    column: Int,
    ends: Shape,
    asynchronous: bool,
) -> None:
    """Loads this thread's vectors of a tile; zeros from `ends` of rows and columns on."""
    rows, columns = tile.shape
    vector = VECTOR if asynchronous else 1
    source = weft.assume_aligned(source, vector * source.dtype.itemsize)
    for number in weft.static_range(rows * columns // vector // THREADS):
        r, c = divmod(weft.thread_idx.x + THREADS * number, columns // vector)
        place = row + r, column + vector * c
        inside = (place[0] < ends[0]) & (place[1] < ends[1])
        index = (*batch, *place)
        if asynchronous:
            weft.cp_async.copy(tile, (r, vector * c), source, index, vector, pred=inside)
        else:
            tile[r, c] = source[index] if inside else source.dtype(0.0)


@weft.jit
def gemm(
    a: weft.Tensor,
    b: weft.Tensor,
    c: weft.Tensor,
    epilogue: Epilogue,
    a_k_major: weft.Constexpr[bool],
    b_k_major: weft.Constexpr[bool],
    asynchronous: weft.Constexpr[bool],
    num_splits: weft.i32 | None = None,
    offsets: weft.Tensor | None = None,
) -> None:
    """C = epilogue(A · B) for operands of any layout; `num_splits` and `offsets` as in `gemm_sm90.gemm`.

    `asynchronous` says that the stored rows of both are whole 16-byte vectors, which cp.async copies.
    """
    k = a.shape[-1 if a_k_major else -2]
    target, split = split_work(c, a.dtype, k, BK, BM, num_splits, offsets)
    tiles = tile_counts(target, (BM, BN), split)
    own = epilogue if num_splits is None else IDENTITY
    gemm_kernel(a, b, target, tiles, own, a_k_major, b_k_major, asynchronous, split).launch(
        grid=grid_size(tiles), block=THREADS
    )
    if num_splits is not None:
        reduce_splits(target, c, epilogue)
