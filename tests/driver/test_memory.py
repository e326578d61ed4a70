# SPDX-License-Identifier: Apache-2.0
"""Tensors with memory of their own, scratch for launches, and the user's allocators."""

from __future__ import annotations

import contextvars
import gc

import numpy as np
import pytest

from tests.native.fake_cuda.code import EMPTY, assemble, parameter_kernel
from tests.native.fake_cuda.fake import FakeCuda, in_child, on_fake
from weft import _native
from weft.driver.binary import load_binary
from weft.driver.kernel_launch import KernelMetadata, Launcher
from weft.driver.memory import empty, set_allocator, set_profile_allocator
from weft.errors import CudaError
from weft.types import dtype


def test_a_host_tensor_is_contiguous_aligned_and_writable():
    array = np.from_dlpack(empty((3, 4), dtype.f32))  # type: ignore[arg-type]
    array[...] = 7
    assert (array.shape, array.strides, array.dtype) == ((3, 4), (16, 4), np.float32)
    assert array.ctypes.data % 64 == 0
    assert np.from_dlpack(empty(0, dtype.i64)).size == 0  # type: ignore[arg-type]
    assert np.from_dlpack(empty((), dtype.f64)).shape == ()  # type: ignore[arg-type]


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"shape\[1\] is -1, expected 0 or more"):
        empty((2, -1), dtype.f32)
    with pytest.raises(ValueError, match="more elements than fit 64 bits"):
        empty((2**40, 2**40), dtype.f32)
    with pytest.raises(ValueError, match="more bytes than fit 64 bits"):
        empty(2**62, dtype.f64)
    with pytest.raises(MemoryError, match="no memory for a tensor of 36028797018963968 bytes"):
        empty(2**55, dtype.u8)
    with pytest.raises(ValueError, match="33 dimensions, expected at most 32"):
        empty((1,) * 33, dtype.u8)


@on_fake(devices=2)
def test_device_memory_is_of_the_device_and_freed_at_a_safe_point(fake: FakeCuda):
    tensor = empty((4, 4), dtype.f32, "cuda:1")
    assert tensor.__dlpack_device__() == (2, 1)
    assert fake.current() is None
    assert fake.live("allocation") == 1
    del tensor
    gc.collect()
    assert (fake.live("allocation"), _native.pending_unloads()) == (1, 1)
    kept = empty(4, dtype.f32, 0)
    assert fake.live("allocation") == 1
    assert kept.type_key == "ffi.Tensor"


@on_fake(devices=2)
def test_a_device_that_has_no_memory_or_does_not_exist_is_reported(fake: FakeCuda):
    with pytest.raises(CudaError, match=r"allocating 4294967296 bytes on cuda:0.*OUT_OF_MEMORY"):
        empty(2**30, dtype.f32, 0)
    with pytest.raises(ValueError, match="there is no device cuda:2; the driver sees 2"):
        empty(1, dtype.f32, 2)
    with pytest.raises(ValueError, match="expected 'cuda' or 'cuda:<ordinal>'"):
        empty(1, dtype.f32, "gpu")
    assert fake.live("allocation") == 0


@on_fake()
def test_memory_that_outlives_the_driver_in_a_child_is_left_alone(fake: FakeCuda):
    tensor = empty(4, dtype.f32, 0)

    def child() -> None:
        nonlocal tensor
        del tensor
        gc.collect()
        assert _native.pending_unloads() == 0

    in_child(child)
    assert fake.live("allocation") == 1


def with_scratch(sizes: KernelMetadata) -> tuple[Launcher, int]:
    code = assemble(parameter_kernel("scratching", [".u32", ".u64", ".u64"]))
    return Launcher({"n": "i32"}, sizes), load_binary("scratching", code)[1]


def run(launcher: Launcher, function: int, stream: object = None) -> None:
    launcher(2, 3, 1, stream, function, (1, 1, 0), None, None, None, 5)


