# SPDX-License-Identifier: Apache-2.0
"""Scratch memory that generated code asks for with a launch: the row `launch_device_scratch` of the runtime table."""

from __future__ import annotations

import contextvars
import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.code import assemble, parameter_kernel
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft import _native
from weft.driver.memory import empty, set_allocator, set_profile_allocator
from weft.errors import CudaError
from weft.ffi.library import open_ffi_library

GLOBAL, PROFILE = 0, 1
KERNEL = parameter_kernel("scratching", [".u64", ".u32", ".u64"])


class State(ctypes.Structure):
    _fields_ = [
        ("table", ctypes.c_void_p),
        ("image", ctypes.c_void_p),
        ("driver_state", ctypes.c_void_p),
        ("bound_device", ctypes.c_int32),
        ("load_policy", ctypes.c_int32),
    ]


class Frame(ctypes.Structure):
    _fields_ = [
        ("state", ctypes.POINTER(State)),
        ("stream", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rest", ctypes.c_uint64 * 4),
    ]


class Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_int64 * 3),
        ("block", ctypes.c_int64 * 3),
        ("shared", ctypes.c_int64),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_int64),
        ("kernel_name", ctypes.c_char_p),
        ("together", ctypes.c_int64),
    ]


class Scratch(ctypes.Structure):
    _fields_ = [
        ("bytes_per_block", ctypes.c_int64),
        ("alignment", ctypes.c_int64),
        ("parameter", ctypes.c_int32),
        ("kind", ctypes.c_int32),
    ]


@weft.kernel
def nothing_kernel():
    """Take nothing and do nothing."""


@weft.jit
def nothing():
    nothing_kernel().launch(grid=1, block=1)


@weft.kernel
def reverse_kernel(a: weft.Tensor):
    """Reverse the part of each block through memory of the block's own."""
    kept = weft.global_scratch(32, weft.i32)
    i = weft.block_idx.x * 32 + weft.thread_idx.x
    kept[weft.thread_idx.x] = a[i]
    weft.sync_threads()
    a[i] = kept[31 - weft.thread_idx.x]


@weft.jit
def reverse(a: weft.Tensor[weft.i32, ("n",)], stream: weft.Stream):
    reverse_kernel(a).launch(grid=a.shape[0] // 32, block=32, stream=stream)


@functools.cache
def reversing() -> Compiled:
    return Compiled(reverse, weft.fake_tensor(weft.i32, ("n",)), weft.Stream(0))


@functools.cache
def table() -> int:
    """The process's runtime table, as every image's state holds it."""
    function = weft.compile(nothing, options="--target cpu")
    address = ctypes.c_void_p.from_address(function.details.image.state).value
    assert address
    return address


def row(name: str) -> Any:
    names = [row for row, _ in _native.RUNTIME_TABLE]
    address = ctypes.c_void_p.from_address(table() + 8 + 8 * names.index(name)).value
    assert address
    return ctypes.PYFUNCTYPE(ctypes.c_int32)(address)


@pytest.fixture(autouse=True, scope="module")
def everything_is_made_before_the_first_fork():
    build()
    assemble(KERNEL)
    open_ffi_library()
    table()
    reversing()


class Call:
    """One call of a made-up host function: enter the device, launch with scratch, leave."""

    def __init__(self, scratch: list[Scratch], grid: tuple[int, int, int] = (2, 3, 1)) -> None:
        code = assemble(KERNEL)
        self.program = _native.DeviceProgram(code, ["scratching"], "scratching", "sm_90")
        self.state = State(table(), None, self.program.address, -1, 1)
        self.frame = Frame(ctypes.pointer(self.state), None, 2, -1)
        self.launch = Launch(grid, (32, 1, 1), kernel_name=b"scratching")
        self.scratch = (Scratch * len(scratch))(*scratch)
        self.values = (ctypes.c_uint64 * 3)(0, 7, 0)
        base = ctypes.addressof(self.values)
        self.parameters = (ctypes.c_void_p * 3)(base, base + 8, base + 16)
        self.target = ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
        )(self._run)
        address = ctypes.cast(self.target, ctypes.c_void_p).value
        assert address
        self.function = _native.Function.from_address(address, None, None)

    def _run(self, *_: object) -> int:
        frame = ctypes.byref(self.frame)
        code = row("device_enter")(frame)
        if code != 0:
            return code
        code = row("launch_device_scratch")(
            frame,
            ctypes.c_int32(0),
            ctypes.byref(self.launch),
            self.parameters,
            self.scratch,
            ctypes.c_int64(len(self.scratch)),
        )
        return row("device_leave")(frame, ctypes.c_int32(code))

    def __call__(self, stream: int | None = None) -> None:
        self.frame.stream = stream
        self.function()


