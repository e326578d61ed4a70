# SPDX-License-Identifier: Apache-2.0
"""Functions that the tests tune: for other processes they stand at the top of a module."""

from __future__ import annotations

import numpy as np

import weft

VECTOR = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def scale_kernel(a: weft.Tensor, out: weft.Tensor, items: weft.Constexpr[int]):
    first = (weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x) * items
    for i in weft.static_range(items):
        if first + i < a.shape[0]:
            out[first + i] = 2 * a[first + i]


@weft.jit
def plain_scale(a: VECTOR, out: VECTOR, threads: weft.i32 = 64, items: weft.Constexpr[int] = 1):
    grid = weft.ceil_div(a.shape[0], threads * items)
    scale_kernel(a, out, items).launch(grid=grid, block=threads)


# One compilation serves both, so that tests are quick.
THREADS = {"threads": [32, 64], "items": [1]}


def tuned(function=plain_scale, **arguments):
    """A tuned function with few samples."""
    made = {"space": THREADS, "key": ["n"], "samples": 3, "workers": 0, **arguments}
    return weft.autotune(**made)(function)


@weft.autotune(space={"threads": [32, 64], "items": [1, 2]}, key=["n"], samples=3, workers=0)
@weft.jit
def scale(a: VECTOR, out: VECTOR, threads: weft.i32, items: weft.Constexpr[int]):
    grid = weft.ceil_div(a.shape[0], threads * items)
    scale_kernel(a, out, items).launch(grid=grid, block=threads)


def vectors(n):
    """Arguments of `scale`."""
    return {"a": np.ones(n, np.float32), "out": np.zeros(n, np.float32)}
