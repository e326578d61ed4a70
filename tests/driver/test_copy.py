# SPDX-License-Identifier: Apache-2.0
"""Copies and fills: between every pair of places, in the order of their streams, and what cannot be."""

from __future__ import annotations

import array
import itertools
import threading

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from weft import _native, ffi
from weft.errors import CudaError
from weft.types.dtype import DTYPES

WORKS = ("cuMemcpyAsync", "cuMemcpyPeerAsync", "cuMemcpy3DAsync", "cuStreamSynchronize")


def names(fake: FakeCuda, *functions: str) -> list[str]:
    return [call.split("(")[0] for call in fake.calls(*(functions or WORKS))]


def to_host(tensor: ffi.Tensor) -> list:
    return weft.copy(weft.empty(tensor.shape, weft.i32), tensor).tolist()


class CudaArray:
    """What libraries without DLPack offer."""

    def __init__(self, tensor: ffi.Tensor, stream: object = None, read_only: bool = False) -> None:
        self.tensor = tensor
        self.interface = {
            "shape": tensor.shape,
            "typestr": "<i4",
            "data": (tensor.data, read_only),
            "strides": tuple(4 * stride for stride in tensor.strides),
            "stream": stream,
            "version": 3,
        }

    @property
    def __cuda_array_interface__(self) -> dict:
        return self.interface


# ---- on the host


def random_layout(
    generator: np.random.Generator, shape: tuple[int, ...], dtype: type
) -> np.ndarray:
    """An array whose strides may be anything that slices and transpositions make."""
    order = generator.permutation(len(shape))
    base = generator.integers(0, 100, [2 * shape[axis] + 1 for axis in order]).astype(dtype)
    view = base[(*(slice(None, None, int(generator.choice([-2, -1, 1, 2]))) for _ in shape), ...)]
    view = view[(*(slice(0, shape[axis]) for axis in order), ...)]
    return view.transpose(np.argsort(order))


def test_every_layout_is_copied_into_every_other():
    generator = np.random.default_rng(3)
    for dtype in (np.int8, np.int16, np.float32, np.float64, np.complex128):
        for _ in range(300):
            shape = tuple(int(size) for size in generator.integers(0, 5, generator.integers(0, 6)))
            to, from_ = (random_layout(generator, shape, dtype) for _ in range(2))
            assert weft.copy(to, from_) is to
            assert np.array_equal(to, from_), (shape, to.strides, from_.strides)


def test_memory_that_overlaps_is_read_before_it_is_written():
    generator = np.random.default_rng(5)
    for _ in range(500):
        base = generator.integers(0, 1000, 40).astype(np.int32)
        size = int(generator.integers(1, 12))
        views = []
        for _ in range(2):
            step = int(generator.choice([-3, -2, -1, 1, 2, 3]))
            first = int(generator.integers(0, 40 - 3 * size))
            views.append(base[first:][:: abs(step)][:size][:: 1 if step > 0 else -1])
        to, from_ = views
        expected = from_.copy()
        weft.copy(to, from_)
        assert np.array_equal(to, expected)
    square = np.arange(16).reshape(4, 4)
    weft.copy(square, square.T)
    assert square.tolist() == np.arange(16).reshape(4, 4).T.tolist()


@pytest.mark.torch
def test_every_kind_of_array_is_either_side():
    torch = pytest.importorskip("torch")
    sources = [
        np.arange(6, dtype=np.int32), weft.copy(weft.empty(6, weft.i32), np.arange(6, dtype=np.int32)),
        torch.arange(6, dtype=torch.int32), array.array("i", range(6)), ffi.TensorView(np.arange(6, dtype=np.int32)),
        memoryview(np.arange(6, dtype=np.int32)),
    ]  # fmt: skip
    for to, from_ in itertools.product(range(len(sources)), repeat=2):
        weft.copy(sources[to], weft.zeros(6, weft.i32))
        if to != from_:
            weft.copy(sources[from_], np.arange(6, dtype=np.int32))
            assert weft.copy(sources[to], sources[from_], stream=7) is sources[to]
            assert np.asarray(sources[to]).tolist() == list(range(6))


