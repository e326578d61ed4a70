# SPDX-License-Identifier: Apache-2.0
"""GEMM on Hopper: persistent and warp-specialized, loads by TMA, multiplies by WGMMA.

C = A · Bᵀ, where A is (m, k), B (n, k) and C (m, n), of float16, bfloat16 or 8-bit floats, accumulated in float32. Rows
are multiples of 16 bytes.

Each multiprocessor runs one block, which computes tiles of 128 x 256 one after the other. The producer warpgroup loads
tiles of A and B into a ring of stages, each with two barriers: `full` counts the bytes that have arrived, `empty` the
consumer warps that are done with it. Two consumer warpgroups multiply, 64 rows each, and store C through shared memory
while the producer already loads for the next tile.
"""

from __future__ import annotations

import weft

BM, BN, STAGES = 128, 256, 4
ROW_BYTES = 128  # of a tile of A or B along k: one swizzle atom
GROUP_M = 16  # rows of tiles that run together and share columns of B in the L2 cache


def tile_coord(tile, m_tiles, n_tiles):
    """The first row and column of a tile: groups of GROUP_M rows of tiles, column by column."""
    group, within = divmod(tile, GROUP_M * n_tiles)
    height = min(m_tiles - GROUP_M * group, GROUP_M)
    return BM * (GROUP_M * group + within % height), BN * (within // height)


@weft.kernel(max_threads=384)
def gemm_kernel(
    a: weft.TensorMap, b: weft.TensorMap, c: weft.TensorMap, m_tiles: weft.i32, n_tiles: weft.i32,
    k: weft.i32, dtype: weft.Constexpr, c_dtype: weft.Constexpr, profiled: weft.Constexpr[bool],
):  # fmt: skip
    """A block computes every grid_dim-th tile of C."""
    bk = ROW_BYTES // dtype.itemsize
    a_ring = weft.shared((STAGES, BM, bk), dtype, swizzle=128)
    b_ring = weft.shared((STAGES, BN, bk), dtype, swizzle=128)
    c_tiles = weft.shared((2, 2, 64, 64), c_dtype, swizzle=128)  # two for each consumer
    full, empty = weft.mbarrier(STAGES, arrivals=1), weft.mbarrier(STAGES, arrivals=8)
    role, leader = weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    profiler = weft.profiler.Profiler(groups=("load", "mma 0", "mma 1"), enabled=profiled)
    profiler.init(role, leader)
    tiles = range(weft.block_idx.x, m_tiles * n_tiles, weft.grid_dim.x)

    if role == 0:  # producer
        weft.setmaxnreg(40)
        if leader:
            stage = weft.PipelineState(STAGES, producer=True)
            for tile in tiles:
                row, column = tile_coord(tile, m_tiles, n_tiles)
                for at in range(0, k, bk):
                    with profiler.range("wait"):
                        empty[stage].wait()
                    full[stage].arrive(expect_bytes=a_ring[stage].nbytes + b_ring[stage].nbytes)
                    weft.tma.load(a, (row, at), a_ring[stage], full[stage])
                    weft.tma.load(b, (column, at), b_ring[stage], full[stage])
                    profiler.begin_async("load", stage.index)
                    stage = stage.next()
    else:  # consumer
        weft.setmaxnreg(232)
        consumer, stage = role - 1, weft.PipelineState(STAGES)
        for tile in tiles:
            row, column = tile_coord(tile, m_tiles, n_tiles)
            acc = weft.wgmma.accumulator((64, BN), weft.f32)
            for at in range(0, k, bk):
                with profiler.range("wait"):
                    full[stage].wait()
                if consumer == 0:
                    profiler.end_async("load", stage.index)
                with profiler.range("multiply"):
                    rows = a_ring[stage].tile((64, bk), (consumer, 0))
                    acc = weft.wgmma.mma(rows, b_ring[stage].T, acc, accumulate=at > 0)
                    acc = weft.wgmma.wait(acc)
                empty[stage].release()
                stage = stage.next()
            with profiler.range("store"):
                for i in weft.static_range(BN // 64):
                    buffer = c_tiles[consumer, i % 2]
                    if leader:
                        weft.tma.wait(pending=1, read=True)  # the store before last has read it
                    weft.sync_warpgroup()
                    acc[:, 64 * i : 64 * (i + 1)].to(c_dtype).store(buffer)
                    weft.fence_proxy()
                    weft.sync_warpgroup()
                    if leader:
                        weft.tma.store(c, (row + 64 * consumer, column + 64 * i), buffer)
        if leader:
            weft.tma.wait()


@weft.jit
def gemm(a, b, c, profiled: weft.Constexpr[bool] = False):
    """c = a · bᵀ, for any m, n and k."""
    bk = ROW_BYTES // a.dtype.itemsize
    m_tiles, n_tiles = weft.ceil_div(a.shape[0], BM), weft.ceil_div(b.shape[0], BN)
    gemm_kernel(
        weft.tensor_map(a, box=(BM, bk), swizzle=128),
        weft.tensor_map(b, box=(BN, bk), swizzle=128),
        weft.tensor_map(c, box=(64, 64), swizzle=128),
        *(m_tiles, n_tiles, a.shape[1], a.dtype, c.dtype, profiled),
    ).launch(grid=min(m_tiles * n_tiles, weft.multiprocessors()), block=384)


if __name__ == "__main__":
    from examples.checks.hopper_gemm import EXAMPLE
    from examples.common import show

    show(EXAMPLE)
