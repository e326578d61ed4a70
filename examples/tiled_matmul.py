# SPDX-License-Identifier: Apache-2.0
"""Matmul with tiles in shared memory: each element is read once per tile, not per thread.

Shapes: `a` is m x k, `b` is k x n, `c` is m x n, float32 and contiguous; none need be a multiple of
the tile. A block computes a tile of 16 x 16 elements of c. Where a tile reaches over an edge of a or
b it holds zeros, so the inner loop has no condition.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

TILE = 16


@weft.kernel
def tiled_matmul_kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    """One block: one tile of c."""
    tile_a = weft.shared((TILE, TILE), weft.f32)
    tile_b = weft.shared((TILE, TILE), weft.f32)
    x, y = weft.thread_idx.x, weft.thread_idx.y
    row, column = weft.block_idx.y * TILE + y, weft.block_idx.x * TILE + x
    m, depth = a.shape
    n = c.shape[1]
    total = 0.0
    for first in range(0, depth, TILE):
        tile_a[y, x] = a[row, first + x] if row < m and first + x < depth else 0.0
        tile_b[y, x] = b[first + y, column] if first + y < depth and column < n else 0.0
        weft.sync_threads()
        for k in weft.static_range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        # The next iteration overwrites the tiles.
        weft.sync_threads()
    if row < m and column < n:
        c[row, column] = total


@weft.jit
def tiled_matmul(
    a: weft.Tensor[weft.f32, ("m", "k")],
    b: weft.Tensor[weft.f32, ("k", "n")],
    c: weft.Tensor[weft.f32, ("m", "n")],
):
    """Write a @ b to c."""
    m, n = c.shape
    grid = weft.ceil_div(n, TILE), weft.ceil_div(m, TILE)
    tiled_matmul_kernel(a, b, c).launch(grid=grid, block=(TILE, TILE))


def make_arguments(n: int) -> Arguments:
    """Two matrices of normally distributed numbers, a little off square."""
    random = np.random.default_rng(11)
    a = random.standard_normal((n, n + 9), dtype=np.float32)
    b = random.standard_normal((n + 9, n - 7), dtype=np.float32)
    return {"a": a, "b": b, "c": np.empty((n, n - 7), np.float32)}


def fake_arguments():
    """Three matrices that fit together."""
    m, n, k = weft.sym("m"), weft.sym("n"), weft.sym("k")
    return (
        weft.fake_tensor(weft.f32, (m, k)),
        weft.fake_tensor(weft.f32, (k, n)),
        weft.fake_tensor(weft.f32, (m, n)),
    )


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """What NumPy says, with its BLAS."""
    return {"c": a @ b}


EXAMPLE = Example(
    name="tiled_matmul",
    function=tiled_matmul,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n}x{n + 9} @ {n + 9}x{n - 7}",
    size=384,
    test_size=37,
    tolerance=1e-4,  # sums of some 400 terms in another order
    instructions=("ld.shared", "st.shared", "bar.sync"),
)

if __name__ == "__main__":
    show(EXAMPLE)
