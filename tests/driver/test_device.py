# SPDX-License-Identifier: Apache-2.0
"""Devices, streams and waiting."""

from __future__ import annotations

import ctypes
import types

import pytest

import weft
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from weft import _native
from weft.driver.device import (
    current_device,
    device_count,
    device_properties,
    is_capturing,
    memory_info,
    ordinal_of,
    set_current_device,
    set_printf_buffer,
    stream_device,
    stream_handle,
    synchronize,
)
from weft.driver.library import driver_is_open
from weft.driver.memory import empty
from weft.errors import CudaError


@on_fake(devices=8)
def test_devices_are_counted_and_described(fake: FakeCuda):
    fake.set_architecture(3, 8, 6)
    assert device_count() == 8
    properties = device_properties("cuda:3")
    assert (properties.name, properties.architecture) == ("Fake GPU", "sm_86")
    assert properties.max_shared_memory_per_block_bytes == 232448
    assert properties.memory_bytes == 2**30
    assert repr(properties) == "<cuda:3 Fake GPU, sm_86>"
    with pytest.raises(ValueError, match="there is no device cuda:8; the driver sees 8 devices"):
        device_properties(8)


@on_fake(devices=2)
def test_the_current_device_is_the_callers_and_can_be_set(fake: FakeCuda):
    assert current_device() == 0
    set_current_device(1)
    assert current_device() == 1
    own = fake.create_context(0)
    assert current_device() == 0
    assert fake.current() == own
    assert memory_info(1) == (2**30, 2**30)
    assert fake.current() == own


def test_devices_are_named_in_many_ways():
    torch_like = types.SimpleNamespace(type="cuda", index=2)
    assert [ordinal_of(item) for item in (1, "cuda", "cuda:3", torch_like)] == [1, 0, 3, 2]
    assert ordinal_of(types.SimpleNamespace(type="cuda", index=None)) == 0
    assert ordinal_of(types.SimpleNamespace(id=5)) == 5
    for wrong in ("cpu", "cuda:x", types.SimpleNamespace(type="cpu", index=0)):
        with pytest.raises(ValueError, match="expected"):
            ordinal_of(wrong)
    for wrong in (1.5, True, None, object()):
        with pytest.raises(TypeError, match="expected an ordinal"):
            ordinal_of(wrong)


@on_fake(devices=2)
def test_synchronize_waits_for_the_device_and_restores(fake: FakeCuda):
    synchronize()
    assert not driver_is_open()
    synchronize("cpu")
    synchronize(1)
    assert fake.count("cuCtxSynchronize") == 1
    assert fake.current() is None
    fake.fail("cuCtxSynchronize", 719)
    with pytest.raises(CudaError, match="waiting for cuda:1: cuCtxSynchronize returned"):
        synchronize(1)
    assert fake.current() is None


@on_fake(devices=2)
def test_streams_of_any_library_have_a_handle_and_a_device(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(1))

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, stream

    wrapped = [
        types.SimpleNamespace(cuda_stream=stream),
        types.SimpleNamespace(ptr=stream),
        Protocol(),
    ]
    assert [stream_handle(item) for item in (stream, *wrapped)] == [stream] * 4
    assert [stream_device(item) for item in (stream, *wrapped)] == [1] * 4
    assert [stream_device(item) for item in (None, 1, 2)] == [None] * 3
    assert not is_capturing(stream)
    fake.begin_capture(stream)
    assert is_capturing(stream)
    fake.destroy_stream(stream)
    with pytest.raises(CudaError, match="was destroyed"):
        stream_device(stream)
    for wrong in ("s", 1.5, object(), True):
        with pytest.raises(TypeError, match="expected a stream"):
            stream_handle(wrong)


@on_fake(version=12060)
def test_a_driver_of_12_6_is_enough_for_streams(fake: FakeCuda):
    assert stream_device(fake.create_stream(fake.create_context(0))) == 0


@on_fake()
def test_the_printf_buffer_is_set_in_the_devices_context(fake: FakeCuda):
    set_printf_buffer(1 << 20, 0)
    assert fake.calls("cuCtxSetLimit") == ["cuCtxSetLimit(1, 1048576) -> 0"]
    assert fake.current() is None
    with pytest.raises(ValueError, match="0 bytes, expected a positive number"):
        set_printf_buffer(0)


@on_fake()
def test_a_destroyed_current_context_is_an_error(fake: FakeCuda):
    context = fake.create_context(0)
    other = fake.create_context(0)
    fake.call("cuCtxDestroy_v2", ctypes.c_void_p(other))
    fake.set_current(context)
    assert current_device() == 0


@on_fake(devices=2)
def test_an_interface_without_a_device_is_looked_up(fake: FakeCuda):
    tensor = empty(4, weft.f32, 1)
    address = ctypes.c_void_p.from_address(tensor.address + 24).value

    class Array:
        @property
        def __cuda_array_interface__(self) -> dict[str, object]:
            return {"shape": (4,), "typestr": "<f4", "data": (address, False), "version": 3}

    info = _native.tensor_info(Array())
    assert info is not None
    assert (info.device_type, info.device_id) == (2, 1)
