# SPDX-License-Identifier: Apache-2.0
"""The examples as one writes them for numba's `@njit`: loops over the data, no threads of a GPU.

The case is `example/size/threads`; with more than one thread the outer loop is a `prange`.
"""

from __future__ import annotations

import importlib.metadata
import math
import sys
import time

import numba
import numpy as np
from benchmarks.harness import serve
from numba import prange

RNG = np.random.default_rng(0)


def add_one(a, b):
    for i in prange(a.shape[0]):
        b[i] = a[i] + np.float32(1)


def saxpy(a, x, y):
    for i in prange(x.shape[0]):
        y[i] = a * x[i] + y[i]


def row_sums(a, sums):
    for row in prange(a.shape[0]):
        total = np.float32(0)
        for column in range(a.shape[1]):
            total += a[row, column]
        sums[row] = total


def softmax(logits, out):
    for row in prange(logits.shape[0]):
        top = -np.float32(np.inf)
        for column in range(logits.shape[1]):
            top = max(top, logits[row, column])
        total = np.float32(0)
        for column in range(logits.shape[1]):
            weight = math.exp(logits[row, column] - top)
            out[row, column] = weight
            total += weight
        for column in range(logits.shape[1]):
            out[row, column] /= total


def transpose(source, target):
    for column in prange(target.shape[0]):
        for row in range(target.shape[1]):
            target[column, row] = source[row, column]


def matmul(a, b, c):
    for row in prange(c.shape[0]):
        c[row] = 0
        for k in range(a.shape[1]):
            for column in range(c.shape[1]):
                c[row, column] += a[row, k] * b[k, column]


def convolution(source, weights, target):
    height, width = source.shape
    for y in prange(height):
        for x in range(width):
            total = np.float32(0)
            for dy in range(max(-2, -y), min(3, height - y)):
                for dx in range(max(-2, -x), min(3, width - x)):
                    total += weights[2 - dy, 2 - dx] * source[y + dy, x + dx]
            target[y, x] = total


def scan(a, totals):
    total = np.int32(0)
    for i in range(a.shape[0]):
        total += a[i]
        totals[i] = total


def histogram(values, counts):
    for i in range(values.shape[0]):
        counts[values[i]] += 1


def sort(values):
    values.sort()


def f32(rows, columns=None):
    return RNG.random(rows if columns is None else (rows, columns), dtype=np.float32)


def empty(rows, columns=None):
    return np.empty(rows if columns is None else (rows, columns), np.float32)


CASES = {
    "add_one": lambda n: (add_one, (f32(n), empty(n))),
    "saxpy": lambda n: (saxpy, (np.float32(2.5), f32(n), f32(n))),
    "block_reduction": lambda n: (row_sums, (f32(n // 1024, 1024), empty(n // 1024))),
    "warp_reduction": lambda n: (row_sums, (f32(n, 1000), empty(n))),
    "softmax": lambda n: (softmax, (f32(n, 1000), empty(n, 1000))),
    "transpose": lambda n: (transpose, (f32(n, n + 7), empty(n + 7, n))),
    "matmul": lambda n: (matmul, (f32(n, n + 16), f32(n + 16, n - 8), empty(n, n - 8))),
    "tiled_matmul": lambda n: (matmul, (f32(n, n + 9), f32(n + 9, n - 7), empty(n, n - 7))),
    "convolution": lambda n: (
        convolution,
        (f32(n, n * 4 // 3), f32(5, 5), empty(n, n * 4 // 3)),
    ),
    "inclusive_scan": lambda n: (scan, (np.ones(n, np.int32), np.empty(n, np.int32))),
    "histogram": lambda n: (histogram, (bytes_of(n), np.zeros(256, np.int32))),
    "shared_histogram": lambda n: (histogram, (bytes_of(n), np.zeros(256, np.int32))),
    "bitonic_sort": lambda n: (sort, (f32(n),)),
}
# A running total, one table and a sort are loops whose iterations depend on each other.
SERIAL = ("inclusive_scan", "histogram", "shared_histogram", "bitonic_sort")


def bytes_of(n):
    return np.clip(RNG.standard_normal(n) * 32 + 128, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    name, size, threads = sys.argv[1].split("/")
    function, arguments = CASES[name](int(size))
    several = int(threads) > 1 and name not in SERIAL
    compiled = numba.njit(function, parallel=several, fastmath=False)
    if several:
        numba.set_num_threads(int(threads))
    compiled(*arguments)
    clock = time.thread_time if threads == "1" else time.perf_counter
    version = f"numba {importlib.metadata.version('numba')}"
    serve(version, lambda: compiled(*arguments), clock)
