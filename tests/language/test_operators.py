# SPDX-License-Identifier: Apache-2.0
"""Operators on staged numbers: types, the operations emitted, and what integers compute."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.operators import binary, compare, logical_not, unary
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined

INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]
FLOATS = [types.f16, types.bf16, types.f32, types.f64]
each_integer = pytest.mark.parametrize("dtype", INTEGERS, ids=str)
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def wrap(number, dtype):
    number &= (1 << dtype.bits) - 1
    return number - (1 << dtype.bits) if number > dtype.maximum else number


def edges(dtype):
    near = (-3, -2, -1, 0, 1, 2, 3, 7, 100)
    limits = (dtype.minimum, dtype.minimum + 1, dtype.maximum - 1, dtype.maximum)
    return sorted({n for n in (*near, *limits) if dtype.minimum <= n <= dtype.maximum})


@each_integer
@pytest.mark.parametrize("operator", ["+", "-", "*", "//", "%", "&", "|", "^"])
def test_an_integer_operator_is_pythons_and_wraps(dtype, operator):
    trace = Trace()
    result = binary(trace.builder, operator, trace.scalar(dtype), trace.scalar(dtype))
    assert result.dtype is dtype
    for left, right in itertools.product(edges(dtype), repeat=2):
        if right or operator not in ("//", "%"):
            expected = wrap(eval(f"left {operator} right"), dtype)
            assert trace.evaluate(result, left, right) == expected, (left, operator, right)


@each_integer
@pytest.mark.parametrize("operator", ["+", "-", "*", "//", "%", "&", "|", "^"])
@pytest.mark.parametrize("constant", [1, 2, 3, 8, 64, 127])
def test_an_operator_with_a_constant_computes_the_same(dtype, operator, constant):
    for swap in (False, True):
        trace = Trace()
        operands = (trace.scalar(dtype), constant)
        result = binary(trace.builder, operator, *(reversed(operands) if swap else operands))
        for value in edges(dtype):
            left, right = (constant, value) if swap else (value, constant)
            if right or operator not in ("//", "%"):
                assert trace.evaluate(result, value) == wrap(
                    eval(f"left {operator} right"), dtype
                ), (left, operator, right)


@each_integer
def test_a_constant_0_or_1_vanishes_where_the_value_stays(dtype):
    trace = Trace()
    x = trace.scalar(dtype)
    for operator, constant in (("+", 0), ("-", 0), ("*", 1), ("//", 1), ("<<", 0), (">>", 0)):
        assert binary(trace.builder, operator, x, constant).ssa is x.ssa
    assert binary(trace.builder, "+", 0, x).ssa is x.ssa
    assert binary(trace.builder, "*", 1, x).ssa is x.ssa
    assert trace.names == []


def test_a_float_keeps_an_added_zero_but_not_a_factor_of_one():
    trace = Trace()
    x = trace.scalar(types.f32)
    assert binary(trace.builder, "*", x, 1).ssa is x.ssa
    assert binary(trace.builder, "/", x, 1.0).ssa is x.ssa
    binary(trace.builder, "+", x, 0.0)  # −0.0 + 0.0 is 0.0
    binary(trace.builder, "+", 0, x)
    binary(trace.builder, "//", x, 1)
    assert trace.names == ["arith.addf", "arith.addf", "simt.floor_div"]


@pytest.mark.parametrize("dtype", [types.i32, types.u32, types.i8], ids=str)
def test_division_by_a_power_of_two_is_a_shift_and_a_mask(dtype):
    trace = Trace()
    x = trace.scalar(dtype)
    binary(trace.builder, "//", x, 16)
    binary(trace.builder, "%", x, 16)
    assert trace.names == ["arith.shrsi" if dtype.is_signed else "arith.shrui", "arith.andi"]


def test_signed_division_floors_and_unsigned_division_is_divui():
    trace = Trace()
    i, u = trace.scalar(types.i32), trace.scalar(types.u32)
    for x in (i, u):
        binary(trace.builder, "//", x, x)
        binary(trace.builder, "%", x, x)
    assert trace.names == ["simt.floor_div", "simt.floor_mod", "arith.divui", "arith.remui"]
    trace.verify()


@pytest.mark.parametrize("operator", ["//", "%"])
def test_integer_division_by_the_constant_0_is_an_error(operator):
    trace = Trace()
    with pytest.raises(ValueRangeError, match="division by the constant 0") as caught:
        binary(trace.builder, operator, trace.scalar(types.i32), 0)
    assert caught.value.code == "DIVISION_BY_ZERO"


@each_float
def test_a_float_operator_is_one_operation_in_its_type(dtype):
    trace = Trace()
    x = trace.scalar(dtype)
    results = [
        binary(trace.builder, operator, x, x) for operator in ("+", "-", "*", "/", "//", "%")
    ]
    assert {result.dtype for result in results} == {dtype}
    assert trace.names == [
        "arith.addf",
        "arith.subf",
        "arith.mulf",
        "arith.divf",
        "simt.floor_div",
        "simt.floor_mod",
    ]
    trace.verify()


def test_operands_are_converted_to_the_common_type():
    trace = Trace()
    result = binary(trace.builder, "+", trace.scalar(types.i32), trace.scalar(types.f64))
    assert result.dtype is types.f64
    assert trace.names == ["arith.sitofp", "arith.addf"]
    result = binary(trace.builder, "*", trace.scalar(types.u16), trace.scalar(types.i16))
    assert result.dtype is types.i32
    assert trace.names[2:] == ["arith.extui", "arith.extsi", "arith.muli"]
    trace.verify()


def test_bools_add_as_i32():
    trace = Trace()
    flag = trace.scalar(types.bool_)
    total = binary(trace.builder, "+", flag, flag)
    assert total.dtype is types.i32
    assert trace.evaluate(total, 1) == 2


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_float8], ids=str)
def test_f8_arithmetic_is_f32(dtype):
    trace = Trace()
    x = trace.scalar(dtype)
    assert binary(trace.builder, "+", x, 1).dtype is types.f32
    assert binary(trace.builder, "*", x, x).dtype is types.f32
    assert unary(trace.builder, "-", x).dtype is types.f32
    trace.verify()


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (types.i32, types.i32, "f32"),
        (types.u8, types.i64, "f64"),
        (types.i64, types.u64, "f64"),
        (types.bool_, types.bool_, "f32"),
        (types.i32, types.f16, "f16"),
    ],
)
def test_true_division_of_integers_is_a_float(left, right, result):
    trace = Trace()
    quotient = binary(trace.builder, "/", trace.scalar(left), trace.scalar(right))
    assert quotient.dtype.name == result
    assert trace.names[-1] == "arith.divf"
    trace.verify()


def test_dividing_an_integer_by_one_still_gives_a_float():
    trace = Trace()
    assert binary(trace.builder, "/", trace.scalar(types.i32), 1).dtype is types.f32


@each_integer
@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
def test_integers_compare_by_their_sign(dtype, operator):
    trace = Trace()
    result = compare(trace.builder, operator, trace.scalar(dtype), trace.scalar(dtype))
    assert result.dtype is types.bool_
    for left, right in itertools.product(edges(dtype), repeat=2):
        assert trace.evaluate(result, left, right) is eval(f"left {operator} right")


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1))
def test_mixed_signs_compare_by_value(left, right):
    trace = Trace()
    result = compare(trace.builder, "<", trace.scalar(types.i32), trace.scalar(types.u32))
    assert trace.evaluate(result, left, right) is (left < right)


def test_only_unequal_is_true_with_nan():
    trace = Trace()
    x = trace.scalar(types.f32)
    for operator in ("==", "!=", "<", "<=", ">", ">="):
        compare(trace.builder, operator, x, 1)
    text = trace.verify()
    for predicate in ("oeq", "une", "olt", "ole", "ogt", "oge"):
        assert f"arith.cmpf {predicate}, " in text


def test_bools_are_compared_as_bools():
    trace = Trace()
    flag, other = trace.scalar(types.bool_), trace.scalar(types.bool_)
    compare(trace.builder, "==", flag, True)
    compare(trace.builder, "!=", flag, other)
    assert trace.names == ["arith.cmpi", "arith.cmpi"]


def test_a_constant_beyond_a_comparisons_type_is_an_error():
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        compare(trace.builder, "<", trace.scalar(types.u8), 300)
    assert caught.value.message == (
        "u8 < the constant 300: the constant 300 does not fit u8, which holds 0 to 255"
    )


def test_signed_with_u64_does_not_compare():
    trace = Trace()
    with pytest.raises(TypeMismatchError, match="i64 < u64: i64 with u64 has no common type"):
        compare(trace.builder, "<", trace.scalar(types.i64), trace.scalar(types.u64))


@each_integer
def test_unary_operators_wrap(dtype):
    trace = Trace()
    x = trace.scalar(dtype)
    minus, inverted = unary(trace.builder, "-", x), unary(trace.builder, "~", x)
    assert unary(trace.builder, "+", x).ssa is x.ssa
    for value in edges(dtype):
        assert trace.evaluate(minus, value) == wrap(-value, dtype)
        assert trace.evaluate(inverted, value) == wrap(~value, dtype)


@each_float
def test_negating_a_float_flips_its_sign(dtype):
    trace = Trace()
    assert unary(trace.builder, "-", trace.scalar(dtype)).dtype is dtype
    assert trace.names == ["arith.negf"]


def test_invert_refuses_bools_and_floats():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        unary(trace.builder, "~", trace.scalar(types.bool_))
    assert caught.value.hint.startswith("write `not x`")
    with pytest.raises(TypeMismatchError, match="~ takes integers and bools, received an f32"):
        unary(trace.builder, "~", trace.scalar(types.f32))


def test_logical_not_asks_for_zero():
    trace = Trace()
    result = logical_not(trace.builder, trace.scalar(types.i32))
    assert [trace.evaluate(result, value) for value in (0, 1, -5)] == [True, False, False]


def test_a_non_number_is_refused_with_both_operands():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        binary(trace.builder, "+", trace.scalar(types.f32), "one")
    assert caught.value.message == "f32 + the str 'one': expected a number, received the str 'one'"


@pytest.mark.parametrize("call", [binary, compare])
def test_an_unknown_operator_is_refused(call):
    trace = Trace()
    with pytest.raises(TypeMismatchError, match="'@'"):
        call(trace.builder, "@", trace.scalar(types.f32), 1)


def test_numpy_scalars_keep_their_own_type():
    numpy = pytest.importorskip("numpy")
    trace = Trace()
    x = trace.scalar(types.f32)
    assert binary(trace.builder, "+", x, numpy.float64(0.5)).dtype is types.f64
    assert binary(trace.builder, "+", x, numpy.float16(0.5)).dtype is types.f32
    assert binary(trace.builder, "+", trace.scalar(types.i32), numpy.int64(1)).dtype is types.i64
