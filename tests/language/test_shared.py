# SPDX-License-Identifier: Apache-2.0
"""Shared arrays: static shape and size for `shared`, run-time dims and offsets for `dynamic_shared`."""

from __future__ import annotations

import pytest
from xdsl.ir import Block

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import resolve
from weft.language.memory.access import attribute, load, store
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined

shared, dynamic = resolve("shared"), resolve("dynamic_shared")
ATOMIC = [
    (kind, dtype)
    for kind in ("add", "max", "exchange")
    for dtype in (types.i32, types.u32, types.i64, types.u64, types.f32, types.f64)
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_shared_array_is_read_and_written_like_a_tensor(dtype):
    trace = Trace()
    array = shared.emit(trace.builder, (2, 3), dtype)
    store(trace.builder, array, (1, 2), load(trace.builder, array, (0, 0)))
    assert trace.names == ["simt.shared", "simt.load", "simt.store"]
    assert "[2, 3], contiguous, shared" in trace.verify()


def test_an_array_of_16_bytes_is_aligned_for_vector_accesses():
    trace = Trace()
    assert shared.emit(trace.builder, 4, types.f32).type.alignment_bytes.data == 16
    assert shared.emit(trace.builder, 3, types.f32).type.alignment_bytes.data == 4


def test_each_call_makes_an_array_at_the_start_of_the_function():
    trace = Trace()
    branch = Block()
    with trace.builder.at(branch):
        first, second = (shared.emit(trace.builder, 4, types.f32) for _ in range(2))
    assert first.ssa is not second.ssa
    assert list(branch.ops) == []
    assert trace.names == ["simt.shared", "simt.shared"]


@pytest.mark.parametrize(("kind", "dtype"), ATOMIC, ids=str)
def test_atomics_take_shared_arrays(kind, dtype):
    trace = Trace()
    array = shared.emit(trace.builder, 4, dtype)
    assert resolve(f"atomic_{kind}").emit(trace.builder, array, 0, 1).dtype is dtype
    trace.verify()


def test_a_shared_shape_is_known_at_compile_time():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        shared.emit(trace.builder, trace.scalar(types.i32), types.f32)
    assert caught.value.code == "SHAPE_NOT_CONSTANT"


def test_the_limit_is_that_of_the_largest_gpu():
    trace = Trace()
    shared.emit(trace.builder, 227 * 256, types.f32)
    with pytest.raises(ValueRangeError) as caught:
        shared.emit(trace.builder, 227 * 256 + 1, types.f32)
    assert caught.value.code == "SHARED_TOO_LARGE"
    assert "takes 232452 bytes; a block has at most 232448" in caught.value.message


@pytest.mark.parametrize("name", ["shared", "dynamic_shared"])
def test_the_second_argument_is_an_element_type(name):
    with pytest.raises(TypeMismatchError) as caught:
        resolve(name).emit(Trace().builder, 4, "f32")
    assert caught.value.code == "ARRAY_DTYPE"
    assert caught.value.hint == f"write {name}((32, 32), weft.f32)"


def test_a_dynamic_shape_may_be_known_at_run_time_only():
    trace = Trace()
    rows = trace.scalar(types.i64)
    array = dynamic.emit(trace.builder, (rows, 4), types.f16, 32)
    assert array.type.dims == (-1, 4)
    assert attribute(trace.builder, array, "shape")[1] == 4
    load(trace.builder, array, (0, trace.scalar(types.i32)))
    assert "simt.dynamic_shared %" in trace.verify()


def test_a_dynamic_offset_may_be_known_at_run_time_only():
    trace = Trace()
    dynamic.emit(trace.builder, 4, types.i8, trace.scalar(types.i32))
    assert trace.names == ["arith.extsi", "simt.dynamic_shared"]
    trace.verify()


@pytest.mark.parametrize("offset", [-4, 2, 7])
def test_a_constant_offset_is_a_multiple_of_the_element_size(offset):
    with pytest.raises(ValueRangeError) as caught:
        dynamic.emit(Trace().builder, 4, types.f32, offset)
    assert caught.value.code == "SHARED_OFFSET"
    assert f"the offset is {offset} bytes; expected a multiple of 4" in caught.value.message


def test_an_offset_or_a_dimension_is_an_integer():
    trace = Trace()
    with pytest.raises(TypeMismatchError, match="the offset is f32; expected an integer"):
        dynamic.emit(trace.builder, 4, types.f32, trace.scalar(types.f32))
    with pytest.raises(TypeMismatchError, match="a shape holds integers, received f32"):
        dynamic.emit(trace.builder, trace.scalar(types.f32), types.f32)
    with pytest.raises(
        TypeMismatchError, match="a shape holds integers, received the constant True"
    ):
        dynamic.emit(trace.builder, True, types.f32)


@pytest.mark.parametrize(
    ("shape", "code"), [(0, "SHAPE_EMPTY"), ((4, -1), "SHAPE_EMPTY"), ((1,) * 9, "SHAPE_RANK")]
)
def test_an_empty_dynamic_shape_or_a_rank_above_8_is_refused(shape, code):
    with pytest.raises(ValueRangeError) as caught:
        dynamic.emit(Trace().builder, shape, types.f32)
    assert caught.value.code == code
