# SPDX-License-Identifier: Apache-2.0
"""Naive matmul: one thread per element of the result, a loop over the inner dimension.

Shapes: `a` is m x k, `b` is k x n, `c` is m x n, all float32 and contiguous. Equal names are equal
dims: a call whose matrices do not fit is refused with both numbers before anything runs.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show


@weft.kernel
def matmul_kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    """One thread: the dot product of one row of a and one column of b."""
    column = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    row = weft.block_idx.y * weft.block_dim.y + weft.thread_idx.y
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@weft.jit
def matmul(
    a: weft.Tensor[weft.f32, ("m", "k")],
    b: weft.Tensor[weft.f32, ("k", "n")],
    c: weft.Tensor[weft.f32, ("m", "n")],
):
    """Write a @ b to c."""
    m, n = c.shape
    grid = weft.ceil_div(n, 32), weft.ceil_div(m, 8)
    matmul_kernel(a, b, c).launch(grid=grid, block=(32, 8))


def make_arguments(n: int) -> Arguments:
    """Two matrices of normally distributed numbers, a little off square."""
    random = np.random.default_rng(4)
    a = random.standard_normal((n, n + 16), dtype=np.float32)
    b = random.standard_normal((n + 16, n - 8), dtype=np.float32)
    return {"a": a, "b": b, "c": np.empty((n, n - 8), np.float32)}


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
    name="matmul",
    function=matmul,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n}x{n + 16} @ {n + 16}x{n - 8}",
    size=512,
    test_size=37,
    tolerance=1e-4,  # sums of some 500 terms in another order
    instructions=("ld.global", "fma.rn.f32", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
