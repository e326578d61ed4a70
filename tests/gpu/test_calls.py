# SPDX-License-Identifier: Apache-2.0
"""Compiled functions on a real GPU: what they take, where and on which stream they run, what they refuse.

In: torch's tensors and streams, CuPy's and JAX's arrays, addresses. Out: results, and the words of failures.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.gpu.device_memory import DeviceArray
from weft import driver
from weft.driver.launch_attributes import MemorySyncDomain, Priority, SharedMemoryCarveout
from weft.errors import CudaError

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parent.parent.parent
Vector = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: Vector, b: Vector):
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


@weft.jit
def add_one_on(a: Vector, b: Vector, stream: weft.Stream):
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128, stream=stream)


def vectors(size: int = 1000) -> tuple[DeviceArray, DeviceArray]:
    return DeviceArray(np.arange(size, dtype=np.float32)), DeviceArray(np.zeros(size, np.float32))


def assert_added(b: DeviceArray) -> None:
    assert np.array_equal(b.fetch(), np.arange(1, b.kept.size + 1))


@pytest.mark.parametrize("executor", ["library", "context", "tvm-ffi"])
def test_a_function_its_bound_form_and_a_prepared_call_run(executor: str):
    fn = weft.compile[weft.UseExecutor(executor)](add_one, *vectors())
    assert fn.executor.name == executor
    for make_call in (
        lambda a, b: lambda: fn(a, b),
        lambda a, b: lambda: fn.to(0)(a, b),
        fn.prepare,
    ):
        a, b = vectors()
        make_call(a, b)()
        assert_added(b)
    assert set(fn.preload(0)) == {"add_one_kernel"}


def test_sixteen_threads_make_the_first_call_at_once():
    fn = weft.compile(add_one, *vectors())
    pairs = [vectors() for _ in range(16)]
    barrier = threading.Barrier(16)
    errors: list[BaseException] = []

    def work(a: DeviceArray, b: DeviceArray) -> None:
        try:
            barrier.wait()
            for _ in range(50):
                fn(a, b)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for _, b in pairs:
        assert_added(b)


def test_the_current_device_is_the_callers_afterwards():
    a, b = vectors()
    before = driver.current_device()
    add_one(a, b)
    assert driver.current_device() == before


# ---- arrays and streams of other libraries


def test_work_is_in_the_order_of_torchs_current_stream():
    torch = pytest.importorskip("torch", reason="needs torch")
    a = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    b = torch.empty_like(a)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):
            add_one(a, b)
            b += 1  # torch's own kernel, between two of ours
            a, b = b, a
    stream.synchronize()
    assert torch.equal(a, torch.arange(1 << 20, dtype=torch.float32, device="cuda") + 40)


def test_each_thread_has_torchs_stream_of_its_own():
    torch = pytest.importorskip("torch", reason="needs torch")
    example = torch.zeros(1000, device="cuda")
    fn = weft.compile(add_one, example, example)
    wrong: list[object] = []

    def work() -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a = torch.zeros(100_000, device="cuda")
            for _ in range(50):
                fn(a, a)
        stream.synchronize()
        if not bool((a == 50).all()):
            wrong.append(a)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_stream_argument_is_torchs_an_address_or_none():
    torch = pytest.importorskip("torch", reason="needs torch")
    a = torch.zeros(1000, device="cuda")
    fn = weft.compile(add_one_on, a, a, weft.Stream(0))
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for given in (stream, stream.cuda_stream, None):
        fn(a, a, given)
        torch.cuda.synchronize()
    assert bool((a == 3).all())


def test_known_direct_calls_are_on_the_stream_of_each_call():
    """Of a host function and a kernel, the same way as the first ones: after a slow kernel of their stream."""
    torch = pytest.importorskip("torch", reason="needs torch")
    a, b = torch.zeros(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    grid = weft.ceil_div(a.numel(), 128)
    stream = torch.cuda.Stream()
    calls = (
        lambda: add_one(a, b),
        lambda: add_one_kernel[grid, 128](a, b),
        lambda: add_one_kernel[grid, 128, stream](a, b),
        lambda: add_one_kernel[grid, 128](a, b, stream=stream),
        lambda: add_one(a, b, stream=stream),
    )
    torch.cuda.synchronize()
    for call in calls:
        for number in range(1, 4):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(10_000_000)
                a.fill_(number)
                call()
                found = b.clone()
            stream.synchronize()
            assert (found == number + 1).all()


def test_a_host_tensor_is_refused_by_a_cuda_function():
    torch = pytest.importorskip("torch", reason="needs torch")
    a = torch.zeros(8, device="cuda")
    fn = weft.compile(add_one, a, a)
    with pytest.raises(ValueError, match=r"argument #1 'b': .*cpu.*cuda"):
        fn(a, a.cpu())
    with pytest.raises(ValueError, match=r"argument 'a' is on cuda, argument 'b' on the CPU"):
        add_one(a, a.cpu())


def test_arrays_and_streams_of_cupy():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    a, b = cupy.arange(1000, dtype=cupy.float32), cupy.zeros(1000, cupy.float32)
    add_one(a, b)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(10):
            add_one(a, b)
            a += b - a
    weft.compile(add_one_on, a, b, weft.Stream(0))(a, b, stream)
    stream.synchronize()
    assert cupy.asnumpy(b).tolist() == list(range(11, 1011))


@pytest.mark.parametrize("path", ["direct", "compiled", "prepared", "kernel", "ready"])
def test_work_is_in_the_order_of_cupys_current_stream(path: str):
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    a, b = cupy.zeros(1000, cupy.float32), cupy.zeros(1000, cupy.float32)
    compiled = weft.compile(add_one, a, b)
    calls = {
        "direct": lambda: add_one(a, b),
        "compiled": lambda: compiled(a, b),
        "prepared": compiled.prepare(a, b),
        "kernel": lambda: add_one_kernel[8, 128](a, b),
        "ready": lambda: weft.kernels.copy(a + 1, out=b),
    }
    slow = cupy.RawKernel(
        """extern "C" __global__ void slow(float* x, float value) {
          long long start = clock64();
          while (clock64() - start < 20000000) {}
          for (int i = 0; i < 1000; ++i) x[i] = value;
        }""",
        "slow",
    )
    calls[path]()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        for value in (3.0, 5.0):
            slow((1,), (1,), (a, np.float32(value)))  # what comes before
            calls[path]()
            slow((1,), (1,), (a, np.float32(-1.0)))
            copied = b + 0  # what comes after
            assert cupy.asnumpy(copied, stream=stream).tolist() == [value + 1.0] * 1000


def test_arrays_and_streams_of_numba():
    try:
        from numba import cuda
    except Exception as error:  # it does not import beside every NumPy
        pytest.skip(f"needs numba-cuda: {error}")
    a, b = cuda.to_device(np.arange(1000, dtype=np.float32)), cuda.device_array(1000, np.float32)
    add_one(a, b)
    stream = cuda.stream()
    handle = getattr(stream.handle, "value", stream.handle)
    weft.synchronize("cuda:0")
    weft.compile(add_one_on, a, b, weft.Stream(0))(b, a, int(handle or 0))
    stream.synchronize()
    assert a.copy_to_host().tolist() == list(range(2, 1002))


def test_arrays_of_jax_are_read():
    jax = pytest.importorskip("jax", reason="needs JAX")
    if jax.default_backend() != "gpu":
        pytest.skip("needs JAX for CUDA")
    a = jax.device_put(np.arange(1000, dtype=np.float32)).block_until_ready()
    _, b = vectors()
    add_one(a, b)
    assert_added(b)


@weft.kernel
def shift_kernel(p: weft.Pointer[weft.f32], count):
    i = weft.thread_idx.x
    if i < count:
        p[i] = p[i] + 1.0


@weft.jit
def shift(p: weft.Pointer[weft.f32], count: int):
    shift_kernel(p, count).launch(grid=1, block=128)


def test_an_address_is_enough_where_the_options_say_where_it_is():
    _, b = vectors(100)
    fn = weft.compile(shift, weft.Pointer[weft.f32], 1, options="--target cuda")
    fn(b.address.value, 50)
    assert b.fetch().tolist() == [1.0] * 50 + [0.0] * 50


def test_memory_of_wefts_own_is_an_argument():
    a, _ = vectors(64)
    b = weft.empty(64, weft.f32, "cuda:0")
    c = DeviceArray(np.zeros(64, np.float32))
    add_one(a, b)
    add_one(b, c)
    weft.synchronize("cuda:0")
    assert c.fetch().tolist() == list(range(2, 66))


# ---- launches


@weft.jit
def add_one_with_attributes(a: Vector, b: Vector):
    add_one_kernel(a, b).launch(
        grid=16,
        block=128,
        cluster=2,
        programmatic=True,
        attributes=(Priority(-1), MemorySyncDomain("remote"), SharedMemoryCarveout(50)),
    )


def test_launch_attributes_of_a_host_function_are_accepted():
    if driver.device_properties(0).compute_capability < (9, 0):
        pytest.skip("needs a GPU with clusters")
    a, b = vectors()
    add_one_with_attributes(a, b)
    assert_added(b)


@weft.kernel(max_threads=256)
def bounded_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one_in_blocks_of(a: Vector, b: Vector, threads: weft.i32, more: weft.i32):
    bounded_kernel(a, b).launch(grid=8, block=threads, shared_memory_bytes=more)


def test_an_impossible_launch_names_the_limit():
    a, b = vectors()
    fn = weft.compile(add_one_in_blocks_of, a, b, 128, 0)
    with pytest.raises(ValueError, match=r"block.x is 2000, expected 1 to 1024"):
        fn(a, b, 2000, 0)
    with pytest.raises(CudaError, match="512 threads, this kernel allows 256") as caught:
        fn(a, b, 512, 0)
    assert caught.value.kernel == "bounded_kernel"
    with pytest.raises(CudaError, match="1000000 bytes of shared memory"):
        fn(a, b, 128, 1_000_000)
    fn(a, b, 128, 100_000)  # more than 48 kB, which has to be asked for
    assert_added(b)


def test_no_elements_launch_nothing():
    a, b = (DeviceArray(np.zeros(0, np.float32)) for _ in range(2))
    add_one(a, b)
    weft.compile(add_one, a, b)(a, b)


def test_code_for_another_architecture_is_an_error_with_both():
    major, minor = driver.device_properties(0).compute_capability
    other = "sm_80" if major != 8 else "sm_90"
    fn = weft.compile(add_one, *vectors(), options=f"--gpu-arch {other}")
    with pytest.raises(CudaError, match=rf"{other}.*sm_{major}{minor}|sm_{major}{minor}.*{other}"):
        fn(*vectors())


# ---- what ends the context, each in a process of its own


def run_apart(body: str) -> str:
    """Run a program that begins with this file's names, and return its output."""
    program = f"from tests.gpu.test_calls import *\n{textwrap.dedent(body)}"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_illegal_access_names_the_kernel_when_it_is_reported():
    said = run_apart(
        """
        fn = weft.compile(shift, weft.Pointer[weft.f32], 1, options="--target cuda")
        _, b = vectors()
        fn(64, 10)
        for call in (lambda: weft.synchronize("cuda:0"), lambda: add_one(b, b)):
            try:
                call()
            except CudaError as error:
                print(error.code, error)
        """
    )
    assert said.count("700 ") == 2
    assert "shift_kernel" in said


@weft.kernel
def positive_kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    assert a[i] > 0, "not positive"
    if i < 2:
        weft.printf("element %d is %f\n", i, a[i])


@weft.jit
def positive(a: Vector):
    positive_kernel(a).launch(grid=1, block=32)


def test_printf_is_seen_after_waiting():
    said = run_apart(
        """
        positive(DeviceArray(np.full(32, 1.5, np.float32)))
        weft.synchronize("cuda:0")
        """
    )
    assert "element 0 is 1.5" in said and "element 1 is 1.5" in said
