# SPDX-License-Identifier: Apache-2.0
"""The softmax of each row of a matrix: one warp takes a row, and its lanes agree by reductions.

Shapes: `logits` and `probabilities` are rows x columns, float32. The largest element is subtracted
first, so that no exponential overflows. A row belongs to one warp, so the block's warps never wait
for each other, and no memory is shared.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

LANES, WARPS = 32, 4


@weft.kernel
def softmax_kernel(logits: weft.Tensor, probabilities: weft.Tensor):
    """One warp: one row."""
    row = weft.block_idx.x * WARPS + weft.warp_id()
    lane = weft.lane_id()
    rows, columns = logits.shape
    if row >= rows:
        return
    largest = -float("inf")
    for column in range(lane, columns, LANES):
        largest = max(largest, logits[row, column])
    largest = weft.warp.max(largest)
    total = 0.0
    for column in range(lane, columns, LANES):
        weight = weft.math.exp(logits[row, column] - largest)
        probabilities[row, column] = weight
        total += weight
    scale = 1.0 / weft.warp.sum(total)
    for column in range(lane, columns, LANES):
        probabilities[row, column] *= scale


@weft.jit
def softmax(
    logits: weft.Tensor[weft.f32, ("rows", "columns")],
    probabilities: weft.Tensor[weft.f32, ("rows", "columns")],
):
    """Write each row's softmax."""
    grid = weft.ceil_div(logits.shape[0], WARPS)
    softmax_kernel(logits, probabilities).launch(grid=grid, block=WARPS * LANES)


def make_arguments(rows: int) -> Arguments:
    """Rows of 1000 logits, some of them large."""
    logits = np.random.default_rng(10).standard_normal((rows, 1000), dtype=np.float32) * 30
    return {"logits": logits, "probabilities": np.empty_like(logits)}


def fake_arguments():
    """Two matrices of one shape."""
    shape = weft.sym("rows"), weft.sym("columns")
    return weft.fake_tensor(weft.f32, shape), weft.fake_tensor(weft.f32, shape)


def reference(logits: np.ndarray, probabilities: np.ndarray) -> Arrays:
    """What NumPy says."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return {"probabilities": weights / weights.sum(axis=1, keepdims=True)}


EXAMPLE = Example(
    name="softmax",
    function=softmax,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda rows: f"{rows}x1000 f32",
    size=4096,
    test_size=37,
    tolerance=1e-6,
    instructions=("shfl.sync", "ld.global", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
