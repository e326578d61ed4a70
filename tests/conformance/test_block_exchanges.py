# SPDX-License-Identifier: Apache-2.0
"""`weft.block`: loads and stores, exchanges, shuffles and histograms against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.sampling import sampled


@weft.kernel
def move_kernel(a: weft.Tensor, out: weft.Tensor, count: weft.Constexpr[int]):
    threads, block = weft.block_dim.x, weft.block_idx.x
    first = block * threads * count
    blocked = weft.block.load(a, first, count, fill=-1)
    striped = weft.block.load(a, first, count, fill=-1, order="striped")
    weft.block.store(out[0], first, blocked)
    weft.block.store(out[1], first, striped, order="striped")
    weft.block.store(out[2], first, weft.block.to_striped(blocked), order="striped")
    weft.block.store(out[3], first, weft.block.to_blocked(striped))
    # Backward within the block, and each item with its own number.
    place = count * weft.thread_idx.x
    last = threads * count - 1
    items = [(blocked[k], first + place + k) for k in weft.static_range(count)]
    moved = weft.block.exchange(items, [last - place - k for k in weft.static_range(count)])
    weft.block.store(out[4], first, [item for item, _ in moved])
    weft.block.store(out[5], first, [number for _, number in moved])


@weft.jit
def move(a: weft.Tensor, out: weft.Tensor, threads: weft.i32, count: weft.Constexpr[int]):
    grid = weft.ceil_div(a.shape[0], threads * count)
    move_kernel(a, out, count).launch(grid=grid, block=threads)


@pytest.mark.parametrize("count", sampled([1, 3, 4, 8], 2))
@pytest.mark.parametrize("threads", [1, 33, 256])
def test_items_are_loaded_exchanged_and_stored(threads: int, count: int):
    size = threads * count
    a = np.random.default_rng(count).integers(0, 100, 2 * size - count // 2).astype(np.int32)
    out = np.full((6, len(a)), -7, np.int32)
    move(a, out, threads, count)
    assert (out[:4] == a).all()
    padded = np.concatenate([a, np.full(2 * size - len(a), -1, np.int32)]).reshape(2, size)
    assert (out[4] == padded[:, ::-1].ravel()[: len(a)]).all()
    numbers = np.arange(2 * size).reshape(2, size)[:, ::-1]
    assert (out[5] == numbers.ravel()[: len(a)]).all()


@weft.kernel
def double_kernel(a: weft.Tensor, b: weft.Tensor, shift: weft.i32):
    first = weft.block_idx.x * weft.block_dim.x * 8 + shift
    items = weft.block.load(a, first, 8)
    weft.block.store(b, first, [2 * item for item in items])


@weft.jit
def double(a: weft.Tensor, b: weft.Tensor, shift: weft.i32):
    double_kernel(a, b, shift).launch(grid=2, block=64)


def aligned(size: int) -> np.ndarray:
    raw = np.zeros(size + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + size]


def test_aligned_vectors_are_accessed_16_bytes_at_a_time():
    vector = weft.fake_tensor(weft.f32, ("n",), alignment_bytes=16)
    ptx = weft.compile(double, vector, vector, 0, options="--gpu-arch sm_90a").ptx
    assert "ld.global.v4" in ptx and "st.global.v4" in ptx and "ld.global.b32" in ptx
    fn = weft.compile(double, vector, vector, 0)
    for shift, size in ((0, 1024), (4, 1024), (1, 1024), (0, 1019)):
        a, b = aligned(size), aligned(size)
        a[:] = np.arange(size)
        fn(a, b, shift)
        assert (b[shift:] == 2 * a[shift:]).all() and (b[:shift] == 0).all()


@weft.kernel
def count_kernel(a: weft.Tensor, counts: weft.Tensor, mirrored: weft.Tensor):
    i, n = weft.thread_idx.x, weft.block_dim.x
    both = weft.block.histogram(a[0, i], 10)
    for row in range(1, a.shape[0]):
        both = weft.block.histogram([a[row, i], a[row, i] + 1], 10, into=both)
        mirrored[row, i] = weft.block.shuffle(a[row, i], n - 1 - i)
        alone = weft.block.histogram(a[row, i], 10)
        for bin in range(i, 10, n):
            counts[row, bin] = alone[bin]
    for bin in range(i, 10, n):
        counts[0, bin] = both[bin]


@weft.jit
def count(a: weft.Tensor, counts: weft.Tensor, mirrored: weft.Tensor):
    count_kernel(a, counts, mirrored).launch(grid=1, block=a.shape[1])


@pytest.mark.parametrize("threads", [1, 7, 100])
def test_histograms_count_bins_and_leave_out_what_has_none(threads: int):
    a = np.random.default_rng(threads).integers(-2, 13, (4, threads)).astype(np.int32)
    counts, mirrored = np.zeros((4, 10), np.int32), np.zeros_like(a)
    count(a, counts, mirrored)
    rows = [np.concatenate([a[0], *([row, row + 1] for row in a[1:])], axis=None), *a[1:]]
    for row, found in zip(rows, counts, strict=True):
        assert found.tolist() == [(row == bin).sum() for bin in range(10)]
    assert (mirrored[1:] == a[1:, ::-1]).all()


@weft.kernel
def memory_kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    a[i] = weft.block.shuffle(a[i], 0)


@weft.kernel(max_threads=512)
def bounded_memory_kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    a[i] = weft.block.shuffle(a[i], 0)


@weft.jit
def memory(a: weft.Tensor):
    memory_kernel(a).launch(grid=1, block=64)


@weft.jit
def bounded_memory(a: weft.Tensor):
    bounded_memory_kernel(a).launch(grid=1, block=a.shape[0])


def test_shared_memory_covers_the_largest_block():
    a = np.arange(64, dtype=np.float64)
    for function, name, threads in (
        (memory, "memory_kernel", 64),
        (bounded_memory, "bounded_memory_kernel", 512),
    ):
        fn = weft.compile(function, a)
        assert fn.kernels[name].shared_memory_bytes == 8 * threads
        fn(b := a.copy())
        assert (b == a[0]).all()
