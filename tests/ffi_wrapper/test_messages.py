# SPDX-License-Identifier: Apache-2.0
"""Golden messages of each failing check, through the bare ABI: function, argument, received, expected."""

from __future__ import annotations

import ctypes
import math

import pytest

from tests.ffi_wrapper.wrapped import (
    CUDA,
    Memory,
    Parameter,
    Wrapped,
    boolean,
    integer,
    none,
    pointer,
    real,
    signature_of,
    small_text,
)
from tests.native.callee import AnyValue
from weft.arguments.base import MISSING
from weft.arguments.stream import Stream
from weft.arguments.tensor_spec import Tensor, fake_tensor
from weft.types import dtype as types
from weft.types.dims import sym

pytestmark = pytest.mark.joined

F32 = types.f32


@pytest.fixture(scope="module")
def add_one() -> Wrapped:
    spec = Tensor[F32, ("n",)]
    return Wrapped(signature_of("add_one", Parameter("a", spec), Parameter("b", spec)))


def wrapped(*annotations: object, **options) -> Wrapped:
    parameters = [Parameter(name, spec) for name, spec in zip("abcdef", annotations, strict=False)]
    return Wrapped(signature_of("f", *parameters, **options))


def test_the_message_of_the_design_document(add_one):
    assert add_one(Memory((10,)).argument, Memory((12,)).argument) is None
    assert add_one.error_kind == "ValueError"
    assert add_one.error == (
        "add_one(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)]): argument #1 'b': "
        "shape[0] is 12, expected 10 to match a.shape[0]"
    )


def test_count(add_one):
    assert add_one.fails() == "TypeError: expected 2 arguments, received 0"
    a = Memory().argument
    assert add_one.fails(a, a, a) == "TypeError: expected 2 arguments, received 3"


def test_count_of_one():
    assert wrapped(types.i32).fails() == "TypeError: expected 1 argument, received 0"


RECEIVED = {
    "None": none(),
    "an int -3": integer(-3),
    "a float 1.5": real(1.5),
    "a float 3.0": real(3.0),
    "a float nan": real(float("nan")),
    "a bool True": boolean(True),
    "a pointer 0x1234": pointer(0x1234),
    "a str 'abc'": small_text("abc"),
    "a dtype f64": AnyValue(5, 0, 2 | 64 << 8 | 1 << 16),
    "a device cuda:1": AnyValue(6, 0, 2 | 1 << 32),
    "bytes of length 2": AnyValue(12, 2, 0x4142),
    "a null DLTensor*": AnyValue(7, 0, 0),
    "a null char*": AnyValue(8, 0, 0),
    "a null object": AnyValue(70, 0, 0),
    "a value of type index 13": AnyValue(13, 0, 0),
    "a value of type index -7": AnyValue(-7, 0, 0),
}


@pytest.mark.parametrize("text", RECEIVED)
def test_a_non_tensor(add_one, text):
    assert (
        add_one.fails(Memory().argument, RECEIVED[text])
        == f"TypeError: argument #1 'b': expected a tensor, received {text}"
    )


def test_a_long_text_is_cut_where_a_character_ends(add_one):
    text = "ä" * 30
    buffer = ctypes.create_string_buffer(text.encode())
    value = AnyValue(8, 0, ctypes.addressof(buffer))
    message = add_one.fails(value, value)
    assert message.endswith(f"received a str '{'ä' * 20}...'")


def test_a_tensor_where_a_number_is_expected():
    tensor = Memory((3, 4), device=(CUDA, 1), dtype=(4, 16, 1)).argument
    assert wrapped(types.i32).fails(tensor) == (
        "TypeError: argument #0 'a': expected an int (i32), "
        "received a tensor of bf16 with shape (3, 4) on cuda:1"
    )


def test_null_data_with_elements(add_one):
    assert add_one.fails(Memory((10,), data=None).argument, none()) == (
        "ValueError: argument #0 'a': data is a null pointer, expected the elements of shape (10,)"
    )


def test_null_data_comes_before_the_rank(add_one):
    message = add_one.fails(Memory((3, 4), data=None).argument, none())
    assert "data is a null pointer" in message


def test_rank(add_one):
    assert add_one.fails(Memory((3, 4)).argument, none()) == (
        "ValueError: argument #0 'a': rank is 2 (shape (3, 4)), expected 1"
    )
    assert add_one.fails(Memory(()).argument, none()) == (
        "ValueError: argument #0 'a': rank is 0 (shape ()), expected 1"
    )


def test_a_null_shape_does_not_crash(add_one):
    assert add_one.fails(Memory((3,), null_shape=True).argument, none()) == (
        "ValueError: argument #0 'a': its shape is a null pointer"
    )


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ((2, 64, 1), "f64"),
        ((0, 32, 1), "i32"),
        ((6, 8, 1), "bool_"),
        ((5, 64, 1), "c64"),
        ((2, 32, 4), "f32x4"),
        ((10, 8, 1), "f8e4m3"),
        ((99, 4, 1), "dlpack(code=99, bits=4)"),
    ],
)
def test_dtype(add_one, dtype, name):
    assert add_one.fails(Memory(dtype=dtype).argument, none()) == (
        f"ValueError: argument #0 'a': dtype is {name}, expected f32"
    )


