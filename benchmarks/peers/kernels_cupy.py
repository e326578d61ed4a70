# SPDX-License-Identifier: Apache-2.0
"""CuPy's calls for what the kernels of benchmarks/gpu_kernels.py compute.

Sums, running totals, histograms and sorting are NVIDIA's CUB, which CuPy contains; products are cuBLAS.

In: the arguments of a kernel. Out: for each name a function of them, which gives the result, or None where it has
written it.
"""

from __future__ import annotations

import cupy

cupy.cuda.runtime.getDevice()  # raises where there is none

array = cupy.from_dlpack
host = cupy.asnumpy


def matmul(a, b, c):
    cupy.matmul(a, b, out=c)


CALLS = {
    "transpose": lambda a, b: cupy.copyto(b, a.T),
    "matmul_tiled": matmul,
    "sgemm": matmul,
    "histogram": lambda a, bins: cupy.histogram(a, 256, (0, 256))[0],
    "add": lambda a, b, c: cupy.add(a, b, out=c),
    "sum": lambda a, total: cupy.sum(a),
    "cumsum": lambda a, b: cupy.cumsum(a, out=b),
    "sort": lambda keys, ordered, *_: cupy.sort(keys),
    "matmul": lambda a, b, c: cupy.matmul(a, b.T, out=c),
}
