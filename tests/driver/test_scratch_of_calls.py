# SPDX-License-Identifier: Apache-2.0
"""`weft.scratch` on the fake driver: taken and given back in the order of the call's stream, whatever happens."""

from __future__ import annotations

import contextvars
import ctypes
import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft import _native
from weft.driver.memory import empty, set_allocator
from weft.errors import CudaError
from weft.ffi.tensor import DLTensor
from weft.kernels.nn import embedding

if TYPE_CHECKING:
    from collections.abc import Callable

Vector = weft.Tensor[weft.i32, ("n",)]


@weft.kernel
def reverse_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    out[i] = a[len(a) - 1 - i] + 1


@weft.jit
def twice(a: Vector, rows: weft.i32, grid: weft.i32, stream: weft.Stream):
    n = len(a)
    first = weft.scratch((rows, n), weft.i32)
    second = weft.scratch(n, weft.i32, stream=stream)
    reverse_kernel(a, first[0]).launch(grid=n, block=1)
    reverse_kernel(first[0], second).launch(grid=n, block=1, stream=stream)
    reverse_kernel(second, a).launch(grid=grid, block=1)


@weft.jit
def in_a_loop(a: Vector, iterations: weft.i32, other: weft.Stream, stream: weft.Stream):
    for i in range(iterations):
        part = weft.scratch((i, len(a)), weft.i32, stream=stream)
        if i > 0:
            reverse_kernel(a, part[i - 1]).launch(grid=len(a), block=1, stream=stream)
            reverse_kernel(part[i - 1], a).launch(grid=len(a), block=1, stream=stream)


@functools.cache
def compiled(function: Callable[..., object], executor: str = "library") -> Compiled:
    vector = weft.fake_tensor(weft.i32, ("n",))
    integers = (1, 1) if function is twice else (1, weft.Stream(0))
    return Compiled(function, vector, *integers, weft.Stream(0), options=f"--executor {executor}")


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    compiled(twice)
    compiled(twice, "context")
    compiled(in_a_loop)
    embedding_gradient()


def numbers(count: int) -> tuple[_native.Object, np.ndarray]:
    """A device tensor and its memory."""
    tensor = empty(count, weft.i32, 0)
    info = _native.tensor_info(tensor)
    assert info is not None
    memory = np.frombuffer((ctypes.c_char * (4 * count)).from_address(info.data), np.int32)
    memory[:] = np.arange(count)
    return tensor, memory


def order(fake: FakeCuda) -> list[str]:
    names = ("cuMemAllocAsync", "cuLaunchKernelEx", "cuMemFreeAsync")
    return [text.split("(")[0].removeprefix("cu") for text in fake.calls(*names)]


def reversed_thrice(count: int) -> list[int]:
    return [count - 1 - i + 3 for i in range(count)]


@on_fake()
@pytest.mark.parametrize("executor", ["library", "context"])
def test_launches_share_arrays_allocated_between_them(fake: FakeCuda, executor: str):
    function = compiled(twice, executor).register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    tensor, memory = numbers(8)
    fake.forget_calls()
    function(tensor, 3, 8, stream)
    assert memory.tolist() == reversed_thrice(8)
    assert order(fake) == [
        *["MemAllocAsync"] * 2, *["LaunchKernelEx"] * 3, *["MemFreeAsync"] * 2,
    ]  # fmt: skip
    asked = fake.calls("cuMemAllocAsync")
    assert [int(text.partition("(")[2].partition(",")[0]) for text in asked] == [96, 32]
    assert all(f"{stream:x})" in text for text in [*asked, *fake.calls("cuMemFreeAsync")])
    assert fake.live("allocation") == 1  # the tensor


class ManagedTensor(ctypes.Structure):
    """DLManagedTensorVersioned."""


Delete = ctypes.CFUNCTYPE(None, ctypes.POINTER(ManagedTensor))
ManagedTensor._fields_ = (
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", Delete),
    ("flags", ctypes.c_uint64),
    ("tensor", DLTensor),
)
SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Allocate = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(DLTensor),
    ctypes.POINTER(ctypes.POINTER(ManagedTensor)),
    ctypes.c_void_p,
    SetError,
)
Borrow = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
WorkStream = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class ExchangeApi(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", Allocate),
        ("managed_from_object", ctypes.c_void_p),
        ("managed_to_object", ctypes.c_void_p),
        ("borrow", Borrow),
        ("work_stream", WorkStream),
    )


