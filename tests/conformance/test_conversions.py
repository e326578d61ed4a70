# SPDX-License-Identifier: Apache-2.0
"""Conversions between all scalar types: wrap, round to nearest even, saturate, and what a bool is.

In: interesting values of each type. Out: agreement with Python integers and ml_dtypes.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.conformance.harness import (
    EIGHT_BIT_FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    NUMPY_TYPES,
    WIDE_FLOATS,
    compute,
    compute_one,
)
from tests.conformance.model import (
    assert_same,
    interesting_floats,
    interesting_integers,
    rounded_once,
    to_integer,
    wrap,
)

FLOATS = WIDE_FLOATS + NARROW_FLOATS
TRICKY = [2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64, 255.5, 256.0, -0.9, -1.0, 1e30, -1e30]


@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integer_to_integer_wraps(source):
    a = interesting_integers(source)
    got = compute({str(target): (f"weft.{target}(a)", target) for target in INTEGERS}, a=a)
    for target in INTEGERS:
        expected = np.array([wrap(int(x), target) for x in a], NUMPY_TYPES[target])
        assert_same(got[str(target)], expected, a)


@pytest.mark.parametrize("source", WIDE_FLOATS, ids=str)
def test_float_to_integer_drops_the_fraction_and_saturates(source):
    edges = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1.0, -0.5, 0.0, 1.0)]
    edges += [-value for value in edges]
    a = np.concatenate(
        [interesting_floats(source), np.array([*TRICKY, *edges], NUMPY_TYPES[source])]
    )
    got = compute({str(target): (f"weft.{target}(a)", target) for target in INTEGERS}, a=a)
    for target in INTEGERS:
        assert_same(got[str(target)], to_integer(a, target), a)


@pytest.mark.parametrize("source", NARROW_FLOATS, ids=str)
def test_narrow_float_to_integer_saturates(source):
    a = interesting_floats(source)
    got = compute({str(target): (f"weft.{target}(a)", target) for target in INTEGERS}, a=a)
    for target in INTEGERS:
        assert_same(got[str(target)], to_integer(a, target), a)


@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integer_to_float_rounds_to_nearest_even(source):
    a = interesting_integers(source)
    extra = [16777217, 16777219, (1 << 53) + 1, (1 << 63) - 513, 65519, 65520, 65505]
    fitting = [value for value in extra if value <= source.maximum]
    a = np.concatenate([a, np.array(fitting, a.dtype)])
    got = compute({str(target): (f"weft.{target}(a)", target) for target in WIDE_FLOATS}, a=a)
    for target in WIDE_FLOATS:
        assert_same(got[str(target)], a.astype(NUMPY_TYPES[target]), a)


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(FLOATS, 2)), ids=str)
def test_float_to_float_rounds_to_nearest_even(source, target):
    a = interesting_floats(source)
    with np.errstate(all="ignore"):
        # Halves between adjacent values of the narrow types, from both sides.
        ties = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 65520.0])
        a = np.concatenate([a, ties.astype(a.dtype), np.nextafter(ties, 0).astype(a.dtype)])
        expected = rounded_once(a, target)
    assert_same(compute_one(f"weft.{target}(a)", target, a=a), expected, a)


@pytest.mark.parametrize("target", NARROW_FLOATS, ids=str)
def test_f32_to_16_bits_rounds_right_everywhere(target):
    random = np.random.default_rng(8)
    bits = random.integers(0, 1 << 32, 20_000, dtype=np.uint64).astype(np.uint32)
    a = bits.view(np.float32)
    with np.errstate(all="ignore"):
        expected = a.astype(NUMPY_TYPES[target])
    assert_same(compute_one(f"weft.{target}(a)", target, a=a), expected, a)


@pytest.mark.parametrize("source", EIGHT_BIT_FLOATS, ids=str)
def test_every_8_bit_float_widens_exactly(source):
    a = np.arange(256, dtype=np.uint8).view(NUMPY_TYPES[source])
    got = compute({"single": ("weft.f32(a)", weft.f32), "double": ("weft.f64(a)", weft.f64)}, a=a)
    assert_same(got["single"], a.astype(np.float32), a)
    assert_same(got["double"], a.astype(np.float64), a)


@pytest.mark.parametrize("target", EIGHT_BIT_FLOATS, ids=str)
def test_f32_to_8_bits_rounds_to_nearest_even_within_range(target):
    numpy_type = NUMPY_TYPES[target]
    every = np.arange(256, dtype=np.uint8).view(numpy_type).astype(np.float32)
    values = np.unique(every[np.isfinite(every)])
    middles = (values[1:] + values[:-1]) / 2
    a = np.concatenate(
        [
            values,
            middles,
            np.nextafter(middles, np.float32(0)),
            np.nextafter(middles, np.float32(1e9)),
        ]
    ).astype(np.float32)
    assert_same(compute_one(f"weft.{target}(a)", target, a=a), a.astype(numpy_type), a)


@pytest.mark.parametrize("target", EIGHT_BIT_FLOATS, ids=str)
def test_f32_beyond_8_bit_range_saturates_or_overflows(target):
    largest = float(ml_dtypes.finfo(NUMPY_TYPES[target]).max)
    a = np.array([largest * 4, -largest * 4, np.nan], np.float32)
    got = compute_one(f"weft.{target}(a)", target, a=a).astype(np.float32)
    # PTX's cvt.rn.satfinite, which is the only form the hardware has.
    assert got[:2].tolist() == [largest, -largest]
    assert np.isnan(got[2])


@pytest.mark.parametrize("source", INTEGERS + FLOATS, ids=str)
def test_to_bool_is_whether_it_differs_from_zero(source):
    a = interesting_floats(source) if source.is_float else interesting_integers(source)
    got = compute({"typed": ("weft.bool_(a)", weft.bool_), "builtin": ("bool(a)", weft.bool_)}, a=a)
    expected = a.astype(np.float64) != 0
    assert_same(got["typed"], expected, a)
    assert_same(got["builtin"], expected, a)


def test_from_bool_is_zero_or_one():
    a = np.array([False, True])
    targets = INTEGERS + FLOATS
    got = compute({str(target): (f"weft.{target}(a)", target) for target in targets}, a=a)
    for target in targets:
        assert_same(got[str(target)], a.astype(NUMPY_TYPES[target]), a)


def test_nonzero_bytes_load_as_true_and_store_as_one():
    raw = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    got = compute_one("a", weft.bool_, a=raw).view(np.uint8)
    assert got.tolist() == [0, 1, 1, 1]


def test_builtin_int_and_float_choose_the_width():
    single, double = (
        np.array([-2.75, 3.5, 1e20, np.nan], np.float32),
        np.array([-2.75, 3.5, 1e20, np.nan]),
    )
    small, large = np.array([1, 2, 3, 4], np.int16), np.array([1, 2, 3, 4], np.int64)
    got = compute(
        {
            "i32": ("int(single)", weft.i32),
            "i64": ("int(double)", weft.i64),
            "small": ("int(small)", weft.i32),
            "f32": ("float(small)", weft.f64),  # a kernel with an array of f64
            "f64": ("float(large)", weft.f64),
            "rounded": ("round(single)", weft.i32),
            "wide": ("round(double)", weft.i64),
        },
        single=single,
        double=double,
        small=small,
        large=large,
    )
    assert got["i32"].tolist() == [-2, 3, 2**31 - 1, 0]
    assert got["i64"].tolist() == [-2, 3, 2**63 - 1, 0]
    assert got["rounded"].tolist() == [-3, 4, 2**31 - 1, 0]
    assert got["wide"].tolist() == [-3, 4, 2**63 - 1, 0]
    assert got["small"].tolist() == got["f32"].tolist() == got["f64"].tolist() == [1, 2, 3, 4]


def test_conversion_to_its_own_type_changes_nothing():
    a = interesting_floats(weft.f64)
    assert_same(compute_one("weft.f64(weft.f64(a))", weft.f64, a=a), a)


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_round_goes_to_the_nearest_even_integer(dtype):
    a = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999, 1e10], NUMPY_TYPES[dtype])
    got = compute_one("weft.math.round(a)", dtype, a=a)
    assert_same(got, np.rint(a), a)
