# SPDX-License-Identifier: Apache-2.0
"""A launch through CuTe DSL, for benchmarks/gpu_launch.py.

In: how many tensors, and arrays on the device. Out: a callable and what it is called with.
"""

from __future__ import annotations

from typing import Any

from cutlass import cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel_none():
    """Do nothing."""


@cute.kernel
def kernel_one(a: cute.Tensor):
    a[0] = 0.0


@cute.kernel
def kernel_three(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    a[0] = 0.0
    b[0] = 0.0
    c[0] = 0.0


@cute.kernel
def kernel_eight(
    a: cute.Tensor,
    b: cute.Tensor,
    c: cute.Tensor,
    d: cute.Tensor,
    e: cute.Tensor,
    f: cute.Tensor,
    g: cute.Tensor,
    h: cute.Tensor,
):
    a[0] = 0.0
    b[0] = 0.0
    c[0] = 0.0
    d[0] = 0.0
    e[0] = 0.0
    f[0] = 0.0
    g[0] = 0.0
    h[0] = 0.0


@cute.jit
def none():
    """Launch one block."""
    kernel_none().launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.jit
def one(a: cute.Tensor):
    """Launch one block."""
    kernel_one(a).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.jit
def three(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """Launch one block."""
    kernel_three(a, b, c).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.jit
def eight(
    a: cute.Tensor,
    b: cute.Tensor,
    c: cute.Tensor,
    d: cute.Tensor,
    e: cute.Tensor,
    f: cute.Tensor,
    g: cute.Tensor,
    h: cute.Tensor,
):
    """Launch one block."""
    kernel_eight(a, b, c, d, e, f, g, h).launch(grid=(1, 1, 1), block=(32, 1, 1))


HOSTS = {0: none, 1: one, 3: three, 8: eight}


def prepare(count: int, arrays: list[Any]) -> tuple[Any, list[Any]]:
    """The compiled host function, and the arrays as CuTe's tensors."""
    tensors = [from_dlpack(array) for array in arrays]
    return cute.compile(HOSTS[count], *tensors), tensors