@on_fake()
def test_scratch_is_freed_in_stream_order(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(0))
    launcher, function = with_scratch(
        KernelMetadata(global_scratch_size=100, profile_scratch_size=0)
    )
    fake.forget_calls()
    run(launcher, function, stream)
    names = [
        call.split("(")[0]
        for call in fake.calls("cuMemAllocAsync", "cuLaunchKernelEx", "cuMemFreeAsync")
    ]
    assert names == ["cuMemAllocAsync", "cuLaunchKernelEx", "cuMemFreeAsync"]
    assert fake.calls("cuMemAllocAsync")[0].startswith("cuMemAllocAsync(600, ")
    assert fake.live("allocation") == 0


@on_fake()
def test_profile_scratch_needs_an_allocator_that_keeps_it(fake: FakeCuda):
    """The launch would free the pool's memory before anyone could read it."""
    launcher, function = with_scratch(
        KernelMetadata(global_scratch_size=8, profile_scratch_size=16)
    )
    with pytest.raises(
        RuntimeError, match=r"scratching: no allocator is set.*set_profile_allocator"
    ):
        run(launcher, function)
    assert fake.launches() == [] and fake.live("allocation") == 0


@on_fake()
def test_scratch_with_a_large_alignment_is_aligned(fake: FakeCuda):
    launcher, function = with_scratch(
        KernelMetadata(global_scratch_size=8, global_scratch_align=4096, profile_scratch_size=0)
    )
    run(launcher, function)
    parameters = fake.launches()[0].split("parameters=[")[1].rstrip("]").split(" ")
    assert int.from_bytes(bytes.fromhex(parameters[1]), "little") % 4096 == 0
    assert fake.live("allocation") == 0


@on_fake()
def test_a_launch_that_fails_gives_its_scratch_back(fake: FakeCuda):
    launcher, function = with_scratch(KernelMetadata(global_scratch_size=8, profile_scratch_size=0))
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError):
        run(launcher, function)
    assert fake.live("allocation") == 0
    fake.fail("cuMemAllocAsync", 2)
    with pytest.raises(CudaError, match="cuMemAllocAsync returned CUDA_ERROR_OUT_OF_MEMORY"):
        run(launcher, function)


@on_fake()
def test_users_allocators_get_bytes_alignment_and_stream(fake: FakeCuda):
    asked: list[tuple[int, int, int]] = []

    def allocate(size: int, alignment: int, stream: int) -> int:
        asked.append((size, alignment, stream))
        return 0x1000 * len(asked)

    launcher, function = with_scratch(
        KernelMetadata(global_scratch_size=4, global_scratch_align=8, profile_scratch_size=2)
    )

    def inside() -> None:
        set_allocator(allocate)
        set_profile_allocator(allocate)
        run(launcher, function)

    contextvars.copy_context().run(inside)
    assert asked == [(24, 8, 0), (12, 1, 0)]
    assert "parameters=[05000000 0010000000000000 0020000000000000]" in fake.launches()[0]
    with pytest.raises(RuntimeError, match="no allocator is set"):
        run(launcher, function)
    assert len(asked) == 2
    with pytest.raises(TypeError, match="expected a function"):
        set_allocator(3)  # type: ignore[arg-type]


@on_fake()
def test_a_launcher_without_scratch_allocates_nothing(fake: FakeCuda):
    launcher = Launcher([], KernelMetadata(cooperative=True, programmatic=True))
    function = load_binary("empty_kernel", assemble(EMPTY))[1]
    launcher(1, 1, 1, None, function, (4, 1, 0), None, None, None)
    assert "attributes=[2:1,0,0 6:1,0,0]" in fake.launches()[0]
    assert fake.count("cuMemAllocAsync") == 0


def test_metadata_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="global_scratch_size is -1"):
        KernelMetadata(global_scratch_size=-1)
    with pytest.raises(ValueError, match="profile_scratch_size is -1"):
        KernelMetadata(profile_scratch_size=-1)
