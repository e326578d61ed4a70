# SPDX-License-Identifier: Apache-2.0
"""A launch through Triton, for benchmarks/gpu_launch.py.

In: how many tensors, and arrays on the device. Out: a callable and what it is called with.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def none():
    """Do nothing."""


@triton.jit
def one(a):
    tl.store(a, 0.0)


@triton.jit
def three(a, b, c):
    tl.store(a, 0.0)
    tl.store(b, 0.0)
    tl.store(c, 0.0)


@triton.jit
def eight(a, b, c, d, e, f, g, h):
    tl.store(a, 0.0)
    tl.store(b, 0.0)
    tl.store(c, 0.0)
    tl.store(d, 0.0)
    tl.store(e, 0.0)
    tl.store(f, 0.0)
    tl.store(g, 0.0)
    tl.store(h, 0.0)


KERNELS = {0: none, 1: one, 3: three, 8: eight}


def prepare(count: int, arrays: list[Any]) -> tuple[Any, list[Any]]:
    """The kernel with its grid, and the arrays as they are."""
    return KERNELS[count][(1,)], arrays
