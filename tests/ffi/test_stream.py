# SPDX-License-Identifier: Apache-2.0
"""The environment's stream is per device and thread, and put back on every path."""

from __future__ import annotations

import ctypes
import threading

import pytest

from weft import ffi


def test_the_default_stream_is_zero():
    assert ffi.current_stream("cuda:5") == 0


def test_a_stream_is_used_inside_the_block_only():
    with ffi.use_stream(0x1000, "cuda:1"):
        assert ffi.current_stream("cuda:1") == 0x1000
        assert ffi.current_stream("cuda:0") == 0
        with ffi.use_stream(0x2000, "cuda:1"), ffi.use_stream(0x3000, "rocm:0"):
            assert ffi.current_stream("cuda:1") == 0x2000
            assert ffi.current_stream("rocm:0") == 0x3000
        assert ffi.current_stream("cuda:1") == 0x1000
    assert ffi.current_stream("cuda:1") == 0


def test_an_exception_puts_the_stream_back():
    with pytest.raises(ValueError, match="inside"), ffi.use_stream(0x1000):
        raise ValueError("inside")
    assert ffi.current_stream("cuda") == 0


def test_streams_of_other_threads_are_their_own():
    seen = []
    with ffi.use_stream(0x1000):
        thread = threading.Thread(target=lambda: seen.append(ffi.current_stream("cuda:0")))
        thread.start()
        thread.join()
    assert seen == [0]


class Streams:
    """What libraries call a stream."""

    class Protocol:
        def __cuda_stream__(self):
            return (0, 0x44)

    class Torch:
        cuda_stream = 0x45

    class CuPy:
        ptr = 0x46


@pytest.mark.parametrize(
    ("stream", "address"),
    [
        (Streams.Protocol(), 0x44),
        (Streams.Torch(), 0x45),
        (Streams.CuPy(), 0x46),
        (None, 0),
        (7, 7),
    ],
    ids=["protocol", "torch", "cupy", "none", "address"],
)
def test_streams_of_any_library_are_taken(stream, address):
    with ffi.use_stream(stream, "cuda:2"):
        assert ffi.current_stream("cuda:2") == address


def test_a_non_stream_or_non_device_is_refused():
    with pytest.raises(TypeError, match="expected a stream"), ffi.use_stream("stream"):
        pass
    with pytest.raises(ValueError, match="unknown device"), ffi.use_stream(1, "tape:0"):
        pass


def test_callees_see_the_stream():
    from tests.native.callee import foreign, library

    with ffi.use_stream(0x77, "cuda:1"):
        foreign("record")()
        assert library().callee_stream(1) == 0x77
    foreign("record")()
    assert not library().callee_stream(1)
    assert ctypes.sizeof(ctypes.c_void_p) == 8
