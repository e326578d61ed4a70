# SPDX-License-Identifier: Apache-2.0
"""`weft.scratch` on a device: shared by launches, in stream order, under graph capture, given back.

In: a host function whose launches leave data to each other. Out: what it computes, and the memory of the pool.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import weft
from tests.gpu.device_memory import DeviceArray, check, libcuda
from tests.gpu.test_graphs import captured, instantiated, replay, stream
from weft import driver

__all__ = ["stream"]  # a fixture

pytestmark = pytest.mark.gpu

Vector = weft.Tensor[weft.f32, ("n",)]
USED_NOW = 7  # CU_MEMPOOL_ATTR_USED_MEM_CURRENT


@weft.kernel
def reverse_kernel(a: weft.Tensor, out: weft.Tensor, added: weft.f32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < len(a):
        out[i] = a[len(a) - 1 - i] + added


@weft.jit
def through(a: Vector, out: Vector, iterations: weft.i32, stream: weft.Stream):
    n = len(a)
    blocks = weft.ceil_div(n, 128)
    table = weft.scratch((2, n), weft.f32)
    reverse_kernel(a, table[0], 1.0).launch(grid=blocks, block=128)
    for i in range(iterations):
        other = weft.scratch(n, weft.f32, stream=stream)
        reverse_kernel(table[0], other, weft.f32(i)).launch(grid=blocks, block=128, stream=stream)
        reverse_kernel(other, table[0], 0.0).launch(grid=blocks, block=128)
    reverse_kernel(table[0], table[1], 0.0).launch(grid=blocks, block=128)
    reverse_kernel(table[1], out, 0.0).launch(grid=blocks, block=128)


def pool_bytes() -> int:
    """Bytes in use of the device's default pool."""
    driver.synchronize(0)
    pool, used = ctypes.c_void_p(), ctypes.c_uint64()
    check(libcuda().cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0))
    check(libcuda().cuMemPoolGetAttribute(pool, USED_NOW, ctypes.byref(used)))
    return used.value


def expected(a: np.ndarray, iterations: int) -> np.ndarray:
    return a[::-1] + 1 + sum(range(iterations))


@pytest.mark.parametrize("executor", ["library", "context"])
def test_launches_share_arrays_and_all_memory_comes_back(stream: ctypes.c_void_p, executor: str):
    a = DeviceArray(np.arange(100_000, dtype=np.float32))
    out = DeviceArray(np.zeros_like(a.kept))
    fn = weft.compile(through, a, out, 1, weft.Stream(0), options=f"--executor {executor}")
    before = pool_bytes()
    for iterations in (0, 1, 5, 0, 3):
        fn(a, out, iterations, stream)
        np.testing.assert_array_equal(out.fetch(), expected(a.kept, iterations))
    assert pool_bytes() == before


def test_a_captured_call_computes_at_each_replay(stream: ctypes.c_void_p):
    a = DeviceArray(np.arange(5000, dtype=np.float32))
    out = DeviceArray(np.zeros_like(a.kept))
    fn = weft.compile(through, a, out, 1, weft.Stream(0))
    fn.preload(0)
    graph = captured(stream, lambda: fn(a, out, 3, stream))
    assert not out.fetch().any()
    runnable = instantiated(graph)
    for _ in range(3):
        replay(runnable, stream)
        np.testing.assert_array_equal(out.fetch(), expected(a.kept, 3))
    check(libcuda().cuGraphExecDestroy(runnable))
    check(libcuda().cuGraphDestroy(graph))


def test_an_impossible_size_is_an_error_of_one_call(stream: ctypes.c_void_p):
    @weft.kernel
    def touch_kernel(a: weft.Tensor, out: weft.Tensor):
        a[0] = 1
        out[0] = a[0] + 1

    @weft.jit
    def host(out: weft.Tensor[weft.i32, (1,)], n: weft.i64, m: weft.i64, stream: weft.Stream):
        touch_kernel(weft.scratch(m, weft.i32), out).launch(grid=1, block=1)
        touch_kernel(weft.scratch(n, weft.i32), out).launch(grid=1, block=1)

    out = DeviceArray(np.zeros(1, np.int32))
    fn = weft.compile(host, out, 1, 1, weft.Stream(0))
    before = pool_bytes()
    with pytest.raises(weft.CudaError, match=r"bytes of scratch for host \(.*OUT_OF_MEMORY"):
        fn(out, 1 << 40, 8, stream)
    with pytest.raises(ValueError, match=r"shape\[0\] is -4, expected 0 or more"):
        fn(out, -4, 8, stream)
    assert pool_bytes() == before
    fn(out, 1, 8, stream)
    assert out.fetch()[0] == 2


