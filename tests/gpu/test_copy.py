# SPDX-License-Identifier: Apache-2.0
"""Copies and fills on a real driver: what the fake claims of them, and how long they really take.

In: memory of the host, pinned and not, and of every device. Out: the same elements, in the order of their streams.
"""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

import weft
from weft import driver, ffi
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.gpu

LARGE = (1 << 20) + 3
SPIN_NS = 200_000_000


@pytest.fixture
def cuda():
    """libcuda itself, for what weft does not offer, with the context of cuda:0 current."""
    driver.set_current_device(0)
    return ctypes.CDLL("libcuda.so.1")


@pytest.fixture
def stream(cuda):
    """A stream that the default one does not wait for."""
    made = ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(made), 1) == 0
    yield made.value
    assert cuda.cuStreamDestroy_v2(made) == 0


@pytest.fixture
def pinned(cuda):
    array = np.zeros(LARGE, np.int32)
    address = ctypes.c_void_p(array.ctypes.data)
    assert cuda.cuMemHostRegister_v2(address, ctypes.c_size_t(array.nbytes), 0) == 0
    yield array
    driver.synchronize(0)
    assert cuda.cuMemHostUnregister(address) == 0


@weft.kernel
def spin_kernel(a: weft.Tensor, nanoseconds: weft.i64, value: weft.i32):
    begin = weft.globaltimer()
    while weft.globaltimer() - begin < nanoseconds:
        pass
    for i in range(len(a)):
        a[i] = value


@weft.jit
def spin(
    a: weft.Tensor[weft.i32, ("n",)], nanoseconds: weft.i64, value: weft.i32, stream: weft.Stream
):
    spin_kernel(a, nanoseconds, value).launch(grid=1, block=1, stream=stream)


def is_done(cuda: ctypes.CDLL, stream: int) -> bool:
    return cuda.cuStreamQuery(ctypes.c_void_p(stream)) == 0


def on_host(tensor: ffi.Tensor, dtype: weft.DType = weft.i32) -> ffi.Tensor:
    return weft.copy(weft.empty(tensor.shape, dtype), tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_full_of_every_type_and_size(dtype: weft.DType):
    last = -1.5 if dtype.is_float else dtype.maximum - (dtype.bits == 64)
    for size, value in itertools.product((0, 1, 2, 3, 1000, LARGE), (0, 1, last)):
        made = on_host(weft.full(size, value, dtype, 0), dtype)
        assert made.tobytes() == weft.full(size, value, dtype).tobytes(), (size, value)
    part = weft.zeros((5, 7), dtype, "cuda:0")[1:4]
    assert on_host(part, dtype).tolist() == weft.zeros((3, 7), dtype).tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.float64, np.complex128])
def test_rows_with_gaps_on_either_side(dtype: type):
    numbers = np.arange(6 * 7 * 8).reshape(6, 7, 8).astype(dtype)
    there = ffi.from_dlpack(
        ffi.from_dlpack(numbers).__dlpack__(dl_device=(2, 0), max_version=(1, 0))
    )
    assert there.device == (2, 0)
    whole = slice(None)
    for index in itertools.product(
        (whole, slice(1, 4), slice(None, None, 2), 3),
        (whole, slice(2, 5), 1),
        (whole, slice(3, 6), 2),
    ):
        part, expected = there[(*index, ...)], numbers[(*index, ...)]
        fresh = ffi.from_dlpack(part.__dlpack__(copy=True, max_version=(1, 0)))
        assert fresh.is_contiguous
        for source in (part, fresh):
            found = weft.copy(np.empty(expected.T.shape, dtype).T, source)
            assert np.array_equal(found, expected), index
        weft.copy(part, np.asarray(expected[..., None].repeat(2, -1)[..., 0]))
        weft.copy(part, fresh)
    assert np.array_equal(np.from_dlpack(there[1, 2, 1:7:3], device="cpu"), numbers[1, 2, 1:7:3])
    assert np.array_equal(np.from_dlpack(there, device="cpu"), numbers)
    with pytest.raises(ValueError, match="no copy between these strides"):
        weft.copy(there[0], there[1, :, ::-1])


def test_host_memory_is_done_with_when_copy_returns(cuda, stream):
    a = weft.zeros(LARGE, weft.i32, 0)
    fn = weft.compile(spin, a, 1, 1, weft.Stream(0))
    host = np.full(LARGE, 7, np.int32)
    fn(a[:4], SPIN_NS, 5, weft.Stream(stream))
    assert not is_done(cuda, stream)
    weft.copy(a, host, stream=stream)
    assert is_done(cuda, stream)
    host[:] = 0
    fn(a[:4], SPIN_NS, 6, weft.Stream(stream))
    assert weft.copy(host, a, stream=stream)[:5].tolist() == [6, 6, 6, 6, 7]


