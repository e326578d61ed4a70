# SPDX-License-Identifier: Apache-2.0
"""Counts how often each byte value occurs, with atomic additions to one table.

Shapes: `values` has n uint8 elements, `counts` has 256 int32 ones and is added to. Threads walk
through the input with the stride of the whole grid, so the grid need not grow with n.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

BLOCKS, THREADS = 64, 256


@weft.kernel
def histogram_kernel(values: weft.Tensor, counts: weft.Tensor):
    """One thread: every so-manyth value."""
    first = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    for i in range(first, values.shape[0], weft.grid_dim.x * weft.block_dim.x):
        weft.atomic_add(counts, values[i], 1)


@weft.jit
def histogram(values: weft.Tensor[weft.u8, ("n",)], counts: weft.Tensor[weft.i32, (256,)]):
    """Add the number of occurrences of each value to counts."""
    histogram_kernel(values, counts).launch(grid=BLOCKS, block=THREADS)


def make_arguments(n: int) -> Arguments:
    """Bytes that crowd around 128, and a table of zeros."""
    normal = np.random.default_rng(6).standard_normal(n, dtype=np.float32)
    values = np.clip(normal * 32 + 128, 0, 255).astype(np.uint8)
    return {"values": values, "counts": np.zeros(256, np.int32)}


def fake_arguments():
    """Any number of bytes, and the table."""
    return weft.fake_tensor(weft.u8, (weft.sym("n"),)), weft.fake_tensor(weft.i32, (256,))


def reference(values: np.ndarray, counts: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"counts": counts + np.bincount(values, minlength=256).astype(np.int32)}


EXAMPLE = Example(
    name="histogram",
    function=histogram,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} u8",
    size=1 << 23,
    test_size=100_003,
    instructions=("ld.global", ".global.add"),
)

if __name__ == "__main__":
    show(EXAMPLE)
