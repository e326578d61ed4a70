# SPDX-License-Identifier: Apache-2.0
"""Counts byte values in a table per block, so that blocks do not wait for each other's additions.

Shapes: `values` has n uint8 elements, `counts` has 256 int32 ones and is added to. Atomic additions
to shared memory are cheap; only each block's finished table goes to memory that all blocks share.
`histogram.py` does without the tables.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

BLOCKS, THREADS = 64, 256


@weft.kernel
def shared_histogram_kernel(values: weft.Tensor, counts: weft.Tensor):
    """One block: every so-manyth stretch of 256 values. One thread: one value of each stretch."""
    table = weft.shared(256, weft.i32)
    thread = weft.thread_idx.x
    table[thread] = 0
    weft.sync_threads()
    first = weft.block_idx.x * THREADS + thread
    for i in range(first, values.shape[0], weft.grid_dim.x * THREADS):
        weft.atomic_add(table, values[i], 1)
    weft.sync_threads()
    if table[thread] != 0:
        weft.atomic_add(counts, thread, table[thread])


@weft.jit
def shared_histogram(values: weft.Tensor[weft.u8, ("n",)], counts: weft.Tensor[weft.i32, (256,)]):
    """Add the number of occurrences of each value to counts."""
    shared_histogram_kernel(values, counts).launch(grid=BLOCKS, block=THREADS)


def make_arguments(n: int) -> Arguments:
    """Bytes that crowd around 128, and a table of zeros."""
    normal = np.random.default_rng(15).standard_normal(n, dtype=np.float32)
    values = np.clip(normal * 32 + 128, 0, 255).astype(np.uint8)
    return {"values": values, "counts": np.zeros(256, np.int32)}


def fake_arguments():
    """Any number of bytes, and the table."""
    return weft.fake_tensor(weft.u8, (weft.sym("n"),)), weft.fake_tensor(weft.i32, (256,))


def reference(values: np.ndarray, counts: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"counts": counts + np.bincount(values, minlength=256).astype(np.int32)}


EXAMPLE = Example(
    name="shared_histogram",
    function=shared_histogram,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} u8",
    size=1 << 23,
    test_size=100_003,
    instructions=(".shared.add", ".global.add", "bar.sync"),
)

if __name__ == "__main__":
    show(EXAMPLE)