def order(fake: FakeCuda) -> list[str]:
    names = ("cuMemAllocAsync", "cuLaunchKernelEx", "cuMemFreeAsync")
    return [text.split("(")[0].removeprefix("cu") for text in fake.calls(*names)]


def addresses(fake: FakeCuda) -> tuple[int, int]:
    """The first and third parameter of the last launch."""
    texts = fake.launches()[-1].split("parameters=[")[1].rstrip("]").split(" ")
    first, _, third = (int.from_bytes(bytes.fromhex(text), "little") for text in texts)
    return first, third


@on_fake()
def test_scratch_of_the_grid_is_freed_after_the_kernel(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(0))
    call = Call([Scratch(100, 16, 0, GLOBAL), Scratch(8, 8, 2, GLOBAL)])
    call(stream)
    assert order(fake) == [
        "MemAllocAsync", "MemAllocAsync", "LaunchKernelEx", "MemFreeAsync", "MemFreeAsync",
    ]  # fmt: skip
    asked = fake.calls("cuMemAllocAsync")
    assert asked[0].startswith("cuMemAllocAsync(600, ")
    assert asked[1].startswith("cuMemAllocAsync(48, ")
    assert all(f"{stream:x})" in text for text in asked)
    assert 0 not in addresses(fake)
    assert fake.live("allocation") == 0


@on_fake()
def test_a_large_alignment_is_kept(fake: FakeCuda):
    Call([Scratch(8, 4096, 0, GLOBAL)])()
    assert addresses(fake)[0] % 4096 == 0
    assert fake.live("allocation") == 0


@on_fake()
@pytest.mark.parametrize("grid", [(0, 3, 1), (2, 0, 1), (4, 4, 0)])
def test_a_grid_without_blocks_allocates_and_launches_nothing(
    fake: FakeCuda, grid: tuple[int, int, int]
):
    Call([Scratch(8, 8, 0, GLOBAL)], grid)()
    assert order(fake) == []


@on_fake()
def test_a_negative_grid_is_refused_and_nothing_is_allocated(fake: FakeCuda):
    with pytest.raises(ValueError, match=r"scratching: grid.y is -3, expected 0 to 65535"):
        Call([Scratch(8, 8, 0, GLOBAL)], (2, -3, 1))()
    assert order(fake) == []


@on_fake()
def test_more_bytes_than_fit_are_refused_with_the_numbers(fake: FakeCuda):
    with pytest.raises(
        ValueError, match=r"1073741824 bytes of scratch for each of 2147483647 x 65535 x 9"
    ):
        Call([Scratch(1 << 30, 8, 0, GLOBAL)], (2147483647, 65535, 9))()
    assert order(fake) == []


