# SPDX-License-Identifier: Apache-2.0
"""Integer operators: they wrap, floor, and meet in the type that the promotion table says.

In: every pair of interesting values. Out: exact agreement with Python's own integers.
"""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import weft
from tests.conformance.harness import INTEGERS, NUMPY_TYPES, SIGNED, compute, compute_one
from tests.conformance.model import (
    assert_same,
    common_type,
    division_type,
    integers,
    interesting_integers,
    pairs,
    wrap,
)
from tests.sampling import sampled

OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "floor_divide": "//",
    "modulo": "%",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
}
COMPARISONS = {
    "equal": "==",
    "unequal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
PYTHON = {
    **{"==": operator.eq, "!=": operator.ne, "<": operator.lt},
    **{"<=": operator.le, ">": operator.gt, ">=": operator.ge},
}
each_integer = pytest.mark.parametrize("dtype", INTEGERS, ids=str)
MIXED = [
    (left, right)
    for left, right in itertools.combinations(INTEGERS, 2)
    if common_type(left, right) is not None
]


@each_integer
def test_operators_wrap_and_floor_like_python(dtype):
    a, b = pairs(interesting_integers(dtype), interesting_integers(dtype))
    got = compute({name: (f"a {sign} b", dtype) for name, sign in OPERATORS.items()}, a=a, b=b)
    for name, sign in OPERATORS.items():
        assert_same(got[name], integers(sign, a, b, dtype), a, b)


@pytest.mark.parametrize(("left", "right"), sampled(MIXED, 6, several=True), ids=str)
def test_mixed_operands_meet_in_the_common_type(left, right):
    common = common_type(left, right)
    a, b = pairs(interesting_integers(left), interesting_integers(right))
    expressions = {name: (f"a {sign} b", common) for name, sign in OPERATORS.items()}
    expressions |= {name: (f"a {sign} b", weft.bool_) for name, sign in COMPARISONS.items()}
    got = compute(expressions, a=a, b=b)
    for name, sign in OPERATORS.items():
        assert_same(got[name], integers(sign, a, b, common), a, b)
    for name, sign in COMPARISONS.items():
        expected = [
            PYTHON[sign](int(x), int(y))  # Python compares the numbers, whatever their types
            for x, y in zip(a, b, strict=True)
        ]
        assert_same(got[name], np.array(expected), a, b)


@each_integer
def test_comparisons_see_the_sign(dtype):
    a, b = pairs(interesting_integers(dtype), interesting_integers(dtype))
    got = compute({n: (f"a {sign} b", weft.bool_) for n, sign in COMPARISONS.items()}, a=a, b=b)
    for name in COMPARISONS:
        ufunc = {"equal": "equal", "unequal": "not_equal"}.get(name, name)
        assert_same(got[name], getattr(np, ufunc)(a, b), a, b)


@each_integer
def test_true_division_is_f32_or_f64_for_64_bits(dtype):
    a, b = pairs(interesting_integers(dtype), interesting_integers(dtype))
    result = division_type(dtype, dtype)
    numpy_type = NUMPY_TYPES[result]
    with np.errstate(all="ignore"):
        expected = a.astype(numpy_type) / b.astype(numpy_type)
    assert_same(compute_one("a / b", result, a=a, b=b), expected, a, b)


@each_integer
def test_unary_operators_wrap(dtype):
    a = interesting_integers(dtype)
    got = compute({"minus": ("-a", dtype), "plus": ("+a", dtype), "invert": ("~a", dtype)}, a=a)
    assert_same(got["plus"], a)
    assert_same(got["minus"], np.array([wrap(-int(x), dtype) for x in a], a.dtype), a)
    assert_same(got["invert"], np.array([wrap(~int(x), dtype) for x in a], a.dtype), a)


@each_integer
def test_shifts_by_less_than_the_width(dtype):
    a, b = pairs(interesting_integers(dtype), np.arange(dtype.bits, dtype=NUMPY_TYPES[dtype]))
    got = compute({"left": ("a << b", dtype), "right": ("a >> b", dtype)}, a=a, b=b)
    assert_same(got["left"], integers("<<", a, b, dtype), a, b)
    assert_same(got["right"], integers(">>", a, b, dtype), a, b)


@each_integer
def test_shifts_beyond_the_width_lose_everything_but_the_sign(dtype):
    a, b = pairs(interesting_integers(dtype), np.array([dtype.bits, 100], NUMPY_TYPES[dtype]))
    expressions = {
        "left": ("a << b", dtype),
        "right": ("a >> b", dtype),
        "constant_left": (f"a << {dtype.bits}", dtype),
        "constant_right": (f"a >> {dtype.bits + 1}", dtype),
    }
    got = compute(expressions, a=a, b=b)
    for name in ("left", "constant_left"):
        assert_same(got[name], np.zeros_like(a), a, b)
    for name in ("right", "constant_right"):
        assert_same(got[name], np.where(a < 0, -1, 0).astype(a.dtype), a, b)


def test_shift_has_the_type_of_its_left_operand():
    a, b = pairs(np.array([1, 100, 255], np.uint8), np.array([0, 1, 7, 9], np.int64))
    got = compute({"left": ("a << b", weft.u8), "right": ("a >> b", weft.u8)}, a=a, b=b)
    assert_same(got["left"], integers("<<", a, b, weft.u8), a, b)
    assert_same(got["right"], integers(">>", a, b, weft.u8), a, b)


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_division_by_powers_of_two_floors(dtype):
    a = interesting_integers(dtype)
    expressions = {
        "quotient": ("a // 4", dtype),
        "remainder": ("a % 4", dtype),
        "negative_quotient": ("a // -4", dtype),
        "negative_remainder": ("a % -4", dtype),
    }
    got = compute(expressions, a=a)
    for sign, divisor, name in (
        ("//", 4, "quotient"),
        ("%", 4, "remainder"),
        ("//", -4, "negative_quotient"),
        ("%", -4, "negative_remainder"),
    ):
        assert_same(got[name], integers(sign, a, np.full_like(a, divisor), dtype), a)


@each_integer
def test_builtins_of_integers(dtype):
    a, b = pairs(interesting_integers(dtype), interesting_integers(dtype))
    got = compute(
        {
            "absolute": ("abs(a)", dtype),
            "smaller": ("min(a, b)", dtype),
            "larger": ("max(a, b)", dtype),
            "quotient": ("divmod(a, b)[0]", dtype),
            "remainder": ("divmod(a, b)[1]", dtype),
        },
        a=a,
        b=b,
    )
    assert_same(got["absolute"], np.array([wrap(abs(int(x)), dtype) for x in a], a.dtype), a)
    assert_same(got["smaller"], np.minimum(a, b), a, b)
    assert_same(got["larger"], np.maximum(a, b), a, b)
    assert_same(got["quotient"], integers("//", a, b, dtype), a, b)
    assert_same(got["remainder"], integers("%", a, b, dtype), a, b)


def test_bool_in_arithmetic_is_i32():
    a, b = pairs(np.array([False, True]), np.array([False, True]))
    expressions = {
        "total": ("a + b", weft.i32),
        "product": ("a * b", weft.i32),
        "difference": ("a - b", weft.i32),
        "negative": ("-a", weft.i32),
    }
    got = compute(expressions, a=a, b=b)
    assert got["total"].tolist() == [0, 1, 1, 2]
    assert got["product"].tolist() == [0, 0, 0, 1]
    assert got["difference"].tolist() == [0, -1, 1, 0]
    assert got["negative"].tolist() == [0, 0, -1, -1]


def test_logic_of_bools():
    a, b = pairs(np.array([False, True]), np.array([False, True]))
    expressions = {
        "both": ("a and b", weft.bool_),
        "either": ("a or b", weft.bool_),
        "neither": ("not (a or b)", weft.bool_),
        "differ": ("a != b", weft.bool_),
        "bits_and": ("a & b", weft.bool_),
        "bits_or": ("a | b", weft.bool_),
        "bits_xor": ("a ^ b", weft.bool_),
    }
    got = compute(expressions, a=a, b=b)
    assert_same(got["both"], a & b)
    assert_same(got["either"], a | b)
    assert_same(got["neither"], ~(a | b))
    for name in ("differ", "bits_xor"):
        assert_same(got[name], a ^ b)
    assert_same(got["bits_and"], a & b)
    assert_same(got["bits_or"], a | b)


def test_invert_of_a_bool_is_refused_and_points_to_not():
    with pytest.raises(weft.CompileError, match="write `not x`"):
        compute_one("~a", weft.bool_, a=np.array([True]))


def test_integer_division_by_constant_zero_is_an_error():
    for sign in ("//", "%"):
        with pytest.raises(weft.CompileError, match="integer division by the constant 0"):
            compute_one(f"a {sign} 0", weft.i32, a=np.ones(1, np.int32))


def test_i64_with_u64_is_an_error_that_names_both():
    a, b = np.ones(1, np.int64), np.ones(1, np.uint64)
    with pytest.raises(weft.CompileError, match=r"i64.*u64"):
        compute_one("a + b", weft.i64, a=a, b=b)


def test_integer_power_is_exact():
    a = np.array([-3, -1, 0, 1, 2, 7, 46341], np.int32)
    got = compute(
        {
            "square": ("a ** 2", weft.i32),
            "cube": ("a ** 3", weft.i32),
            "zeroth": ("a ** 0", weft.i32),
        },
        a=a,
    )
    for name, exponent in (("square", 2), ("cube", 3), ("zeroth", 0)):
        expected = [wrap(int(x) ** exponent, weft.i32) for x in a]
        assert_same(got[name], np.array(expected, np.int32), a)
