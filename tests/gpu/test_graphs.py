# SPDX-License-Identifier: Apache-2.0
"""Launches in CUDA graphs: captured, replayed, and updated with other arguments.

In: compiled functions and prepared calls, called under capture. Out: what the graph's replays compute.
"""

from __future__ import annotations

import ctypes
import functools
import json
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import weft
from tests.gpu.device_memory import DeviceArray, check, libcuda
from tests.kernels.calls import CALLS
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


@pytest.mark.parametrize("executor", ["library", "context"])
def test_a_first_call_under_capture_loads_the_code(stream: ctypes.c_void_p, executor: str):
    a = DeviceArray(np.arange(100, dtype=np.float32))
    fn = weft.compile(scale, a, a, 1.0, weft.Stream(0), options=f"--executor {executor}")
    runnable = instantiated(captured(stream, lambda: fn(a, a, 2.0, stream)))
    assert np.array_equal(a.fetch(), np.arange(100))
    replay(runnable, stream)
    assert np.array_equal(a.fetch(), np.arange(100) * 2)


def test_code_is_not_loaded_while_a_stream_ordered_by_the_legacy_one_is_captured():
    a = DeviceArray(np.arange(100, dtype=np.float32))
    fn = weft.compile(scale, a, a, 1.0, weft.Stream(0))
    blocking = ctypes.c_void_p()
    check(libcuda().cuStreamCreate(ctypes.byref(blocking), 0))

    def call() -> None:
        with pytest.raises(CudaError, match=r"preload\(0\)"):
            fn(a, a, 2.0, blocking)

    captured(blocking, call)
    fn(a, a, 2.0, blocking)
    assert np.array_equal(a.fetch(), np.arange(100) * 2)
    check(libcuda().cuStreamDestroy_v2(blocking))


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


def on_gpu(value: Any) -> Any:
    """An array of NumPy as a tensor of torch, on the GPU."""
    import torch

    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.itemsize == 1 and value.dtype != np.bool_:
        return torch.from_numpy(value.view(np.uint8)).cuda().view(torch.float8_e4m3fn)
    strides = [stride // value.itemsize for stride in value.strides]
    return torch.from_numpy(value.copy()).cuda().as_strided(value.shape, strides)


def flat(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


def capture_first(
    function: Callable[..., Any], arguments: list[Any], *, is_counted: bool = False
) -> None:
    """The function's first call is captured; replays compute what a call does."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = flat(function(*arguments))
    for one in found:
        one.zero_()
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    for one, other in zip(found, flat(function(*arguments)), strict=True):
        if is_counted and one is not found[-1]:
            one, other = one[: int(found[-1])], other[: int(found[-1])]
        torch.testing.assert_close(one, other, equal_nan=True)


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same arguments: the gradients of all that are floats."""
    import torch

    def run(*arguments: Any) -> Any:
        given = [
            one.detach().requires_grad_()
            if isinstance(one, torch.Tensor) and one.is_floating_point()
            else one
            for one in arguments
        ]
        found = flat(function(*given))[0]
        inputs = [one for one in given if isinstance(one, torch.Tensor) and one.requires_grad]
        grads = torch.autograd.grad(found, inputs, torch.ones_like(found), allow_unused=True)
        return tuple(one for one in grads if one is not None)

    return run


# Functions without a derivative, or whose derivative takes no gradients here.
WITHOUT_DERIVATIVE = frozenset(
    "argmax argmin argsort compress histogram partition reduce run_length_encode scan".split()
)


def capture_all() -> dict[str, str]:
    """Captures every function of ``weft.kernels``, and its derivative, before anything else has called it.

    The error by name, or an empty text.
    """
    said: dict[str, str] = {}
    for name, call in CALLS.items():
        function, arguments = getattr(weft.kernels, name), [on_gpu(one) for one in call.arguments]
        kinds = {name: function}
        if name not in WITHOUT_DERIVATIVE:
            kinds[f"{name}, derivative"] = gradients(function)
        for kind, run in kinds.items():
            try:
                capture_first(run, arguments, is_counted=call.is_counted and kind == name)
                said[kind] = ""
            except Exception:
                said[kind] = traceback.format_exc(limit=-4)
    return said


@functools.cache
def captured_in_a_process() -> dict[str, str]:
    """`capture_all` of a new process, in which nothing is loaded."""
    run = [sys.executable, "-m", "tests.gpu.test_graphs"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CALLS)
def test_a_functions_first_call_is_captured(name: str):
    pytest.importorskip("torch", reason="needs torch")
    said = captured_in_a_process()
    for kind in (name, f"{name}, derivative"):
        assert not said.get(kind), said[kind]


if __name__ == "__main__":
    print(json.dumps(capture_all()))
