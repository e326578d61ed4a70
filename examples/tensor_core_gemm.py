# SPDX-License-Identifier: Apache-2.0
"""The matrix product of any GPU from sm_80 on: threads copy tiles ahead of time, warps multiply them.

Shapes: `a` is m x k, `b` is n x k, `c` is m x n = a · bᵀ, float16, summed in float32; rows are multiples of
16 bytes. A block computes 128 x 128 elements with eight warps. Its tiles go around in a ring of four stages: while the
warps multiply one, copies of the next three are under way, which pass no register.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

BM, BN, BK, STAGES, THREADS = 128, 128, 32, 4, 256
WM, WN = 64, 32  # of one warp; two rows of four warps
CHUNK = 8  # elements of a copy: 16 bytes
DTYPE = weft.f16  # or weft.bf16


def fetch(tile, source, row, column):
    """This thread's part of a tile; zeros outside of the matrix."""
    rows, columns = tile.shape
    for part in weft.static_range(rows * columns // CHUNK // THREADS):
        r, chunk = divmod(weft.thread_idx.x + THREADS * part, columns // CHUNK)
        place = row + r, column + CHUNK * chunk
        inside = (place[0] < source.shape[0]) & (place[1] < source.shape[1])
        weft.cp_async.copy(tile, (r, CHUNK * chunk), source, place, CHUNK, when=inside)


@weft.kernel(max_threads=THREADS, min_blocks=2)
def gemm_kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    """One block: one tile of c."""
    a_ring = weft.shared((STAGES, BM, BK), a.dtype, swizzle=64)
    b_ring = weft.shared((STAGES, BN, BK), a.dtype, swizzle=64)
    row, column = BM * weft.block_idx.y, BN * weft.block_idx.x
    warp_row, warp_column = divmod(weft.warp_id(), BN // WN)

    for step in weft.static_range(STAGES - 1):
        fetch(a_ring[step], a, row, BK * step)
        fetch(b_ring[step], b, column, BK * step)
        weft.cp_async.commit()

    acc = weft.mma.zeros((WM, WN), weft.f32)
    for step in range(weft.ceil_div(a.shape[1], BK)):
        weft.cp_async.wait(pending=STAGES - 2)
        weft.sync_threads()  # this stage is there for all, and the one before it is free
        now, ahead = step % STAGES, (step + STAGES - 1) % STAGES
        fetch(a_ring[ahead], a, row, BK * (step + STAGES - 1))
        fetch(b_ring[ahead], b, column, BK * (step + STAGES - 1))
        weft.cp_async.commit()
        rows = a_ring[now].tile((WM, BK), (warp_row, 0))
        columns = b_ring[now].tile((WN, BK), (warp_column, 0)).T
        for k in weft.static_range(BK // 16):
            left = weft.mma.load_a(rows.tile((WM, 16), (0, k)))
            right = weft.mma.load_b(columns.tile((16, WN), (k, 0)))
            acc = weft.mma.mma(left, right, acc)
    acc.to(c.dtype).store(c, (row + WM * warp_row, column + WN * warp_column))


def matrix(rows, columns):
    """A matrix whose rows are whole chunks."""
    return weft.fake_tensor(
        DTYPE, (rows, weft.sym(columns, divisibility=CHUNK)), alignment_bytes=16
    )


@weft.jit
def gemm(
    a: Annotated[weft.Tensor, matrix("m", "k")],
    b: Annotated[weft.Tensor, matrix("n", "k")],
    c: Annotated[weft.Tensor, matrix("m", "n")],
):
    """c = a · bᵀ, for any m and n, and k whose rows are multiples of 16 bytes."""
    grid = weft.ceil_div(b.shape[0], BN), weft.ceil_div(a.shape[0], BM)
    gemm_kernel(a, b, c).launch(grid=grid, block=THREADS)


def make_arguments(size: int) -> Arguments:
    """Two matrices of about that size, none of a whole number of tiles."""
    random = np.random.default_rng(35)
    m, n, k = size, size // 8 * 8 + 72, size // 8 * 8 + 8
    a = random.standard_normal((m, k), dtype=np.float32).astype(np.float16)
    b = random.standard_normal((n, k), dtype=np.float32).astype(np.float16)
    return {"a": a, "b": b, "c": np.empty((m, n), np.float16)}


def fake_arguments():
    """The matrices of the annotations."""
    return matrix("m", "k"), matrix("n", "k"), matrix("m", "n")


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """What NumPy says, in float32."""
    return {"c": (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)}


EXAMPLE = Example(
    name="tensor_core_gemm",
    function=gemm,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"{size}x{size // 8 * 8 + 72} f16",
    size=1024,
    test_size=312,
    tolerance=2e-3,
    instructions=("mma.sync", "ldmatrix", "cp.async.cg.shared.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
