# SPDX-License-Identifier: Apache-2.0
"""Compiled functions under graph capture: replayed, updated with other arguments, kept apart from later changes."""

from __future__ import annotations

import ctypes
import functools
import gc

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft import _native
from weft.driver.memory import empty
from weft.kernels.nn import dropout

EXECUTORS = ("context", "library")
UPDATE_FAILURE = 910


@weft.kernel
def scale_kernel(a: weft.Tensor, b: weft.Tensor, factor: weft.f32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] * factor


Vector = weft.Tensor[weft.f32, ("n",)]


@weft.jit
def scale(a: Vector, b: Vector, factor: weft.f32, stream: weft.Stream):
    scale_kernel(a, b, factor).launch(grid=weft.ceil_div(a.shape[0], 32), block=32, stream=stream)


@weft.jit
def scale_twice(a: Vector, b: Vector, factor: weft.f32, stream: weft.Stream):
    scale_kernel(a, b, factor).launch(grid=weft.ceil_div(a.shape[0], 32), block=32, stream=stream)
    scale_kernel(b, b, factor).launch(grid=weft.ceil_div(a.shape[0], 32), block=32, stream=stream)


@functools.cache
def compiled(executor: str, twice: bool = False) -> Compiled:
    vector = weft.fake_tensor(weft.f32, ("n",))
    function = scale_twice if twice else scale
    return Compiled(function, vector, vector, 1.0, weft.Stream(0), options=f"--executor {executor}")


@functools.cache
def dropped() -> Compiled:
    """`weft.kernels.dropout` with its offset on the device."""
    x, offset = weft.fake_tensor(weft.f32, ("n",)), weft.fake_tensor(weft.f32, (1,))
    return Compiled(dropout._dropout, x, x, 1 << 15, 2.0, 7, 0, 1, False, None, offset)


@weft.kernel(restrict=True)
def copy_vectors_kernel(a: weft.Tensor, b: weft.Tensor):
    first = 4 * (weft.block_idx.x * 8 + weft.thread_idx.x)
    if first < a.shape[0]:
        weft.store_vector(b, first, weft.load_vector(a, first, 4))


Promised = weft.fake_tensor(weft.f32, (weft.sym("n", divisibility=4),), alignment_bytes=16)


@weft.jit
def copy_vectors(a: Promised, b: Promised, stream: weft.Stream):
    copy_vectors_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 32), block=8, stream=stream)


@functools.cache
def of_promises() -> Compiled:
    """Alignment, divisibility and no overlaps are promised."""
    return Compiled(copy_vectors, Promised, Promised, weft.Stream(0))


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    for executor in EXECUTORS:
        compiled(executor)
    compiled("library", twice=True)
    dropped()
    of_promises()


def vector(size: int) -> tuple[_native.Object, np.ndarray]:
    """A device tensor and its memory, which is host memory on the fake."""
    tensor = empty(size, weft.f32, 0)
    info = _native.tensor_info(tensor)
    assert info is not None
    memory = np.frombuffer((ctypes.c_char * (4 * size)).from_address(info.data), np.float32)
    memory[:] = np.arange(size)
    return tensor, memory


@on_fake()
def test_each_replay_drops_by_the_offset_on_the_device(fake: FakeCuda):
    function = dropped().register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    x, ones = vector(64)
    out, found = vector(64)
    offset, number = vector(1)
    ones[:], found[:], number[:] = 1, -1, 0
    function.preload(0)
    fake.begin_capture(stream)
    with weft.ffi.use_stream(stream, "cuda:0"):
        function(x, out, 1 << 15, 2.0, 7, 0, None, offset)
    graph = fake.end_capture(stream)
    assert (found == -1).all()
    executable = fake.instantiate(graph)
    expected = [weft.kernels.dropout(np.ones(64, np.float32), 0.5, 7, k) for k in range(3)]
    assert not np.array_equal(expected[0], expected[1])
    for k in (0, 1, 2, 0):
        number[:] = k
        fake.launch_graph(executable, stream)
        assert np.array_equal(found, expected[k])
    fake.destroy_graph(graph)
    fake.destroy_executable(executable)


