# SPDX-License-Identifier: Apache-2.0
"""A launch through CuPy's RawKernel, for benchmarks/gpu_launch.py.

In: how many tensors, and arrays on the device. Out: a callable and what it is called with.
"""

from __future__ import annotations

from typing import Any

import cupy


def prepare(count: int, arrays: list[Any]) -> tuple[Any, list[Any]]:
    """The kernel, and its grid, block and tuple of arguments."""
    names = [f"a{index}" for index in range(count)]
    parameters = ", ".join(f"float* {name}" for name in names)
    body = " ".join(f"{name}[0] = 0.0f;" for name in names)
    kernel = cupy.RawKernel(f'extern "C" __global__ void store({parameters}) {{ {body} }}', "store")
    views = tuple(cupy.asarray(array) for array in arrays)
    return kernel, [(1,), (32,), views]
