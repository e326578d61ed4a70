# SPDX-License-Identifier: Apache-2.0
"""Compiled functions with `global_scratch` on the fake driver: allocated per launch, given back, and computed with."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft import _native
from weft.driver.memory import empty
from weft.errors import CudaError

ROW = 96


@weft.kernel
def reverse_rows_kernel(a: weft.Tensor, out: weft.Tensor, iterations: weft.i32):
    row = weft.block_idx.y * weft.grid_dim.x + weft.block_idx.x
    i = weft.thread_idx.x
    marks = weft.global_scratch(3, weft.u8)
    kept = weft.global_scratch((2, ROW), weft.f32)
    kept[0, i] = a[row, i]
    if i < 3:
        marks[i] = weft.u8(row % 200)
    weft.sync_threads()
    for turn in range(iterations):
        kept[(turn + 1) % 2, i] = kept[turn % 2, ROW - 1 - i] + weft.f32(marks[turn % 3])
        weft.sync_threads()
    out[row, i] = kept[iterations % 2, i]


@weft.jit
def reverse_rows(
    a: weft.Tensor[weft.f32, ("n", ROW)],
    out: weft.Tensor[weft.f32, ("n", ROW)],
    iterations: weft.i32,
):
    reverse_rows_kernel(a, out, iterations).launch(grid=(4, a.shape[0] // 4), block=ROW)


@functools.cache
def compiled() -> Compiled:
    matrix = weft.fake_tensor(weft.f32, ("n", ROW))
    return Compiled(reverse_rows, matrix, matrix, 1)


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    compiled()
    reverse_rows(np.ones((4, ROW), np.float32), np.ones((4, ROW), np.float32), 3)


def matrix(rows: int) -> tuple[_native.Object, np.ndarray]:
    """A matrix on the fake device, and its memory as the test may read it."""
    tensor = empty((rows, ROW), weft.f32, 0)
    info = _native.tensor_info(tensor)
    assert info is not None
    memory = (ctypes.c_char * (4 * ROW * rows)).from_address(info.data)
    return tensor, np.frombuffer(memory, np.float32).reshape(rows, ROW)


@on_fake()
def test_blocks_compute_with_scratch_of_their_own(fake: FakeCuda):
    """The values are the CPU's; each array is allocated for all blocks, and all of it is given back."""
    function = compiled().register(fake)
    (a, values), (out, results) = matrix(8), matrix(8)
    values[:] = np.arange(8 * ROW).reshape(8, ROW)
    expected = np.zeros_like(values)
    reverse_rows(values, expected, 3)
    held = fake.live("allocation")
    function(a, out, 3)
    np.testing.assert_array_equal(results, expected)
    asked = fake.calls("cuMemAllocAsync")
    sizes = {int(text.removeprefix("cuMemAllocAsync(").split(",")[0]) for text in asked}
    assert sizes == {3 * 8, 2 * ROW * 4 * 8}
    assert len(fake.calls("cuMemFreeAsync")) == 2 and fake.live("allocation") == held


@on_fake()
def test_the_pool_keeps_a_part_of_the_memory(fake: FakeCuda):
    function = compiled().register(fake)
    (a, _), (out, _) = matrix(8), matrix(8)
    for _ in range(2):
        function(a, out, 3)
    (asked,) = fake.calls("cuMemPoolSetAttribute")
    assert f", 4, {(1 << 30) // 32})" in asked


@on_fake()
def test_the_pool_of_a_program_that_chose_is_left_alone(fake: FakeCuda):
    function = compiled().register(fake)
    (a, _), (out, _) = matrix(8), matrix(8)
    chosen, pool = ctypes.c_uint64(12345), ctypes.c_void_p()
    assert fake.library.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
    assert fake.library.cuMemPoolSetAttribute(pool, 4, ctypes.byref(chosen)) == 0
    fake.forget_calls()
    function(a, out, 3)
    assert fake.calls("cuMemPoolSetAttribute") == []


@on_fake()
def test_memory_that_is_not_there_is_an_error_and_nothing_is_kept(fake: FakeCuda):
    function = compiled().register(fake)
    (a, _), (out, _) = matrix(8), matrix(8)
    held = fake.live("allocation")
    fake.fail("cuMemAllocAsync", 2, nth=2)
    with pytest.raises(CudaError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        function(a, out, 3)
    assert fake.live("allocation") == held
    fake.forget_failures()
    function(a, out, 3)
