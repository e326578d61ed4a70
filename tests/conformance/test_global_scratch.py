# SPDX-License-Identifier: Apache-2.0
"""global_scratch: each block has its own, and launches allocate it.

In: kernels with scratch arrays. Out: memory, metadata, errors.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import define

SOURCE = """
@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor):
    y, x, i = weft.block_idx.y, weft.block_idx.x, weft.thread_idx.x
    rows = weft.global_scratch((2, 64), weft.f32)
    marks = weft.global_scratch(3, weft.bool_)
    rows[1, i] = a[y, x, i]
    marks[i % 3] = True
    weft.sync_threads()
    out[y, x, i] = rows[1][::-1][i] if marks[2] else 0.0

@weft.jit
def host(a: weft.Tensor[weft.f32, ("m", "n", 64)], out: weft.Tensor[weft.f32, ("m", "n", 64)]):
    kernel(a, out).launch(grid=(a.shape[1], a.shape[0]), block=64)
"""


def test_each_block_has_its_own_array_and_launches_know_the_bytes():
    a = np.arange(3 * 5 * 64, dtype=np.float32).reshape(3, 5, 64)
    out = np.zeros_like(a)
    compiled = weft.compile(define(SOURCE)["host"], a, out)
    compiled(a, out)
    np.testing.assert_array_equal(out, a[:, :, ::-1])
    assert compiled.kernels["kernel"].global_scratch_bytes == 2 * 64 * 4 + 3


def test_a_kernel_without_barriers_may_use_it_too():
    source = """
    @weft.kernel
    def kernel(out: weft.Tensor):
        digits = weft.global_scratch((32, 10), weft.i32)[weft.thread_idx.x]
        number = weft.block_idx.x * 32 + weft.thread_idx.x
        for d in range(10):
            digits[d] = number % 10
            number //= 10
        total = 0
        for d in range(10):
            total += digits[d]
        out[weft.block_idx.x, weft.thread_idx.x] = total

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out).launch(grid=out.shape[0], block=32)
    """
    out = np.zeros((40, 32), np.int32)
    define(source)["host"](out)
    expected = [sum(map(int, str(number))) for number in range(40 * 32)]
    assert out.ravel().tolist() == expected


def test_a_grid_that_needs_more_memory_than_there_is_is_refused():
    source = """
    @weft.kernel
    def kernel(out: weft.Tensor):
        array = weft.global_scratch(1 << 28, weft.f32)
        array[0] = 1.0
        out[0] = array[0]

    @weft.jit
    def host(out: weft.Tensor, n: weft.i32):
        kernel(out).launch(grid=(n, n), block=1)
    """
    host, out = define(source)["host"], np.zeros(1, np.float32)
    host(out, 0)
    assert out[0] == 0
    with pytest.raises(
        MemoryError,
        match=r"launch of 'kernel', weft\.global_scratch: no memory for \d{19} bytes",
    ):
        host(out, 65535)
    host(out, 1)
    assert out[0] == 1


def test_gpu_arrays_are_hidden_parameters_per_block():
    fakes = (weft.fake_tensor(weft.f32, ("m", "n", 64)),) * 2
    compiled = weft.compile(define(SOURCE)["host"], *fakes, options="--gpu-arch sm_90a")
    info = compiled.kernels["kernel"]
    assert info.global_scratch_bytes == 2 * 64 * 4 + 3
    # Two tensors and two arrays are four pointers; the launch fills those of the arrays.
    assert info.parameter_sizes.count(8) == 4
    assert "%nctaid.x" in compiled.ptx


def test_unused_scratch_takes_no_memory():
    source = """
    @weft.kernel
    def kernel(out: weft.Tensor):
        weft.global_scratch(1 << 20, weft.f32)
        out[0] = 1.0

    @weft.jit
    def host(out: weft.Tensor[weft.f32, (1,)]):
        kernel(out).launch(grid=1, block=1)
    """
    compiled = weft.compile(define(source)["host"], options="--gpu-arch sm_90a")
    assert compiled.kernels["kernel"].global_scratch_bytes == 0
    assert compiled.kernels["kernel"].parameter_sizes == (8,)
