# SPDX-License-Identifier: Apache-2.0
"""Compile-time numbers: default types, ranges, rounding against NumPy and ml_dtypes."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.cli.functions import numpy_type
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import constant_of, default_dtype, round_to
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined

NUMPY = {dtype: numpy_type(dtype).type for dtype in DTYPES if dtype.is_float}
FLOATS = sorted(NUMPY, key=lambda dtype: dtype.name)


@pytest.mark.parametrize(
    ("constant", "dtype"),
    [
        (0, "i32"),
        (2**31 - 1, "i32"),
        (-(2**31), "i32"),
        (2**31, "i64"),
        (-(2**31) - 1, "i64"),
        (2**63 - 1, "i64"),
        (2**63, "u64"),
        (2**64 - 1, "u64"),
        (1.0, "f32"),
        (True, "bool_"),
    ],
)
def test_a_constant_takes_its_default_type(constant, dtype):
    assert default_dtype(constant).name == dtype


@pytest.mark.parametrize("constant", [2**64, -(2**63) - 1])
def test_an_integer_beyond_64_bits_is_an_error(constant):
    with pytest.raises(ValueRangeError, match=f"constant {constant} does not fit 64 bits"):
        default_dtype(constant)


def test_a_non_number_has_no_default_type():
    with pytest.raises(TypeMismatchError, match="received 'x' of type str"):
        default_dtype("x")


@pytest.mark.parametrize("dtype", [d for d in types.DTYPES if d.is_integer], ids=str)
def test_an_integer_constant_fits_up_to_the_limits_of_its_type(dtype):
    assert constant_of(dtype.maximum, dtype) == dtype.maximum
    assert constant_of(dtype.minimum, dtype) == dtype.minimum
    for outside in (dtype.maximum + 1, dtype.minimum - 1):
        with pytest.raises(ValueRangeError) as caught:
            constant_of(outside, dtype)
        assert caught.value.message == (
            f"the constant {outside} does not fit {dtype}, "
            f"which holds {dtype.minimum} to {dtype.maximum}"
        )


def test_a_float_constant_for_an_integer_says_how_to_convert():
    with pytest.raises(TypeMismatchError) as caught:
        constant_of(1.5, types.u8)
    assert caught.value.message == "expected a u8, received the constant 1.5"
    assert "weft.u8(1.5)" in caught.value.hint


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_constant_is_rounded_as_ieee_does(dtype, number):
    with np.errstate(over="ignore"):
        expected = float(NUMPY[dtype](number))
    limit = float(ml_dtypes.finfo(NUMPY[dtype]).max)
    if expected == 0 != number:
        with pytest.raises(ValueRangeError, match="would be 0"):
            constant_of(number, dtype)
    if math.isfinite(expected) and abs(expected) <= limit:
        rounded = constant_of(number, dtype, may_vanish=True)
        assert rounded == expected
        assert math.copysign(1, rounded) == math.copysign(1, number)
    else:
        with pytest.raises(ValueRangeError):
            constant_of(number, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(st.integers(min_value=-(2**70), max_value=2**70))
def test_an_integer_constant_is_rounded_to_a_float_in_one_step(dtype, number):
    rounded = round_to(number, dtype)
    digits = dtype.info.format.precision
    spacing = Fraction(2) ** max(abs(number).bit_length() - digits, 0)
    error = abs(Fraction(rounded) - number)
    assert error <= spacing / 2
    if error == spacing / 2:
        assert (Fraction(rounded) / spacing).numerator % 2 == 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_an_infinite_constant_fits_where_the_type_has_infinities(dtype):
    if not dtype.info.format.has_infinity:
        with pytest.raises(ValueRangeError, match=r"holds -448.0 to 448.0"):
            constant_of(math.inf, dtype)
    else:
        assert constant_of(-math.inf, dtype) == -math.inf
    assert math.isnan(constant_of(math.nan, dtype))


def test_a_bool_constant_is_0_or_1():
    assert constant_of(1, types.bool_) is True
    with pytest.raises(ValueRangeError, match="holds 0 to 1"):
        constant_of(2, types.bool_)
    assert constant_of(True, types.i8) == 1