def test_pinned_memory_on_a_named_stream_is_queued(cuda, stream, pinned):
    a = weft.zeros(LARGE, weft.i32, 0)
    fn = weft.compile(spin, a, 1, 1, weft.Stream(0))
    fn(a[:4], SPIN_NS, 5, weft.Stream(stream))
    weft.copy(pinned, a, stream=stream)
    assert not is_done(cuda, stream)
    driver.synchronize(0)
    assert pinned[:5].tolist() == [5, 5, 5, 5, 0]
    with ffi.use_stream(stream, "cuda:0"):
        fn(a[:4], SPIN_NS, 8, weft.Stream(stream))
        weft.copy(pinned, a)  # no stream was named: the call waits
    assert pinned[:5].tolist() == [8, 8, 8, 8, 0]


def test_a_graph_has_copies_and_fills(cuda, stream, pinned):
    one, two, wide = (weft.zeros(LARGE, dtype, 0) for dtype in (weft.i32, weft.i32, weft.i64))
    graph, runnable = ctypes.c_void_p(), ctypes.c_void_p()
    pinned[:] = 3
    assert cuda.cuStreamBeginCapture_v2(ctypes.c_void_p(stream), 0) == 0
    weft.copy(one, pinned, stream=stream)
    weft.copy(two, one, stream=stream)
    weft._native.fill_tensor(wide, 2**40 + 1, stream)
    with pytest.raises(ValueError, match="being captured"):
        weft.copy(one, np.zeros(LARGE, np.int32), stream=stream)
    assert cuda.cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph)) == 0
    assert cuda.cuGraphInstantiateWithFlags(ctypes.byref(runnable), graph, ctypes.c_uint64(0)) == 0
    for value in (3, 4):
        pinned[:] = value
        assert cuda.cuGraphLaunch(runnable, ctypes.c_void_p(stream)) == 0
        assert cuda.cuStreamSynchronize(ctypes.c_void_p(stream)) == 0
        assert set(on_host(two).tolist()) == {value}
    assert set(on_host(wide, weft.i64).tolist()) == {2**40 + 1}


def test_a_consumer_s_stream_waits_for_what_ours_was_given(cuda, stream):
    other = ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(other), 1) == 0
    a, b = weft.zeros(4, weft.i32, 0), weft.zeros(4, weft.i32, 0)
    fn = weft.compile(spin, a, 1, 1, weft.Stream(0))
    with ffi.use_stream(stream, "cuda:0"):
        fn(a, SPIN_NS, 5, weft.Stream(stream))
        a.__dlpack__(stream=other.value)
        weft.copy(b, a, stream=other.value)
    assert cuda.cuStreamSynchronize(other) == 0
    assert on_host(b).tolist() == [5] * 4
    assert cuda.cuStreamDestroy_v2(other) == 0


def test_memory_may_be_dropped_while_the_device_still_copies(stream):
    a, b = weft.zeros(LARGE, weft.i32, 0), weft.full(LARGE, 9, weft.i32, 0)
    fn = weft.compile(spin, a, 1, 1, weft.Stream(0))
    fn(b[:4], SPIN_NS, 5, weft.Stream(stream))
    weft.copy(a, b, stream=stream)
    del b
    weft.zeros(LARGE, weft.i32, 0)  # the safe point at which the memory goes
    driver.synchronize(0)
    assert on_host(a)[2:6].tolist() == [5, 5, 9, 9]


def test_two_devices():
    if driver.device_count() < 2:
        pytest.skip(f"needs two GPUs, the driver sees {driver.device_count()}")
    one, two = weft.full(LARGE, 7, weft.i32, 0), weft.zeros(LARGE, weft.i32, 1)
    fn = weft.compile(spin, one, 1, 1, weft.Stream(0))
    driver.set_current_device(1)
    fn(one[:4], SPIN_NS, 5, weft.Stream(0))
    weft.copy(two, one)  # after the kernel of the one device, before what the other is given next
    assert on_host(two)[:6].tolist() == [5, 5, 5, 5, 7, 7]
    assert driver.current_device() == 1
    back = ffi.from_dlpack(two.__dlpack__(dl_device=(2, 0), max_version=(1, 0)))
    assert (back.device, on_host(back)[3:5].tolist()) == ((2, 0), [5, 7])
    with pytest.raises(ValueError, match="two devices copy contiguous tensors only"):
        weft.copy(two[::2], one[::2])
    driver.set_current_device(0)


@pytest.mark.torch
def test_torch_s_tensors_and_streams_are_either_side():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    ours = weft.full((300, 200), 2, weft.bf16, 0)
    driver.synchronize(0)  # torch's stream does not wait for the default one
    with torch.cuda.stream(torch.cuda.Stream()):
        theirs = torch.zeros((300, 200), dtype=torch.bfloat16, device="cuda")
        weft.copy(theirs, ours)
        theirs += 1
        weft.copy(ours, theirs)
        assert torch.from_dlpack(ours).float().sum().item() == 3 * 60_000
        assert (
            weft.copy(torch.empty_like(theirs, device="cpu"), ours).float().sum().item()
            == 3 * 60_000
        )
    host = torch.full((LARGE,), 4, dtype=torch.int32).pin_memory()
    there = weft.copy(weft.empty(LARGE, weft.i32, 0), host)
    assert set(on_host(there).tolist()) == {4}
