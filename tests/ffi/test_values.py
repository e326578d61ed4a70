# SPDX-License-Identifier: Apache-2.0
"""Texts, bytes, shapes, devices, element types and big integers in both directions."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

import weft
from weft import ffi

pytestmark = pytest.mark.joined

LENGTHS = [0, 1, 6, 7, 8, 9, 63, 64, 1000]


@pytest.mark.parametrize("length", LENGTHS)
def test_texts_and_bytes_of_every_length_come_back(library, length):
    text = "x" * length
    assert library.echo(text) == text
    assert library.join([text, text], "-") == f"{text}-{text}"
    assert library.reverse(bytes(range(length % 256)) * 1) == bytes(range(length % 256))[::-1]


@pytest.mark.parametrize("text", ["é", "日本語のテキスト", "\0inside\0", "🙂" * 5, "a\udcffb"])
def test_texts_beyond_ascii_come_back(library, text):
    assert ffi.Any(text).take() == text
    assert library.echo((text,))[0] == text


def test_seven_bytes_are_held_in_the_value_itself():
    assert ffi.String("1234567").is_inline
    assert not ffi.String("12345678").is_inline
    assert ffi.String("éééé").type_index == ffi.TypeIndex.STRING  # eight bytes
    assert ffi.Bytes(b"1234567").is_inline
    assert not ffi.Bytes(b"12345678").is_inline


def test_an_encoded_text_is_a_text(library):
    text = ffi.String("a text that is encoded once")
    assert str(text) == text == "a text that is encoded once"
    assert len(text) == 27
    assert hash(text) == hash("a text that is encoded once")
    assert library.join([text, text], ffi.String("+")) == f"{text}+{text}"
    data = ffi.Bytes(b"some bytes, more than seven")
    assert bytes(data) == data == b"some bytes, more than seven"
    assert library.reverse(data) == bytes(data)[::-1]
    with pytest.raises(TypeError, match="expected a str"):
        ffi.String(b"x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected bytes"):
        ffi.Bytes("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "number", [0, 1, -1, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**63) - 1, 10**100]
)
def test_integers_of_every_size_come_back(library, number):
    assert ffi.Any(number).take() == number
    assert library.echo((number,))[0] == number
    expected = "int" if -(2**63) <= number < 2**63 else "ffi.BigInt"
    assert library.describe(number) == expected


def test_shapes_are_tuples_that_stay_shapes(library):
    shape = ffi.Shape((2, 3))
    assert shape == (2, 3)
    assert library.describe(shape) == "ffi.Shape"
    assert library.describe((2, 3)) == "ffi.Array"
    found = library.shape_of(np.zeros((4, 0, 2)))
    assert (found, type(found)) == ((4, 0, 2), ffi.Shape)
    with pytest.raises(TypeError, match="dims as ints"):
        ffi.Shape(("two",))  # type: ignore[arg-type]
    for dim in (2**70, 2**63, -(2**63) - 1):
        with pytest.raises(OverflowError, match=f"dims of at most 64 bits, received {dim}"):
            ffi.Shape((dim,))
    assert library.echo(ffi.Shape((2**63 - 1, -(2**63)))) == (2**63 - 1, -(2**63))


DEVICES = {
    "cpu": (1, 0),
    "cuda:3": (2, 3),
    "rocm:1": (10, 1),
    "metal": (8, 0),
    "cuda_managed": (13, 0),
    "trn:2": (18, 2),
}


@pytest.mark.parametrize("name", DEVICES)
def test_devices_have_names_and_numbers(library, name):
    device = ffi.Device(name)
    assert device == DEVICES[name]
    assert ffi.Device(*DEVICES[name]) == device
    found = library.next_device(device)
    assert (found, type(found)) == ((device[0], device[1] + 1), ffi.Device)
    assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device


def test_devices_of_other_libraries_are_devices(library):
    device = tvm_ffi.device("cuda:1")
    assert ffi.Device(device) == (2, 1)
    assert library.next_device(device) == (2, 2)


@pytest.mark.torch
def test_devices_and_dtypes_of_torch_are_taken(library):
    torch = pytest.importorskip("torch")
    assert ffi.Device(torch.device("cuda:2")) == (2, 2)
    assert library.next_device(torch.device("cpu")) == (1, 1)
    names = {"float32": (2, 32, 1), "bfloat16": (4, 16, 1), "bool": (6, 8, 1), "int8": (0, 8, 1)}
    names |= {"float8_e4m3fn": (10, 8, 1), "complex64": (5, 64, 1), "float4_e2m1fn_x2": (17, 4, 2)}
    for name, triple in names.items():
        assert ffi.DataType(getattr(torch, name)) == triple
    assert library.widen_type(torch.float16) == (2, 32, 1)


@pytest.mark.parametrize("wrong", ["cuba", "cuda:x", "cuda:-1", "", "cpu:"])
def test_a_non_device_is_refused(wrong):
    with pytest.raises(ValueError, match="unknown device"):
        ffi.Device(wrong)
    with pytest.raises(TypeError, match="expected a device"):
        ffi.Device(1.5)
    with pytest.raises(ValueError, match="twice"):
        ffi.Device("cuda:1", 2)


DTYPES = {
    "float32": (2, 32, 1),
    "int8": (0, 8, 1),
    "uint64": (1, 64, 1),
    "bool": (6, 8, 1),
    "bfloat16": (4, 16, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float4_e2m1fn": (17, 4, 1),
    "float32x4": (2, 32, 4),
    "complex64": (5, 64, 1),
}


@pytest.mark.parametrize("name", DTYPES)
def test_element_types_have_names_and_numbers(name):
    dtype = ffi.DataType(name)
    assert dtype == DTYPES[name]
    assert ffi.DataType(*DTYPES[name]) == dtype
    assert (dtype.name, str(dtype)) == (name, name)
    assert dtype.itemsize == (dtype.bits * dtype.lanes + 7) // 8
    assert pickle.loads(pickle.dumps(dtype)) == dtype


def test_element_types_of_other_libraries_are_element_types(library):
    for given in (weft.f32, np.dtype("float32"), tvm_ffi.dtype("float32"), "float32"):
        assert ffi.DataType(given) == (2, 32, 1)
    assert ffi.DataType(np.dtype(ml_dtypes.bfloat16)).weft is weft.bf16
    assert ffi.DataType("complex64").weft is weft.c64
    assert ffi.DataType("complex32").weft is None
    for given in (weft.f16, np.dtype("float16"), tvm_ffi.dtype("float16"), ffi.DataType("float16")):
        found = library.widen_type(given)
        assert (found, type(found)) == ((2, 32, 1), ffi.DataType)


def test_a_non_element_type_is_refused(library):
    with pytest.raises(ValueError, match="unknown element type 'flaot32'"):
        ffi.DataType("flaot32")
    with pytest.raises(TypeError, match="expected an element type"):
        ffi.DataType(1.5)
    with pytest.raises(TypeError, match="need a DLPack code"):
        ffi.DataType("float32", 32)
    with pytest.raises(TypeError, match="known to DLPack"):
        library.echo(np.dtype("datetime64[s]"))


class Protocols:
    """Each class says by one method which value its instances stand for."""

    class Integer:
        def __tvm_ffi_int__(self):
            return 2**70

    class Real:
        def __tvm_ffi_float__(self):
            return 1.5

    class Pointer:
        def __tvm_ffi_opaque_ptr__(self):
            return 0x1000

    class Value:
        def __tvm_ffi_value__(self):
            return ("nested", [1])

    class Type:
        def __dlpack_data_type__(self):
            return (2, 16, 2)

    class Where:
        def __dlpack_device__(self):
            return (2, 5)

    class Index:
        def __index__(self):
            return 12


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (Protocols.Integer(), 2**70),
        (Protocols.Real(), 1.5),
        (Protocols.Pointer(), 0x1000),
        (Protocols.Value(), ("nested", (1,))),
        (Protocols.Type(), (2, 16, 2)),
        (Protocols.Where(), (2, 5)),
        (Protocols.Index(), 12),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_object_may_say_which_value_it_stands_for(argument, expected):
    assert ffi.Any(argument).take() == expected


def test_numbers_of_other_kinds_are_numbers():
    import ctypes
    import fractions

    assert ffi.Any(fractions.Fraction(3, 4)).take() == 0.75
    assert ffi.Any(np.float32(1.5)).take() == 1.5
    assert ffi.Any(np.int8(-3)).take() == -3
    assert ffi.Any(np.bool_(True)).take() is True
    assert ffi.Any(ctypes.c_void_p(0x20)).take() == 0x20
    assert ffi.Any(ctypes.c_void_p()).take() == 0


def test_texts_and_bytes_of_numpy_are_texts_and_bytes():
    echo = ffi.wrap_function(lambda value: value)
    for text in ("a", "a text of some length", ""):
        given, data = np.str_(text), np.bytes_(text.encode())
        assert (type(ffi.Any(given).copy()), ffi.Any(given).copy()) == (str, text)
        assert (type(ffi.Any(data).copy()), ffi.Any(data).copy()) == (bytes, text.encode())
        assert ffi.Map({given: 1})[text] == 1
        assert ffi.Map({text: 1})[given] == 1
        assert ffi.Map({data: 1})[text.encode()] == 1
        assert ffi.Dict({given: 1}) == {text: 1}
        assert echo([given]) == (text,)
        assert ffi.Any(given).type_index == ffi.Any(text).type_index
        assert str(ffi.String(given)) == text
        assert bytes(ffi.Bytes(data)) == text.encode()


def test_shapes_are_made_of_whatever_counts():
    for dims in (np.array([1, 2]), [np.int64(1), np.int32(2)], (np.uint8(1), 2), range(1, 3)):
        shape = ffi.Shape(dims)
        assert shape == (1, 2)
        assert [type(dim) for dim in shape] == [int, int]
        assert ffi.Any(shape).type_key == "ffi.Shape"
    for wrong in (np.array([1.0]), np.array([True]), [2.0], ["1"], 3):
        with pytest.raises(TypeError, match="Shape"):
            ffi.Shape(wrong)


def test_data_types_are_made_of_numpy_s_classes():
    names = {np.float32: "float32", np.int8: "int8", np.bool_: "bool", np.complex64: "complex64"}
    for scalar, name in names.items():
        assert ffi.DataType(scalar).name == name
    for wrong in (float, int, np.str_, np.generic, object, list):
        with pytest.raises(TypeError):
            ffi.DataType(wrong)


def test_devices_and_data_types_look_like_tuples():
    for value, numbers in ((ffi.Device("cuda:1"), (2, 1)), (ffi.DataType("int8x4"), (0, 8, 4))):
        assert value == numbers
        assert numbers == value
        assert value != numbers[:1]
        assert hash(value) == hash(numbers)
        assert {numbers: 1}[value] == 1  # type: ignore[index]
        assert (*value,) == numbers
        assert (len(value), value[0], value[-1], value[1:]) == (
            len(numbers),
            numbers[0],
            numbers[-1],
            numbers[1:],
        )
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
        with pytest.raises(AttributeError, match="cannot be changed"):
            value.number = 1
