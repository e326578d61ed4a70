# SPDX-License-Identifier: Apache-2.0
"""Split-K GEMM on Hopper: blocks share K of each tile, and a second kernel reduces their partial sums.

C = A · Bᵀ, where A is (m, k), B (n, k) and C (m, n), float16, accumulated in float32. Rows are multiples of 16 bytes.

With few tiles and a long K, one block per tile would leave most of a GPU idle. So several blocks take a split of K each
and write partial sums to scratch memory. The second kernel is launched before the first has ended (programmatic
dependent launch): it waits for the partial sums, not for the end of one launch and the beginning of the next.
"""

from __future__ import annotations

import weft

BM, BN, BK, STAGES = 64, 128, 64, 4


@weft.kernel
def gemm_kernel(
    a: weft.TensorMap, b: weft.TensorMap, partials: weft.Tensor, steps: weft.i32,
    profiled: weft.Constexpr[bool],
):  # fmt: skip
    """A block of one warpgroup sums `steps` steps of K of one tile."""
    p = weft.profiler.Profiler(enabled=profiled)
    a_ring = weft.shared((STAGES, BM, BK), weft.f16, swizzle=128)
    b_ring = weft.shared((STAGES, BN, BK), weft.f16, swizzle=128)
    full = weft.mbarrier(STAGES, arrivals=1)
    row, column, split = BM * weft.block_idx.y, BN * weft.block_idx.x, weft.block_idx.z
    first = steps * split
    leader = weft.elect_one(weft.warpgroup)
    p.init(0, leader)

    def load(step, stage):
        full[stage].arrive(expect_bytes=a_ring[stage].nbytes + b_ring[stage].nbytes)
        weft.tma.load(a, (row, BK * step), a_ring[stage], full[stage])
        weft.tma.load(b, (column, BK * step), b_ring[stage], full[stage])
        p.begin_async("load", stage.index)

    ahead = weft.PipelineState(STAGES)
    for step in range(min(STAGES, steps)):
        if leader:
            load(first + step, ahead)
        ahead = ahead.next()

    stage = weft.PipelineState(STAGES)
    acc = weft.wgmma.accumulator((BM, BN), weft.f32)
    for step in range(steps):
        with p.range("wait"):
            full[stage].wait()
        p.end_async("load", stage.index)
        with p.range("multiply"):
            acc = weft.wgmma.mma(a_ring[stage], b_ring[stage].T, acc, accumulate=step > 0)
            acc = weft.wgmma.wait(acc, pending=0)
            weft.sync_warpgroup()  # no warp reads this stage anymore
        if leader and step + STAGES < steps:
            load(first + step + STAGES, stage)
        stage = stage.next()
    weft.grid_dependency_launch()
    with p.range("store"):
        acc.store(partials[split], (row, column))


@weft.kernel
def reduce_kernel(partials: weft.Tensor, c: weft.Tensor):
    """Adds up the partial sums of each element of C, always in the same order."""
    weft.grid_dependency_wait()
    for i, j in weft.each(c.shape):
        total = 0.0
        for split in range(partials.shape[0]):
            total += partials[split, i, j]
        c[i, j] = total


@weft.jit
def gemm(a, b, c, profiled: weft.Constexpr[bool] = False):
    """c = a · bᵀ, for any m, n and k."""
    m_tiles, n_tiles = weft.ceil_div(a.shape[0], BM), weft.ceil_div(b.shape[0], BN)
    k_steps = max(weft.ceil_div(a.shape[1], BK), 1)
    blocks_per_tile = max(weft.multiprocessors() // (m_tiles * n_tiles), 1)
    steps = weft.ceil_div(k_steps, blocks_per_tile)
    num_splits = weft.ceil_div(k_steps, steps)
    partials = weft.scratch((num_splits, *c.shape), weft.f32)
    a_map = weft.tensor_map(a, box=(BM, BK), swizzle=128)
    b_map = weft.tensor_map(b, box=(BN, BK), swizzle=128)
    kernel = gemm_kernel(a_map, b_map, partials, steps, profiled)
    kernel.launch(grid=(n_tiles, m_tiles, num_splits), block=128)
    reduce_kernel(partials, c).launch(over=c.shape, programmatic=True)


if __name__ == "__main__":
    from examples.checks.split_k_gemm import EXAMPLE
    from examples.common import show

    show(EXAMPLE)
