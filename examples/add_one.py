# SPDX-License-Identifier: Apache-2.0
"""Adds one to every element: the smallest whole program of threads.

Shapes: `a` and `b` have n float32 elements. One thread makes one element; the last block may be
partial, so each thread asks whether its element exists. The length is a symbol: one compiled
function serves every n. `saxpy.py` leaves threads to the compiler, which is shorter and faster.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show


@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    """One thread: b[i] = a[i] + 1."""
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    """Write a + 1 to b."""
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


def make_arguments(n: int) -> Arguments:
    """Normally distributed numbers, and room for the result."""
    a = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    return {"a": a, "b": np.empty_like(a)}


def fake_arguments():
    """Two vectors of one length."""
    n = weft.sym("n")
    return weft.fake_tensor(weft.f32, (n,)), weft.fake_tensor(weft.f32, (n,))


def reference(a: np.ndarray, b: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"b": a + np.float32(1)}


EXAMPLE = Example(
    name="add_one",
    function=add_one,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} f32",
    size=1 << 24,
    test_size=1000,
    instructions=("ld.global", "add.rn.f32", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
