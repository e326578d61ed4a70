# SPDX-License-Identifier: Apache-2.0
"""Names in messages of generated code are those of Python, and errors cost what they should."""

from __future__ import annotations

import ctypes
import itertools

import pytest

from tests.ffi_wrapper.wrapped import (
    Memory,
    Parameter,
    Wrapped,
    error_backtrace,
    none,
    signature_of,
)
from weft import _native
from weft.arguments.tensor_spec import Tensor
from weft.types import dtype as types
from weft.types.device import device_name

pytestmark = pytest.mark.joined


@pytest.fixture(scope="module")
def wrapped() -> Wrapped:
    return Wrapped(signature_of("f", Parameter("a", Tensor[types.f32, (None,)])))


@pytest.mark.parametrize("code", [*range(20), 200])
def test_dtypes_are_called_as_in_python(wrapped, code):
    for bits, lanes in itertools.product((1, 2, 4, 6, 8, 16, 32, 64, 128), (1, 2, 4)):
        if (code, bits, lanes) == (2, 32, 1):
            continue
        name = types.dlpack_name(code, bits, lanes)
        assert f"dtype is {name}, expected" in wrapped.fails(
            Memory(dtype=(code, bits, lanes)).argument
        )


def test_devices_are_called_as_in_python(wrapped):
    for device_type in (*range(2, 30), 99):
        message = wrapped.fails(Memory(device=(device_type, 1)).argument)
        assert f"device is {device_name(device_type, 1)}, expected cpu" in message


def call_failing(wrapped: Wrapped) -> None:
    value = none()
    assert wrapped._entry(wrapped.image.state, ctypes.pointer(value), 1, None) == -1


def test_errors_have_no_backtrace_unless_asked_for(wrapped):
    call_failing(wrapped)
    assert error_backtrace() == ""
    _native.set_error_backtraces(True)
    try:
        call_failing(wrapped)
        assert error_backtrace() != ""
    finally:
        _native.set_error_backtraces(False)


def test_every_failure_kind_has_one_name():
    assert len(set(_native.FAILURE_KINDS)) == len(_native.FAILURE_KINDS)


def test_a_senseless_rank_does_not_crash(wrapped):
    for data in (0x10000, None):
        memory = Memory((3,), data=data)
        for rank in (-1, 1 << 30):
            memory.tensor.ndim = rank
            message = wrapped.fails(memory.argument)
            assert f"rank is {rank} (shape of {rank} dimensions)" in message
