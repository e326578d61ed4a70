# SPDX-License-Identifier: Apache-2.0
"""Launches in CUDA graphs: captured, replayed, and updated with other arguments.

In: compiled functions and prepared calls, called under capture. Out: what the graph's replays compute.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import weft
from tests.gpu.device_memory import DeviceArray, check, libcuda
from weft import driver
from weft.errors import CudaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.gpu

THREAD_LOCAL = 1  # CUstreamCaptureMode
Vector = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def scale_kernel(a: weft.Tensor, b: weft.Tensor, factor: weft.f32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] * factor


@weft.jit
def scale(a: Vector, b: Vector, factor: weft.f32, stream: weft.Stream):
    scale_kernel(a, b, factor).launch(grid=weft.ceil_div(a.shape[0], 128), block=128, stream=stream)


@pytest.fixture
def stream() -> Iterator[ctypes.c_void_p]:
    driver.set_current_device(0)
    made = ctypes.c_void_p()
    check(libcuda().cuStreamCreate(ctypes.byref(made), 1))
    yield made
    check(libcuda().cuStreamDestroy_v2(made))


def captured(stream: ctypes.c_void_p, call: Callable[[], object]) -> ctypes.c_void_p:
    """The graph of what `call` launches on the stream."""
    graph = ctypes.c_void_p()
    check(libcuda().cuStreamBeginCapture_v2(stream, THREAD_LOCAL))
    try:
        call()
    finally:
        check(libcuda().cuStreamEndCapture(stream, ctypes.byref(graph)))
    return graph


def instantiated(graph: ctypes.c_void_p) -> ctypes.c_void_p:
    runnable = ctypes.c_void_p()
    check(libcuda().cuGraphInstantiateWithFlags(ctypes.byref(runnable), graph, ctypes.c_uint64(0)))
    return runnable


def replay(runnable: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
    check(libcuda().cuGraphLaunch(runnable, stream))
    check(libcuda().cuStreamSynchronize(stream))


class UpdateResult(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = (
        ("result", ctypes.c_int),
        ("error_node", ctypes.c_void_p),
        ("error_from_node", ctypes.c_void_p),
    )


@pytest.mark.parametrize("executor", ["library", "context"])
def test_a_captured_launch_is_replayed_and_updated(stream: ctypes.c_void_p, executor: str):
    a = DeviceArray(np.arange(1000, dtype=np.float32))
    first, second = (DeviceArray(np.zeros(1000, np.float32)) for _ in range(2))
    fn = weft.compile(scale, a, first, 1.0, weft.Stream(0), options=f"--executor {executor}")
    fn.preload(0)
    graph = captured(stream, lambda: fn(a, first, 2.0, stream))
    assert not first.fetch().any()
    runnable = instantiated(graph)
    for _ in range(3):
        replay(runnable, stream)
    assert np.array_equal(first.fetch(), a.kept * 2)

    other = captured(stream, lambda: fn(a, second, 5.0, stream))
    said = UpdateResult()
    check(libcuda().cuGraphExecUpdate_v2(runnable, other, ctypes.byref(said)))
    assert said.result == 0
    replay(runnable, stream)
    assert np.array_equal(second.fetch(), a.kept * 5)
    for made in (graph, other):
        check(libcuda().cuGraphDestroy(made))
    check(libcuda().cuGraphExecDestroy(runnable))


def test_a_prepared_call_is_captured_with_its_arguments(stream: ctypes.c_void_p):
    a = DeviceArray(np.arange(100, dtype=np.float32))
    b = DeviceArray(np.zeros(100, np.float32))
    fn = weft.compile(scale, a, b, 1.0, weft.Stream(0))
    fn.preload(0)
    prepared = fn.prepare(a, b, 3.0, stream)
    graph = captured(stream, prepared)
    prepared.replace(factor=7.0)
    runnable = instantiated(graph)
    replay(runnable, stream)
    assert np.array_equal(b.fetch(), a.kept * 3)
    prepared()
    assert np.array_equal(b.fetch(), a.kept * 7)


def test_a_first_call_under_capture_points_to_preload(stream: ctypes.c_void_p):
    a = DeviceArray(np.arange(100, dtype=np.float32))
    fn = weft.compile(scale, a, a, 1.0, weft.Stream(0))

    def call() -> None:
        with pytest.raises(CudaError, match=r"preload\(0\)"):
            fn(a, a, 2.0, stream)

    captured(stream, call)
    fn(a, a, 2.0, stream)
    assert np.array_equal(a.fetch(), np.arange(100) * 2)


def test_torch_captures_and_replays():
    torch = pytest.importorskip("torch", reason="needs torch")

    @weft.kernel
    def kernel(a: weft.Tensor):
        a[weft.thread_idx.x] += 1

    @weft.jit
    def count(a: weft.Tensor):
        kernel(a).launch(grid=1, block=a.shape[0])

    a = torch.zeros(64, dtype=torch.int32, device="cuda")
    count(a)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        count(a)
        count(a)
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    assert bool((a == 11).all())


def test_replays_of_dropout_differ():
    torch = pytest.importorskip("torch", reason="needs torch")

    layer, x = weft.nn.Dropout(0.5), torch.ones(4096, device="cuda", requires_grad=True)
    offset = torch.zeros(1, dtype=torch.int64, device="cuda")

    def step() -> Any:
        found = layer(x)
        (gradient,) = torch.autograd.grad(found.sum(), x)
        counted = weft.kernels.dropout(x.detach(), 0.5, 7, offset)
        offset.add_(1)
        return found, gradient, counted

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    offset.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found, gradient, counted = step()
    seen = list[Any]()
    for k in range(3):
        graph.replay()
        assert torch.equal(found, gradient)
        same = weft.kernels.dropout(torch.ones(4096), 0.5, 7, k)
        assert torch.equal(counted.cpu(), same)
        seen.append(found.clone())
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[1], seen[2])
