# SPDX-License-Identifier: Apache-2.0
"""GEMM by tensor cores on any GPU from sm_80 on: multistage cp.async, ldmatrix and mma.sync.

C = A · Bᵀ, where A is (m, k), B (n, k) and C (m, n), float16, accumulated in float32. Rows are multiples of 16 bytes,
as the annotations promise.

A block of eight warps computes a tile of 128 x 128, each warp 64 x 32 of it. Tiles of A and B pass through a ring of
four stages in shared memory: while the warps multiply one, asynchronous copies of the next three are in flight.
"""

from __future__ import annotations

from typing import Annotated

import weft

BM, BN, BK, STAGES = 128, 128, 32, 4
WARP_M, WARP_N = 64, 32
THREADS = 256
VECTOR = 8  # elements of a 16-byte copy
DTYPE = weft.f16  # or weft.bf16


def load_tile(tile, source, row, column):
    """Issues this thread's copies of a tile; elements out of bounds become zero."""
    rows, columns = tile.shape
    for i in weft.static_range(rows * columns // VECTOR // THREADS):
        r, vector = divmod(weft.thread_idx.x + THREADS * i, columns // VECTOR)
        c = VECTOR * vector
        inside = (row + r < source.shape[0]) & (column + c < source.shape[1])
        weft.cp_async.copy(tile, (r, c), source, (row + r, column + c), VECTOR, pred=inside)


@weft.kernel(max_threads=THREADS, min_blocks=2)
def gemm_kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor, profiled: weft.Constexpr[bool]):
    """A block computes one tile of C."""
    a_ring = weft.shared((STAGES, BM, BK), DTYPE, swizzle=64)
    b_ring = weft.shared((STAGES, BN, BK), DTYPE, swizzle=64)
    row, column, k = BM * weft.block_idx.y, BN * weft.block_idx.x, a.shape[1]
    warp_row, warp_column = divmod(weft.warp_id(), BN // WARP_N)
    groups = [f"warp {i}" for i in range(THREADS // 32)]
    profiler = weft.profiler.Profiler(groups=groups, enabled=profiled)
    profiler.init(weft.warp_id(), weft.lane_id() == 0)

    def load_stage(step, stage):
        with profiler.range("copy"):
            load_tile(a_ring[stage], a, row, BK * step)
            load_tile(b_ring[stage], b, column, BK * step)
            weft.cp_async.commit()

    for step in weft.static_range(STAGES - 1):
        load_stage(step, step)
    acc = weft.mma.zeros((WARP_M, WARP_N), weft.f32)
    for step in range(weft.ceil_div(k, BK)):
        with profiler.range("wait"):
            weft.cp_async.wait(pending=STAGES - 2)
            weft.sync_threads()  # this stage has arrived, and every warp is done with the last one
        stage = step % STAGES
        load_stage(step + STAGES - 1, (step + STAGES - 1) % STAGES)
        with profiler.range("multiply"):
            rows = a_ring[stage].tile((WARP_M, BK), (warp_row, 0))
            columns = b_ring[stage].tile((WARP_N, BK), (warp_column, 0)).T
            for i in weft.static_range(BK // 16):
                left = weft.mma.load_a(rows.tile((WARP_M, 16), (0, i)))
                right = weft.mma.load_b(columns.tile((16, WARP_N), (i, 0)))
                acc = weft.mma.mma(left, right, acc)
    with profiler.range("store"):
        acc.store(c, (row + WARP_M * warp_row, column + WARP_N * warp_column))


def matrix(rows, columns):
    """A matrix whose rows are whole vectors."""
    shape = rows, weft.sym(columns, divisibility=VECTOR)
    return weft.fake_tensor(DTYPE, shape, alignment_bytes=16)


@weft.jit
def gemm(
    a: Annotated[weft.Tensor, matrix("m", "k")],
    b: Annotated[weft.Tensor, matrix("n", "k")],
    c: Annotated[weft.Tensor, matrix("m", "n")],
    profiled: weft.Constexpr[bool] = False,
):
    """c = a · bᵀ, for any m and n, and k whose rows are multiples of 16 bytes."""
    grid = weft.ceil_div(b.shape[0], BN), weft.ceil_div(a.shape[0], BM)
    gemm_kernel(a, b, c, profiled).launch(grid=grid, block=THREADS)


if __name__ == "__main__":
    from examples.checks.tensor_core_gemm import EXAMPLE
    from examples.common import show

    show(EXAMPLE)
