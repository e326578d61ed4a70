# SPDX-License-Identifier: Apache-2.0
"""One compiled function on two GPUs: in turn, from several threads, and what it refuses.

In: memory of both devices. Out: results where the memory is, and the caller's device as it was.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import weft
from tests.gpu.device_memory import DeviceArray
from weft import driver
from weft.errors import CudaError

pytestmark = pytest.mark.gpu

SIZE = 1000
Vector = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def scale_kernel(a: weft.Tensor, b: weft.Tensor, factor: weft.f32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] * factor


@weft.jit
def scale(a: Vector, b: Vector, factor: weft.f32):
    scale_kernel(a, b, factor).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


@pytest.fixture(autouse=True)
def two_devices():
    try:
        count = driver.device_count()
    except CudaError as error:
        pytest.skip(f"needs two GPUs: {error}")
    if count < 2:
        pytest.skip(f"needs two GPUs, the driver sees {count}")
    yield
    driver.set_current_device(0)


def vectors(device: int) -> tuple[DeviceArray, DeviceArray]:
    a = np.arange(SIZE, dtype=np.float32)
    return DeviceArray(a, device), DeviceArray(np.zeros(SIZE, np.float32), device)


def assert_scaled(b: DeviceArray, factor: float) -> None:
    assert np.array_equal(b.fetch(), np.arange(SIZE, dtype=np.float32) * np.float32(factor))


@pytest.mark.parametrize("executor", ["library", "context", "tvm-ffi"])
def test_tensors_of_both_devices_in_turn_run_where_they_are(executor: str):
    memory = [vectors(0), vectors(1)]
    fn = weft.compile(scale, *memory[0], 1.0, options=f"--executor {executor}")
    for current in (0, 1):
        driver.set_current_device(current)
        for round_ in range(4):
            a, b = memory[round_ % 2]
            fn(a, b, round_ + 1.0)
            assert driver.current_device() == current
        assert_scaled(memory[0][1], 3)
        assert_scaled(memory[1][1], 4)


def test_a_direct_call_and_prepared_calls_follow_their_tensors():
    memory = [vectors(0), vectors(1)]
    driver.set_current_device(0)
    for factor, (a, b) in enumerate(memory):
        scale(a, b, factor + 2.0)
    assert driver.current_device() == 0
    assert_scaled(memory[0][1], 2)
    assert_scaled(memory[1][1], 3)
    fn = weft.compile(scale, *memory[0], 1.0)
    prepared = [fn.prepare(a, b, 5.0) for a, b in memory]
    driver.set_current_device(1)
    for call in prepared:
        call()
    assert driver.current_device() == 1
    for _, b in memory:
        assert_scaled(b, 5)


def test_threads_on_both_devices_share_one_function():
    fn = weft.compile(scale, *vectors(0), 1.0)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            device = number % 2
            a, b = vectors(device)
            driver.set_current_device(1 - device)
            for _ in range(100):
                fn(a, b, float(number))
            assert driver.current_device() == 1 - device
            assert_scaled(b, number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_tensors_of_two_devices_in_one_call_are_refused_with_both():
    (a, _), (_, b) = vectors(0), vectors(1)
    fn = weft.compile(scale, a, a, 1.0)
    with pytest.raises(ValueError, match=r"argument #1 'b'.*cuda:1.*cuda:0"):
        fn(a, b, 1.0)


def test_a_function_bound_to_one_device_refuses_the_other():
    fn = weft.compile(scale, *vectors(0), 1.0).to(1)
    a, b = vectors(1)
    fn(a, b, 6.0)
    assert_scaled(b, 6)
    with pytest.raises(ValueError, match="cuda:0"):
        fn(*vectors(0), 1.0)
