# SPDX-License-Identifier: Apache-2.0
"""The Cholesky factor of a symmetric positive matrix, column by column.

Shapes: `a` is n x n, float64. Its lower triangle becomes L with L Lᵀ = A; the rest stays as it is. The
host function loops over the columns; the part below and to the right of one is passed as a view.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

BLOCK = (32, 8)
THREADS = 128


@weft.kernel
def root_kernel(left: weft.Tensor):
    """One thread: the corner."""
    left[0, 0] = weft.math.sqrt(left[0, 0])


@weft.kernel
def divide_kernel(left: weft.Tensor):
    """One thread: one element of the first column, below the corner."""
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x + 1
    if i < len(left):
        left[i, 0] /= left[0, 0]


@weft.kernel
def update_kernel(left: weft.Tensor):
    """One thread: one element of the lower triangle right of the first column."""
    j = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x + 1
    i = weft.block_idx.y * weft.block_dim.y + weft.thread_idx.y + 1
    if i < len(left) and j <= i:
        left[i, j] -= left[i, 0] * left[j, 0]


@weft.jit
def cholesky(a: weft.Tensor[weft.f64, ("n", "n")]):
    """Factorize in place."""
    n = len(a)
    for column in range(n):
        left = a[column:, column:]
        rest = n - column - 1
        root_kernel(left).launch(grid=1, block=1)
        divide_kernel(left).launch(grid=weft.ceil_div(rest, THREADS), block=THREADS)
        grid = weft.ceil_div(rest, BLOCK[0]), weft.ceil_div(rest, BLOCK[1])
        update_kernel(left).launch(grid=grid, block=BLOCK)


def make_arguments(n: int) -> Arguments:
    """A symmetric matrix whose diagonal outweighs the rest."""
    a = np.random.default_rng(28).standard_normal((n, n))
    return {"a": a + a.T + 4 * n * np.eye(n)}


def fake_arguments():
    """Any square matrix."""
    n = weft.sym("n")
    return (weft.fake_tensor(weft.f64, (n, n)),)


def reference(a: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"a": np.linalg.cholesky(a) + np.triu(a, 1)}


EXAMPLE = Example(
    name="cholesky",
    function=cholesky,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n}x{n} f64",
    size=512,
    test_size=45,
    tolerance=1e-10,
    instructions=("sqrt.rn.f64", "div.rn.f64"),
)

if __name__ == "__main__":
    show(EXAMPLE)
