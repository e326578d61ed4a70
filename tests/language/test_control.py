# SPDX-License-Identifier: Apache-2.0
"""Ranges, rounding up, choices and compile-time checks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.tracing import Trace
from weft.errors import CompileError, TypeMismatchError, ValueRangeError
from weft.language import resolve
from weft.language.builtins import BUILTINS
from weft.language.control import StagedRange
from weft.types import dtype as types
from weft.types.dtype import DTYPES, dtype_named

pytestmark = pytest.mark.joined

ceil_div, where = resolve("ceil_div"), resolve("where")
static_range, static_assert = resolve("static_range"), resolve("static_assert")
range_ = BUILTINS[range]


@pytest.mark.parametrize("arguments", [(3,), (1, 5), (10, 0, -3), (0,), (-1,)])
def test_a_range_of_constants_is_pythons(arguments):
    trace = Trace()
    assert range_.emit(trace.builder, *arguments) == range(*arguments)
    assert static_range.emit(trace.builder, *arguments) == range(*arguments)


@pytest.mark.parametrize(
    ("bounds", "dtype"),
    [
        (("i32",), "i32"),
        (("u8", "i16"), "i32"),
        (("u16",), "i32"),
        (("u32",), "i64"),
        (("i32", "i64"), "i64"),
        (("u64",), "u64"),
        (("u8", "u64"), "u64"),
        (("i32", "i32", "i64"), "i64"),
    ],
)
def test_the_variable_of_a_range_has_a_type_that_holds_the_bounds(bounds, dtype):
    trace = Trace()
    found = range_.emit(trace.builder, *(trace.scalar(dtype_named(name)) for name in bounds))
    assert isinstance(found, StagedRange)
    assert found.dtype.name == dtype
    assert {bound.dtype.name for bound in found.bounds(trace.builder)} == {dtype}
    trace.verify()


def test_a_large_constant_bound_makes_the_variable_i64():
    trace = Trace()
    found = range_.emit(trace.builder, trace.scalar(types.i32), 1 << 40)
    assert found.dtype is types.i64


def test_a_range_begins_at_0_and_steps_by_1():
    trace = Trace()
    start, stop, step = range_.emit(trace.builder, trace.scalar(types.i32)).bounds(trace.builder)
    assert (start.constant, stop.constant, step.constant) == (0, None, 1)


@pytest.mark.parametrize("bound", [1.5, "3", None])
def test_a_bound_that_is_not_an_integer_is_refused(bound):
    trace = Trace()
    for operation in (range_, static_range):
        with pytest.raises(TypeMismatchError):
            operation.emit(trace.builder, bound)


@pytest.mark.parametrize("dtype", [types.f32, types.bool_], ids=str)
def test_a_staged_float_or_bool_is_not_a_bound(dtype):
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        range_.emit(trace.builder, trace.scalar(dtype))
    assert caught.value.code == "RANGE_TYPE"


def test_a_step_of_0_is_an_error():
    trace = Trace()
    for stop in (5, trace.scalar(types.i32)):
        with pytest.raises(ValueRangeError, match="the step is 0"):
            range_.emit(trace.builder, 0, stop, 0)


@pytest.mark.parametrize("count", [0, 4])
def test_a_range_has_one_to_three_arguments(count):
    with pytest.raises(TypeMismatchError, match=f"received {count} arguments"):
        range_.emit(Trace().builder, *[1] * count)


def test_a_static_range_refuses_what_is_known_at_run_time_only():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        static_range.emit(trace.builder, trace.scalar(types.i32))
    assert caught.value.code == "STATIC_RANGE"
    assert caught.value.hint.startswith("use range")


@given(st.integers(-(2**31) + 1, 2**31 - 1), st.integers(-1000, 1000).filter(bool))
def test_ceil_div_is_exact_for_every_sign(dividend, divisor):
    trace = Trace()
    x, y = trace.scalar(types.i32), trace.scalar(types.i32)
    staged = ceil_div.emit(trace.builder, x, y)
    by_constant = ceil_div.emit(trace.builder, x, divisor)
    expected = -(-dividend // divisor)
    if -(2**31) <= expected < 2**31:
        assert trace.evaluate(staged, dividend, divisor) == expected
        assert trace.evaluate(by_constant, dividend, divisor) == expected
    assert ceil_div.emit(trace.builder, dividend, divisor) == expected


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1))
def test_ceil_div_of_unsigned_integers_reaches_their_limit(dividend, divisor):
    trace = Trace()
    found = ceil_div.emit(trace.builder, trace.scalar(types.u32), trace.scalar(types.u32))
    assert found.dtype is types.u32
    assert trace.evaluate(found, dividend, divisor) == -(-dividend // divisor)


def test_ceil_div_by_a_power_of_two_is_three_operations():
    trace = Trace()
    ceil_div.emit(trace.builder, trace.scalar(types.i32), 128)
    assert trace.names == ["arith.subi", "arith.shrsi", "arith.subi"]


@pytest.mark.parametrize("arguments", [(1.5, 2), (1, 2.0)])
def test_ceil_div_takes_integers(arguments):
    trace = Trace()
    with pytest.raises(
        TypeMismatchError, match=r"ceil_div takes integers, received the constant \d.\d"
    ):
        ceil_div.emit(trace.builder, *arguments)
    with pytest.raises(TypeMismatchError, match="received f32"):
        ceil_div.emit(trace.builder, trace.scalar(types.f32), 2)


def test_ceil_div_by_the_constant_0_is_an_error():
    trace = Trace()
    for dividend in (5, trace.scalar(types.i32)):
        with pytest.raises(ValueRangeError) as caught:
            ceil_div.emit(trace.builder, dividend, 0)
        assert caught.value.code == "DIVISION_BY_ZERO"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("operation", [where], ids=str)
def test_a_choice_of_two_values_of_one_type_has_that_type(operation, dtype):
    trace = Trace()
    flag = trace.scalar(types.bool_)
    found = operation.emit(trace.builder, flag, trace.scalar(dtype), trace.scalar(dtype))
    assert found.dtype is dtype
    assert trace.names == ["arith.select"]
    trace.verify()


def test_a_choice_meets_in_the_common_type():
    trace = Trace()
    flag, x = trace.scalar(types.bool_), trace.scalar(types.f64)
    assert where.emit(trace.builder, flag, x, 0).dtype is types.f64
    assert where.emit(trace.builder, flag, trace.scalar(types.i32), x).dtype is types.f64
    assert where.emit(trace.builder, flag, flag, False).dtype is types.bool_
    assert where.emit(trace.builder, flag, True, False).dtype is types.bool_
    assert where.emit(trace.builder, flag, 1, 2).dtype is types.i32
    assert where.emit(trace.builder, flag, trace.scalar(types.f8e4m3), 0.5).dtype is types.f8e4m3
    trace.verify()


def test_a_choice_by_a_constant_emits_no_select():
    trace = Trace()
    x, y = trace.scalar(types.i32), trace.scalar(types.i32)
    assert where.emit(trace.builder, True, x, y).ssa is x.ssa
    assert where.emit(trace.builder, 0, x, y).ssa is y.ssa
    assert trace.names == []


def test_a_number_is_a_condition():
    trace = Trace()
    found = where.emit(trace.builder, trace.scalar(types.i32), 10, 20)
    assert [trace.evaluate(found, value) for value in (0, 5)] == [20, 10]


def test_static_assert_leaves_nothing_or_fails_with_its_message():
    trace = Trace()
    static_assert.emit(trace.builder, True)
    assert trace.names == []
    with pytest.raises(CompileError) as caught:
        static_assert.emit(trace.builder, False, "TILE is a multiple of 32")
    assert caught.value.code == "STATIC_ASSERT"
    assert caught.value.message == "static_assert failed: TILE is a multiple of 32"
    with pytest.raises(TypeMismatchError, match="known at compile time, received bool_"):
        static_assert.emit(trace.builder, trace.scalar(types.bool_))
