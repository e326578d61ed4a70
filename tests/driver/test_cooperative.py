# SPDX-License-Identifier: Apache-2.0
"""Cooperative launches, clusters and programmatic launches of compiled functions, computed and compared."""

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

Numbers = weft.Tensor[weft.i32, ("n",)]


@weft.kernel
def pass_round_kernel(numbers: weft.Tensor, iterations: weft.i32):
    size = weft.grid_dim.x * weft.block_dim.x
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    for _turn in range(iterations):
        # Each thread reads what another block's thread wrote in the round before.
        taken = numbers[(i + weft.block_dim.x) % size]
        weft.sync_grid()
        numbers[i] = taken + 1
        weft.sync_grid()


@weft.jit
def pass_round(numbers: Numbers, blocks: weft.i32, iterations: weft.i32):
    pass_round_kernel(numbers, iterations).launch(grid=blocks, block=64, cooperative=True)


@weft.kernel
def block_sum_kernel(numbers: weft.Tensor, sums: weft.Tensor):
    values = weft.shared(64, weft.i32)
    t = weft.thread_idx.x
    values[t] = numbers[weft.block_idx.x * 64 + t]
    weft.sync_threads()
    if t == 0:
        total = 0
        for i in range(64):
            total += values[i]
        sums[weft.block_idx.x] = total


@weft.jit
def block_sums(numbers: Numbers, sums: weft.Tensor[weft.i32, ("m",)], extra: weft.i32):
    block_sum_kernel(numbers, sums).launch(
        grid=sums.shape[0],
        block=64,
        shared_memory_bytes=extra,
        cluster=(2, 1, 1),
        programmatic=True,
    )


def fake_vector() -> object:
    return weft.fake_tensor(weft.i32, ("n",))


@functools.cache
def iterations() -> Compiled:
    return Compiled(pass_round, fake_vector(), 1, 1)


@functools.cache
def sums() -> Compiled:
    return Compiled(block_sums, fake_vector(), weft.fake_tensor(weft.i32, ("m",)), 0)


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    iterations()
    sums()


def vector(size: int) -> tuple[_native.Object, np.ndarray]:
    tensor = empty(size, weft.i32, 0)
    info = _native.tensor_info(tensor)
    assert info is not None
    memory = np.frombuffer((ctypes.c_char * (4 * size)).from_address(info.data), np.int32)
    memory[:] = np.arange(size)
    return tensor, memory


@on_fake()
@pytest.mark.parametrize("blocks", [1, 3, 64])
def test_all_blocks_of_a_cooperative_grid_meet_at_each_barrier(fake: FakeCuda, blocks: int):
    function = iterations().register(fake)
    tensor, memory = vector(64 * blocks)
    function(tensor, blocks, 5)
    expected = np.roll(np.arange(64 * blocks), -64 * 5) + 5
    assert memory.tolist() == expected.tolist()
    assert "attributes=[2:1," in fake.launches()[0]


@on_fake()
def test_a_cooperative_grid_beyond_residency_is_refused(
    fake: FakeCuda,
):
    function = iterations().register(fake)
    tensor, _ = vector(64)
    with pytest.raises(CudaError) as error:
        function(tensor, 1000, 1)
    assert error.value.name == "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
    assert "it has 1000 blocks, the device holds" in str(error.value)
    assert fake.current() is None


@on_fake()
@pytest.mark.parametrize("extra", [0, 50_000])
def test_clusters_and_programmatic_launches_compute(fake: FakeCuda, extra: int):
    function = sums().register(fake)
    numbers, values = vector(64 * 6)
    result, memory = vector(6)
    function(numbers, result, extra)
    assert memory.tolist() == values.reshape(6, 64).sum(1).tolist()
    assert "attributes=[4:2,1,1 6:1," in fake.launches()[0]


@on_fake()
def test_a_grid_that_the_cluster_does_not_divide_is_refused(fake: FakeCuda):
    function = sums().register(fake)
    numbers, _ = vector(64 * 5)
    result, _ = vector(5)
    with pytest.raises(CudaError, match=r"grid.x is 5, expected a multiple of the cluster's 2"):
        function(numbers, result, 0)