@pytest.mark.parametrize(
    ("to", "from_", "error", "words"),
    [
        (np.zeros(3), np.zeros(4), ValueError, r"to has shape \(3,\), from_ has shape \(4,\)"),
        (np.zeros(3), np.zeros((3, 1)), ValueError, r"from_ has shape \(3, 1\); expected the same shape"),
        (np.zeros(3), np.zeros(3, np.float32), ValueError, "to has elements of f64, from_ of f32; a copy converts"),
        (np.zeros(3, bool), np.zeros(3, np.uint8), ValueError, "elements of bool_, from_ of u8"),
        (np.zeros(3, ml_dtypes.bfloat16), np.zeros(3, np.float16), ValueError, "elements of bf16, from_ of f16"),
        (np.broadcast_to(np.zeros(1), 3), np.zeros(3), ValueError, "to is read-only"),
        (b"abc", bytearray(3), TypeError, "to: expected an array or a tensor, received bytes"),
        (memoryview(b"abc"), bytearray(3), ValueError, "to is read-only"),
        ([1], np.zeros(1), TypeError, "to: expected an array or a tensor, received list"),
        (np.zeros(1), 3, TypeError, "from_: expected an array or a tensor, received int"),
        (np.zeros(1), None, TypeError, "from_: expected an array or a tensor, received NoneType"),
        (np.zeros(1), np.float64(1), TypeError, "from_: expected an array or a tensor, received numpy.float64"),
        (np.array(["a"]), np.zeros(1), TypeError, "dtype"),
        (np.zeros(3, ">f4"), np.zeros(3, np.float32), ValueError, "byte order"),
        (
            np.lib.stride_tricks.as_strided(np.zeros(4), (3, 2), (8, 8), writeable=True), np.zeros((3, 2)), ValueError,
            "a target whose elements have memory of their own",
        ),
        (
            np.lib.stride_tricks.as_strided(np.zeros(4), (3,), (0,), writeable=True), np.zeros(3), ValueError,
            "strides let them overlap",
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)  # fmt: skip
def test_what_does_not_go_together_is_refused_with_both(to, from_, error, words):
    with pytest.raises(error, match=words):
        weft.copy(to, from_)


def test_streams_are_looked_at_on_the_host_too():
    with pytest.raises(TypeError, match="expected a stream"):
        weft.copy(np.zeros(1), np.zeros(1), stream="main")
    with pytest.raises(TypeError, match="expected a stream"):
        weft.zeros(1, weft.f32, stream="main")
    with pytest.raises(TypeError, match=r"missing 1 required"):
        weft.copy(np.zeros(1))  # type: ignore[call-arg]


def test_copies_on_many_threads_at_once():
    sources = [np.full((300, 300), number, np.int32) for number in range(8)]
    target = weft.zeros((8, 300, 300), weft.i32)
    threads = [
        threading.Thread(
            target=lambda n=number: [weft.copy(target[n], sources[n].T) for _ in range(20)]
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(np.asarray(target)[number].min()) for number in range(8)] == list(range(8))


# ---- with a device


@on_fake(devices=2)
def test_every_pair_of_places_by_the_function_for_it(fake: FakeCuda):
    numbers = np.arange(24, dtype=np.int32).reshape(4, 6)
    there = weft.copy(weft.empty((4, 6), weft.i32, 0), numbers)
    expected = {
        "to a device": (lambda: weft.copy(there, numbers), ["cuMemcpyAsync", "cuStreamSynchronize"]),
        "to the host": (lambda: weft.copy(numbers, there), ["cuMemcpyAsync", "cuStreamSynchronize"]),
        "within one": (lambda: weft.copy(weft.empty((4, 6), weft.i32, 0), there), ["cuMemcpyAsync"]),
        "between two": (lambda: weft.copy(weft.empty((4, 6), weft.i32, 1), there), ["cuMemcpyPeerAsync"]),
    }  # fmt: skip
    for what, (copy, functions) in expected.items():
        fake.forget_calls()
        made = copy()
        assert names(fake) == functions, what
        assert weft.copy(np.zeros((4, 6), np.int32), made).tolist() == numbers.tolist()
        assert fake.current() is None
    for shape in ((0,), (3, 0, 2)):
        fake.forget_calls()
        weft.copy(weft.empty(shape, weft.i32, 0), np.empty(shape, np.int32))
        assert names(fake) == []


@on_fake()
def test_padded_rows_are_one_copy(fake: FakeCuda):
    numbers = np.arange(4 * 6 * 8, dtype=np.int32).reshape(4, 6, 8)
    there = weft.copy(weft.empty((4, 6, 8), weft.i32, 0), numbers)
    layouts = {
        "a slice of rows": ((slice(1, 3),), "cuMemcpyAsync"),
        "columns": ((slice(None), slice(None), slice(2, 5)), "cuMemcpy3DAsync"),
        "rows of layers": ((slice(None), slice(1, 3), slice(2, 5)), "cuMemcpy3DAsync"),
        "every other element": ((0, 0, slice(None, None, 2)), "cuMemcpy3DAsync"),
        "every other layer": ((slice(None, None, 2),), "cuMemcpy3DAsync"),
        "one column": ((slice(None), 0, 3), "cuMemcpy3DAsync"),
        "one element": ((1, 2, 3, ...), "cuMemcpyAsync"),
    }
    for what, (index, function) in layouts.items():
        part, expected = there[index], numbers[index]
        fake.forget_calls()
        assert weft.copy(np.empty(expected.shape, np.int32), part).tolist() == expected.tolist(), (
            what
        )
        assert names(fake) == [function, "cuStreamSynchronize"], what
        # Host memory of every layout, both ways.
        for host in (
            np.empty(expected.T.shape, np.int32).T,
            np.empty((*expected.shape, 2), np.int32)[..., 0],
        ):
            assert weft.copy(host, part).tolist() == expected.tolist(), what
            weft.copy(part, np.asarray(host + 1))
            numbers[index] += 1
            weft.copy(part, np.asarray(host)[..., None].repeat(2, -1)[..., 0])
            numbers[index] -= 1
        assert to_host(there) == numbers.tolist(), what
        # And within the device.
        other = weft.zeros(expected.shape, weft.i32, 0)
        assert to_host(weft.copy(other, part)) == expected.tolist()
        weft.copy(part, other)
        assert to_host(there) == numbers.tolist(), what


@on_fake(devices=2)
def test_what_the_driver_has_no_copy_for_is_refused(fake: FakeCuda):
    there = weft.zeros((3, 4, 5, 6), weft.i32, 0)
    refused = {
        "transposed": (weft.empty((3, 4), weft.i32, 0), CudaArray(there[0, :, 0, :3])),
        "reversed": (weft.empty(6, weft.i32, 0), there[0, 0, 0, ::-1]),
        "four axes": (weft.empty((3, 2, 2, 2), weft.i32, 0), there[:, ::2, ::2, ::3][:, :, :2]),
    }
    swapped = refused["transposed"][1].interface
    swapped["shape"], swapped["strides"] = swapped["shape"][::-1], swapped["strides"][::-1]
    for what, (to, from_) in refused.items():
        with pytest.raises(
            ValueError, match=r"the driver has no copy between these strides.*on cuda:0"
        ) as raised:
            weft.copy(to, from_)
        assert "contiguous tensor on the host" in str(raised.value), what
    with pytest.raises(
        ValueError,
        match=r"two devices copy contiguous tensors only, to one of shape \(3, 2\) on cuda:1",
    ):
        weft.copy(weft.empty((3, 2), weft.i32, 1), there[:, :2, 0, 0])
    with pytest.raises(ValueError, match="share memory, and a device copies in no order"):
        weft.copy(there[1:], there[:-1])
    with pytest.raises(ValueError, match="memory of their own"):
        weft.copy(broadcast(there), np.zeros((2, 2), np.int32))
    # A broadcast source goes through the host's memory.
    assert to_host(weft.copy(there[0, 0, 0], np.broadcast_to(np.int32([7]), 6))) == [7] * 6
    with pytest.raises(ValueError, match="to is read-only"):
        weft.copy(CudaArray(there[0, 0, 0], read_only=True), there[0, 0, 0])


def broadcast(tensor: ffi.Tensor) -> CudaArray:
    made = CudaArray(tensor[0, 0, :2, :2])
    made.interface["strides"] = (0, 4)
    return made


@on_fake(devices=2)
def test_the_stream_is_named_or_the_one_a_call_would_run_on(fake: FakeCuda):
    context = fake.retain_primary(0)
    named, environment, library = (fake.create_stream(context) for _ in range(3))
    one, two = weft.empty(4, weft.i32, 0), weft.zeros(4, weft.i32, 0)
    host = np.zeros(4, np.int32)

    def streams(*functions: str) -> list[str]:
        calls = fake.calls(*(functions or ("cuMemcpyAsync", "cuMemsetD32Async")))
        fake.forget_calls()
        return [call.rpartition(", ")[2].partition(")")[0] for call in calls]

    fake.forget_calls()
    weft.copy(one, two)
    weft.zeros(4, weft.i32, 0)
    assert streams() == ["(nil", "(nil"]
    weft.copy(one, two, stream=named)
    weft.copy(host, two, stream=named)
    weft.full(4, 1, weft.i32, 0, stream=named)
    assert streams() == [f"{named:#x}"] * 3
    with ffi.use_stream(environment, "cuda:0"):
        weft.copy(one, two)
        weft.copy(host, two)
        weft.zeros(4, weft.i32, 0)
        weft.copy(one, two, stream=0)
        assert streams() == [f"{environment:#x}"] * 3 + ["(nil"]
        weft.copy(one, CudaArray(two, stream=library))
        weft.copy(CudaArray(one, stream=library), two)
        weft.copy(host, CudaArray(two, stream=library))
        assert streams() == [f"{library:#x}"] * 3
    with pytest.raises(ValueError, match="is on cuda:0, expected one of cuda:1"):
        weft.copy(weft.empty(4, weft.i32, 1), host, stream=named)
    with pytest.raises(ValueError, match="is on cuda:0, expected one of cuda:1"):
        weft.zeros(4, weft.i32, 1, stream=named)
    with pytest.raises(CudaError, match="the stream does not exist"):
        weft.copy(one, two, stream=0x1234)


@on_fake(devices=3)
def test_a_copy_between_devices_joins_their_streams(fake: FakeCuda):
    one, two = weft.empty(4, weft.i32, 0), weft.zeros(4, weft.i32, 1)
    works = ("cuEventRecord", "cuStreamWaitEvent", "cuMemcpyPeerAsync")
    fake.forget_calls()
    weft.copy(one, two)
    calls = fake.calls(*works)
    assert [call.split("(")[0] for call in calls] == [*works[:2], works[2], *works[:2]]
    assert (fake.live("event"), fake.current()) == (0, None)
    for device in range(2):
        stream = fake.create_stream(fake.retain_primary(device))
        fake.forget_calls()
        weft.copy(one, two, stream=stream)
        assert [call.split("(")[0] for call in fake.calls(*works)] == ["cuMemcpyPeerAsync"]
        assert f"{stream:#x}" in fake.calls("cuMemcpyPeerAsync")[0]
    with pytest.raises(ValueError, match="from cuda:1 to cuda:0: the stream is on cuda:2"):
        weft.copy(one, two, stream=fake.create_stream(fake.retain_primary(2)))


@on_fake()
def test_only_pinned_memory_of_a_named_stream_is_not_awaited(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(0))
    there, pageable, pinned = (
        weft.zeros(4, weft.i32, 0),
        np.zeros(4, np.int32),
        np.zeros(8, np.int32),
    )
    fake.pin(pinned)
    cases = [
        (pageable, None, True), (pageable, stream, True), (pinned[:4], None, True), (pinned[:4], stream, False),
        (pinned[4:], stream, False), (pinned[::2], stream, True),
    ]  # fmt: skip
    for host, named, waits in cases:
        for to, from_ in ((host, there), (there, host)):
            fake.forget_calls()
            weft.copy(to, from_, stream=named)
            assert names(fake) == ["cuMemcpyAsync", *(["cuStreamSynchronize"] if waits else [])]


@on_fake()
def test_a_capture_takes_pinned_memory_alone(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(0))
    one, two = weft.zeros(4, weft.i32, 0), weft.full(4, 3, weft.i32, 0)
    pinned, wide = np.zeros(4, np.int32), weft.empty(5, weft.i64, 0)
    fake.pin(pinned)
    fake.begin_capture(stream)
    with ffi.use_stream(stream, "cuda:0"):
        weft.copy(one, two)
        weft.copy(pinned, one)
        _native.fill_tensor(two, 9)
        _native.fill_tensor(wide, 2**40 + 1)
        for pageable in (np.zeros(4, np.int32), np.zeros(8, np.int32)[::2]):
            with pytest.raises(
                ValueError, match="being captured into a graph, which would use the host's memory"
            ):
                weft.copy(one, pageable)
    graph = fake.end_capture(stream)
    assert (to_host(one), to_host(two), pinned.tolist()) == ([0] * 4, [3] * 4, [0] * 4)
    for expected in (3, 9):
        fake.replay(graph, stream)
        assert (to_host(one), to_host(two), pinned.tolist()) == (
            [expected] * 4,
            [9] * 4,
            [expected] * 4,
        )
    assert weft.copy(weft.empty(5, weft.i64), wide).tolist() == [2**40 + 1] * 5


@on_fake()
def test_full_of_every_type_by_the_driver_s_fills(fake: FakeCuda):
    functions = ("cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async", "cuMemcpyAsync")
    for dtype, size in itertools.product(DTYPES, (0, 1, 2, 3, 8, 1000)):
        for value in (0, 1, dtype.maximum if not dtype.is_float else -1.5):
            fake.forget_calls()
            tensor = weft.full(size, value, dtype, "cuda")
            called = {call.split("(")[0] for call in fake.calls(*functions)}
            memset = functions[{1: 0, 2: 1}.get(dtype.itemsize, 2)]
            assert called <= {memset, "cuMemcpyAsync"}
            assert ("cuMemcpyAsync" in called) <= (dtype.itemsize == 8 and size > 1)
            found = weft.copy(weft.empty(size, dtype), tensor)
            assert found.tobytes() == weft.full(size, value, dtype).tobytes()
    assert weft.zeros((2, 3), weft.f64, "cuda").shape == (2, 3)
    fake.forget_calls()
    weft.full(1000, 2**40 + 1, weft.i64, "cuda")
    assert len(fake.calls("cuMemcpyAsync")) == 10  # what is there is doubled


@on_fake(devices=2)
def test_dlpack_brings_a_tensor_to_where_it_is_asked_for(fake: FakeCuda):
    numbers = np.arange(6, dtype=np.int32).reshape(2, 3)
    there = weft.copy(weft.empty((2, 3), weft.i32, 0), numbers)
    fake.forget_calls()
    here = np.from_dlpack(there, device="cpu")
    assert (here.tolist(), here.flags.writeable) == (numbers.tolist(), True)
    assert names(fake) == ["cuMemcpyAsync", "cuStreamSynchronize"]
    with pytest.raises(BufferError, match="copy=False, and this tensor is on cuda:0, not on cpu"):
        np.from_dlpack(there, device="cpu", copy=False)
    again = ffi.from_dlpack(there.__dlpack__(copy=True, max_version=(1, 0)))
    assert (again.device, again.data != there.data, to_host(again)) == (
        (2, 0),
        True,
        numbers.tolist(),
    )
    other = ffi.from_dlpack(there.__dlpack__(dl_device=(2, 1), max_version=(1, 0)))
    assert (other.device, to_host(other)) == ((2, 1), numbers.tolist())
    sent = ffi.from_dlpack(
        ffi.from_dlpack(numbers).__dlpack__(dl_device=(2, 1), max_version=(1, 0))
    )
    assert (sent.device, to_host(sent)) == ((2, 1), numbers.tolist())
    with pytest.raises(ValueError, match="there is no device cuda:7"):
        there.__dlpack__(dl_device=(2, 7))
    allocations = fake.live("allocation")
    capsule = there.__dlpack__(copy=True)
    assert fake.live("allocation") == allocations + 1
    del capsule
    _native.drain_unloads()
    assert fake.live("allocation") < allocations + 1


@on_fake(devices=2)
def test_dlpack_makes_the_consumer_s_stream_wait(fake: FakeCuda):
    context = fake.retain_primary(0)
    ours, theirs = fake.create_stream(context), fake.create_stream(context)
    tensor = weft.zeros(4, weft.i32, 0)

    def waits(stream: object) -> list[str]:
        fake.forget_calls()
        tensor.__dlpack__(stream=stream, max_version=(1, 0))
        return fake.calls("cuStreamWaitEvent", "cuEventRecord")

    for stream in (None, 1, -1):
        assert waits(stream) == []
    assert [f"{theirs:#x}" in call for call in waits(theirs)] == [False, True]
    with ffi.use_stream(ours, "cuda:0"):
        assert waits(ours) == waits(-1) == []
        for stream in (None, 1, 2, theirs):
            assert len(waits(stream)) == 2
            assert f"{ours:#x}" in fake.calls("cuEventRecord")[0]
        fake.begin_capture(theirs)
        assert waits(theirs) == []  # the capturing code decides what a graph waits for
        fake.destroy_graph(fake.end_capture(theirs))
    assert fake.live("event") == 0
    with pytest.raises(CudaError, match="the stream does not exist"):
        tensor.__dlpack__(stream=0x1234)
    with pytest.raises(ValueError, match="is on cuda:1, expected one of cuda:0"):
        tensor.__dlpack__(stream=fake.create_stream(fake.retain_primary(1)))


@on_fake()
def test_a_driver_error_says_what_was_copied(fake: FakeCuda):
    there, host = weft.zeros((4, 4), weft.i32, 0), np.zeros((4, 4), np.int32)
    for function, copy, words in (
        (
            "cuMemcpyAsync",
            lambda: weft.copy(there, host),
            "copying 64 bytes from the host to cuda:0: cuMemcpyAsync",
        ),
        (
            "cuMemcpyAsync",
            lambda: weft.copy(host, there),
            "copying 64 bytes from cuda:0 to the host",
        ),
        (
            "cuMemcpy3DAsync",
            lambda: weft.copy(host[:, 0], there[:, 0]),
            "copying 16 bytes from cuda:0 to the host",
        ),
        ("cuStreamSynchronize", lambda: weft.copy(host, there), "copying 64 bytes"),
        ("cuMemsetD32Async", lambda: weft.zeros(4, weft.i32, 0), "filling 4 elements on cuda:0"),
        ("cuMemAlloc", lambda: weft.zeros(4, weft.i32, 0), "allocating 16 bytes on cuda:0"),
    ):
        fake.fail(function, 700)
        with pytest.raises(CudaError, match=words):
            copy()
        assert fake.current() is None


@on_fake()
def test_memory_may_go_and_tensors_move_while_a_copy_waits(fake: FakeCuda):
    fake.delay("cuStreamSynchronize", 30_000)
    there, failures = weft.full(1000, 5, weft.i32, 0), []
    host = weft.zeros(1000, weft.i32)
    array = np.asarray(host)

    def work() -> None:
        try:
            weft.copy(host, there)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while fake.count("cuMemcpyAsync") == 0:
        pass
    ffi.Tensor(host.release(), borrowed=False)
    ffi.Tensor(there.release(), borrowed=False)
    _native.drain_unloads()
    thread.join()
    assert not failures
    assert set(array.tolist()) == {5}


def test_without_a_driver_a_device_is_refused_in_words():
    if _native.driver_is_open():
        pytest.skip("needs another machine: this one has a driver")
    with pytest.raises(CudaError, match="cannot open the CUDA driver"):
        weft.zeros(3, weft.f32, "cuda")
    for entry, error in (
        (lambda: weft.zeros(3, weft.f32, "gpu"), ValueError),
        (lambda: weft.zeros((2, -1), weft.f32), ValueError),
        (lambda: weft.zeros((2**40, 2**40), weft.f32), ValueError),
        (lambda: weft.zeros("a", weft.f32), TypeError),
        (lambda: weft.zeros(3, "f32"), TypeError),
        (lambda: weft.full(3, 1, complex), TypeError),
        (lambda: weft.full(2**55, 1, weft.u8), MemoryError),
    ):
        with pytest.raises(error):
            entry()
