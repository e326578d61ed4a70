# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays reach a callee with the memory, type, dims and strides that NumPy says, by every rung."""

import ml_dtypes
import numpy as np
import pytest

from tests.native.callee import CPU, planned, seen_tensor
from weft import _native

STRUCT, DLPACK, BUFFER, ALL = 2, 8, 32, 63
DTYPES = {
    "bool": (6, 8),
    "int8": (0, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "uint8": (1, 8),
    "uint16": (1, 16),
    "uint32": (1, 32),
    "uint64": (1, 64),
    "longlong": (0, 64),
    "float16": (2, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "complex64": (5, 64),
    "complex128": (5, 128),
}


@pytest.fixture(params=[STRUCT, DLPACK, BUFFER, ALL])
def rung(request):
    _native.set_reader_rungs(request.param)
    yield request.param
    _native.set_reader_rungs(ALL)


@pytest.fixture
def every_rung_again():
    yield
    _native.set_reader_rungs(ALL)


def matches(array, **plan) -> bool:
    tensor = seen_tensor(array, **plan)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    counted = [axis for axis, dim in enumerate(array.shape) if dim > 1 and array.size]
    return (
        (tensor.data == array.__array_interface__["data"][0] or array.size == 0)
        and tensor.device == (CPU, 0)
        and tensor.shape == array.shape
        and all(tensor.strides[axis] == strides[axis] for axis in counted)
    )


@pytest.mark.joined
@pytest.mark.parametrize("name", DTYPES)
def test_every_number_type_keeps_its_dtype(rung, name):
    tensor = seen_tensor(np.zeros((2, 3), name))
    assert tensor.dtype == (*DTYPES[name], 1)


def layouts():
    base = np.arange(120, dtype="f4").reshape(4, 5, 6)
    yield base
    yield base[::2, 1:, ::-1]
    yield base.T
    yield base[1, 2, 3:4]
    yield np.array(3.0)
    yield np.zeros((3, 0, 2))
    yield np.lib.stride_tricks.as_strided(base, (3, 3), (0, 4))
    yield np.broadcast_to(np.float32(1), (2, 3))


@pytest.mark.parametrize("array", list(layouts()), ids=lambda array: str(array.strides))
def test_every_layout_keeps_its_dims_and_strides(rung, array):
    assert matches(array)


@pytest.mark.parametrize("rank", [8, 9, 20, 64])
def test_arrays_of_every_rank_are_read(rank):
    array = np.zeros((1,) * (rank - 2) + (2, 3), "i2")
    assert matches(array)
    assert matches(array, owned_tensors=True)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bfloat16", 4),
        ("float8_e4m3", 8),
        ("float8_e4m3fn", 10),
        ("float8_e4m3fnuz", 11),
        ("float8_e5m2", 12),
        ("float8_e5m2fnuz", 13),
        ("float8_e8m0fnu", 14),
    ],
)
def test_the_types_of_ml_dtypes_are_known_by_name(name, code):
    array = np.zeros(4, getattr(ml_dtypes, name))
    assert seen_tensor(array).dtype == (code, array.itemsize * 8, 1)


def field_of_packed_record():
    return np.zeros(4, [("flag", "u1"), ("value", "f4")])["value"]


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.zeros(3, ">f4"), ValueError, "byte-swapped"),
        (np.zeros(3, "M8[s]"), TypeError, "datetime64"),
        (np.zeros(3, object), TypeError, "dtype object"),
        (np.zeros(3, "S4"), TypeError, "dtype .S4"),
        (np.zeros(3, [("a", "f4")]), TypeError, "'a', '<f4'"),
        (np.zeros(3, "longdouble"), TypeError, "longdouble|float128"),
        (np.zeros(3, ml_dtypes.int4), TypeError, "int4"),
        (field_of_packed_record(), ValueError, "multiples of the 4-byte elements.*5 bytes"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), TypeError, "masked array"),
    ],
)
def test_what_a_kernel_would_misread_is_refused(array, error, message):
    function = planned("record", "a", signature_text="f(a: Tensor)")
    with pytest.raises(error, match=rf"^f\(a: Tensor\): argument #0 'a': .*{message}"):
        function(array)


class Subclass(np.ndarray):
    """An array that adds nothing."""


@pytest.mark.parametrize("subclass", [Subclass, np.recarray])
def test_subclasses_with_ordinary_memory_are_read(rung, subclass):
    assert matches(np.zeros((2, 3)).view(subclass))


def read_only():
    array = np.zeros(4, "f4")
    array.flags.writeable = False
    return array


def test_a_read_only_array_is_accepted_where_nothing_is_written(rung):
    assert matches(read_only(), written_mask=0)
    assert matches(read_only(), written_mask=0b10)


def test_a_read_only_array_is_refused_by_name_where_it_is_written(rung):
    function = planned("record", "a", "b", written_mask=0b10)
    function(read_only(), np.zeros(4))
    with pytest.raises(ValueError, match=r"argument #1 'b': expected writable memory"):
        function(np.zeros(4), read_only())


def test_dims_are_copied_so_the_array_may_change_afterwards():
    array = np.arange(6)
    tensor = seen_tensor(array)
    array.resize((2, 3), refcheck=False)
    assert tensor.shape == (6,)


def test_a_mask_that_does_not_exist_is_refused(every_rung_again):
    with pytest.raises(ValueError, match="from 0 to 63"):
        _native.set_reader_rungs(64)
    _native.set_reader_rungs(0)
    with pytest.raises(TypeError, match="ndarray"):
        planned("record", "a")(np.zeros(2))
