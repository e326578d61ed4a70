# SPDX-License-Identifier: Apache-2.0
"""Elements and attributes of tensors: indices of every type, constants checked, facts emitted once."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import (
    NameResolutionError,
    TypeMismatchError,
    ValueRangeError,
)
from weft.language.memory.access import attribute, dim, load, store, stride
from weft.language.numbers.convert import constant
from weft.language.values import Scalar
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_element_is_loaded_and_stored_in_its_type(dtype):
    trace = Trace()
    tensor = trace.tensor(dtype)
    element = load(trace.builder, tensor, 0)
    assert element.dtype is dtype
    store(trace.builder, tensor, 1, element)
    assert trace.names == ["simt.load", "simt.store"]
    trace.verify()


@pytest.mark.parametrize("rank", range(9))
def test_every_rank_is_indexed_by_as_many_integers(rank):
    trace = Trace()
    tensor = trace.tensor(types.f32, (-1,) * rank)
    load(trace.builder, tensor, tuple(range(rank)))
    trace.verify()


@pytest.mark.parametrize(
    ("dtype", "conversion", "index"),
    [
        ("i8", ["arith.extsi"], "i32"),
        ("i16", ["arith.extsi"], "i32"),
        ("u8", ["arith.extui"], "i32"),
        ("u16", ["arith.extui"], "i32"),
        ("i32", [], "i32"),
        ("u32", ["arith.extui"], "i64"),
        ("i64", [], "i64"),
        ("u64", [], "i64"),
    ],
)
def test_an_index_becomes_i32_or_i64(dtype, conversion, index):
    trace = Trace()
    load(trace.builder, trace.tensor(types.f32), trace.scalar(types.dtype_named(dtype)))
    assert trace.names == [*conversion, "simt.load"]
    assert f" : {index}] : !simt.tensor" in trace.verify()


def test_a_constant_index_is_i32_unless_it_does_not_fit():
    trace = Trace()
    tensor = trace.tensor(types.f32)
    load(trace.builder, tensor, 5)
    load(trace.builder, tensor, 1 << 40)
    assert trace.constants == ["5 : i32", f"{1 << 40} : i64"]


@pytest.mark.parametrize("index", [True, 1.0, "i", (0,)])
def test_an_index_that_is_not_an_integer_is_refused(index):
    trace = Trace()
    with pytest.raises(TypeMismatchError, match=r"index 1 of a is .*; expected an integer"):
        load(trace.builder, trace.tensor(types.f32, (-1, -1)), (0, index))


@pytest.mark.parametrize("dtype", [types.bool_, types.f32], ids=str)
def test_a_staged_bool_or_float_is_not_an_index(dtype):
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        load(trace.builder, trace.tensor(types.f32), trace.scalar(dtype))
    assert caught.value.code == "INDEX_TYPE"
    assert str(dtype) in caught.value.message


def test_a_wrong_number_of_indices_names_rank_and_shape():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        load(trace.builder, trace.tensor(types.f32, (-1, 4), name="image"), 0)
    assert caught.value.code == "INDEX_COUNT"
    assert caught.value.message == "image has rank 2 and shape (?, 4), received 1 index"
    assert caught.value.hint == "write image[i, j]"


def test_rank_0_is_indexed_by_the_empty_tuple():
    trace = Trace()
    tensor = trace.tensor(types.f32, ())
    load(trace.builder, tensor, ())
    with pytest.raises(TypeMismatchError) as caught:
        load(trace.builder, tensor, 0)
    assert caught.value.hint == "write a[()]"


def test_a_negative_constant_index_says_how_to_count_from_the_end():
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        store(trace.builder, trace.tensor(types.f32), -1, 0)
    assert caught.value.code == "INDEX_NEGATIVE"
    assert caught.value.hint == "count from the end with a.shape[0] - 1"


def test_a_constant_index_beyond_a_static_dim_is_refused():
    trace = Trace()
    tensor = trace.tensor(types.f32, (-1, 4))
    load(trace.builder, tensor, (1000, 3))
    with pytest.raises(ValueRangeError) as caught:
        load(trace.builder, tensor, (0, 4))
    assert caught.value.message == "index 1 of a is 4, and a.shape[1] is 4"
    assert caught.value.hint == "the last element of that dimension is 3"


def test_a_typed_constant_is_checked_as_an_index_too():
    trace = Trace()
    tensor = trace.tensor(types.f32, (4,))
    with pytest.raises(ValueRangeError):
        load(trace.builder, tensor, constant(trace.builder, 4, types.i64))


@pytest.mark.parametrize("index", [slice(None), (0, slice(1, 2)), (..., 0), (None, 0)])
def test_a_slice_is_not_an_element(index):
    trace = Trace()
    with pytest.raises(TypeMismatchError, match="a slice of a is not an element") as caught:
        store(trace.builder, trace.tensor(types.f32, (-1, -1)), index, 1.0)
    assert caught.value.code == "INDEX_SLICE"


def test_a_tensor_is_not_an_element():
    trace = Trace()
    row = trace.tensor(types.f32, (4,), name="row")
    with pytest.raises(TypeMismatchError, match="row is a tensor of rank 1") as caught:
        store(trace.builder, trace.tensor(types.f32), 0, row)
    assert caught.value.hint == "read an element of it: row[i]"


def test_a_store_converts_what_loses_nothing():
    trace = Trace()
    store(trace.builder, trace.tensor(types.f64), 0, trace.scalar(types.i32))
    store(trace.builder, trace.tensor(types.f8e4m3), 0, 0.5)
    assert trace.names == ["arith.sitofp", "simt.store", "simt.store"]
    trace.verify()


def test_a_store_that_could_lose_something_names_the_tensor():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        store(trace.builder, trace.tensor(types.i32, name="out"), 0, trace.scalar(types.f32))
    assert caught.value.message.startswith("out holds i32: expected an i32, received an f32")
    with pytest.raises(ValueRangeError, match="out holds u8: the constant 256 does not fit u8"):
        store(trace.builder, trace.tensor(types.u8, name="out"), 0, 256)


def test_shape_is_ints_where_static_and_scalars_else():
    trace = Trace()
    n, four = attribute(trace.builder, trace.tensor(types.f32, (-1, 4)), "shape")
    assert isinstance(n, Scalar)
    assert n.dtype is types.i32
    assert four == 4


def test_dims_of_64_bits_are_i64():
    trace = Trace()
    tensor = trace.tensor(types.f32, dim_bits=64)
    assert dim(trace.builder, tensor, 0).dtype is types.i64


def test_a_dim_is_emitted_once_at_the_start_of_the_function():
    trace = Trace()
    tensor = trace.tensor(types.f32, (-1, -1))
    store(trace.builder, tensor, (0, 0), 1)
    first = attribute(trace.builder, tensor, "shape")
    second = attribute(trace.builder, tensor, "shape")
    assert [dim.ssa for dim in first] == [dim.ssa for dim in second]
    assert trace.names == ["simt.dim", "simt.dim", "simt.store"]
    assert "%a_dim1 = simt.dim" in trace.verify()


@pytest.mark.parametrize(
    ("layout", "shape", "strides"),
    [
        ("contiguous", (-1,), [1]),
        ("contiguous", (-1, 3, 4), [12, 4, 1]),
        ("contiguous", (-1, -1, 4), ["i64", 4, 1]),
        ("contiguous", (2, -1), ["i64", 1]),
        ("inner", (2, 3), ["i64", 1]),
        ("strided", (2, 3), ["i64", "i64"]),
    ],
)
def test_strides_are_ints_where_the_layout_fixes_them(layout, shape, strides):
    trace = Trace()
    tensor = trace.tensor(types.f32, shape, layout=layout)
    found = attribute(trace.builder, tensor, "strides")
    assert [s if isinstance(s, int) else s.dtype.name for s in found] == strides


def test_negative_dimensions_count_from_the_end():
    trace = Trace()
    tensor = trace.tensor(types.f32, (3, 4))
    assert dim(trace.builder, tensor, -1) == 4
    assert stride(trace.builder, tensor, -2) == 4
    with pytest.raises(ValueRangeError, match=r"a.shape\[2\]: a has rank 2"):
        dim(trace.builder, tensor, 2)


def test_size_is_a_constant_or_an_i64():
    trace = Trace()
    assert attribute(trace.builder, trace.tensor(types.f32, (3, 4)), "size") == 12
    assert attribute(trace.builder, trace.tensor(types.f32, ()), "size") == 1
    size = attribute(trace.builder, trace.tensor(types.f32, (-1, 4, -1)), "size")
    assert size.dtype is types.i64
    trace.verify()


def test_dtype_and_ndim_are_known_at_compile_time():
    trace = Trace()
    tensor = trace.tensor(types.f16, (-1, -1))
    assert attribute(trace.builder, tensor, "dtype") is types.f16
    assert attribute(trace.builder, tensor, "ndim") == 2
    assert attribute(trace.builder, trace.scalar(types.u8), "dtype") is types.u8


def test_an_unknown_attribute_lists_those_there_are():
    trace = Trace()
    with pytest.raises(NameResolutionError) as caught:
        attribute(trace.builder, trace.tensor(types.f32), "real")
    assert caught.value.message == "Tensor[f32, (?,)] has no attribute 'real'"
    names = "shape, strides, dtype, ndim, size, nbytes, T, tile, view, reshape, fill_, zero_"
    assert caught.value.hint == f"there are {names}"
    with pytest.raises(NameResolutionError, match="f32 has no attribute 'real'"):
        attribute(trace.builder, trace.scalar(types.f32), "real")
