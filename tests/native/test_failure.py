# SPDX-License-Identifier: Apache-2.0
"""Names in messages of generated code are those of Python, and errors cost what they should."""

from __future__ import annotations

import ctypes

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


@pytest.fixture(scope="module")
def wrapped() -> Wrapped:
    return Wrapped(signature_of("f", Parameter("a", Tensor[types.f32, (None,)])))


CODES = [(dtype.dlpack_code, dtype.bits, 1) for dtype in types.DTYPES if dtype is not types.f32]
CODES += [(5, 128, 1), (0, 4, 1), (2, 32, 4), (3, 64, 1), (200, 8, 2)]


@pytest.mark.parametrize("code", CODES, ids=str)
def test_dtypes_are_called_as_in_python(wrapped, code):
    assert f"dtype is {types.dlpack_name(*code)}, expected" in wrapped.fails(
        Memory(dtype=code).argument
    )


@pytest.mark.parametrize("device_type", [*range(2, 20), 99])
def test_devices_are_called_as_in_python(wrapped, device_type):
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
