# SPDX-License-Identifier: Apache-2.0
"""Sums slices of a vector: a tree in shared memory, with a barrier between its levels.

Shapes: `a` has n float32 elements, `sums` one for each slice of 1024; the last slice may be shorter.
A block of 256 threads takes a slice: each thread adds four elements, and then half of the threads
that are left add the other half's sums, until one holds the slice's sum.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS, SLICE = 256, 1024


@weft.kernel
def block_sum_kernel(a: weft.Tensor, sums: weft.Tensor):
    """One block: the sum of one slice."""
    partial = weft.shared(THREADS, weft.f32)
    thread = weft.thread_idx.x
    first = weft.block_idx.x * SLICE + thread
    total = 0.0
    for i in range(first, min(first + SLICE, a.shape[0]), THREADS):
        total += a[i]
    partial[thread] = total
    weft.sync_threads()
    active = THREADS // 2
    while active > 0:
        if thread < active:
            partial[thread] += partial[thread + active]
        # All threads come here, also those that have nothing more to add.
        weft.sync_threads()
        active //= 2
    if thread == 0:
        sums[weft.block_idx.x] = partial[0]


@weft.jit
def block_sums(a: weft.Tensor[weft.f32, ("n",)], sums: weft.Tensor[weft.f32, ("slices",)]):
    """Write the sum of each slice."""
    block_sum_kernel(a, sums).launch(grid=sums.shape[0], block=THREADS)


def make_arguments(n: int) -> Arguments:
    """Numbers between 0 and 1."""
    a = np.random.default_rng(8).random(n, dtype=np.float32)
    return {"a": a, "sums": np.empty(-(-n // SLICE), np.float32)}


def fake_arguments():
    """A vector and its slices."""
    return (
        weft.fake_tensor(weft.f32, (weft.sym("n"),)),
        weft.fake_tensor(weft.f32, (weft.sym("slices"),)),
    )


def reference(a: np.ndarray, sums: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"sums": np.add.reduceat(a, np.arange(0, len(a), SLICE))}


EXAMPLE = Example(
    name="block_reduction",
    function=block_sums,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} f32",
    size=1 << 23,
    test_size=10_000,
    tolerance=1e-5,  # sums of 1024 numbers in another order
    instructions=("ld.shared", "st.shared", "bar.sync"),
)

if __name__ == "__main__":
    show(EXAMPLE)
