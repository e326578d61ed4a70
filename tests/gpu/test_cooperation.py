# SPDX-License-Identifier: Apache-2.0
"""Threads that work together give on a GPU what they give on the CPU, bit for bit, and never wait forever.

In: kernels with barriers, shared memory, collectives over whole and partial warps, grid barriers. Out: their
arrays, against those of the CPU target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import weft
from tests.gpu.device_memory import DeviceArray, on_device

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.gpu

I32 = weft.Tensor[weft.i32, ("n",)]
F32 = weft.Tensor[weft.f32, ("n",)]


def check_like_the_cpu(host: Callable[..., None], *arguments: Any) -> None:
    """Calls a host function on both targets and compares the bits of all arrays."""
    on_cpu = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    on_gpu = [on_device(value) for value in arguments]
    host(*on_cpu)
    host(*on_gpu)
    for expected, found in zip(on_cpu, on_gpu, strict=True):
        if isinstance(found, DeviceArray):
            np.testing.assert_array_equal(found.fetch().view(np.uint8), expected.view(np.uint8))


@weft.kernel
def leave_in_turn_kernel(a: weft.Tensor, turns: weft.i32):
    ring = weft.shared(1024, weft.i32)
    t = weft.thread_idx.x
    for turn in range(turns):
        if a[t] % 7 == turn:
            return
        ring[t] = a[t]
        weft.sync_threads()
        a[t] += ring[(t + 1) % weft.block_dim.x] % 3
        weft.sync_threads()
    a[t] = -a[t]


@weft.jit
def leave_in_turn(a: I32, block: weft.i32, turns: weft.i32):
    leave_in_turn_kernel(a, turns).launch(grid=1, block=block)


def test_threads_that_return_in_a_loop_are_not_waited_for():
    # No thread leaves at the first turn, so that every place of the ring has been written when it is read.
    a = np.arange(256, dtype=np.int32) // 8 * 7 + 6
    check_like_the_cpu(leave_in_turn, a, 256, 5)


@weft.kernel
def warp_sums_kernel(a: weft.Tensor, sums: weft.Tensor, extremes: weft.Tensor, n: weft.i32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i >= n:
        return
    sums[i] = weft.warp.sum(a[i])
    extremes[i] = weft.warp.max(weft.i32(a[i] * 1000))
    if weft.lane_id() % 3 == 0:
        sums[i] += weft.warp.sum(a[i], weft.ballot(True, 0x49249249))


@weft.jit
def warp_sums(a: F32, sums: F32, extremes: I32, block: weft.i32, n: weft.i32):
    warp_sums_kernel(a, sums, extremes, n).launch(grid=weft.ceil_div(n, block), block=block)


@pytest.mark.parametrize("block", [32, 48, 96, 1000])
def test_sums_of_whole_and_partial_warps_have_one_order(block: int):
    n = 4 * block
    a = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    sums, extremes = np.zeros(n, np.float32), np.zeros(n, np.int32)
    check_like_the_cpu(warp_sums, a, sums, extremes, block, n)


@weft.kernel
def shuffles_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    x = a[i]
    out[0, i] = weft.shfl_up(x, i % 9)
    out[1, i] = weft.shfl_down(x, 3, width=8)
    out[2, i] = weft.shfl_xor(x, 21, width=16)
    out[3, i] = weft.shfl_idx(x, i + 5, width=4)
    out[4, i] = weft.i32(weft.shfl_xor(weft.f64(x), 1))
    out[5, i] = weft.i32(weft.ballot(x % 3 == 0))
    out[6, i] = weft.i32(weft.match(x % 4))
    out[7, i] = weft.i32(weft.match_all(x >> 30))
    out[8, i] = weft.i32(weft.warp.any(x == 5)) + 2 * weft.i32(weft.warp.all(x < 1000))


@weft.jit
def shuffles(a: I32, out: weft.Tensor[weft.i32, (9, "n")]):
    shuffles_kernel(a, out).launch(grid=1, block=64)


def test_lanes_exchange_what_they_exchange_on_the_cpu():
    a = np.random.default_rng(2).integers(0, 500, 64).astype(np.int32)
    check_like_the_cpu(shuffles, a, np.zeros((9, 64), np.int32))


@weft.kernel
def grid_iterations_kernel(a: weft.Tensor, b: weft.Tensor, iterations: weft.i32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    n = weft.grid_dim.x * weft.block_dim.x
    for _ in range(iterations):
        b[i] = a[(i + weft.block_dim.x) % n] + 1
        weft.sync_grid()
        a[i] = b[(i + weft.block_dim.x) % n] * 3 % 1009
        weft.sync_grid()


@weft.jit
def grid_iterations(a: I32, b: I32, blocks: weft.i32, iterations: weft.i32):
    for _ in range(3):
        grid_iterations_kernel(a, b, iterations).launch(grid=blocks, block=128, cooperative=True)


def test_all_blocks_meet_at_each_grid_barrier():
    n = 64 * 128
    check_like_the_cpu(grid_iterations, np.arange(n, dtype=np.int32), np.zeros(n, np.int32), 64, 20)


@weft.kernel
def everything_shared_kernel(out: weft.Tensor, n: weft.i32):
    own = weft.shared(256, weft.i32)
    asked = weft.dynamic_shared(n, weft.i32)
    t = weft.thread_idx.x
    for i in range(t, n, weft.block_dim.x):
        asked[i] = i * 7
    own[t] = t
    weft.sync_threads()
    total = own[255 - t]
    for i in range(t, n, weft.block_dim.x):
        total += asked[n - 1 - i]
    out[t] = total


@weft.jit
def everything_shared(out: I32, n: weft.i32):
    everything_shared_kernel(out, n).launch(grid=1, block=256, shared_memory_bytes=n * 4)


@pytest.mark.parametrize("kilobytes", [1, 47, 95])
def test_shared_memory_beyond_48_kilobytes(kilobytes: int):
    check_like_the_cpu(everything_shared, np.zeros(256, np.int32), kilobytes * 256)


@weft.kernel
def histogram_kernel(a: weft.Tensor, bins: weft.Tensor):
    counts = weft.shared(64, weft.u32)
    largest = weft.shared(1, weft.f32)
    t = weft.thread_idx.x
    if t < 64:
        counts[t] = 0
    if t == 0:
        largest[0] = -1e30
    weft.sync_threads()
    for i in range(t, a.shape[0], weft.block_dim.x):
        weft.atomic_add(counts, a[i] & 63, 1)
        weft.atomic_max(largest, 0, weft.f32(a[i]) - 200.5)
    weft.sync_threads()
    if t < 64:
        bins[t] = weft.i32(counts[t]) + weft.i32(largest[0] * 2)


@weft.jit
def histogram(a: I32, bins: weft.Tensor[weft.i32, (64,)]):
    histogram_kernel(a, bins).launch(grid=1, block=256)


def test_atomics_on_shared_memory_lose_nothing():
    a = np.random.default_rng(3).integers(0, 400, 10_000).astype(np.int32)
    check_like_the_cpu(histogram, a, np.zeros(64, np.int32))
