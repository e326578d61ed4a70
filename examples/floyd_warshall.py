# SPDX-License-Identifier: Apache-2.0
"""Shortest ways between all pairs of vertices of a graph: Floyd and Warshall.

Shapes: `distances` is n x n, int32: the length of the edge from row to column, `FAR` where there is none.
It becomes the length of the shortest way. The host function launches once per vertex that ways may newly
lead through.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

FAR = 1 << 29  # no way; twice that still fits an int32
BLOCK = (32, 8)


@weft.kernel
def through_kernel(distances: weft.Tensor, middle: weft.i32):
    """One thread: one pair, which may now go through `middle`.

    Row and column `middle` are not written in this step, so no thread reads another one's writes.
    """
    to = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    start = weft.block_idx.y * weft.block_dim.y + weft.thread_idx.y
    if to >= distances.shape[1] or start >= distances.shape[0]:
        return
    ways = distances[start]
    through = ways[middle] + distances[middle, to]
    if through < ways[to]:  # noqa: PLR1730  (a number that stays is not written)
        ways[to] = through


@weft.jit
def floyd_warshall(distances: weft.Tensor[weft.i32, ("n", "n")]):
    """Replace edges by shortest ways."""
    n = len(distances)
    grid = weft.ceil_div(n, BLOCK[0]), weft.ceil_div(n, BLOCK[1])
    for middle in range(n):
        through_kernel(distances, middle).launch(grid=grid, block=BLOCK)


def make_arguments(n: int) -> Arguments:
    """About four edges out of each vertex."""
    random = np.random.default_rng(25)
    lengths = random.integers(1, 100, (n, n)).astype(np.int32)
    distances = np.where(random.random((n, n)) < 4 / n, lengths, np.int32(FAR))
    np.fill_diagonal(distances, 0)
    return {"distances": distances}


def fake_arguments():
    """Any graph."""
    n = weft.sym("n")
    return (weft.fake_tensor(weft.i32, (n, n)),)


def reference(distances: np.ndarray) -> Arrays:
    """What NumPy says: one outer sum per vertex."""
    expected = distances.copy()
    for middle in range(len(expected)):
        np.minimum(expected, expected[:, middle, None] + expected[middle], out=expected)
    return {"distances": expected}


EXAMPLE = Example(
    name="floyd_warshall",
    function=floyd_warshall,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n} vertices",
    size=500,
    test_size=67,
    instructions=("setp.ge.s32", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
