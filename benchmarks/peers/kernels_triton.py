# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for what those of benchmarks/gpu_kernels.py compute, as its tutorials write them.

In: the arguments of a kernel. Out: for each name a function of them, which writes the result.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

array = torch.from_dlpack


def host(one):
    return one.cpu().numpy()


@triton.jit
def add_kernel(a, b, c, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(c + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


@triton.jit
def saxpy_kernel(factor, x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    found = factor * tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)
    tl.store(y + i, found, mask=i < n)


@triton.jit
def softmax_kernel(x, y, columns, block: tl.constexpr):
    i = tl.arange(0, block)
    first = tl.program_id(0).to(tl.int64) * columns
    row = tl.load(x + first + i, mask=i < columns, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(row - tl.max(row, 0))
    tl.store(y + first + i, numerator / tl.sum(numerator, 0), mask=i < columns)


@triton.jit
def layernorm_kernel(x, gain, bias, y, columns, epsilon, block: tl.constexpr):
    i = tl.arange(0, block)
    first = tl.program_id(0).to(tl.int64) * columns
    row = tl.load(x + first + i, mask=i < columns, other=0.0).to(tl.float32)
    centered = tl.where(i < columns, row - tl.sum(row, 0) / columns, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, 0) / columns + epsilon)
    found = centered * scale * tl.load(gain + i, mask=i < columns)
    tl.store(y + first + i, found + tl.load(bias + i, mask=i < columns), mask=i < columns)


TILES = [
    triton.Config({"bm": bm, "bn": bn, "bk": bk, "band": 8}, num_stages=stages, num_warps=warps)
    for bm, bn, bk, stages, warps in (
        (128, 256, 64, 3, 8),
        (128, 128, 64, 4, 4),
        (128, 128, 32, 4, 4),
    )
]


@triton.autotune(configs=TILES, key=["m", "n", "k"])
@triton.jit
def matmul_kernel(
    a, b, c, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr, band: tl.constexpr
):
    tile = tl.program_id(0)
    in_band = band * tl.cdiv(n, bn)
    first = tile // in_band * band
    rows_of_band = min(tl.cdiv(m, bm) - first, band)
    i = ((first + tile % in_band % rows_of_band) * bm + tl.arange(0, bm)) % m
    j = (tile % in_band // rows_of_band * bn + tl.arange(0, bn)) % n
    along = tl.arange(0, bk)
    left = a + i[:, None] * k + along[None, :]
    right = b + j[None, :] * k + along[:, None]
    total = tl.zeros((bm, bn), tl.float32)
    for step in range(tl.cdiv(k, bk)):
        there = along < k - step * bk
        total = tl.dot(
            tl.load(left, mask=there[None, :], other=0.0),
            tl.load(right, mask=there[:, None], other=0.0),
            total,
        )
        left += bk
        right += bk
    i = (first + tile % in_band % rows_of_band) * bm + tl.arange(0, bm)
    j = tile % in_band // rows_of_band * bn + tl.arange(0, bn)
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(c + i[:, None] * n + j[None, :], total.to(c.dtype.element_ty), mask=inside)


def add(a, b, c):
    add_kernel[(triton.cdiv(a.numel(), 1024),)](a, b, c, a.numel(), 1024)


def saxpy(factor, x, y):
    saxpy_kernel[(triton.cdiv(x.numel(), 1024),)](factor, x, y, x.numel(), 1024)


def softmax(x, y):
    columns = x.shape[1]
    softmax_kernel[(x.shape[0],)](x, y, columns, triton.next_power_of_2(columns), num_warps=8)


def layernorm(x, gain, bias, y):
    columns = x.shape[1]
    block = triton.next_power_of_2(columns)
    layernorm_kernel[(x.shape[0],)](x, gain, bias, y, columns, 1e-5, block, num_warps=8)


def matmul(a, b, c):
    (m, k), n = a.shape, b.shape[0]
    grid = lambda tile: (triton.cdiv(m, tile["bm"]) * triton.cdiv(n, tile["bn"]),)  # noqa: E731
    matmul_kernel[grid](a, b, c, m, n, k)


CALLS = {
    "saxpy": saxpy,
    "softmax": softmax,
    "layernorm": layernorm,
    "add": add,
    "matmul": matmul,
}
