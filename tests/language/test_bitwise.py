# SPDX-License-Identifier: Apache-2.0
"""Bit operations and shifts, against Python's integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.operators import binary
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined

INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]


def wrap(number, dtype):
    number &= (1 << dtype.bits) - 1
    return number - (1 << dtype.bits) if number > dtype.maximum else number


def values(dtype):
    numbers = (0, 1, 5, -1, -5, dtype.minimum, dtype.maximum, 0x55)
    return [number for number in numbers if dtype.minimum <= number <= dtype.maximum]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("count_dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("operator", ["<<", ">>"])
def test_a_shift_has_the_left_type_and_no_limit_of_count(dtype, count_dtype, operator):
    trace = Trace()
    result = binary(trace.builder, operator, trace.scalar(dtype), trace.scalar(count_dtype))
    assert result.dtype is dtype
    counts = [0, 1, dtype.bits - 1, dtype.bits, dtype.bits + 1, count_dtype.maximum]
    for value in values(dtype):
        for count in counts:
            exact = value << min(count, 200) if operator == "<<" else value >> count
            assert trace.evaluate(result, value, count) == wrap(exact, dtype), (value, count)
    trace.verify()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_negative_count_at_run_time_counts_as_a_large_one(dtype):
    trace = Trace()
    x, count = trace.scalar(dtype), trace.scalar(types.i32)
    left, right = (binary(trace.builder, operator, x, count) for operator in ("<<", ">>"))
    for value in values(dtype):
        assert trace.evaluate(left, value, -1) == 0
        assert trace.evaluate(right, value, -1) == (-1 if value < 0 else 0)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("operator", ["<<", ">>"])
def test_a_shift_by_a_constant_is_one_operation_at_most(dtype, operator):
    for count in (0, 1, dtype.bits - 1, dtype.bits, 1000):
        trace = Trace()
        result = binary(trace.builder, operator, trace.scalar(dtype), count)
        assert len(trace.names) <= 1
        for value in values(dtype):
            assert trace.evaluate(result, value) == wrap(eval(f"value {operator} count"), dtype)


@pytest.mark.parametrize("operator", ["<<", ">>"])
def test_a_masked_count_needs_no_limit(operator):
    trace = Trace()
    x, count = trace.scalar(types.i32), trace.scalar(types.i32)
    masked = binary(trace.builder, "&", count, 31)
    result = binary(trace.builder, operator, x, masked)
    assert len(trace.names) == 2
    for value in (1, -5):
        assert trace.evaluate(result, value, 35) == eval(f"value {operator} 3")
    binary(trace.builder, operator, x, binary(trace.builder, "&", count, 63))
    assert len(trace.names) > 4


def test_a_constant_on_the_left_takes_the_counts_type():
    trace = Trace()
    assert binary(trace.builder, "<<", 1, trace.scalar(types.i64)).dtype is types.i64
    assert binary(trace.builder, "<<", 1, trace.scalar(types.u8)).dtype is types.u8
    assert binary(trace.builder, "<<", 1, trace.scalar(types.bool_)).dtype is types.i32


def test_a_negative_constant_count_is_an_error():
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        binary(trace.builder, "<<", trace.scalar(types.i32), -3)
    assert caught.value.code == "SHIFT_NEGATIVE"
    assert "shift by -3" in caught.value.message
    assert caught.value.hint == "shift the other way: >> 3"


@pytest.mark.parametrize("operator", ["<<", ">>", "&", "|", "^"])
def test_floats_have_no_bits(operator):
    trace = Trace()
    for operands in (
        (trace.scalar(types.f32), 1),
        (trace.scalar(types.i32), 1.0),
        (1, trace.scalar(types.f64)),
    ):
        with pytest.raises(TypeMismatchError) as caught:
            binary(trace.builder, operator, *operands)
        assert caught.value.code == "TYPE_NO_BITS"


@pytest.mark.parametrize("operator", ["&", "|", "^"])
def test_two_bools_stay_a_bool(operator):
    trace = Trace()
    flag = trace.scalar(types.bool_)
    assert binary(trace.builder, operator, flag, flag).dtype is types.bool_
    assert binary(trace.builder, operator, flag, True).dtype is types.bool_
    assert binary(trace.builder, operator, flag, 1).dtype is types.i32
    assert binary(trace.builder, operator, flag, trace.scalar(types.u8)).dtype is types.i32
    trace.verify()


@given(st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1))
def test_mixed_bit_operations_meet_in_the_common_type(left, right):
    trace = Trace()
    result = binary(trace.builder, "^", trace.scalar(types.u32), trace.scalar(types.i64))
    assert result.dtype is types.i64
    assert trace.evaluate(result, left, right) == left ^ right
