# SPDX-License-Identifier: Apache-2.0
"""Float operators: IEEE to the bit, Python's floor and remainder, and special values.

In: every pair of interesting values. Out: agreement with NumPy.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import weft
from tests.conformance.harness import (
    INTEGERS,
    NARROW_FLOATS,
    NUMPY_TYPES,
    WIDE_FLOATS,
    compute,
    compute_one,
)
from tests.conformance.model import (
    assert_same,
    common_type,
    floats,
    interesting_floats,
    interesting_integers,
    pairs,
)
from tests.sampling import sampled

FLOATS = WIDE_FLOATS + NARROW_FLOATS
OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
each_wide_float = pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)


@each_float
def test_arithmetic_is_ieee_to_the_bit(dtype):
    a, b = pairs(interesting_floats(dtype), interesting_floats(dtype))
    got = compute({name: (f"a {sign} b", dtype) for name, sign in OPERATORS.items()}, a=a, b=b)
    for name, sign in OPERATORS.items():
        assert_same(got[name], floats(sign, a, b, dtype), a, b)


def python_floor_divide(a: float, b: float) -> float:
    """Python's `//`, continued to a zero divisor and to infinities by the floor of the quotient."""
    if b == 0 or math.isinf(a) or math.isnan(a) or math.isnan(b):
        quotient = np.float64(a) / np.float64(b)
        return float(np.floor(quotient))
    return a // b


def python_modulo(a: float, b: float) -> float:
    """Python's `%`, continued by NaN where Python raises."""
    if b == 0 or math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return a % b


@each_wide_float
def test_floor_division_and_modulo_have_the_sign_of_the_divisor(dtype):
    numbers = [0.5, 1.0, 1.5, 2.5, 3.0, 7.25, 10.0, 0.1, 1e-3]
    values = np.array([0.0, *numbers, *(-x for x in numbers)], NUMPY_TYPES[dtype])
    a, b = pairs(values, values[1:])
    got = compute({"floor": ("a // b", dtype), "modulo": ("a % b", dtype)}, a=a, b=b)
    assert_same(got["modulo"], floats("%", a, b, dtype), a, b)
    expected = floats("//", a, b, dtype)
    np.testing.assert_array_equal(got["floor"], expected)


@each_float
def test_floor_division_and_modulo_of_operands_far_apart(dtype):
    information = np.finfo(NUMPY_TYPES[dtype]) if dtype is not weft.bf16 else np.finfo(np.float32)
    least, most, eps = (
        float(value) for value in (information.smallest_normal, information.max, information.eps)
    )
    numbers = [1.0, 3.0, 0.1, 1 - eps, 1 + eps, 1.5 / eps, most, most / 3, least, least * (1 + eps)]
    tiny = [least * eps * factor for factor in (1, 3, 7, 0.6 / eps)]
    numbers += [*tiny, *(2.0**exponent for exponent in (-14, -10, 9, 11, 15))]
    values = np.array([*numbers, *(-x for x in numbers)]).astype(NUMPY_TYPES[dtype])
    values = values[np.isfinite(values.astype(np.float64)) & (values != 0)]
    a, b = pairs(values, values)
    # Multiples of the divisor, and adjacent values.
    with np.errstate(all="ignore"):
        near = np.random.default_rng(3).integers(-4000, 4000, len(a)) * b.astype(np.float64)
        near = near.astype(NUMPY_TYPES[dtype])
    near = near[np.isfinite(near.astype(np.float64))]
    a, b = np.concatenate([a, near]), np.concatenate([b, b[: len(near)]])
    got = compute({"floor": ("a // b", dtype), "modulo": ("a % b", dtype)}, a=a, b=b)
    assert_same(got["modulo"], floats("%", a, b, dtype), a, b)
    assert_same(got["floor"], floats("//", a, b, dtype), a, b)


@each_wide_float
def test_floor_division_and_modulo_of_special_values(dtype):
    special = np.array([np.inf, -np.inf, np.nan, 0.0, 3.0, -3.0], NUMPY_TYPES[dtype])
    a, b = pairs(special, special)
    got = compute_one("a % b", dtype, a=a, b=b)
    with np.errstate(all="ignore"):
        expected = np.array(
            [
                python_modulo(float(x), float(y)) if not math.isinf(y) else floor_modulo(x, y)
                for x, y in zip(a, b, strict=True)
            ],
            NUMPY_TYPES[dtype],
        )
    assert_same(got, expected, a, b)


def floor_modulo(a: float, b: float) -> float:
    """`a % b` for an infinite b: a itself, or b where the signs differ; NaN for an infinite a."""
    a, b = float(a), float(b)
    return math.nan if math.isinf(a) or math.isnan(a) else a % b


