# SPDX-License-Identifier: Apache-2.0
"""The device guard of a wrapper for CUDA, seen by a runtime table that records."""

from __future__ import annotations

import ctypes

from tests.ffi_wrapper.wrapped import (
    CUDA,
    Memory,
    Parameter,
    RecordingTable,
    Wrapped,
    integer,
    none,
    pointer,
    signature_of,
    take_error,
    value_of,
)
from weft.arguments.pointer import Pointer
from weft.arguments.stream import Stream, environment_stream
from weft.arguments.tensor_spec import Tensor
from weft.dialects.ffi.function import scalar_result
from weft.types import dtype as types

SPEC = Tensor[types.f32, ("n",)]


def on_cuda(*parameters: Parameter, **options) -> Wrapped:
    return Wrapped(signature_of("f", *parameters, device=CUDA), **options)


class Frame:
    """What device_enter saw: the fields of `weft_call_frame`."""

    def __init__(self, table: RecordingTable) -> None:
        (self.address,) = next(args for name, args in table.calls if name == "device_enter")
        words = (ctypes.c_uint64 * 6).from_address(self.address)
        halves = (ctypes.c_int32 * 12).from_address(self.address)
        self.state, self.stream = words[0], words[1]
        self.device_type, self.device = halves[4], halves[5]
        self.driver_half = tuple(words[3:6])


class FrameTable(RecordingTable):
    """Keeps a copy of the frame, which is gone after the call."""

    frame: Frame

    def _function(self, name, llvm_type):
        function = super()._function(name, llvm_type)
        if name != "device_enter":
            return function

        def enter(frame):
            code = function(frame)
            self.frame = Frame(self)
            return code

        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(enter)


def tensor(index: int) -> Memory:
    return Memory(device=(CUDA, index))


def test_stream_then_device_then_back():
    table = FrameTable(environment_stream=0x5000)
    f = on_cuda(Parameter("a", SPEC), Parameter("b", SPEC))
    assert f(tensor(3).argument, tensor(3).argument, state=table.state) is not None
    assert table.names() == ["environment_stream", "device_enter", "device_leave"]
    assert table.calls[0] == ("environment_stream", (CUDA, 3))
    frame = table.frame
    assert (frame.state, frame.stream) == (table.state, 0x5000)
    assert (frame.device_type, frame.device) == (CUDA, 3)
    assert frame.driver_half == (0, 0, 0)
    assert table.calls[2] == ("device_leave", (frame.address, 0))


def test_every_argument_is_checked_before_anything_is_touched():
    table = RecordingTable(fail_any=-1, fail=-1)
    f = on_cuda(Parameter("a", SPEC), Parameter("n", types.i32))
    assert f._entry(table.state, (type(none()) * 2)(tensor(0).argument, none()), 2, None) == -1
    assert table.names() == ["fail_any"]


def test_a_stream_that_is_passed_is_used():
    table = FrameTable()
    f = on_cuda(Parameter("a", SPEC), Parameter("s", Stream), Parameter("t", Stream))
    assert f(tensor(0).argument, pointer(0x77), pointer(0x88), state=table.state) is not None
    assert table.names() == ["device_enter", "device_leave"]
    assert table.frame.stream == 0x77


def test_a_stream_may_be_an_int_or_none():
    f = on_cuda(Parameter("s", Stream))
    for value, expected in ((integer(0x99), 0x99), (none(), 0), (type(none())(0, 0, 5), 0)):
        table = FrameTable()
        assert f(value, state=table.state) is not None
        assert table.frame.stream == (expected or None or 0)


def test_without_tensors_the_callers_device_is_used():
    table = FrameTable()
    f = on_cuda(Parameter("n", types.i32))
    assert f(integer(1), state=table.state) is not None
    assert table.calls[0] == ("environment_stream", (CUDA, -1))
    assert table.frame.device == -1


def test_the_environment_stream_can_be_an_argument():
    table = FrameTable(environment_stream=0x42)
    f = on_cuda(Parameter("a", SPEC), Parameter("s", environment_stream()))
    assert f(tensor(1).argument, state=table.state) is not None
    assert ("environment_stream", (CUDA, 1)) in table.calls
    assert table.frame.stream == 0x42


