# SPDX-License-Identifier: Apache-2.0
"""Local arrays: static shape, limited size, one per call, made at the start of the function."""

from __future__ import annotations

import pytest
from xdsl.ir import Block

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import resolve
from weft.language.memory.access import load, store
from weft.types import dtype as types
from weft.types.dtype import DTYPES

local = resolve("local")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_local_array_is_read_and_written_like_a_tensor(dtype):
    trace = Trace()
    array = local.emit(trace.builder, (2, 3), dtype)
    store(trace.builder, array, (1, 2), load(trace.builder, array, (0, 0)))
    assert trace.names == ["simt.alloca", "simt.load", "simt.store"]
    assert "[2, 3], contiguous, local" in trace.verify()


def test_an_int_is_a_shape_of_rank_1_and_the_empty_tuple_of_rank_0():
    trace = Trace()
    assert local.emit(trace.builder, 4, types.f32).type.dims == (4,)
    assert local.emit(trace.builder, (), types.f32).rank == 0
    trace.verify()


def test_each_call_makes_an_array_at_the_start_of_the_function():
    trace = Trace()
    branch = Block()
    with trace.builder.at(branch):
        first, second = (local.emit(trace.builder, 4, types.f32) for _ in range(2))
    assert first.ssa is not second.ssa
    assert list(branch.ops) == []
    assert trace.names == ["simt.alloca", "simt.alloca"]


def test_a_shape_known_at_run_time_only_is_refused():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        local.emit(trace.builder, (4, trace.scalar(types.i32)), types.f32)
    assert caught.value.code == "SHAPE_NOT_CONSTANT"
    assert "received i32" in caught.value.message
    for shape in (True, 2.0, "4"):
        with pytest.raises(TypeMismatchError):
            local.emit(trace.builder, shape, types.f32)


@pytest.mark.parametrize(
    ("shape", "code"), [(0, "SHAPE_EMPTY"), ((4, -1), "SHAPE_EMPTY"), ((1,) * 9, "SHAPE_RANK")]
)
def test_an_empty_shape_or_a_rank_above_8_is_refused(shape, code):
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        local.emit(trace.builder, shape, types.f32)
    assert caught.value.code == code


def test_the_limit_is_65536_bytes():
    trace = Trace()
    local.emit(trace.builder, (128, 128), types.f32)
    with pytest.raises(ValueRangeError) as caught:
        local.emit(trace.builder, (128, 129), types.f32)
    assert caught.value.code == "LOCAL_TOO_LARGE"
    assert "takes 66048 bytes per thread; at most 65536" in caught.value.message


def test_the_second_argument_is_an_element_type():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        local.emit(trace.builder, 4, "f32")
    assert (
        caught.value.message
        == "local: the second argument must be an element type, received the str 'f32'"
    )