class Library:
    """An array library with an allocator in the order of its current stream, as torch's.

    Attributes:
        stream: the current one.
        lent: the bytes of all allocations; of those that are not given back by address.
    """

    def __init__(self, stream: int) -> None:
        self.stream, self.lent, self.live, self.message = stream, list[int](), dict[int, Any](), b""
        self.api = ExchangeApi(
            1,
            1,
            None,
            Allocate(self.allocate),
            None,
            None,
            Borrow(self.borrow),
            WorkStream(self.ask),
        )
        self.deleter = Delete(self.delete)
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype = ctypes.py_object
        capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        made = capsule(ctypes.addressof(self.api), b"dlpack_exchange_api", None)
        self.array = type("Lent", (), {"__dlpack_c_exchange_api__": made})

    def of(self, tensor: Any) -> Any:
        """A tensor as an array of the library."""
        array = self.array()
        array.tensor, array.sizes = tensor, (ctypes.c_int64 * len(tensor.shape))(*tensor.shape)
        return array

    def borrow(self, array: Any, out: Any) -> int:
        info = _native.tensor_info(array.tensor)
        assert info is not None
        out[0] = DLTensor(info.data, 2, 0, len(array.sizes), 0, 32, 1)
        out[0].shape = ctypes.cast(array.sizes, ctypes.POINTER(ctypes.c_int64))
        return 0

    def ask(self, _: int, __: int, out: Any) -> int:
        out[0] = self.stream
        return 0

    def allocate(self, prototype: Any, out: Any, context: Any, set_error: Any) -> int:
        if self.message:
            set_error(context, b"MemoryError", self.message)
            return -1
        assert (prototype[0].ndim, prototype[0].bits, prototype[0].device_type) == (1, 8, 2)
        size = prototype[0].shape[0]
        memory = empty(size, weft.u8, 0)
        info = _native.tensor_info(memory)
        assert info is not None
        managed = ManagedTensor(1, 1, None, self.deleter, 0, DLTensor(info.data, 2, 0, 1, 1, 8, 1))
        out[0] = ctypes.pointer(managed)
        self.lent.append(size)
        self.live[ctypes.addressof(managed)] = managed, memory
        return 0

    def delete(self, managed: Any) -> None:
        del self.live[ctypes.addressof(managed[0])]


@on_fake()
@pytest.mark.parametrize("executor", ["library", "context"])
def test_a_librarys_allocator_gives_the_scratch_of_its_calls(fake: FakeCuda, executor: str):
    function = compiled(twice, executor).register(fake)
    stream, other = (fake.create_stream(fake.retain_primary(0)) for _ in range(2))
    library = Library(stream)
    tensor, memory = numbers(8)
    array = library.of(tensor)
    fake.forget_calls()
    function(array, 3, 8, stream)
    assert memory.tolist() == reversed_thrice(8)
    assert library.lent == [96, 32] and not library.live
    assert order(fake) == ["LaunchKernelEx"] * 3
    # Memory in the order of another stream could be given to others too soon: the pool's.
    memory[:] = np.arange(8)
    function(array, 3, 8, other)
    assert memory.tolist() == reversed_thrice(8)
    assert library.lent == [96, 32] and order(fake).count("MemAllocAsync") == 2
    # Of a capture the library may know nothing: memory of the graph's own.
    fake.begin_capture(stream)
    function(array, 3, 8, stream)
    fake.destroy_graph(fake.end_capture(stream))
    assert library.lent == [96, 32]
    library.message = b"out of memory"
    with pytest.raises(MemoryError, match=r"scratch of twice.*: out of memory"):
        function(array, 3, 8, stream)
    set_allocator(lambda size, *_: empty(size, weft.u8, 0))  # chosen by the user
    library.message = b""
    function(array, 3, 8, stream)
    set_allocator(None)
    assert library.lent == [96, 32]


@functools.cache
def embedding_gradient() -> Compiled:
    rows = weft.fake_tensor(weft.f16, ("n", "m"))
    indices, table = weft.fake_tensor(weft.i64, ("n",)), weft.fake_tensor(weft.f16, ("v", "m"))
    return Compiled(embedding._embed_backward_sorted, rows, indices, table, 1, 0, None)


@on_fake()
def test_an_embeddings_gradient_takes_no_memory_of_the_tables_size(fake: FakeCuda):
    function = embedding_gradient().register(fake)
    uses, columns, vocabulary = 100, 4, 5000
    gradient, indices = empty((uses, columns), weft.f16, 0), empty(uses, weft.i64, 0)
    out = empty((vocabulary, columns), weft.f16, 0)
    views = [
        np.frombuffer((ctypes.c_char * size).from_address(found.data), kind)
        for one, size, kind in (
            (gradient, 2 * uses * columns, np.float16),
            (indices, 8 * uses, np.int64),
            (out, 2 * vocabulary * columns, np.float16),
        )
        if (found := _native.tensor_info(one)) is not None
    ]
    views[0][:], views[1][:], views[2][:] = 1, np.arange(uses) // 50 * 4999, 7
    fake.forget_calls()
    function(gradient, indices, out, 0)
    expected = np.zeros((vocabulary, columns))
    expected[[0, 4999]] = 50
    assert np.array_equal(views[2].reshape(expected.shape), expected)
    asked = fake.calls("cuMemAllocAsync")
    sizes = [int(text.partition("(")[2].partition(",")[0]) for text in asked]
    assert sizes and sum(sizes) < 4 * vocabulary  # less than a column of sums in f32


