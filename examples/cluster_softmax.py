# SPDX-License-Identifier: Apache-2.0
"""The softmax of long rows: eight blocks of a cluster take a row, and exchange their results.

Shapes: `logits` and `probabilities` are rows x columns, float32. Each block keeps its share of a row in shared memory,
so that a row of up to 131072 columns is read once and written once; longer rows are read again. Each block stores its
partial results, the largest element and then the sum, into the shared memory of all eight. A barrier of the receiving
block counts the bytes, so no further barrier of the cluster is needed.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.profiler import Profiler

BLOCKS, THREADS = 8, 512
SHARE = 16384  # elements of a row that a block keeps, at most
LANES = 32


def of_block(warps, lane, value, combine, nothing):
    """One value for the block from one for each thread; `warps` is memory for those of the warps."""
    if lane == 0:
        warps[weft.warp_id()] = value
    weft.sync_threads()
    return combine(warps[lane] if lane < THREADS // LANES else nothing)


@weft.kernel(cluster=BLOCKS)
def softmax_kernel(logits: weft.Tensor, probabilities: weft.Tensor, profiled: weft.Constexpr[bool]):
    """One cluster: one row."""
    p = Profiler(enabled=profiled)
    kept = weft.shared(SHARE, weft.f32)
    warps = weft.shared((2, THREADS // LANES), weft.f32)
    maxima, sums = weft.shared(BLOCKS, weft.f32), weft.shared(BLOCKS, weft.f32)
    came = weft.mbarrier(2, arrivals=1)  # all maxima, and all sums
    rank, thread, lane = weft.cluster_rank(), weft.thread_idx.x, weft.lane_id()
    p.init(0, thread == 0)
    if thread == 0:
        came[0].arrive(expect_bytes=maxima.nbytes)
        came[1].arrive(expect_bytes=sums.nbytes)

    row, columns = weft.block_idx.x // BLOCKS, logits.shape[1]
    share = weft.ceil_div(columns, BLOCKS)
    first = rank * share
    count = min(share, columns - first)

    def logit(i):
        return kept[i] if i < SHARE else logits[row, first + i]

    with p.range("load"):
        for i in range(thread, min(count, SHARE), THREADS):
            kept[i] = logits[row, first + i]
    largest = -float("inf")
    with p.range("maximum"):
        for i in range(thread, count, THREADS):
            largest = max(largest, logit(i))
        largest = of_block(warps[0], lane, weft.warp.max(largest), weft.warp.max, -float("inf"))
    with p.range("exchange"):
        if thread < BLOCKS:
            weft.st_async(maxima, rank, largest, came[0], thread)
        came[0].wait(0)
    largest = max(maxima[i] for i in weft.static_range(BLOCKS))

    total = 0.0
    with p.range("sum"):
        for i in range(thread, count, THREADS):
            total += weft.math.exp(logit(i) - largest)
        total = of_block(warps[1], lane, weft.warp.sum(total), weft.warp.sum, 0.0)
    with p.range("exchange"):
        if thread < BLOCKS:
            weft.st_async(sums, rank, total, came[1], thread)
        came[1].wait(0)
    scale = 1.0 / sum(sums[i] for i in weft.static_range(BLOCKS))

    with p.range("store"):
        for i in range(thread, count, THREADS):
            probabilities[row, first + i] = weft.math.exp(logit(i) - largest) * scale


@weft.jit
def softmax(
    logits: weft.Tensor[weft.f32, ("rows", "columns")],
    probabilities: weft.Tensor[weft.f32, ("rows", "columns")],
    profiled: weft.Constexpr[bool] = False,
):
    """Write each row's softmax."""
    blocks = BLOCKS * logits.shape[0]
    softmax_kernel(logits, probabilities, profiled).launch(grid=blocks, block=THREADS)


def make_arguments(columns: int) -> Arguments:
    """Four rows, with some large logits."""
    logits = np.random.default_rng(10).standard_normal((4, columns), dtype=np.float32) * 30
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
    name="cluster_softmax",
    function=softmax,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda columns: f"4x{columns} f32",
    size=100_000,
    test_size=5003,
    tolerance=1e-6,
    instructions=("st.async", "mapa.shared::cluster", "mbarrier.try_wait"),
)

if __name__ == "__main__":
    show(EXAMPLE)
