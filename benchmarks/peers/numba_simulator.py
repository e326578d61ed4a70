# SPDX-License-Identifier: Apache-2.0
"""Kernels in numba's CUDA simulator, which runs each thread of a block as a thread of Python.

The case is `block_reduction/threads`; one call runs that many threads, in blocks of 256.
"""

from __future__ import annotations

import os
import sys

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read when numba is imported

import importlib.metadata

import numpy as np
from benchmarks.harness import serve
from numba import cuda, float32

BLOCK = 256


@cuda.jit
def block_reduction(a, sums):
    partial = cuda.shared.array(BLOCK, float32)
    thread = cuda.threadIdx.x
    partial[thread] = a[cuda.grid(1)]
    cuda.syncthreads()
    active = BLOCK // 2
    while active > 0:
        if thread < active:
            partial[thread] += partial[thread + active]
        cuda.syncthreads()
        active //= 2
    if thread == 0:
        sums[cuda.blockIdx.x] = partial[0]


if __name__ == "__main__":
    name, threads = sys.argv[1].split("/")
    a = np.ones(int(threads), np.float32)
    sums = np.zeros(len(a) // BLOCK, np.float32)
    serve(
        f"numba-cuda {importlib.metadata.version('numba-cuda')}, simulator",
        lambda: block_reduction[len(sums), BLOCK](a, sums),
    )