@on_fake()
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_captured_call_is_replayed_and_updated(fake: FakeCuda, executor: str):
    function = compiled(executor).register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a, numbers = vector(10)
    b, first = vector(10)
    c, second = vector(50)
    first[:] = 0
    function.preload(0)
    fake.begin_capture(stream)
    function(a, b, 2.0, stream)
    graph = fake.end_capture(stream)
    assert not first.any()
    executable = fake.instantiate(graph)
    fake.launch_graph(executable, stream)
    fake.launch_graph(executable, stream)
    assert first.tolist() == (numbers * 2).tolist()

    fake.begin_capture(stream)
    function(c, c, 5.0, stream)  # another size, and so another grid
    other = fake.end_capture(stream)
    assert fake.update(executable, other) == 0
    fake.launch_graph(executable, stream)
    assert second.tolist() == [5.0 * number for number in range(50)]
    assert first.tolist() == (numbers * 2).tolist()


@on_fake()
def test_an_update_cannot_change_the_number_of_launches(fake: FakeCuda):
    once = compiled("library").register(fake)
    twice = compiled("library", twice=True).register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a, _ = vector(4)
    graphs = []
    for function in (once, twice):
        function.preload(0)
        fake.begin_capture(stream)
        function(a, a, 2.0, stream)
        graphs.append(fake.end_capture(stream))
    executable = fake.instantiate(graphs[0])
    assert fake.update(executable, graphs[1]) == UPDATE_FAILURE


@on_fake()
def test_a_prepared_call_is_captured_with_its_arguments(fake: FakeCuda):
    function = compiled("library").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a, numbers = vector(8)
    b, result = vector(8)
    function.preload(0)
    prepared = function.prepare(a, b, 3.0, stream)
    fake.begin_capture(stream)
    prepared()
    graph = fake.end_capture(stream)
    prepared.replace(factor=7.0)
    fake.replay(graph, stream)
    assert result.tolist() == (numbers * 3).tolist()
    prepared()
    assert result.tolist() == (numbers * 7).tolist()


@on_fake()
def test_a_failed_launch_leaves_capture_and_context_alone(
    fake: FakeCuda,
):
    function = compiled("library").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a, _ = vector(8)
    function.preload(0)
    fake.begin_capture(stream)
    fake.fail("cuLaunchKernelEx", 900)
    with pytest.raises(weft.CudaError, match="a stream is being captured into a graph"):
        function(a, a, 1.0, stream)
    function(a, a, 1.0, stream)
    fake.replay(fake.end_capture(stream), stream)
    assert fake.current() is None


@on_fake()
def test_garbage_collection_in_a_capture_frees_nothing(fake: FakeCuda):
    function = compiled("library").register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a, _ = vector(8)
    function.preload(0)
    fake.begin_capture(stream)
    other = _native.DeviceProgram(b"", (), "other", "sm_90")
    temporary, _ = vector(8)
    fake.forget_calls()
    del other, temporary
    gc.collect()
    function(a, a, 1.0, stream)
    assert fake.calls("cuMemFree", "cuLibraryUnload", "cuModuleUnload") == []
    fake.replay(fake.end_capture(stream), stream)
    weft.synchronize("cuda:0")
    assert fake.count("cuMemFree") == 1


class Part:
    """Elements of a device tensor from one on, given by its address."""

    def __init__(self, tensor: _native.Object, first: int, count: int) -> None:
        info = _native.tensor_info(tensor)
        assert info is not None
        self.interface = {
            **{"version": 3, "shape": (count,), "typestr": "<f4", "stream": 1},
            "data": (info.data + 4 * first, False),
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return self.interface


BROKEN = {
    "alignment": (1, 16, "expected an address divisible by 16"),
    "divisibility": (0, 6, r"shape\[0\] is 6.*4"),
}


@on_fake()
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_promise_is_refused_in_a_capture_which_goes_on(fake: FakeCuda, broken: str):
    function = of_promises().register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    (a, numbers), (b, found) = vector(32), vector(32)
    first, count, words = BROKEN[broken]
    wrong = Part(a, first, count), Part(b, first, count)
    found[:] = 0
    function.preload(0)
    prepared = function.prepare(Part(a, 4, 8), Part(b, 4, 8), stream)
    fake.begin_capture(stream)
    with pytest.raises(ValueError, match=words):
        function(*wrong, stream)
    with pytest.raises(ValueError, match=words):
        prepared.replace(a=wrong[0], b=wrong[1])
    with pytest.raises(ValueError, match="overlaps"):
        function(a, a, stream)
    function(Part(a, 16, 16), Part(b, 16, 16), stream)
    prepared()
    executable = fake.instantiate(fake.end_capture(stream))
    assert not found.any()
    for k in (1, 2):  # a replay reads what is there now, at the addresses that were checked
        numbers[:] = k * np.arange(32)
        fake.launch_graph(executable, stream)
        expected = [0] * 4 + numbers[4:12].tolist() + [0] * 4 + numbers[16:].tolist()
        assert found.tolist() == expected
