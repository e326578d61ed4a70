# SPDX-License-Identifier: Apache-2.0
"""The examples as one call or two of torch on the CPU. The case is `example/size/threads`."""

from __future__ import annotations

import sys
import time

try:
    import torch
except ImportError:
    print('{"missing": "torch is not installed: make test TORCH=1 installs it"}', flush=True)
    sys.exit(0)
from benchmarks.harness import serve


def add_one(n):
    a, b = torch.rand(n), torch.empty(n)
    return lambda: torch.add(a, 1.0, out=b)


def saxpy(n):
    x, y = torch.rand(n), torch.rand(n)
    return lambda: y.add_(x, alpha=2.5)


def block_reduction(n):
    a, sums = torch.rand(n // 1024, 1024), torch.empty(n // 1024)
    return lambda: torch.sum(a, 1, out=sums)


def warp_reduction(n):
    a, sums = torch.rand(n, 1000), torch.empty(n)
    return lambda: torch.sum(a, 1, out=sums)


def softmax(n):
    logits, out = torch.randn(n, 1000), torch.empty(n, 1000)
    return lambda: torch.softmax(logits, 1, out=out)


def transpose(n):
    source, target = torch.rand(n, n + 7), torch.empty(n + 7, n)
    return lambda: target.copy_(source.T)


def matmul(n, k=16, less=8):
    a, b, c = torch.rand(n, n + k), torch.rand(n + k, n - less), torch.empty(n, n - less)
    return lambda: torch.matmul(a, b, out=c)


def tiled_matmul(n):
    return matmul(n, 9, 7)


def convolution(n):
    picture, weights = torch.rand(1, 1, n, n * 4 // 3), torch.rand(1, 1, 5, 5)
    return lambda: torch.nn.functional.conv2d(picture, weights, padding=2)


def inclusive_scan(n):
    a, totals = torch.ones(n, dtype=torch.int32), torch.empty(n, dtype=torch.int32)
    return lambda: torch.cumsum(a, 0, out=totals)


def shared_histogram(n):
    values = (torch.randn(n) * 32 + 128).clamp(0, 255).to(torch.uint8)
    return lambda: torch.bincount(values, minlength=256)


histogram = shared_histogram


def bitonic_sort(n):
    values = torch.rand(n)
    return lambda: torch.sort(values)


CASES = (
    add_one, saxpy, block_reduction, warp_reduction, softmax, transpose, matmul, tiled_matmul,
    convolution, inclusive_scan, histogram, shared_histogram, bitonic_sort,
)  # fmt: skip


if __name__ == "__main__":
    name, size, threads = sys.argv[1].split("/")
    torch.set_num_threads(int(threads))
    call = {case.__name__: case for case in CASES}[name](int(size))
    call()
    clock = time.thread_time if threads == "1" else time.perf_counter

    def measured():
        call()

    serve(f"torch {torch.__version__}", measured, clock)
