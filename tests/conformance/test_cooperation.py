# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for each other on the CPU: what they compute, against models in NumPy and Python."""

import itertools

import numpy as np
import pytest

import weft
from tests.sampling import sampled

F32 = weft.Tensor[weft.f32, ("n",)]
I32 = weft.Tensor[weft.i32, ("n",)]
FULL = 0xFFFFFFFF


@weft.kernel
def reversed_kernel(a: weft.Tensor, b: weft.Tensor):
    s = weft.shared(1024, weft.f32)
    t = weft.thread_idx.x
    s[t] = a[weft.block_idx.x * weft.block_dim.x + t]
    weft.sync_threads()
    b[weft.block_idx.x * weft.block_dim.x + t] = s[weft.block_dim.x - 1 - t]


@weft.jit
def reverse_blocks(a: F32, b: F32, block: weft.i32):
    reversed_kernel(a, b).launch(grid=a.shape[0] // block, block=block)


@pytest.mark.parametrize("block", [1, 2, 31, 32, 33, 100, 256, 1024])
def test_any_block_size_meets_at_a_barrier(block):
    a = np.arange(block * 5, dtype=np.float32)
    b = np.zeros_like(a)
    reverse_blocks(a, b, block)
    np.testing.assert_array_equal(b, a.reshape(5, block)[:, ::-1].ravel())


@weft.kernel
def three_dimensions_kernel(a: weft.Tensor, b: weft.Tensor):
    s = weft.shared((4, 3, 5), weft.i32)
    x, y, z = weft.thread_idx.x, weft.thread_idx.y, weft.thread_idx.z
    s[z, y, x] = a[z, y, x]
    weft.sync_threads()
    b[z, y, x] = s[3 - z, 2 - y, 4 - x]


@weft.jit
def three_dimensions(a: weft.Tensor[weft.i32, (4, 3, 5)], b: weft.Tensor[weft.i32, (4, 3, 5)]):
    three_dimensions_kernel(a, b).launch(grid=1, block=(5, 3, 4))


def test_blocks_of_three_dimensions():
    a = np.arange(60, dtype=np.int32).reshape(4, 3, 5)
    b = np.zeros_like(a)
    three_dimensions(a, b)
    np.testing.assert_array_equal(b, a[::-1, ::-1, ::-1])


@weft.kernel
def tree_kernel(a: weft.Tensor, out: weft.Tensor):
    s = weft.shared(256, weft.f32)
    t = weft.thread_idx.x
    i = weft.block_idx.x * 256 + t
    s[t] = a[i] if i < a.shape[0] else 0.0
    weft.sync_threads()
    k = 128
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        weft.sync_threads()
        k //= 2
    if t == 0:
        out[weft.block_idx.x] = s[0]


@weft.jit
def tree(a: weft.Tensor[weft.f32, ("n",)], out: weft.Tensor[weft.f32, ("m",)]):
    tree_kernel(a, out).launch(grid=out.shape[0], block=256)


@pytest.mark.parametrize("n", [1, 255, 256, 100_001])
def test_barriers_in_a_loop_reduce_each_block(n):
    a = np.random.default_rng(n).random(n, np.float32)
    blocks = -(-n // 256)
    out = np.zeros(blocks, np.float32)
    tree(a, out)
    padded = np.zeros(blocks * 256, np.float32)
    padded[:n] = a
    np.testing.assert_allclose(out, padded.reshape(-1, 256).sum(1), rtol=1e-5)


@weft.kernel
def counting_kernel(a: weft.Tensor, out: weft.Tensor):
    t = weft.thread_idx.x
    positive = a[t] > 0
    out[0, t] = weft.sync_threads_count(positive)
    out[1, t] = 1 if weft.sync_threads_and(positive) else 0
    out[2, t] = 1 if weft.sync_threads_or(positive) else 0


@weft.jit
def counting(a: I32, out: weft.Tensor[weft.i32, (3, "n")]):
    counting_kernel(a, out).launch(grid=1, block=a.shape[0])


@pytest.mark.parametrize("values", [[0] * 40, [1] * 40, [1, 0] * 20])
def test_barriers_that_count_tell_every_thread(values):
    a = np.array(values, np.int32)
    out = np.full((3, len(a)), -1, np.int32)
    counting(a, out)
    count = int((a > 0).sum())
    expected = [[count] * len(a), [int(count == len(a))] * len(a), [int(count > 0)] * len(a)]
    np.testing.assert_array_equal(out, expected)


@weft.kernel
def early_exit_kernel(a: weft.Tensor, n: weft.i32):
    s = weft.shared(256, weft.i32)
    t = weft.thread_idx.x
    if t >= n:
        return
    s[t] = a[t]
    weft.sync_threads()
    a[t] = s[n - 1 - t]


@weft.jit
def early_exit(a: I32, n: weft.i32):
    early_exit_kernel(a, n).launch(grid=1, block=256)


def test_threads_that_have_exited_do_not_count_at_a_barrier():
    a = np.arange(256, dtype=np.int32)
    early_exit(a, 100)
    np.testing.assert_array_equal(a[:100], np.arange(99, -1, -1))
    np.testing.assert_array_equal(a[100:], np.arange(100, 256))


# ---- warps


@weft.kernel
def shuffle_kernel(a: weft.Tensor, out: weft.Tensor, kind: weft.Constexpr, width: weft.Constexpr):
    t = weft.thread_idx.x
    lane = 3
    if kind == "up":
        v = weft.shfl_up(a[t], lane, width=width)
    elif kind == "down":
        v = weft.shfl_down(a[t], lane, width=width)
    elif kind == "xor":
        v = weft.shfl_xor(a[t], lane, width=width)
    else:
        v = weft.shfl_idx(a[t], lane, width=width)
    out[t] = v


@weft.jit
def shuffle(a: weft.Tensor, out: weft.Tensor, kind: weft.Constexpr, width: weft.Constexpr):
    shuffle_kernel(a, out, kind, width).launch(grid=1, block=a.shape[0])


def shuffled(a, kind, width):
    out = a.copy()
    for i in range(len(a)):
        lane, base = i % 32, i - i % 32
        first = lane - lane % width
        source = {"up": lane - 3, "down": lane + 3, "xor": lane ^ 3, "idx": first + 3 % width}[kind]
        exists = source >= first if kind == "up" else source < first + width
        out[i] = a[base + source] if exists else a[i]
    return out


@pytest.mark.parametrize(
    ("kind", "width", "dtype"),
    sampled(
        itertools.product(
            ["up", "down", "xor", "idx"],
            [4, 8, 32],
            [np.int8, np.int32, np.uint64, np.float16, np.float32, np.float64],
        ),
        5,
        several=True,
    ),
)
def test_shuffles_follow_ptx(kind, width, dtype):
    a = np.arange(64).astype(dtype)
    out = np.zeros_like(a)
    shuffle(a, out, kind, width)
    np.testing.assert_array_equal(out, shuffled(a, kind, width))


@weft.kernel
def vote_kernel(a: weft.Tensor, out: weft.Tensor):
    t = weft.thread_idx.x
    out[0, t] = weft.i32(weft.ballot(a[t] > 0))
    out[1, t] = 1 if weft.warp.any(a[t] > 0) else 0
    out[2, t] = 1 if weft.warp.all(a[t] > 0) else 0
    out[3, t] = weft.i32(weft.match(a[t]))
    out[4, t] = weft.i32(weft.match_all(a[t]))


@weft.jit
def vote(a: I32, out: weft.Tensor[weft.i32, (5, "n")]):
    vote_kernel(a, out).launch(grid=1, block=a.shape[0])


@pytest.mark.parametrize("n", [32, 20, 50])
@pytest.mark.parametrize("seed", range(4))
def test_votes_and_matches_see_the_lanes_that_are_there(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 1 if seed == 0 else 3, n).astype(np.int32) + (1 if seed == 1 else 0)
    out = np.zeros((5, n), np.int32)
    vote(a, out)
    for first in range(0, n, 32):
        warp = a[first : first + 32]
        present = (1 << len(warp)) - 1
        bits = sum(int(v > 0) << lane for lane, v in enumerate(warp))
        for lane, v in enumerate(warp):
            same = sum(int(w == v) << other for other, w in enumerate(warp))
            expected = [bits, bits != 0, bits == present, same, present if same == present else 0]
            got = [int(x) & FULL for x in out[:, first + lane]]
            assert got == [int(e) & FULL for e in expected]


@weft.kernel
def warp_reduce_kernel(a: weft.Tensor, out: weft.Tensor):
    t = weft.thread_idx.x
    out[0, t] = weft.warp.sum(a[t])
    out[1, t] = weft.warp.min(a[t])
    out[2, t] = weft.warp.max(a[t])


@weft.jit
def warp_reduce(a: weft.Tensor, out: weft.Tensor):
    warp_reduce_kernel(a, out).launch(grid=1, block=a.shape[0])


@pytest.mark.parametrize(
    "dtype", [np.int32, np.uint32, np.int64, np.float16, np.float32, np.float64]
)
def test_warp_reductions_give_every_lane_the_result(dtype):
    a = np.random.default_rng(1).integers(0, 100, 64).astype(dtype)
    out = np.zeros((3, 64), dtype)
    warp_reduce(a, out)
    warps = a.reshape(2, 32)
    for row, reduce in enumerate((np.sum, np.min, np.max)):
        expected = np.repeat(reduce(warps, axis=1), 32).astype(dtype)
        np.testing.assert_array_equal(out[row], expected)


@weft.kernel
def half_warp_kernel(a: weft.Tensor):
    t = weft.thread_idx.x
    if weft.lane_id() < 16:
        a[t] = weft.warp.sum(a[t], mask=0x0000FFFF)
    else:
        a[t] = weft.warp.max(a[t], mask=0xFFFF0000)


@weft.jit
def half_warp(a: I32):
    half_warp_kernel(a).launch(grid=1, block=a.shape[0])


def test_halves_of_a_warp_do_different_things_under_their_masks():
    a = np.arange(64, dtype=np.int32)
    expected = [
        (np.sum if i % 32 < 16 else np.max)(a[i - i % 16 : i - i % 16 + 16]) for i in range(64)
    ]
    half_warp(a)
    np.testing.assert_array_equal(a, expected)


# ---- memory between threads


@weft.kernel
def histogram_kernel(a: weft.Tensor, out: weft.Tensor):
    bins = weft.shared(16, weft.i32)
    t = weft.thread_idx.x
    if t < 16:
        bins[t] = 0
    weft.sync_threads()
    i = weft.block_idx.x * weft.block_dim.x + t
    if i < a.shape[0]:
        weft.atomic_add(bins, a[i], 1)
    weft.sync_threads()
    if t < 16:
        weft.atomic_add(out, t, bins[t])


@weft.jit
def histogram(a: I32, out: weft.Tensor[weft.i32, (16,)]):
    histogram_kernel(a, out).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


def test_atomics_on_shared_memory_count_exactly():
    a = np.random.default_rng(2).integers(0, 16, 100_003).astype(np.int32)
    out = np.zeros(16, np.int32)
    histogram(a, out)
    np.testing.assert_array_equal(out, np.bincount(a, minlength=16))


@weft.kernel
def dynamic_kernel(a: weft.Tensor, n: weft.i32):
    own = weft.shared(3, weft.f32)
    s = weft.dynamic_shared(n, weft.f32)
    t = weft.thread_idx.x
    if t < 3:
        own[t] = 100.0
    s[t] = a[t]
    weft.sync_threads()
    a[t] = s[n - 1 - t] + own[t % 3]


@weft.jit
def dynamic(a: F32, asked: weft.i32):
    n = a.shape[0]
    dynamic_kernel(a, n).launch(grid=1, block=n, shared_memory_bytes=asked)


def test_dynamic_shared_memory_lies_behind_the_kernels_own():
    a = np.arange(50, dtype=np.float32)
    dynamic(a, 200)
    np.testing.assert_array_equal(a, np.arange(49, -1, -1, dtype=np.float32) + 100)


@weft.kernel
def lock_kernel(lock: weft.Tensor, total: weft.Tensor):
    while weft.atomic_cas(lock, 0, 0, 1, order="acquire") != 0:
        pass
    total[0] = total[0] + 1
    weft.atomic_exchange(lock, 0, 0, order="release")


@weft.jit
def count_under_lock(lock: I32, total: I32, blocks: weft.i32):
    lock_kernel(lock, total).launch(grid=blocks, block=64)


def test_a_spin_lock_gives_way_to_its_holder():
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    count_under_lock(lock, total, 40)
    assert total[0] == 40 * 64


@weft.kernel
def wait_for_flag_kernel(flag: weft.Tensor, out: weft.Tensor):
    if weft.thread_idx.x == 0:
        while flag[0] == 0:
            pass
        out[0] = 7
    if weft.thread_idx.x == 1:
        flag[0] = 1


@weft.jit
def wait_for_flag(flag: I32, out: I32):
    wait_for_flag_kernel(flag, out).launch(grid=1, block=2)


def test_a_loop_on_a_flag_gives_way_to_the_thread_that_sets_it():
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    wait_for_flag(flag, out)
    assert out[0] == 7


# ---- grids


@weft.kernel
def grid_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    n = a.shape[0]
    for _ in range(3):
        b[i] = a[(i + 1) % n]
        weft.sync_grid()
        a[i] = b[i]
        weft.sync_grid()


@weft.jit
def rotate_three(a: I32, b: I32):
    grid_kernel(a, b).launch(grid=a.shape[0] // 10, block=10, cooperative=True)


def test_all_blocks_meet_at_a_grid_barrier():
    a = np.arange(1000, dtype=np.int32)
    rotate_three(a, np.zeros_like(a))
    np.testing.assert_array_equal(a, np.roll(np.arange(1000), -3))


# ---- clocks


@weft.kernel
def clock_kernel(out: weft.Tensor):
    out[0] = weft.globaltimer()
    out[1] = weft.clock64()
    out[2] = weft.i64(weft.sm_id())
    out[3] = weft.globaltimer()


@weft.jit
def clocks(out: weft.Tensor[weft.i64, (4,)]):
    clock_kernel(out).launch(grid=1, block=1)


def test_clocks_go_forward():
    out = np.zeros(4, np.int64)
    clocks(out)
    assert 0 < out[0] <= out[3]
    assert out[1] > 0  # of another unit on a GPU
    assert 0 <= out[2] < 1024


# ---- the rest of the warp, and fences


@weft.kernel
def warp_bits_kernel(a: weft.Tensor, out: weft.Tensor):
    t = weft.thread_idx.x
    out[0, t] = weft.warp.bitwise_and(a[t])
    out[1, t] = weft.warp.bitwise_or(a[t])
    out[2, t] = weft.warp.bitwise_xor(a[t])
    out[3, t] = weft.warp_id()


@weft.jit
def warp_bits(a: I32, out: weft.Tensor[weft.i32, (4, "n")]):
    warp_bits_kernel(a, out).launch(grid=1, block=a.shape[0])


@pytest.mark.parametrize("n", [32, 96, 70])
def test_reductions_of_bits_and_the_number_of_the_warp(n):
    a = np.random.default_rng(n).integers(-(2**31), 2**31, n).astype(np.int32)
    out = np.zeros((4, n), np.int32)
    warp_bits(a, out)
    for first in range(0, n, 32):
        warp = a[first : first + 32]
        for row, reduce in enumerate((np.bitwise_and, np.bitwise_or, np.bitwise_xor)):
            assert (out[row, first : first + 32] == reduce.reduce(warp)).all()
        assert (out[3, first : first + 32] == first // 32).all()


@weft.kernel
def exchange_kernel(a: weft.Tensor):
    s = weft.shared(64, weft.i32)
    t = weft.thread_idx.x
    s[t] = a[t]
    weft.sync_warp()
    v = s[t ^ 1]
    weft.sync_warp()
    a[t] = v


@weft.jit
def exchange(a: I32):
    exchange_kernel(a).launch(grid=1, block=a.shape[0])


@pytest.mark.parametrize("n", [32, 64, 40])
def test_lanes_exchange_through_memory_around_a_warp_barrier(n):
    a = np.arange(n, dtype=np.int32)
    exchange(a)
    np.testing.assert_array_equal(a, np.arange(n) ^ 1)


@weft.kernel
def last_block_kernel(a: weft.Tensor, parts: weft.Tensor, done: weft.Tensor, out: weft.Tensor):
    last = weft.shared(1, weft.i32)
    t = weft.thread_idx.x
    b = weft.block_idx.x
    v = weft.warp.sum(a[b * 32 + t])
    if t == 0:
        parts[b] = v
        weft.fence_device()
        last[0] = 1 if weft.atomic_add(done, 0, 1) == weft.grid_dim.x - 1 else 0
    weft.fence_block()
    weft.sync_threads()
    if last[0] == 1 and t == 0:
        weft.fence_system()
        total = 0
        for i in range(weft.grid_dim.x):
            total += parts[i]
        out[0] = total


@weft.jit
def last_block(
    a: weft.Tensor[weft.i32, ("n",)],
    parts: weft.Tensor[weft.i32, ("m",)],
    done: weft.Tensor[weft.i32, (1,)],
    out: weft.Tensor[weft.i32, (1,)],
):
    last_block_kernel(a, parts, done, out).launch(grid=parts.shape[0], block=32)


def test_the_last_block_sees_all_fenced_writes():
    a = np.random.default_rng(5).integers(0, 1000, 32 * 2000).astype(np.int32)
    for _ in range(5):
        out, done = np.zeros(1, np.int32), np.zeros(1, np.int32)
        last_block(a, np.zeros(2000, np.int32), done, out)
        assert out[0] == a.sum()


@weft.kernel
def short_clock_kernel(out: weft.Tensor):
    out[0] = weft.u32(weft.clock32())


@weft.jit
def short_clock(out: weft.Tensor[weft.u32, (1,)]):
    short_clock_kernel(out).launch(grid=1, block=1)


def test_the_short_clock_is_the_low_half_of_the_long_one():
    out = np.zeros(1, np.uint32)
    short_clock(out)
    first = int(out[0])
    short_clock(out)
    assert 0 < (int(out[0]) - first) % 2**32 < 10**9


def other_threads_value(value):
    """The value of the thread at the block's other end, through an array of this call's own."""
    s = weft.shared(64, weft.f32)
    s[weft.thread_idx.x] = value
    weft.sync_threads()
    return s[63 - weft.thread_idx.x]


@weft.kernel
def two_calls_kernel(a: weft.Tensor, b: weft.Tensor):
    t = weft.thread_idx.x
    first, second = other_threads_value(a[t]), other_threads_value(-2 * a[t])
    b[t] = first + second
    for _ in range(3):
        b[t] += 0 * other_threads_value(a[t])
        weft.sync_threads()


def test_each_call_of_a_helper_has_its_own_shared_array():
    # With one array for both, the second call would overwrite what threads still read of the first.
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    two_calls_kernel[1, 64](a, b)
    np.testing.assert_array_equal(b, -a[::-1])
    host = weft.jit(lambda a, b: two_calls_kernel(a, b).launch(grid=1, block=64))
    (kernel,) = weft.compile(host, a, b).kernels.values()
    assert kernel.shared_memory_bytes == 3 * 64 * 4