def test_signed_and_unsigned_are_not_interchangeable():
    assert wrapped(Tensor[types.u8, (None,)]).fails(Memory(dtype=(0, 8, 1)).argument) == (
        "ValueError: argument #0 'a': dtype is i8, expected u8"
    )


@pytest.mark.parametrize(
    ("device", "name"), [((2, 1), "cuda:1"), ((3, 0), "cuda_host:0"), ((77, 2), "device_type_77:2")]
)
def test_device_type(add_one, device, name):
    assert add_one.fails(Memory(device=device).argument, none()) == (
        f"ValueError: argument #0 'a': device is {name}, expected cpu"
    )


def test_device_type_of_a_cuda_function():
    f = wrapped(Tensor[F32, (None,)], device=CUDA)
    assert f.fails(Memory().argument) == (
        "ValueError: argument #0 'a': device is cpu, expected cuda"
    )


def test_two_devices():
    spec = Tensor[F32, (None,)]
    f = wrapped(types.i32, spec, spec, device=CUDA)
    values = [Memory(device=(CUDA, index)).argument for index in (1, 0)]
    assert f.fails(integer(1), *values) == (
        "ValueError: argument #2 'c': device is cuda:0, expected cuda:1 to match 'b'"
    )


def test_a_named_device():
    f = wrapped(fake_tensor(F32, ("n",), device="cuda:1"), device=CUDA)
    assert f.fails(Memory(device=(CUDA, 0)).argument) == (
        "ValueError: argument #0 'a': device is cuda:0, expected cuda:1"
    )


def test_alignment(add_one):
    assert add_one.fails(Memory(data=0x10002).argument, none()) == (
        "ValueError: argument #0 'a': data is at 0x10002, expected an address divisible by 4"
    )


def test_alignment_counts_the_byte_offset():
    f = wrapped(fake_tensor(F32, ("n",), alignment_bytes=16))
    assert f(Memory(data=0x10008, byte_offset=8).argument) is not None
    assert f.fails(Memory(data=0x10000, byte_offset=4).argument) == (
        "ValueError: argument #0 'a': data is at 0x10004, expected an address divisible by 16"
    )


def test_alignment_of_nothing_does_not_matter():
    assert wrapped(Tensor[F32, (None,)])(Memory((0,), data=0x10001).argument) is not None


def test_a_constant_size():
    assert wrapped(Tensor[F32, ("n", 4)]).fails(Memory((3, 5)).argument) == (
        "ValueError: argument #0 'a': shape[1] is 5, expected 4"
    )


@pytest.mark.parametrize("size", [1 << 31, -1, 1 << 40])
def test_a_size_beyond_32_bits(add_one, size):
    assert add_one.fails(Memory((size,)).argument, none()) == (
        f"ValueError: argument #0 'a': shape[0] is {size}, expected 0 to 2147483647 "
        "(32 bits; weft.sym(..., width=64) allows more)"
    )


def test_a_size_of_64_bits():
    f = wrapped(Tensor[F32, (sym("n", width=64),)])
    assert f(Memory((1 << 40,)).argument) is not None
    assert f.fails(Memory((-1,)).argument) == (
        "ValueError: argument #0 'a': shape[0] is -1, expected 0 to 9223372036854775807"
    )


def test_divisibility_of_a_size():
    f = wrapped(Tensor[F32, (sym("n", divisibility=16),)])
    assert f(Memory((32,)).argument) is not None
    assert f.fails(Memory((40,)).argument) == (
        "ValueError: argument #0 'a': shape[0] is 40, expected a multiple of 16"
    )


LAYOUT = "; compile with such a tensor, or annotate the layout 'strided'"


def test_strides_of_a_contiguous_tensor():
    f = wrapped(Tensor[F32, ("n", "m")])
    assert f.fails(Memory((3, 4), (1, 3)).argument) == (
        "ValueError: argument #0 'a': strides[0] is 1, expected 4 for layout contiguous of "
        "Tensor[f32, (n, m)]" + LAYOUT
    )


def test_strides_of_an_inner_tensor():
    f = wrapped(Tensor[F32, ("n", "m"), "inner"])
    assert f(Memory((3, 4), (9, 1)).argument) is not None
    assert f.fails(Memory((3, 4), (8, 2)).argument) == (
        "ValueError: argument #0 'a': strides[1] is 2, expected 1 for layout inner of "
        "Tensor[f32, (n, m), inner]" + LAYOUT
    )