@on_fake()
def test_a_captured_call_has_memory_of_the_graphs_own(fake: FakeCuda):
    function = compiled(twice).register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    function.preload(0)
    tensor, memory = numbers(6)
    fake.begin_capture(stream)
    function(tensor, 2, 6, stream)
    graph = fake.end_capture(stream)
    assert memory.tolist() == list(range(6))
    # A question about the pool would end a capture: the first call after it asks.
    assert [call for call in fake.calls() if "Pool" in call] == []
    executable = fake.instantiate(graph)
    fake.destroy_graph(graph)
    fake.launch_graph(executable, stream)
    assert memory.tolist() == reversed_thrice(6)
    fake.launch_graph(executable, stream)
    assert memory.tolist() == [i + 6 for i in range(6)]
    fake.destroy_executable(executable)
    assert fake.live("allocation") == 1
    function(tensor, 2, 6, stream)
    assert len(fake.calls("cuMemPoolSetAttribute")) == 1


@on_fake()
def test_each_iteration_allocates_on_its_stream(fake: FakeCuda):
    function = compiled(in_a_loop).register(fake)
    context = fake.retain_primary(0)
    first, second = fake.create_stream(context), fake.create_stream(context)
    tensor, memory = numbers(4)
    fake.forget_calls()
    function(tensor, 4, first, second)
    assert memory.tolist() == [i + 6 for i in range(4)]
    asked = fake.calls("cuMemAllocAsync")
    assert [int(text.partition("(")[2].partition(",")[0]) for text in asked] == [16, 32, 48]
    assert all(f"{second:x})" in text for text in [*asked, *fake.calls("cuMemFreeAsync")])
    assert fake.count("cuMemFreeAsync") == 3 and fake.live("allocation") == 1


@on_fake()
def test_each_failure_gives_everything_back_and_restores(fake: FakeCuda):
    function = compiled(twice).register(fake)
    tensor, memory = numbers(8)
    other = fake.create_context(0)
    fake.set_current(other)
    for name, nth, frees in (
        ("cuMemAllocAsync", 1, 0),
        ("cuMemAllocAsync", 2, 1),
        ("cuLaunchKernelEx", 1, 2),
        ("cuLaunchKernelEx", 3, 2),
        ("cuMemFreeAsync", 1, 2),
    ):
        fake.forget_calls()
        fake.fail(name, 2, nth)
        with pytest.raises(CudaError, match=f"{name} returned CUDA_ERROR_OUT_OF_MEMORY") as raised:
            function(tensor, 1, 8, 0)
        if name == "cuMemAllocAsync":
            text = str(raised.value)
            assert "bytes of scratch for twice (" in text and "weft.scratch(" in text
        assert fake.count("cuMemFreeAsync") == frees
        assert fake.current() == other
        fake.forget_failures()
    # What could not be freed stays the driver's.
    assert fake.live("allocation") == 2
    memory[:] = range(8)
    function(tensor, 1, 8, 0)
    assert memory.tolist() == reversed_thrice(8)


@on_fake()
@pytest.mark.parametrize(
    ("rows", "grid", "text"),
    [
        (-1, 8, r"weft\.scratch\(\(rows, n\), weft\.i32\): shape\[0\] is -1, expected 0 or more"),
        (2, -8, r"grid\.x is -8"),
    ],
)
def test_a_call_that_is_refused_on_its_way_keeps_nothing(
    fake: FakeCuda, rows: int, grid: int, text: str
):
    function = compiled(twice).register(fake)
    tensor, _ = numbers(8)
    for _ in range(3):
        with pytest.raises(ValueError, match=text):
            function(tensor, rows, grid, 0)
    assert fake.count("cuMemAllocAsync") == fake.count("cuMemFreeAsync")
    assert fake.live("allocation") == 1


@on_fake()
def test_no_elements_take_no_memory(fake: FakeCuda):
    function = compiled(twice).register(fake)
    tensor, _ = numbers(8)
    with pytest.raises(ValueError, match=r"grid\.x is -1"):
        function(tensor[:0], 5, -1, 0)
    function(tensor[:0], 5, 0, 0)
    assert fake.count("cuMemAllocAsync") == 0


@on_fake()
def test_a_users_allocation_is_released_at_the_end(fake: FakeCuda):
    function = compiled(twice).register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    tensor, memory = numbers(8)
    asked: list[tuple[int, int, int]] = []
    left: list[int] = []

    class Memory:
        def __init__(self, size: int) -> None:
            self.tensor = empty(size, weft.u8, 0)
            info = _native.tensor_info(self.tensor)
            assert info is not None
            self.address = info.data

        def data_ptr(self) -> int:
            return self.address

        def __del__(self) -> None:
            left.append(fake.count("cuLaunchKernelEx"))

    def allocate(size: int, alignment: int, stream: int) -> Memory:
        asked.append((size, alignment, stream))
        return Memory(size)

    def inside() -> None:
        set_allocator(allocate)
        function(tensor, 2, 8, stream)

    fake.forget_calls()
    contextvars.copy_context().run(inside)
    assert memory.tolist() == reversed_thrice(8)
    assert asked == [(64, 256, stream), (32, 256, stream)]
    assert left == [3, 3]

    def refused() -> None:
        set_allocator(lambda *_: 0x1010)
        with pytest.raises(ValueError, match=r"scratch of twice \(.*expected a multiple of 256"):
            function(tensor, 2, 8, stream)

    contextvars.copy_context().run(refused)
