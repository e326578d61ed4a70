# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: the map's type, what is checked before the run, and what the host's IR says."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import resolve
from weft.language.asynchronous.tensor_map import tensor_map
from weft.language.memory.access import attribute
from weft.language.values import describe
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined


def made(trace: Trace, *arguments, **keywords):
    return tensor_map.emit(trace.builder, *arguments, **keywords)


@pytest.mark.parametrize("swizzle", [None, 32, 64, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_map_has_its_tensors_elements_and_the_box(dtype, swizzle):
    trace = Trace()
    box = (8, (swizzle or 64) // dtype.itemsize)
    found = made(trace, trace.tensor(dtype, (-1, 256)), box, swizzle=swizzle)
    assert (found.dtype, found.type.box, found.type.swizzle) == (dtype, box, swizzle or 0)
    facts = [attribute(trace.builder, found, name) for name in ("dtype", "box", "ndim", "swizzle")]
    assert facts == [dtype, box, 2, swizzle]
    assert describe(found).startswith(f"TensorMap[{dtype}, box {box}")
    element = "u8" if dtype.is_bool else dtype.name
    assert f'"{element}" "128B" "zero"' in trace.verify()


@pytest.mark.parametrize("rank", range(1, 6))
def test_a_map_has_one_to_five_dimensions(rank: int):
    trace = Trace()
    shape = (-1, *[16] * (rank - 1))
    found = made(trace, trace.tensor(types.f32, shape), (4,) * rank)
    assert found.type.box == (4,) * rank


def test_a_box_of_rank_one_may_be_an_int():
    trace = Trace()
    assert made(trace, trace.tensor(types.f32), 256).type.box == (256,)


@pytest.mark.parametrize("promotion", [None, 64, 128, 256])
def test_the_promotion_is_passed_on(promotion):
    trace = Trace()
    made(trace, trace.tensor(types.f32), 32, l2_promotion=promotion)
    assert f'"{promotion}B"' in trace.verify() or promotion is None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_only_floats_of_16_bits_and_more_have_nan_outside(dtype):
    trace = Trace()
    tensor, box = trace.tensor(dtype), 16
    if dtype.is_float and dtype.bits >= 16:
        made(trace, tensor, box, fill="nan")
        assert '"nan"' in trace.verify()
        return
    with pytest.raises(ValueRangeError) as caught:
        made(trace, tensor, box, fill="nan")
    assert caught.value.code == "TENSOR_MAP_FILL"


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"swizzle": 16}, "TENSOR_MAP_MODE"),
        ({"swizzle": 128.0}, "TENSOR_MAP_MODE"),
        ({"swizzle": True}, "TENSOR_MAP_MODE"),
        ({"fill": "zeros"}, "TENSOR_MAP_MODE"),
        ({"fill": 0}, "TENSOR_MAP_MODE"),
        ({"l2_promotion": 32}, "TENSOR_MAP_MODE"),
    ],
)
def test_a_mode_is_one_of_the_engines(keywords, code: str):
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        made(trace, trace.tensor(types.f32), 32, **keywords)
    assert caught.value.code == code


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_takes_a_multiple_of_16_bytes(dtype):
    trace = Trace()
    tensor = trace.tensor(dtype)
    made(trace, tensor, 16 // dtype.itemsize)
    with pytest.raises(ValueRangeError) as caught:
        made(trace, tensor, 24 // dtype.itemsize)
    assert caught.value.code == "TENSOR_MAP_BOX"


def test_a_rank_of_six_is_refused():
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        made(trace, trace.tensor(types.f32, (4,) * 6), (4,) * 6)
    assert caught.value.code == "TENSOR_MAP_RANK"


def test_a_pointer_has_no_map():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        made(trace, trace.tensor(types.f32, ((1 << 63) - 1,)), 32)
    assert caught.value.code == "TENSOR_MAP_TENSOR"


@pytest.mark.parametrize("dtype", [types.u8, types.i32, types.u32, types.i64], ids=str)
def test_an_index_of_any_integer_type_becomes_an_i32(dtype):
    trace = Trace()
    found = made(trace, trace.tensor(types.f32), 32)
    resolve("tma.prefetch").emit(trace.builder, found, trace.scalar(dtype))
    trace.verify()
