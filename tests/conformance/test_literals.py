# SPDX-License-Identifier: Apache-2.0
"""Literals are weak: they take the other operand's type, and one that does not fit is an error.

In: expressions with constants. Out: the type and value that the rules say.
"""

from __future__ import annotations

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
    run_threads,
)
from tests.conformance.model import assert_same, wrap

EVERY = INTEGERS + WIDE_FLOATS + NARROW_FLOATS


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_weak_int_takes_the_type_of_the_other_side(dtype):
    a = np.array([0, 1, 2, 100], NUMPY_TYPES[dtype])
    got = compute({"right": ("a + 1", dtype), "left": ("1 + a", dtype)}, a=a)
    assert_same(got["right"], (a + NUMPY_TYPES[dtype].type(1)).astype(a.dtype))
    assert_same(got["left"], got["right"])


@pytest.mark.parametrize("dtype", WIDE_FLOATS + NARROW_FLOATS, ids=str)
def test_weak_float_with_a_float_is_that_float(dtype):
    a = np.array([0.5, -2.0], NUMPY_TYPES[dtype])
    got = compute_one("a + 0.1", dtype, a=a)
    tenth = np.array(0.1).astype(a.dtype)
    assert_same(got, (a.astype(np.float64) + float(tenth)).astype(a.dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_weak_float_with_an_int_is_f32(dtype):
    a = np.array([0, 1, 100], NUMPY_TYPES[dtype])
    got = compute_one("a * 0.5", weft.f32, a=a)
    assert_same(got, a.astype(np.float32) * np.float32(0.5))


def test_constants_alone_are_computed_by_python():
    got = compute(
        {
            "whole": ("weft.i32(2 ** 40 // 3 ** 20)", weft.i32),
            "fraction": ("weft.f64(1 / 3)", weft.f64),
            "chosen": ("weft.u8(5 if 7 > 3 else 1 << 100)", weft.u8),
        },
        a=np.zeros(1, np.int32),
    )
    assert got["whole"][0] == 2**40 // 3**20
    assert got["fraction"][0] == 1 / 3
    assert got["chosen"][0] == 5


@pytest.mark.parametrize(
    ("dtype", "constant"),
    [
        (weft.i8, "128"),
        (weft.i8, "-129"),
        (weft.u8, "256"),
        (weft.u8, "-1"),
        (weft.u32, "-1"),
        (weft.i32, "2147483648"),
        (weft.i64, "1 << 63"),
        (weft.u64, "1 << 64"),
        (weft.f16, "70000"),
        (weft.f16, "1e6"),
        (weft.f32, "1e39"),
    ],
    ids=str,
)
def test_constant_that_does_not_fit_is_an_error_with_both_numbers(dtype, constant):
    a = np.ones(1, NUMPY_TYPES[dtype])
    with pytest.raises(weft.CompileError) as caught:
        compute_one(f"a + ({constant})", dtype, a=a)
    value = eval(constant)
    assert "CONSTANT_OUT_OF_RANGE" in str(caught.value)
    assert str(value) in str(caught.value)
    assert str(dtype) in str(caught.value)


def test_constants_at_the_edge_fit():
    expressions = {}
    for dtype in INTEGERS:
        expressions[f"{dtype}_low"] = (f"weft.{dtype}({dtype.minimum})", dtype)
        expressions[f"{dtype}_high"] = (f"weft.{dtype}({dtype.maximum})", dtype)
    got = compute(expressions, a=np.zeros(1, np.int32))
    for dtype in INTEGERS:
        assert got[f"{dtype}_low"][0] == dtype.minimum
        assert got[f"{dtype}_high"][0] == dtype.maximum


@pytest.mark.parametrize("dtype", [weft.f64, weft.f32, weft.i64, weft.u8], ids=str)
def test_a_weak_initial_value_takes_the_added_type(dtype):
    a = np.arange(1, 11, dtype=NUMPY_TYPES[dtype])
    out = np.zeros(1, a.dtype)
    zero = "0.0" if dtype.is_float else "0"
    run_threads(
        f"""
        total = {zero}
        for k in range(a.shape[0]):
            total += a[k]
        out[i] = total
        """,
        1,
        {"a": a, "out": out},
    )
    assert out[0] == a.sum(dtype=a.dtype)


def test_sum_of_bytes_is_wide_unless_it_says_its_type():
    a = np.full(10, 100, np.uint8)
    narrow, wide = np.zeros(1, np.uint8), np.zeros(1, np.int32)
    run_threads(
        """
        small, large = weft.u8(0), 0
        for k in range(10):
            small += a[k]
            large += a[k]
        narrow[0], wide[0] = small, large
        """,
        1,
        {"a": a, "narrow": narrow, "wide": wide},
    )
    assert narrow[0] == wrap(1000, weft.u8)
    assert wide[0] == 1000


def test_weak_value_of_a_branch_takes_the_type_of_the_other():
    a = np.array([0.25, -4.0], np.float64)
    assert_same(compute_one("a if a > 0.0 else 0", weft.f64, a=a), np.array([0.25, 0.0]))


def test_i64_constant_by_itself_has_64_bits():
    got = compute_one("weft.i64(1 << 40) + a", weft.i64, a=np.zeros(1, np.int32))
    assert got[0] == 1 << 40


def test_bool_constants_are_bools():
    got = compute_one("a == True", weft.bool_, a=np.array([True, False]))
    assert got.tolist() == [True, False]


def store(stored: weft.DType, into: weft.DType) -> np.ndarray:
    """The value 3 of one type, stored in a tensor of another."""
    source, target = np.full(1, 3, NUMPY_TYPES[stored]), np.zeros(1, NUMPY_TYPES[into])
    run_threads("target[i] = source[i]", 1, {"source": source, "target": target})
    return target


@pytest.mark.parametrize(
    ("stored", "into"),
    [
        (weft.f64, weft.f32),
        (weft.f32, weft.i32),
        (weft.i64, weft.i32),
        (weft.u32, weft.i32),
        (weft.i32, weft.u64),
        (weft.f64, weft.f16),
        (weft.f16, weft.bf16),
        (weft.i64, weft.u8),
        (weft.u32, weft.u16),
        (weft.i16, weft.i8),
        (weft.u8, weft.i8),
        (weft.f32, weft.i16),
        (weft.i32, weft.bool_),
    ],
    ids=str,
)
def test_store_that_could_lose_something_is_refused(stored, into):
    with pytest.raises(weft.CompileError) as caught:
        store(stored, into)
    assert "TYPE_NARROWING" in str(caught.value)
    assert f"hint: write weft.{into}(...)" in str(caught.value)


@pytest.mark.parametrize(
    ("stored", "into"),
    [
        (weft.f32, weft.f64),
        (weft.f16, weft.f32),
        (weft.i32, weft.i64),
        (weft.u32, weft.i64),
        (weft.u8, weft.u16),
        (weft.i32, weft.f64),
        (weft.u16, weft.f32),
        (weft.bf16, weft.f64),
    ],
    ids=str,
)
def test_store_that_loses_nothing_converts(stored, into):
    assert store(stored, into)[0] == 3
