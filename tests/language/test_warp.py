# SPDX-License-Identifier: Apache-2.0
"""Warp operations: types in and out, lanes, widths, masks, and what they refuse."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import resolve
from weft.language.threads import warp
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined

SHUFFLES = ("up", "down", "xor", "idx")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
REDUCTIONS = ("sum", "min", "max", *BITWISE)


def emit(name, trace, *arguments, **keywords):
    kind = name.removeprefix("warp.")
    if kind in ("any", "all"):
        return getattr(warp, kind).emit(trace.builder, *arguments, **keywords)
    if kind != name:
        return warp.over_lanes.emit(trace.builder, kind, *arguments, **keywords)
    return resolve(name).emit(trace.builder, *arguments, **keywords)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", SHUFFLES)
def test_a_shuffle_keeps_the_type_of_its_value(kind, dtype):
    trace = Trace()
    assert emit(f"shfl_{kind}", trace, trace.scalar(dtype), 1).dtype is dtype
    assert f'simt.shuffle "{kind}"' in trace.verify()


def test_a_lane_of_any_integer_type_becomes_an_i32():
    trace = Trace()
    for dtype in (types.u8, types.i32, types.u32, types.i64):
        emit("shfl_idx", trace, trace.scalar(types.f32), trace.scalar(dtype))
    assert trace.names.count("simt.shuffle") == 4
    trace.verify()


def test_a_lane_is_an_integer():
    trace = Trace()
    for lane in (trace.scalar(types.f32), trace.scalar(types.bool_), 1.0, True):
        with pytest.raises(TypeMismatchError) as caught:
            emit("shfl_up", trace, trace.scalar(types.i32), lane)
        assert caught.value.code == "WARP_LANE"


@pytest.mark.parametrize("lane", [-1, 32])
@pytest.mark.parametrize("kind", SHUFFLES)
def test_a_constant_lane_lies_in_the_warp(kind, lane):
    with pytest.raises(ValueRangeError) as caught:
        emit(f"shfl_{kind}", Trace(), 1, lane)
    assert caught.value.message == f"shfl_{kind}: the lane is {lane}; expected 0 to 31"


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_a_width_is_a_power_of_two(width):
    trace = Trace()
    emit("shfl_xor", trace, trace.scalar(types.i32), 1, width=width)
    assert f"width {width} :" in trace.verify()


@pytest.mark.parametrize("width", [0, 3, 33, 64, -2])
def test_another_width_is_refused(width):
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        emit("shfl_xor", trace, trace.scalar(types.i32), 1, width=width)
    assert caught.value.code == "WARP_WIDTH"
    assert f"the width is {width}; expected 1, 2, 4, 8, 16 or 32" in caught.value.message


def test_a_width_is_known_at_compile_time():
    trace = Trace()
    for width in (trace.scalar(types.i32), 16.0, True):
        with pytest.raises(TypeMismatchError, match="the width must be known at compile time"):
            emit("shfl_xor", trace, trace.scalar(types.i32), 1, width=width)


@pytest.mark.parametrize(
    ("kind", "result"), [("ballot", "u32"), ("warp.any", "bool_"), ("warp.all", "bool_")]
)
def test_a_vote_takes_any_number_by_its_truth(kind, result):
    trace = Trace()
    for dtype in (types.bool_, types.u64, types.f16):
        assert emit(kind, trace, trace.scalar(dtype)).dtype.name == result
    assert trace.names.count("simt.vote") == 3
    trace.verify()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["match", "match_all"])
def test_a_match_compares_the_bits_of_any_type(name, dtype):
    trace = Trace()
    assert emit(name, trace, trace.scalar(dtype)).dtype is types.u32
    assert f": i{64 if dtype.bits == 64 else 32}\n" in trace.verify().partition("simt.match")[2]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_a_reduction_has_the_type_that_arithmetic_gives(kind, dtype):
    trace = Trace()
    value = trace.scalar(dtype)
    if kind in BITWISE and dtype.is_float:
        with pytest.raises(TypeMismatchError) as caught:
            emit(f"warp.{kind}", trace, value)
        assert caught.value.code == "WARP_BITWISE"
        return
    arithmetic = "i32" if dtype.is_bool else "f32" if dtype.is_float8 else dtype.name
    expected = dtype.name if kind in BITWISE else arithmetic
    assert emit(f"warp.{kind}", trace, value).dtype.name == expected
    trace.verify()


@pytest.mark.parametrize(("dtype", "kind"), [(types.u8, "umax"), (types.i16, "max")], ids=str)
def test_a_maximum_compares_by_the_sign_of_the_value(dtype, kind):
    trace = Trace()
    emit("warp.max", trace, trace.scalar(dtype))
    assert f'simt.warp_reduce "{kind}"' in trace.verify()


def test_small_integers_are_exchanged_in_32_bits():
    trace = Trace()
    emit("warp.sum", trace, trace.scalar(types.i8))
    assert trace.names == ["arith.extsi", "simt.warp_reduce", "arith.trunci"]
    trace.verify()


def test_constants_take_the_type_that_they_have_by_themselves():
    trace = Trace()
    assert emit("shfl_up", trace, 1.5, 1).dtype is types.f32
    assert emit("warp.sum", trace, 1).dtype is types.i32
    assert emit("warp.sum", trace, 1 << 40).dtype is types.i64
    trace.verify()


CALLS = {
    "shfl_up": lambda trace, mask: emit("shfl_up", trace, 1, 1, mask),
    "ballot": lambda trace, mask: emit("ballot", trace, True, mask),
    "match": lambda trace, mask: emit("match", trace, 1, mask),
    "match_all": lambda trace, mask: emit("match_all", trace, 1, mask),
    "warp.sum": lambda trace, mask: emit("warp.sum", trace, 1, mask),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_mask_is_checked_as_that_of_sync_warp(name):
    with pytest.raises(ValueRangeError, match=f"{name}: the mask is 0x0; expected 0x1 to"):
        CALLS[name](Trace(), 0)
    with pytest.raises(TypeMismatchError, match=f"{name}: the mask is i64; expected a u32"):
        trace = Trace()
        CALLS[name](trace, trace.scalar(types.i64))
    trace = Trace()
    CALLS[name](trace, emit("ballot", trace, True))
    trace.verify()


def test_a_value_that_is_not_a_number_is_refused():
    trace = Trace()
    tensor = trace.tensor(types.i32)
    for name, arguments in (("shfl_up", (1,)), ("match", ()), ("warp.sum", ())):
        with pytest.raises(
            TypeMismatchError, match=f"{name}: the value must be a number, received Tensor"
        ):
            emit(name, trace, tensor, *arguments)


def test_lane_and_warp_are_read_once_per_function():
    trace = Trace()
    for _ in range(2):
        assert emit("lane_id", trace).dtype is types.i32
        assert emit("warp_id", trace).dtype is types.i32
    assert trace.names == ["simt.lane_id", "simt.warp_id"]
    trace.verify()
