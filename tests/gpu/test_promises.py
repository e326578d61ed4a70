# SPDX-License-Identifier: Apache-2.0
"""Promises of a program, on a GPU: restricted arguments, alignment of a call's memory, assumptions.

In: arrays in device memory. Out: results, and errors where a promise is checked.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.gpu

COUNT = 1 << 16


@weft.kernel(restrict=True)
def axpy_kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    first = weft.block_idx.x * 1024 + weft.thread_idx.x
    for k in weft.static_range(4):
        i = first + 256 * k
        out[i] = 2 * a[i] + b[i]


@weft.jit
def axpy(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    axpy_kernel(a, b, out).launch(grid=a.shape[0] // 1024, block=256)


def on_gpu(array):
    found = weft.empty(array.shape, weft.f32, "cuda")
    weft.copy(found, array)
    return found


def back(array):
    found = np.zeros(array.shape, np.float32)
    weft.copy(found, array)
    return found


def test_restricted_arguments_give_the_results_of_others():
    numbers = np.arange(COUNT, dtype=np.float32)
    a, b, out = on_gpu(numbers), on_gpu(numbers[::-1].copy()), on_gpu(0 * numbers)
    for _ in range(3):
        axpy(a, b, out)
        assert (back(out) == 2 * numbers + numbers[::-1]).all()
        axpy(a, a, out)
        assert (back(out) == 3 * numbers).all()
        with pytest.raises(ValueError, match="overlaps"):
            axpy(a, b, a)
    assert (back(a) == numbers).all()


def test_the_read_only_cache_has_the_last_launches_writes():
    numbers = np.ones(COUNT, np.float32)
    one, other, zero = on_gpu(numbers), on_gpu(numbers), on_gpu(0 * numbers)
    for _ in range(20):
        axpy(one, zero, other)
        axpy(other, zero, one)
    assert (back(one) == 2.0**40).all()


@weft.kernel
def halves_kernel(a: weft.Tensor, width: weft.Constexpr):
    i = width * (weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x)
    if i + width <= a.shape[0]:
        weft.store_vector(a, i, tuple(x / 2 for x in weft.load_vector(a, i, width)))


@weft.jit
def halves(a: weft.Tensor, width: weft.Constexpr):
    halves_kernel(a, width).launch(grid=64, block=256)


@pytest.mark.parametrize("order", list(itertools.permutations([0, 1, 2])))
def test_a_calls_memory_is_accessed_as_it_is_aligned(order):
    torch = pytest.importorskip("torch", reason="needs torch")
    for offset in (*order, *order):
        whole = torch.ones(1024 + 8, device="cuda")
        part = whole[offset : offset + 1024]
        if offset == 1:
            with pytest.raises(weft.WeftError, match="known to be aligned to 4"):
                halves(part, 2)
            continue
        halves(part, 4 if offset == 0 else 2)
        assert (part == 0.5).all()
        assert (whole[:offset] == 1).all()
        assert (whole[offset + 1024 :] == 1).all()


@weft.kernel
def row_sums_kernel(a: weft.Tensor, out: weft.Tensor):
    row = weft.assume_aligned(a[weft.thread_idx.x], 16)
    out[weft.thread_idx.x] = sum(weft.load_vector(row, 0, 4))


def test_rows_are_loaded_by_vectors_of_the_assumed_alignment():
    torch = pytest.importorskip("torch", reason="needs torch")
    whole = torch.arange(32.0 * 12, device="cuda").reshape(32, 12)
    out = torch.zeros(32, device="cuda")
    row_sums_kernel[1, 32](whole[:, 4:], out)
    assert torch.equal(out, whole[:, 4:8].sum(1))
    single = whole.as_strided((1, 4), (3, 1), 8)  # the stride of one row is of no matter
    row_sums_kernel[1, 1](single, out)
    assert out[0] == single.sum()
    with weft.sanitize(), pytest.raises(AssertionError, match="begins at a multiple of 16 bytes"):
        row_sums_kernel[1, 32](whole[:, 1:], out)
        weft.synchronize()


@weft.kernel
def rows_kernel(a: weft.Tensor, n: weft.i32):
    weft.assume(n % 4 == 0)
    a[weft.thread_idx.x] = n % 4 + weft.f32(n // 4)


def test_the_sanitizer_finds_a_wrong_assumption():
    a = on_gpu(np.zeros(32, np.float32))
    rows_kernel[1, 32](a, 8)
    assert (back(a) == 2).all()
    with weft.sanitize():
        rows_kernel[1, 32](a, 12)
        weft.synchronize()
        with pytest.raises(AssertionError, match=r"weft\.assume, which promises this"):
            rows_kernel[1, 32](a, 6)
            weft.synchronize()