@on_fake()
def test_each_failure_gives_everything_back_and_restores(fake: FakeCuda):
    call = Call([Scratch(8, 8, 0, GLOBAL), Scratch(8, 8, 2, GLOBAL)])
    for function, nth, frees in (
        ("cuMemAllocAsync", 1, 0),
        ("cuMemAllocAsync", 2, 1),
        ("cuLaunchKernelEx", 1, 2),
    ):
        fake.forget_calls()
        fake.fail(function, 2, nth)
        with pytest.raises(
            CudaError, match=f"{function} returned CUDA_ERROR_OUT_OF_MEMORY"
        ) as error:
            call()
        assert error.value.kernel == "scratching"
        assert order(fake).count("MemFreeAsync") == frees
        assert fake.live("allocation") == 0
        assert fake.current() is None
    fake.fail("cuMemFreeAsync", 1, 1)
    with pytest.raises(CudaError, match="cuMemFreeAsync returned CUDA_ERROR_INVALID_VALUE"):
        call()
    assert fake.live("allocation") == 1  # the one that the driver would not take back


@on_fake()
def test_a_device_without_pools_points_to_the_allocator(fake: FakeCuda):
    fake.fail("cuMemAllocAsync", 801)
    with pytest.raises(
        CudaError, match=r"no memory pools; choose another source with weft.set_allocator"
    ):
        Call([Scratch(8, 8, 0, GLOBAL)])()


@on_fake()
def test_under_capture_the_memory_is_part_of_the_graph(fake: FakeCuda):
    call = Call([Scratch(8, 8, 0, GLOBAL)])
    stream = fake.create_stream(fake.retain_primary(0))
    call(stream)
    fake.begin_capture(stream)
    call(stream)
    graph = fake.end_capture(stream)
    fake.replay(graph, stream)
    assert fake.live("allocation") == 1  # the graph's own, which each replay uses
    fake.destroy_graph(graph)
    assert fake.live("allocation") == 0


class Memory:
    """Memory of a user's allocator: an object with an address, which the launch must keep."""

    dropped = 0

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address

    def __del__(self) -> None:
        Memory.dropped += 1


def within(context: Callable[[], None]) -> None:
    contextvars.copy_context().run(context)


@on_fake()
def test_users_allocations_are_made_in_their_context(fake: FakeCuda):
    asked: list[tuple[int, int, int]] = []

    def allocate(size: int, alignment: int, stream: int) -> Memory:
        asked.append((size, alignment, stream))
        return Memory(0x1000 * len(asked))

    call = Call([Scratch(4, 8, 0, GLOBAL), Scratch(2, 16, 2, PROFILE)])

    def inside() -> None:
        set_allocator(allocate)
        with pytest.raises(RuntimeError, match="no allocator is set"):
            call()
        assert asked == [(24, 8, 0)]
        set_profile_allocator(allocate)
        call()

    within(inside)
    assert asked == [(24, 8, 0), (24, 8, 0), (12, 16, 0)]
    assert addresses(fake) == (0x2000, 0x3000)
    assert Memory.dropped == 3
    Call([Scratch(4, 8, 0, GLOBAL)])()
    assert len(asked) == 3  # this context has none: the pool
    assert fake.live("allocation") == 0


@on_fake()
@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (0x1004, ValueError, "address 0x1004, expected a multiple of 8"),
        ("memory", TypeError, "scratch of scratching"),
        (
            None,
            TypeError,
            "the allocator returned None for 24 bytes of scratch, expected an address",
        ),
        (
            0,
            ValueError,
            "scratch of scratching: the allocator returned the address 0, expected 24 bytes",
        ),
        (-1, ValueError, "expected an address from 0"),
    ],
)
def test_what_an_allocator_gives_is_checked(
    fake: FakeCuda, result: object, error: type[Exception], text: str
):
    def inside() -> None:
        set_allocator(lambda *_: result)
        with pytest.raises(error, match=text):
            Call([Scratch(4, 8, 0, GLOBAL)])()

    within(inside)
    assert order(fake) == []


@on_fake()
def test_what_an_allocator_raises_is_raised_by_the_call(fake: FakeCuda):
    failure = KeyError("no memory here")

    def allocate(*_: int) -> object:
        raise failure

    def inside() -> None:
        set_allocator(allocate)
        with pytest.raises(KeyError) as raised:
            Call([Scratch(4, 8, 0, GLOBAL)])()
        assert raised.value is failure

    within(inside)
    assert order(fake) == []
    assert fake.current() is None