@each_wide_float
def test_floor_division_of_special_values(dtype):
    information = np.finfo(NUMPY_TYPES[dtype])
    finite = [0.0, 0.5, 1.0, 3.0, information.smallest_subnormal, information.max]
    special = np.array(
        [np.nan, np.inf, -np.inf, *finite, *(-x for x in finite)], NUMPY_TYPES[dtype]
    )
    a, b = pairs(special, special)
    with np.errstate(all="ignore"):
        # Python raises for a zero divisor, where C's quotient is the result.
        expected = [
            float(x) // float(y) if y != 0 else np.float64(x) / np.float64(y)
            for x, y in zip(a, b, strict=True)
        ]
        assert_same(compute_one("a // b", dtype, a=a, b=b), np.array(expected, a.dtype), a, b)


@each_float
def test_comparisons_with_nan_are_false_but_unequal(dtype):
    a, b = pairs(interesting_floats(dtype), interesting_floats(dtype))
    signs = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
    got = compute({n: (f"a {sign} b", weft.bool_) for n, sign in signs.items()}, a=a, b=b)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    assert_same(got["lt"], wide_a < wide_b, a, b)
    assert_same(got["le"], wide_a <= wide_b, a, b)
    assert_same(got["gt"], wide_a > wide_b, a, b)
    assert_same(got["ge"], wide_a >= wide_b, a, b)
    assert_same(got["eq"], wide_a == wide_b, a, b)
    assert_same(got["ne"], wide_a != wide_b, a, b)


@each_float
def test_negation_and_absolute_value_change_only_the_sign(dtype):
    a = interesting_floats(dtype)
    got = compute({"minus": ("-a", dtype), "absolute": ("abs(a)", dtype)}, a=a)
    assert_same(got["minus"], -a, a)
    assert_same(got["absolute"], np.abs(a), a)
    zeros = a.astype(np.float64) == 0
    assert (
        np.signbit(got["minus"][zeros].astype(np.float32))
        != np.signbit(a[zeros].astype(np.float32))
    ).all()


FLOAT_PAIRS = list(itertools.combinations(FLOATS, 2))


@pytest.mark.parametrize(("left", "right"), FLOAT_PAIRS, ids=str)
def test_mixed_floats_meet_in_the_wider_one(left, right):
    common = common_type(left, right)
    a, b = pairs(interesting_floats(left), interesting_floats(right))
    got = compute({name: (f"a {sign} b", common) for name, sign in OPERATORS.items()}, a=a, b=b)
    for name, sign in OPERATORS.items():
        assert_same(got[name], floats(sign, a, b, common), a, b)


@pytest.mark.parametrize("integer", sampled(INTEGERS, 3), ids=str)
def test_integer_with_float_is_that_float(integer):
    for dtype in WIDE_FLOATS:
        a, b = pairs(interesting_integers(integer), np.array([0.5, -3.0], NUMPY_TYPES[dtype]))
        got = compute({n: (f"a {sign} b", dtype) for n, sign in OPERATORS.items()}, a=a, b=b)
        for name, sign in OPERATORS.items():
            assert_same(got[name], floats(sign, a, b, dtype), a, b)


@each_wide_float
def test_min_and_max_of_numbers(dtype):
    numbers = np.array([-2.5, -1.0, 0.5, 3.0, np.inf, -np.inf], NUMPY_TYPES[dtype])
    a, b = pairs(numbers, numbers)
    got = compute({"smaller": ("min(a, b)", dtype), "larger": ("max(a, b)", dtype)}, a=a, b=b)
    assert_same(got["smaller"], np.minimum(a, b), a, b)
    assert_same(got["larger"], np.maximum(a, b), a, b)


@each_wide_float
def test_nothing_is_reassociated(dtype):
    random = np.random.default_rng(7)
    a, b, c = (random.standard_normal(257).astype(NUMPY_TYPES[dtype]) for _ in range(3))
    got = compute({"first": ("(a + b) + c", dtype), "last": ("a + (b + c)", dtype)}, a=a, b=b, c=c)
    assert_same(got["first"], (a + b) + c, a, b, c)
    assert_same(got["last"], a + (b + c), a, b, c)


@each_wide_float
def test_small_integer_powers(dtype):
    a = np.array([0.0, 1.0, -1.5, 2.0, 3.25], NUMPY_TYPES[dtype])
    got = compute({"square": ("a ** 2", dtype), "cube": ("a ** 3", dtype)}, a=a)
    np.testing.assert_allclose(got["square"], a**2, rtol=1e-6)
    np.testing.assert_allclose(got["cube"], a**3, rtol=1e-6)


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
def test_every_16_bit_value_is_loaded_and_stored_unchanged(dtype):
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = bits.view(NUMPY_TYPES[dtype])
    got = compute_one("values", dtype, values=values).view(np.uint16)
    finite = np.isfinite(values.astype(np.float32)) | np.isinf(values.astype(np.float32))
    np.testing.assert_array_equal(got[finite], bits[finite])
    assert np.isnan(got[~finite].view(NUMPY_TYPES[dtype]).astype(np.float32)).all()