def test_a_device_that_cannot_be_entered_ends_the_call():
    table = RecordingTable(device_enter=-1)
    f = on_cuda(Parameter("n", types.i32), returns=["n"], tree=scalar_result(0, types.i32))
    result = type(none())(0, 0, 0)
    values = (type(none()) * 1)(integer(5))
    assert f._entry(table.state, values, 1, ctypes.byref(result)) == -1
    assert table.names() == ["environment_stream", "device_enter"]
    assert (result.type_index, result.int64) == (0, 0)


def test_a_device_that_cannot_be_left_fails_the_call():
    table = RecordingTable(device_leave=-1)
    f = on_cuda(Parameter("n", types.i32))
    values = (type(none()) * 1)(integer(5))
    assert f._entry(table.state, values, 1, ctypes.byref(none())) == -1
    assert table.names() == ["environment_stream", "device_enter", "device_leave"]


def test_a_complemented_count_only_checks():
    table = RecordingTable()
    f = on_cuda(Parameter("n", types.i32))
    values = (type(none()) * 1)(integer(5))
    result = none()
    assert f._entry(table.state, values, ~1, result) == 0
    assert "device_enter" not in table.names()
    values[0] = integer(2**40)
    f._entry(table.state, values, ~1, result)
    assert table.names()[-1] == "fail"


def test_a_null_result_pointer_runs_the_function():
    table = RecordingTable(make_u64=0)
    f = on_cuda(Parameter("n", types.u64), returns=["n"], tree=scalar_result(0, types.u64))
    values = (type(none()) * 1)(integer(5))
    assert f._entry(table.state, values, 1, None) == 0
    assert table.names() == ["environment_stream", "device_enter", "device_leave"]


def test_the_result_is_made_after_the_device_was_left():
    table = RecordingTable(make_u64=0)
    f = on_cuda(Parameter("n", types.u64), returns=["n"], tree=scalar_result(0, types.u64))
    assert f(integer(5), state=table.state) is not None
    assert table.names()[-2:] == ["device_leave", "make_u64"]


def test_the_cpu_needs_no_device_and_ignores_streams():
    table = RecordingTable()
    signature = signature_of("f", Parameter("n", types.i32), Parameter("s", Stream))
    f = Wrapped(signature, ["n"], scalar_result(0, types.i32))
    assert value_of(f(integer(5), pointer(0x77), state=table.state)) == 5
    assert table.names() == []


def test_a_null_handle_means_the_images_own_state():
    f = Wrapped(signature_of("f", Parameter("n", types.i32)))
    values = (type(none()) * 1)(none())
    assert f._entry(None, values, 1, None) == -1
    assert "expected an int" in take_error()[1]


class Sequence:
    """An ffi.Array of given values, as the ABI lays it out; `argument` is the value that passes it."""

    def __init__(self, *values) -> None:
        self._values = values
        self._items = (type(none()) * len(values))(*values)
        # Reference counts, type index, deleter; then data, size, capacity, deleter.
        self._object = (ctypes.c_uint64 * 7)(
            1 | 1 << 32, 71, 0, ctypes.addressof(self._items), len(values), len(values), 0
        )

    @property
    def argument(self):
        value = type(none())(71, 0, ctypes.addressof(self._object))
        value.keep_alive = self
        return value


def test_a_nested_tensor_decides_device_and_stream():
    table = FrameTable(environment_stream=0x5000)
    f = on_cuda(Parameter("t", tuple[types.i32, tuple[SPEC]]), Parameter("a", SPEC))
    inner = Sequence(tensor(3).as_object())
    outer = Sequence(integer(1), inner.argument)
    assert f(outer.argument, tensor(3).argument, state=table.state) is not None
    assert table.names() == ["environment_stream", "device_enter", "device_leave"]
    assert table.calls[0] == ("environment_stream", (CUDA, 3))
    assert (table.frame.stream, table.frame.device) == (0x5000, 3)


def test_a_stream_inside_a_container_is_used():
    table = FrameTable()
    f = on_cuda(Parameter("t", tuple[SPEC, Stream]))
    passed = Sequence(tensor(1).as_object(), pointer(0x77))
    assert f(passed.argument, state=table.state) is not None
    assert table.names() == ["device_enter", "device_leave"]
    assert (table.frame.stream, table.frame.device) == (0x77, 1)


def test_a_pointer_decides_no_device():
    table = FrameTable(environment_stream=0x5000)
    f = on_cuda(Parameter("p", Pointer[types.f32]))
    assert f(pointer(0x1000), state=table.state) is not None
    assert table.calls[0] == ("environment_stream", (CUDA, -1))
    assert table.frame.device == -1