def test_named_strides():
    spec = fake_tensor(F32, ("n", "m"), strides=("s", 2))
    f = wrapped(spec, spec)
    assert f.fails(Memory((3, 4), (10, 1)).argument, none()) == (
        "ValueError: argument #0 'a': strides[1] is 1, expected 2"
    )
    values = Memory((3, 4), (10, 2)).argument, Memory((3, 4), (12, 2)).argument
    assert f.fails(*values) == (
        "ValueError: argument #1 'b': strides[0] is 12, expected 10 to match a.strides[0]"
    )


def test_divisibility_and_range_of_strides():
    f = wrapped(fake_tensor(F32, ("n", "m"), strides=(sym("s", divisibility=8), 1)))
    assert f.fails(Memory((3, 4), (12, 1)).argument) == (
        "ValueError: argument #0 'a': strides[0] is 12, expected a multiple of 8"
    )
    assert f.fails(Memory((3, 4), (1 << 33, 1)).argument) == (
        "ValueError: argument #0 'a': strides[0] is 8589934592, expected -2147483648 to 2147483647 "
        "(32 bits; weft.sym(..., width=64) allows more)"
    )


INTEGERS = [dtype for dtype in types.DTYPES if dtype.is_integer and dtype.bits < 64]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_out_of_range(dtype):
    f = wrapped(dtype)
    for value in (dtype.minimum - 1, dtype.maximum + 1, -(1 << 63), (1 << 63) - 1):
        assert f.fails(integer(value)) == (
            f"ValueError: argument #0 'a': value is {value}, "
            f"expected {dtype.minimum} to {dtype.maximum} ({dtype.name})"
        )


def test_minus_one_is_not_a_u64():
    assert wrapped(types.u64).fails(integer(-1)) == (
        "ValueError: argument #0 'a': value is -1, expected 0 to 18446744073709551615 (u64)"
    )


def test_a_bool_is_0_or_1():
    assert wrapped(types.bool_).fails(integer(2)) == (
        "ValueError: argument #0 'a': value is 2, expected 0 or 1 (bool_)"
    )


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(types.i8, "an int (i8)"), (types.u64, "an int (u64)"), (types.bool_, "a bool (bool_)")],
    ids=str,
)
def test_a_float_is_not_an_int(dtype, expected):
    assert wrapped(dtype).fails(real(1.0)) == (
        f"TypeError: argument #0 'a': expected {expected}, received a float 1.0"
    )


@pytest.mark.parametrize(
    ("dtype", "value", "largest"),
    [
        (types.f32, 1e300, "3.4028234663852886e+38"),
        (types.f16, 65520.0, "65504.0"),
        (types.bf16, -1e39, "3.3895313892515355e+38"),
        (types.f8e4m3, 1000.0, "448.0"),
        (types.f8e4m3, math.inf, "448.0"),  # the format has no infinity
        (types.f8e4m3, -math.inf, "448.0"),
        (types.f8e5m2, -1e6, "57344.0"),
    ],
    ids=str,
)
def test_a_number_beyond_the_type(dtype, value, largest):
    shown = {1e300: "1e+300", -1e39: "-1e+39", -1e6: "-1e+06"}.get(value, f"{value!r}")
    assert wrapped(dtype).fails(real(value)) == (
        f"ValueError: argument #0 'a': value is {shown}, expected at most {largest} in magnitude "
        f"({dtype.name})"
    )


@pytest.mark.parametrize("dtype", [d for d in types.DTYPES if d.is_float], ids=str)
def test_a_non_float(dtype):
    assert wrapped(dtype).fails(small_text("x")) == (
        f"TypeError: argument #0 'a': expected a float ({dtype.name}), received a str 'x'"
    )


def test_a_non_stream():
    assert wrapped(Stream).fails(real(1.0)) == (
        "TypeError: argument #0 'a': expected a stream (a handle, an int or None), "
        "received a float 1.0"
    )


def test_a_value_for_none():
    f = Wrapped(signature_of("f", Parameter("a", MISSING), args=(None,)))
    assert f.fails(integer(0)) == (
        "TypeError: argument #0 'a': expected None, for which it was compiled, received an int 0"
    )


def test_the_order_of_checks(add_one):
    """Kind, data, rank, dtype, device type, alignment, dims, strides: each hides what follows."""
    bad = {
        "data": None,
        "shape": (1 << 40, 3),
        "dtype": (0, 64, 1),
        "device": (CUDA, 1),
        "strides": (5, 5),
    }
    fixed = [
        ("null pointer", {"data": 0x10001}),
        ("rank", {"shape": (1 << 40,), "strides": (5,)}),
        ("dtype", {"dtype": (2, 32, 1)}),
        ("device", {"device": (1, 0)}),
        ("address", {"data": 0x10000}),
        ("shape[0]", {"shape": (10,)}),
        ("strides[0]", {"strides": (1,)}),
    ]
    for word, better in fixed:
        assert word in add_one.fails(Memory(**bad).argument, none())
        bad |= better
    assert "argument #1" in add_one.fails(Memory(**bad).argument, none())