@weft.kernel
def plus_kernel(a, b, value: weft.f32):
    for i in weft.each(a.shape):
        b[i] = a[i] + value


@weft.jit
def plus(a, value: weft.f32):
    b, zeros = weft.empty_like(a), weft.zeros((2, 3), weft.i32)
    plus_kernel(a, b, value).launch(over=a.shape)
    return b, zeros


def test_a_call_returns_tensors_of_torchs_allocator():
    import torch

    a = torch.arange(1000.0, device="cuda")
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for value in range(3):
        b, zeros = plus(a, float(value))
        assert torch.equal(b, a + value) and zeros.tolist() == [[0, 0, 0]] * 2
    assert torch.cuda.memory_allocated() > before
    del b, zeros
    assert torch.cuda.memory_allocated() == before


def test_a_returned_tensor_is_captured_in_torchs_graph():
    import torch

    a = torch.ones(64, device="cuda")
    plus(a, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        b, _ = plus(a, 1.0)
        c, _ = plus(b, 1.0)
    a.fill_(5)
    graph.replay()
    assert c.tolist() == [7.0] * 64


def test_a_call_returns_tensors_of_weft_without_a_library():
    a = weft.full(64, 2.0, weft.f32, "cuda:0")
    b, zeros = plus(a, 0.5)
    assert weft.copy(weft.empty(64, weft.f32), b).tolist() == [2.5] * 64
    assert weft.copy(weft.empty((2, 3), weft.i32), zeros).tolist() == [[0, 0, 0]] * 2


def test_scratch_of_torchs_tensors_is_in_its_statistics():
    import torch

    a, b = torch.arange(1 << 20, dtype=torch.float32, device="cuda"), None
    out = torch.empty_like(a)
    fn = weft.compile(through, a, out, 1, weft.Stream(0))
    stream = torch.cuda.current_stream()
    other = torch.cuda.Stream()
    expected_sums = a.flip(0) + 1 + sum(range(3))
    for used, is_torchs in ((stream, True), (other, False)):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        fn(a, out, 3, used)
        torch.cuda.synchronize()
        assert torch.equal(out, expected_sums)
        more = torch.cuda.max_memory_allocated() - before
        assert more >= 5 * a.nbytes if is_torchs else more < a.nbytes
        assert torch.cuda.memory_allocated() == before
    with torch.cuda.stream(other):
        torch.cuda.reset_peak_memory_stats()
        fn(a, out, 3, other)
        assert torch.cuda.max_memory_allocated() - before >= 5 * a.nbytes
    torch.cuda.synchronize()
    # torch's tensors take the memory next, in the order of the stream.
    for _ in range(50):
        out.zero_()
        fn(a, out, 3, stream)
        b = torch.full_like(a, -1.0)
        b = b + torch.full((2, len(a)), -1.0, device="cuda").sum(0)
        assert torch.equal(out, expected_sums)
    assert b is not None and bool((b == -3).all())


def test_scratch_in_torchs_graph_is_the_graphs_own():
    import torch

    a = torch.arange(100_000, dtype=torch.float32, device="cuda")
    out = torch.empty_like(a)
    fn = weft.compile(through, a, out, 1, weft.Stream(0))
    fn.preload(0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn(a, out, 3, torch.cuda.current_stream())
    for k in range(3):
        a.add_(k)
        filled = [torch.full_like(a, 7.0) for _ in range(8)]  # over memory that is free
        graph.replay()
        assert torch.equal(out, a.flip(0) + 1 + 3)
        del filled
