# SPDX-License-Identifier: Apache-2.0
"""The best local alignment of two sequences: Smith and Waterman.

Shapes: `first` has m and `second` has n letters, uint8; `scores` is (m + 1) x (n + 1), int32, and holds the
best score of an alignment that ends there. A match scores 3, a mismatch -3, a gap -2 per letter. The cells
of an antidiagonal depend on the two before it alone: one launch each, a thread per cell.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

MATCH, MISMATCH, GAP = 3, -3, -2
THREADS = 128


@weft.kernel
def edges_kernel(scores: weft.Tensor):
    """One thread: one cell of the first row, one of the first column."""
    k = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if k < scores.shape[0]:
        scores[k, 0] = 0
    if k < scores.shape[1]:
        scores[0, k] = 0


@weft.kernel
def diagonal_kernel(
    first: weft.Tensor, second: weft.Tensor, scores: weft.Tensor, diagonal: weft.i32
):
    """One thread: the cell (i, j) with i + j = diagonal."""
    i = max(diagonal - len(second), 1) + weft.block_idx.x * THREADS + weft.thread_idx.x
    j = diagonal - i
    if i > len(first) or j < 1:
        return
    score = MATCH if first[i - 1] == second[j - 1] else MISMATCH
    scores[i, j] = max(
        0, scores[i - 1, j - 1] + score, scores[i - 1, j] + GAP, scores[i, j - 1] + GAP
    )


@weft.jit
def smith_waterman(
    first: weft.Tensor[weft.u8, ("m",)],
    second: weft.Tensor[weft.u8, ("n",)],
    scores: weft.Tensor[weft.i32, (None, None)],
):
    """Fill in the scores."""
    m, n = len(first), len(second)
    edges_kernel(scores).launch(grid=weft.ceil_div(max(m, n) + 1, THREADS), block=THREADS)
    for diagonal in range(2, m + n + 1):
        cells = min(diagonal - 1, m, n)
        diagonal_kernel(first, second, scores, diagonal).launch(
            grid=weft.ceil_div(cells, THREADS), block=THREADS
        )


def make_arguments(length: int) -> Arguments:
    """Two random strands; the second one holds a part of the first."""
    random = np.random.default_rng(29)
    letters = np.frombuffer(b"ACGT", np.uint8)
    first = letters[random.integers(0, 4, length)]
    second = letters[random.integers(0, 4, length + 7)]
    second[3 : 3 + length // 2] = first[length // 4 : length // 4 + length // 2]
    scores = np.empty((len(first) + 1, len(second) + 1), np.int32)
    return {"first": first, "second": second, "scores": scores}


def fake_arguments():
    """Any two sequences."""
    return (
        weft.fake_tensor(weft.u8, ("m",)),
        weft.fake_tensor(weft.u8, ("n",)),
        weft.fake_tensor(weft.i32, (None, None)),
    )


def reference(first: np.ndarray, second: np.ndarray, scores: np.ndarray) -> Arrays:
    """What NumPy says: one antidiagonal at a time."""
    m, n = len(first), len(second)
    expected = np.zeros((m + 1, n + 1), np.int32)
    for diagonal in range(2, m + n + 1):
        i = np.arange(max(diagonal - n, 1), min(diagonal - 1, m) + 1)
        j = diagonal - i
        score = np.where(first[i - 1] == second[j - 1], MATCH, MISMATCH)
        gaps = np.maximum(expected[i - 1, j], expected[i, j - 1]) + GAP
        expected[i, j] = np.maximum(np.maximum(expected[i - 1, j - 1] + score, gaps), 0)
    return {"scores": expected}


EXAMPLE = Example(
    name="smith_waterman",
    function=smith_waterman,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda length: f"{length} and {length + 7} letters",
    size=1500,
    test_size=90,
    instructions=("max.s32", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