def numbers(count: int) -> tuple[_native.Object, np.ndarray, list[int]]:
    """A device tensor, its memory, and what reversing each 32 of it gives."""
    tensor = empty(count, weft.i32, 0)
    info = _native.tensor_info(tensor)
    assert info is not None
    memory = np.frombuffer((ctypes.c_char * (4 * count)).from_address(info.data), np.int32)
    memory[:] = np.arange(count)
    return tensor, memory, np.arange(count).reshape(-1, 32)[:, ::-1].ravel().tolist()


@on_fake()
def test_a_compiled_kernel_uses_and_returns_its_scratch(fake: FakeCuda):
    function = reversing().register(fake)
    tensor, memory, expected = numbers(96)
    function(tensor, 0)
    assert memory.tolist() == expected
    assert fake.calls("cuMemAllocAsync")[0].startswith("cuMemAllocAsync(384, ")
    assert fake.live("allocation") == 1  # the tensor
    prepared = function.prepare(tensor, 0)
    prepared()
    assert memory.tolist() == list(range(96))
    assert fake.count("cuMemFreeAsync") == 2


@on_fake()
def test_a_captured_kernel_has_scratch_of_the_graphs_own(fake: FakeCuda):
    function = reversing().register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    function.preload(0)
    tensor, memory, expected = numbers(64)
    fake.begin_capture(stream)
    function(tensor, stream)
    graph = fake.end_capture(stream)
    assert memory.tolist() == list(range(64))
    executable = fake.instantiate(graph)
    fake.destroy_graph(graph)
    fake.launch_graph(executable, stream)
    assert memory.tolist() == expected
    fake.launch_graph(executable, stream)
    assert memory.tolist() == list(range(64))
    fake.destroy_executable(executable)
    assert fake.live("allocation") == 1


@on_fake()
def test_a_compiled_kernel_uses_the_users_allocator(fake: FakeCuda):
    function = reversing().register(fake)
    tensor, memory, expected = numbers(64)
    given: list[_native.Object] = []

    def allocate(size: int, alignment: int, stream: int) -> object:
        given.append(empty(size, weft.u8, 0))
        return given[-1]

    def inside() -> None:
        set_allocator(allocate)
        function(tensor, 0)

    within(inside)
    assert memory.tolist() == expected
    assert len(given) == 1 and fake.count("cuMemAllocAsync") == 0


@weft.kernel
def twice_kernel(a, b):
    for i in weft.each(len(a)):
        b[i] = a[i] + a[i]


@weft.jit
def twice(a):
    b = weft.empty_like(a)
    twice_kernel(a, b).launch(over=len(a))
    return b


@functools.cache
def doubling() -> Compiled:
    return Compiled(twice, weft.fake_tensor(weft.i32, ("n",)))


@on_fake()
def test_a_returned_tensor_without_an_allocator_has_memory_of_weft(fake: FakeCuda) -> None:
    a = weft.full(8, 2, weft.i32, "cuda:0")
    function = doubling().register(fake)
    before = fake.count("cuMemAlloc")
    results = [function(a) for _ in range(3)]
    assert fake.count("cuMemAlloc") == before + 3
    assert [str(one.device) for one in results] == ["cuda:0"] * 3
    assert weft.copy(weft.empty(8, weft.i32), results[0]).tolist() == [4] * 8
    held = fake.live("allocation")
    del results
    weft.synchronize()
    assert fake.live("allocation") == held - 3
    fake.fail("cuMemAlloc", 2)
    with pytest.raises(RuntimeError, match="cuMemAlloc returned CUDA_ERROR_OUT_OF_MEMORY"):
        function(a)
    assert fake.live("allocation") == held - 3
