# SPDX-License-Identifier: Apache-2.0
"""Conversions: every pair of types, constants at once, implicit ones without loss, truth."""

from __future__ import annotations

import math

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import convert, holds, materialize, truth
from weft.language.values import Scalar
from weft.types import dtype as types
from weft.types.dtype import DTYPES, dtype_named

pytestmark = pytest.mark.joined

INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]
PAIRS = [(source, target) for source in DTYPES for target in DTYPES]


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_every_type_converts_to_every_type(source, target):
    trace = Trace()
    result = convert(trace.builder, trace.scalar(source), target)
    assert result.dtype is target
    assert len(trace.names) <= 2
    trace.verify()


@pytest.mark.parametrize("source", [*INTEGERS, types.bool_], ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_between_integers_the_value_wraps(source, target):
    trace = Trace()
    result = convert(trace.builder, trace.scalar(source), target)
    for value in (0, 1, source.maximum, source.minimum, source.maximum // 3):
        expected = value & ((1 << target.bits) - 1)
        if expected > target.maximum:
            expected -= 1 << target.bits
        assert trace.evaluate(result, int(value)) == expected


@pytest.mark.parametrize(
    ("source", "target", "names"),
    [
        ("f32", "i8", ["arith.fptosi"]),
        ("f64", "u32", ["arith.fptoui"]),
        ("f8e4m3", "i32", ["arith.fptosi"]),
        ("i32", "f16", ["arith.sitofp"]),
        ("u64", "f32", ["arith.uitofp"]),
        ("bool_", "f32", ["arith.uitofp"]),
        ("i32", "bf16", ["arith.sitofp"]),
        ("u8", "f8e5m2", ["arith.uitofp"]),
        ("f16", "f32", ["arith.extf"]),
        ("f64", "bf16", ["arith.truncf"]),
        ("f64", "f8e4m3", ["arith.truncf"]),
        ("f16", "bf16", ["arith.extf", "arith.truncf"]),
        ("bf16", "f16", ["arith.extf", "arith.truncf"]),
        ("f16", "f8e4m3", ["arith.truncf"]),
        ("f8e5m2", "f64", ["arith.extf"]),
        ("f8e5m2", "f8e4m3", ["arith.extf", "arith.truncf"]),
        ("i32", "u32", []),
        ("i16", "bool_", ["arith.cmpi"]),
        ("f32", "bool_", ["arith.cmpf"]),
    ],
)
def test_a_conversion_rounds_once(source, target, names):
    trace = Trace()
    convert(trace.builder, trace.scalar(dtype_named(source)), dtype_named(target))
    assert trace.names == names


def test_converting_to_the_same_type_is_the_same_value():
    trace = Trace()
    x = trace.scalar(types.f32)
    assert convert(trace.builder, x, types.f32) is x


def test_a_constant_converts_at_once():
    trace = Trace()
    assert convert(trace.builder, 2, types.f64).constant == 2.0
    assert convert(trace.builder, 3.9, types.i32).constant == 3
    assert convert(trace.builder, -3.9, types.i32).constant == -3
    assert convert(trace.builder, 0.5, types.bool_).constant is True
    assert convert(trace.builder, 255, types.u8).constant == 255
    assert trace.names == []


@pytest.mark.parametrize("constant", [-1, 256, 1e9, math.inf, math.nan])
def test_a_constant_out_of_range_is_an_error(constant):
    trace = Trace()
    with pytest.raises(ValueRangeError, match="does not fit u8"):
        convert(trace.builder, constant, types.u8)


def test_a_typed_constant_converts_as_at_run_time():
    trace = Trace()
    big = convert(trace.builder, 300, types.i32)
    assert convert(trace.builder, big, types.u8).constant == 44
    assert convert(trace.builder, big, types.f16).constant == 300.0
    huge = convert(trace.builder, 1e10, types.f32)
    assert convert(trace.builder, huge, types.i32).constant == 2**31 - 1
    nan = convert(trace.builder, math.nan, types.f32)
    assert convert(trace.builder, nan, types.i32).constant == 0
    assert trace.names == []


def test_a_constant_that_overflows_a_float_is_left_to_run_time():
    trace = Trace()
    result = convert(trace.builder, convert(trace.builder, 1e10, types.f32), types.f16)
    assert result.constant is None
    assert trace.names == ["arith.truncf"]


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_an_implicit_conversion_loses_nothing_or_is_refused(source, target):
    trace = Trace()
    x = trace.scalar(source)
    if holds(target, source):
        assert materialize(trace.builder, x, target).dtype is target
    else:
        with pytest.raises(TypeMismatchError) as caught:
            materialize(trace.builder, x, target)
        assert caught.value.code == "TYPE_NARROWING"
        assert caught.value.hint == f"write weft.{target}(...) to convert"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_constant_takes_the_type_it_is_needed_in(dtype):
    trace = Trace()
    assert materialize(trace.builder, 1, dtype).constant == 1
    assert materialize(trace.builder, True, dtype).constant == 1


def test_equal_constants_are_one_operation():
    trace = Trace()
    first, second = (materialize(trace.builder, 0.5, types.f32) for _ in range(2))
    assert first.ssa is second.ssa
    assert trace.constants == ["5.000000e-01 : f32"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_truth_is_a_bool(dtype):
    trace = Trace()
    x = trace.scalar(dtype)
    found = truth(trace.builder, x)
    assert found.dtype is types.bool_
    if dtype.is_bool:
        assert found is x
    trace.verify()


def test_nan_is_true():
    trace = Trace()
    truth(trace.builder, trace.scalar(types.f32))
    assert "arith.cmpf une, " in trace.verify()


def test_a_constant_keeps_its_value_and_sign():
    trace = Trace()
    assert materialize(trace.builder, 200, types.u8).constant == 200
    assert materialize(trace.builder, -56, types.i8).constant == -56
    assert materialize(trace.builder, 2**64 - 1, types.u64).constant == 2**64 - 1
    assert trace.scalar(types.i32).constant is None
    assert isinstance(materialize(trace.builder, 1, types.i8), Scalar)


def test_a_non_number_does_not_convert():
    trace = Trace()
    with pytest.raises(TypeMismatchError, match=r"expected a number, received the tuple \(1, 2\)"):
        convert(trace.builder, (1, 2), types.f32)
