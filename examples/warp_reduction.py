# SPDX-License-Identifier: Apache-2.0
"""Sums the rows of a matrix: lanes of a warp exchange registers, and warps exchange through memory.

Shapes: `a` is rows x columns, float32; `sums` has one element per row. One block takes a row. A
shuffle needs no memory and no barrier: each lane reads a register of the lane `offset` above it.
`weft.warp.sum` does the five steps in one call; here they are written out.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 128
WARPS = THREADS // 32


def lane_sum(value):
    """The sum of the values of a warp's lanes; lane 0 has it."""
    for offset in weft.static_range(5):
        value += weft.shfl_down(value, 16 >> offset)
    return value


@weft.kernel
def row_sum_kernel(a: weft.Tensor, sums: weft.Tensor):
    """One block: the sum of one row."""
    of_warp = weft.shared(WARPS, weft.f32)
    row, thread = weft.block_idx.x, weft.thread_idx.x
    total = 0.0
    for column in range(thread, a.shape[1], THREADS):
        total += a[row, column]
    total = lane_sum(total)
    if weft.lane_id() == 0:
        of_warp[weft.warp_id()] = total
    weft.sync_threads()
    # The sums of the warps, by the first warp. Its other lanes add nothing.
    if weft.warp_id() == 0:
        total = lane_sum(of_warp[thread] if thread < WARPS else 0.0)
        if thread == 0:
            sums[row] = total


@weft.jit
def row_sums(a: weft.Tensor[weft.f32, ("rows", "columns")], sums: weft.Tensor[weft.f32, ("rows",)]):
    """Write the sum of each row."""
    row_sum_kernel(a, sums).launch(grid=a.shape[0], block=THREADS)


def make_arguments(rows: int) -> Arguments:
    """Rows of 1000 numbers between 0 and 1."""
    a = np.random.default_rng(9).random((rows, 1000), dtype=np.float32)
    return {"a": a, "sums": np.empty(rows, np.float32)}


def fake_arguments():
    """A matrix, and as many sums as it has rows."""
    rows = weft.sym("rows")
    return (
        weft.fake_tensor(weft.f32, (rows, weft.sym("columns"))),
        weft.fake_tensor(weft.f32, (rows,)),
    )


def reference(a: np.ndarray, sums: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"sums": a.sum(axis=1)}


EXAMPLE = Example(
    name="warp_reduction",
    function=row_sums,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda rows: f"{rows}x1000 f32",
    size=4096,
    test_size=37,
    tolerance=1e-5,  # sums of 1000 numbers in another order
    instructions=("shfl.sync.down", "bar.sync", "%laneid"),
)

if __name__ == "__main__":
    show(EXAMPLE)
