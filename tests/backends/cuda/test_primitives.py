# SPDX-License-Identifier: Apache-2.0
"""The primitives cost no instruction more than the same written by hand."""

from __future__ import annotations

import re

import pytest

import weft
from tests.sampling import sampled

THREADS = 256
WARPS = THREADS // 32


@weft.kernel
def sum_kernel(a: weft.Tensor, sums: weft.Tensor):
    total = weft.block.sum(a[weft.block_idx.x * THREADS + weft.thread_idx.x])
    if weft.thread_idx.x == 0:
        sums[weft.block_idx.x] = total


@weft.kernel
def sum_by_hand_kernel(a: weft.Tensor, sums: weft.Tensor):
    partial = weft.shared(WARPS, a.dtype)
    total = weft.warp.sum(a[weft.block_idx.x * THREADS + weft.thread_idx.x])
    if weft.lane_id() == 0:
        partial[weft.warp_id()] = total
    weft.sync_threads()
    nothing = -0.0 if a.dtype.is_float else 0
    total = weft.warp.sum(partial[weft.lane_id()] if weft.lane_id() < WARPS else nothing)
    if weft.thread_idx.x == 0:
        sums[weft.block_idx.x] = total


@weft.kernel
def scan_kernel(a: weft.Tensor, sums: weft.Tensor):
    i = weft.block_idx.x * THREADS + weft.thread_idx.x
    a[i] = weft.block.scan(a[i])


def scan_of_warp(x):
    for step in (1, 2, 4, 8, 16):
        before = weft.shfl_up(x, step)
        if weft.lane_id() >= step:
            x += before
    return x


@weft.kernel
def scan_by_hand_kernel(a: weft.Tensor, sums: weft.Tensor):
    i = weft.block_idx.x * THREADS + weft.thread_idx.x
    partial, through = weft.shared(32, a.dtype), weft.shared(32, a.dtype)
    x = scan_of_warp(a[i])
    if weft.lane_id() == 31:
        partial[weft.warp_id()] = x
    weft.sync_threads()
    if weft.warp_id() == 0:
        lane = weft.lane_id()
        through[lane] = scan_of_warp(partial[lane if lane < WARPS else 0])
    weft.sync_threads()
    if weft.warp_id() > 0:
        x += through[weft.warp_id() - 1]
    a[i] = x


def instructions(kernel: object, dtype: weft.DType) -> tuple[int, int]:
    """How many the kernel has, in PTX and in SASS."""

    @weft.jit
    def host(a: weft.Tensor, sums: weft.Tensor):
        kernel(a, sums).launch(grid=sums.shape[0], block=THREADS)

    vector = weft.fake_tensor(dtype, (weft.sym("n"),))
    blocks = weft.fake_tensor(dtype, (weft.sym("blocks"),))
    fn = weft.compile(host, vector, blocks, options="--gpu-arch sm_90a")
    ptx = re.findall(r"^\t(?:@\S+ +)?[a-z][\w.]+[ ;\t]", fn.ptx, re.MULTILINE)
    sass = re.findall(r"/\*[0-9a-f]{4}\*/ +(?!.*\bNOP\b)", fn.sass)
    assert len(ptx) > 20 and len(sass) > 20
    return len(ptx), len(sass)


@pytest.mark.parametrize("dtype", sampled([weft.f32, weft.i32, weft.f64], 2), ids=str)
def test_a_block_sum_costs_what_it_costs_by_hand(dtype: weft.DType):
    ours, by_hand = instructions(sum_kernel, dtype), instructions(sum_by_hand_kernel, dtype)
    assert ours[0] <= by_hand[0] and ours[1] <= by_hand[1]


@pytest.mark.parametrize("dtype", sampled([weft.f32, weft.i64], 2), ids=str)
def test_a_block_scan_costs_what_it_costs_by_hand(dtype: weft.DType):
    ours, by_hand = instructions(scan_kernel, dtype), instructions(scan_by_hand_kernel, dtype)
    assert ours[0] <= by_hand[0] and ours[1] <= by_hand[1]
