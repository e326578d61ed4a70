# SPDX-License-Identifier: Apache-2.0
"""``**``: multiplications for small constants, `math.powf` for the rest, refusals for fractions of integers."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError
from weft.language.numbers.operators import binary
from weft.types import dtype as types

pytestmark = pytest.mark.joined


def wrap(number, dtype):
    number &= (1 << dtype.bits) - 1
    return number - (1 << dtype.bits) if number > dtype.maximum else number


@pytest.mark.parametrize("dtype", [types.i8, types.u8, types.i32, types.u64], ids=str)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 16, 31, 64])
def test_an_integer_power_is_exact_and_wraps(dtype, exponent):
    trace = Trace()
    result = binary(trace.builder, "**", trace.scalar(dtype), exponent)
    assert result.dtype is dtype
    for base in (0, 1, 2, 3, 7, 100):
        assert trace.evaluate(result, base) == wrap(base**exponent, dtype)


@pytest.mark.parametrize(
    ("exponent", "multiplications"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (8, 3), (15, 6)]
)
def test_a_small_power_of_a_float_is_few_multiplications(exponent, multiplications):
    trace = Trace()
    binary(trace.builder, "**", trace.scalar(types.f32), exponent)
    assert trace.names == ["arith.mulf"] * multiplications


def test_a_negative_power_of_a_float_is_one_division():
    trace = Trace()
    binary(trace.builder, "**", trace.scalar(types.f32), -2)
    assert trace.names == ["arith.mulf", "arith.divf"]
    trace.verify()


@pytest.mark.parametrize("exponent", [0.5, 17, -40, 1e9, float("inf")])
def test_other_powers_of_a_float_are_powf(exponent):
    trace = Trace()
    assert binary(trace.builder, "**", trace.scalar(types.f64), exponent).dtype is types.f64
    assert trace.names == ["math.powf"]


def test_a_float_exponent_at_run_time_is_powf_in_the_common_type():
    trace = Trace()
    x, n = trace.scalar(types.f16), trace.scalar(types.i32)
    assert binary(trace.builder, "**", x, trace.scalar(types.f32)).dtype is types.f32
    assert binary(trace.builder, "**", x, n).dtype is types.f16
    assert binary(trace.builder, "**", 2.0, n).dtype is types.f32
    assert binary(trace.builder, "**", n, 0.5).dtype is types.f32
    assert trace.names.count("math.powf") == 4
    trace.verify()


def test_an_integer_to_a_negative_power_says_how_to_convert():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        binary(trace.builder, "**", trace.scalar(types.i32), -1)
    assert caught.value.code == "POWER_NEGATIVE"
    assert "weft.f32(x)" in caught.value.hint


def test_a_run_time_integer_power_is_refused():
    trace = Trace()
    n = trace.scalar(types.i32)
    with pytest.raises(TypeMismatchError) as caught:
        binary(trace.builder, "**", n, n)
    assert caught.value.code == "POWER_INTEGER"
    with pytest.raises(TypeMismatchError) as caught:
        binary(trace.builder, "**", 2, n)
    assert caught.value.hint == "write 1 << n"
