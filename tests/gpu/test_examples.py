# SPDX-License-Identifier: Apache-2.0
"""Every example on a real GPU gives what NumPy gives, from arrays of any strides, on each executor.

In: the catalogue of examples; torch for device memory. Out: results, compared with the references.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
from examples.catalog import EXAMPLES
from examples.common import Example, largest_error

torch = pytest.importorskip("torch", reason="needs torch for device memory")
pytestmark = pytest.mark.gpu


class DeviceArray:
    """A copy of a NumPy array's memory on the GPU, with the array's own strides."""

    def __init__(self, array: np.ndarray) -> None:
        low, high = np.lib.array_utils.byte_bounds(array)
        # The span that the array's elements lie in, which strides may walk in any direction.
        self.host = np.lib.stride_tricks.as_strided(
            np.asarray(array).view(np.ndarray), shape=array.shape, strides=array.strides
        )
        self.offset = array.__array_interface__["data"][0] - low
        span = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * (high - low)).from_address(low))
        self.span = span
        self.memory = torch.from_numpy(span.copy()).cuda()
        self.interface = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.__array_interface__["typestr"],
            "data": (self.memory.data_ptr() + self.offset, False),
            "strides": array.strides,
            "stream": 1,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return self.interface

    def fetch(self) -> None:
        """Copies the memory back over the host array's."""
        torch.cuda.synchronize()
        self.span[:] = self.memory.cpu().numpy()


def on_device(value: object) -> object:
    return DeviceArray(value) if isinstance(value, np.ndarray) else value


def check(example: Example, call) -> None:
    """Runs an example on copies of its arguments and compares each output."""
    arguments = example.make_arguments(example.test_size)
    expected = example.reference(**arguments)
    given = {name: on_device(value) for name, value in arguments.items()}
    call(given)
    for value in given.values():
        if isinstance(value, DeviceArray):
            value.fetch()
    for name, array in expected.items():
        assert largest_error(arguments[name], array) <= example.tolerance, name


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_direct_call_gives_what_numpy_gives(example: Example):
    check(example, lambda given: example.function(**given))


@functools.cache
def compiled(name: str, executor: str):
    example = next(example for example in EXAMPLES if example.name == name)
    values = example.make_arguments(example.test_size).values()
    given = [on_device(value) for value in values]
    return weft.compile(example.function, *given, options=f"--executor {executor}")


@pytest.mark.parametrize("executor", ["context", "library", "tvm-ffi"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_executor_gives_what_numpy_gives(example: Example, executor: str):
    function = compiled(example.name, executor)
    assert function.executor.name == executor
    check(example, lambda given: function(**example.call_arguments(given)))


def test_torch_tensors_on_a_stream_of_their_own():
    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor):
        i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
        if i < a.shape[0]:
            b[i] = a[i] + 1.0

    @weft.jit
    def add_one(a: weft.Tensor, b: weft.Tensor):
        kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 256), block=256)

    a = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    b = torch.empty_like(a)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(20):
            add_one(a, b)
            a, b = b, a
    stream.synchronize()
    assert torch.equal(a, torch.arange(1 << 20, dtype=torch.float32, device="cuda") + 20)


def test_launches_are_captured_and_replayed_by_torch():
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
    assert (a == 11).all()
