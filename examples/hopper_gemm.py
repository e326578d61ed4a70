# SPDX-License-Identifier: Apache-2.0
"""The matrix product of a Hopper GPU: TMA copies, tensor cores multiply, and no thread waits for the other kind.

Shapes: `a` is m x k, `b` is n x k, of bfloat16, float16 or 8-bit floats; `c` is m x n = a · bᵀ, float16 or bfloat16,
summed in float32; rows are multiples of 16 bytes. A block has three warpgroups. One copies tiles of `a` and `b` into a
ring of four stages; two multiply, 64 rows each. A stage goes around by two barriers: `full` counts its bytes, `empty`
the warps that are done with it. Every multiprocessor has one block, which takes tile after tile.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

BM, BN, STAGES = 128, 256, 4
ROW_BYTES = 128  # of a and b in a tile: 64 elements of 16 bits, 128 of 8
BAND = 16  # rows of tiles that run together, so that they share b in the L2 cache


def place(tile, m_tiles, n_tiles):
    """Row and column of a tile's first element; BAND rows of tiles at a time, column by column."""
    band, rest = divmod(tile, BAND * n_tiles)
    rows = min(m_tiles - BAND * band, BAND)
    return BM * (BAND * band + rest % rows), BN * (rest // rows)


@weft.kernel(max_threads=384)
def gemm_kernel(
    a: weft.TensorMap,
    b: weft.TensorMap,
    c: weft.TensorMap,
    m_tiles: weft.i32,
    n_tiles: weft.i32,
    steps: weft.i32,
    dtype: weft.Constexpr[weft.DType],
    out_dtype: weft.Constexpr[weft.DType],
):
    """One block: one tile of c after the other."""
    bk = ROW_BYTES // dtype.itemsize
    a_ring = weft.shared((STAGES, BM, bk), dtype, swizzle=128)
    b_ring = weft.shared((STAGES, BN, bk), dtype, swizzle=128)
    c_tiles = weft.shared((2, 2, 64, 64), out_dtype, swizzle=128)  # two of each that multiplies
    full = weft.mbarrier(STAGES, arrivals=1)
    empty = weft.mbarrier(STAGES, arrivals=8)  # warps that multiply
    role = weft.warpgroup_id()

    if role == 0:  # copies
        weft.setmaxnreg(40)
        if weft.warp_id() == 0 and weft.elect_one():
            stage = weft.PipelineState(STAGES, producer=True)
            for tile in range(weft.block_idx.x, m_tiles * n_tiles, weft.grid_dim.x):
                row, column = place(tile, m_tiles, n_tiles)
                for step in range(steps):
                    empty[stage].wait()
                    full[stage].arrive(expect_bytes=a_ring[stage].nbytes + b_ring[stage].nbytes)
                    weft.tma.load(a, (row, bk * step), a_ring[stage], full[stage])
                    weft.tma.load(b, (column, bk * step), b_ring[stage], full[stage])
                    stage = stage.next()
    else:  # multiplies
        weft.setmaxnreg(232)
        mine, leader = role - 1, weft.elect_one(weft.warpgroup)
        stage = weft.PipelineState(STAGES)
        for tile in range(weft.block_idx.x, m_tiles * n_tiles, weft.grid_dim.x):
            acc = weft.wgmma.accumulator((64, BN), weft.f32)
            for step in range(steps):
                full[stage].wait()
                rows = a_ring[stage].tile((64, bk), (mine, 0))
                acc = weft.wgmma.mma(rows, b_ring[stage].T, acc, accumulate=step > 0)
                acc = weft.wgmma.wait(acc, pending=0)
                empty[stage].release()
                stage = stage.next()

            row, column = place(tile, m_tiles, n_tiles)
            for j in weft.static_range(BN // 64):
                buffer = c_tiles[mine, j % 2]
                if leader:
                    weft.tma.wait(pending=1, read=True)  # the buffer's last copy has been read
                weft.sync_warpgroup()
                acc[:, 64 * j : 64 * (j + 1)].to(out_dtype).store(buffer)
                weft.fence_proxy()
                weft.sync_warpgroup()
                if leader:
                    weft.tma.store(c, (row + 64 * mine, column + 64 * j), buffer)
        if leader:
            weft.tma.wait()


@weft.jit
def gemm(a, b, c):
    """c = a · bᵀ, for any m, n and k."""
    m_tiles, n_tiles = weft.ceil_div(a.shape[0], BM), weft.ceil_div(b.shape[0], BN)
    bk = ROW_BYTES // a.dtype.itemsize
    gemm_kernel(
        weft.tensor_map(a, box=(BM, bk), swizzle=128),
        weft.tensor_map(b, box=(BN, bk), swizzle=128),
        weft.tensor_map(c, box=(64, 64), swizzle=128),
        m_tiles,
        n_tiles,
        weft.ceil_div(a.shape[1], bk),
        a.dtype,
        c.dtype,
    ).launch(grid=min(m_tiles * n_tiles, weft.multiprocessors()), block=384)


def make_arguments(size: int) -> Arguments:
    """Two matrices of about that size, none of a whole number of tiles."""
    random = np.random.default_rng(33)
    m, n, k = size, size + 72, size // 8 * 8 + 8
    a = random.standard_normal((m, k), dtype=np.float32).astype(np.float16)
    b = random.standard_normal((n, k), dtype=np.float32).astype(np.float16)
    return {"a": a, "b": b, "c": np.empty((m, n), np.float16)}


def fake_arguments(dtype: weft.DType = weft.bf16):
    """Matrices whose rows are multiples of 16 bytes; the product of 8-bit floats is bfloat16."""
    m, n, k = (
        weft.sym("m"),
        weft.sym("n", divisibility=8),
        weft.sym("k", divisibility=16 // dtype.itemsize),
    )
    kinds = (dtype, (m, k)), (dtype, (n, k)), (weft.bf16 if dtype.bits == 8 else dtype, (m, n))
    return tuple(weft.fake_tensor(kind, shape, alignment_bytes=16) for kind, shape in kinds)


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """What NumPy says, in float32."""
    return {"c": (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)}


EXAMPLE = Example(
    name="hopper_gemm",
    function=gemm,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"{size}x{size + 72} f16",
    size=1024,
    test_size=312,
    tolerance=2e-3,
    instructions=("wgmma.mma_async", "cp.async.bulk.tensor.2d", "setmaxnreg", "stmatrix"),
)

if __name__ == "__main__":
    show(EXAMPLE)
