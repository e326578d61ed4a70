# SPDX-License-Identifier: Apache-2.0
"""Numbers, text and sequences reach a callee as the ABI says, and come back as they were."""

import enum
from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest

from tests.native.callee import (
    ARRAY,
    BIG_INT,
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    POINTER,
    SMALL_BYTES,
    SMALL_STR,
    STR,
    foreign,
    library,
    planned,
    seen,
)
from weft import _native

pytestmark = pytest.mark.joined


class Color(enum.IntEnum):
    """An int with a name."""

    RED = 5


@pytest.mark.parametrize(
    ("value", "type_index", "bits"),
    [
        (None, NONE, 0),
        (True, BOOL, 1),
        (False, BOOL, 0),
        (0, INT, 0),
        (-7, INT, -7),
        (2**30, INT, 2**30),
        (2**63 - 1, INT, 2**63 - 1),
        (-(2**63), INT, -(2**63)),
        (Color.RED, INT, 5),
        (np.int8(-3), INT, -3),
        (np.uint16(65535), INT, 65535),
        (np.int64(-(2**63)), INT, -(2**63)),
        (np.uint64(2**63 - 1), INT, 2**63 - 1),
        (np.bool_(True), BOOL, 1),
    ],
)
def test_integers_truth_and_none_are_passed_by_value(value, type_index, bits):
    (received,) = seen(value)
    assert (received.type_index, received.int64) == (type_index, bits)


@pytest.mark.parametrize(
    "value",
    [
        0.1,
        -0.0,
        float("inf"),
        np.float64(0.1),
        np.float32(0.1),
        np.float16(0.1),
        np.float16(6e-8),
        np.float16("-inf"),
        ml_dtypes.bfloat16(0.1),
        ml_dtypes.float8_e4m3fn(0.1),
        ml_dtypes.float8_e5m2(0.1),
    ],
)
def test_floats_of_every_width_arrive_with_their_value(value):
    (received,) = seen(value)
    assert received.type_index == FLOAT
    assert received.float64 == float(value)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, -(2**63) - 1, 2**200, np.uint64(2**64 - 1)])
def test_integers_beyond_64_bits_are_big_integers_and_return_whole(value):
    (received,) = seen(value)
    assert received.type_index == BIG_INT
    assert foreign("echo")(value) == int(value)


@pytest.mark.parametrize(
    ("value", "type_index"),
    [
        ("", SMALL_STR),
        ("seven77", SMALL_STR),
        ("eight888", STR),
        ("é" * 4, STR),
        ("null\0inside it", STR),
        (b"", SMALL_BYTES),
        (b"\0\1\2", SMALL_BYTES),
        (b"x" * 40, BYTES),
    ],
)
def test_text_is_inline_up_to_seven_bytes_and_comes_back(value, type_index):
    (received,) = seen(value)
    assert received.type_index == type_index
    assert foreign("echo")(value) == value


def test_a_lone_surrogate_is_refused_by_the_argument_s_name():
    with pytest.raises(UnicodeEncodeError) as caught:
        planned("record", "text")("\ud800")
    assert "argument #0 'text'" in caught.value.__notes__[0]


def test_sequences_become_arrays_and_come_back_as_tuples():
    (received,) = seen((1, "two"))
    assert received.type_index == ARRAY
    point = namedtuple("point", "x y")
    nested = (1, 2.5, "a longer text", None, True, (b"bytes", [1, 2]), point(3, 4), ())
    assert foreign("echo")(nested) is nested
    assert foreign("echo_new")(nested) == (
        1,
        2.5,
        "a longer text",
        None,
        True,
        (b"bytes", (1, 2)),
        (3, 4),
        (),
    )


def test_a_sequence_that_contains_itself_is_an_error():
    endless: list = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        planned("record", "a")(endless)


def test_an_unknown_type_is_refused_with_its_name_and_place():
    function = planned("record", "a", "b", signature_text="f(a: i32, b: i32)")
    with pytest.raises(TypeError) as caught:
        function(1, {})
    assert str(caught.value) == (
        "f(a: i32, b: i32): argument #1 'b': expected a tensor, number, string, stream, None, "
        "or a tuple of these, received dict"
    )


@pytest.mark.parametrize("value", [1j, np.complex64(1), np.complex128(1 + 2j)])
def test_complex_numbers_are_arrays_of_their_parts_and_come_back_from_functions_of_others(value):
    (received,) = seen(value)
    assert received.type_index == ARRAY
    assert foreign("echo")(value) is value


def test_a_registered_type_is_passed_as_what_its_adapter_gives():
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

    _native.register_adapter(Pair, lambda pair: (pair.first, pair.second))
    assert foreign("echo_new")(Pair(1, "two")) == (1, "two")
    assert _native.argument_key((Pair(1, 2),)) != _native.argument_key(((1, 2),))


class CudaStream:
    """The protocol of CUDA's Python packages."""

    def __cuda_stream__(self):
        return (0, 0x77)


class TorchStream:
    """How torch's streams tell their handle."""

    cuda_stream = 0x78


class CupyStream:
    """How CuPy's streams tell their handle."""

    ptr = 0x79


@pytest.mark.parametrize(
    ("stream", "pointer"),
    [(CudaStream(), 0x77), (TorchStream(), 0x78), (CupyStream(), 0x79), (5, 5)],
)
def test_a_stream_parameter_takes_every_library_s_streams(stream, pointer):
    (received,) = seen(stream, stream_mask=1)
    assert (received.type_index, received.int64) == (POINTER, pointer)


def test_no_stream_is_none():
    (received,) = seen(None, stream_mask=1)
    assert received.type_index == NONE


def test_a_non_stream_is_refused():
    with pytest.raises(TypeError, match=r"argument #0 'stream': expected a stream .* received str"):
        planned("record", "stream", stream_mask=1)("x")


def test_a_stream_is_recognized_without_a_plan():
    foreign("record")(CudaStream())
    assert library().callee_arguments()[0].int64 == 0x77
