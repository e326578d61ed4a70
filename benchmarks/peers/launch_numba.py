# SPDX-License-Identifier: Apache-2.0
"""A launch through numba-cuda, for benchmarks/gpu_launch.py.

In: how many tensors, and arrays on the device. Out: a callable and what it is called with.
"""

from __future__ import annotations

from typing import Any

from numba import cuda


@cuda.jit
def none():
    """Do nothing."""


@cuda.jit
def one(a):
    a[0] = 0.0


@cuda.jit
def three(a, b, c):
    a[0] = 0.0
    b[0] = 0.0
    c[0] = 0.0


@cuda.jit
def eight(a, b, c, d, e, f, g, h):
    a[0] = 0.0
    b[0] = 0.0
    c[0] = 0.0
    d[0] = 0.0
    e[0] = 0.0
    f[0] = 0.0
    g[0] = 0.0
    h[0] = 0.0


KERNELS = {0: none, 1: one, 3: three, 8: eight}


def prepare(count: int, arrays: list[Any]) -> tuple[Any, list[Any]]:
    """The kernel with its grid and block, and views of the arrays in numba's own class."""
    return KERNELS[count][1, 32], [cuda.as_cuda_array(array) for array in arrays]
