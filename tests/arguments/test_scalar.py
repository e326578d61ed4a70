# SPDX-License-Identifier: Apache-2.0
"""Numbers: their own dtype, the annotated one, and what does not fit."""

from __future__ import annotations

import numpy
import pytest

from tests.arguments.inferring import kind, refused
from weft.arguments.base import MISSING
from weft.arguments.scalar import ScalarKind
from weft.types import dtype as types


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, types.bool_),
        (3, types.i32),
        (2.5, types.f32),
        (numpy.int64(3), types.i64),
        (numpy.float64(3), types.f64),
        (numpy.bool_(1), types.bool_),
        (numpy.uint8(3), types.u8),
        (numpy.float16(3), types.f16),
    ],
)
def test_numbers_without_annotation(value, dtype):
    assert kind(MISSING, value) == ScalarKind(dtype)


@pytest.mark.parametrize(
    ("annotation", "value", "dtype"),
    [
        (types.i64, 3, types.i64),
        (types.u8, numpy.int64(3), types.u8),
        (types.f64, 3, types.f64),
        (types.f16, True, types.f16),
        (int, 3, types.i32),
        (int, numpy.int64(3), types.i64),
        (float, 3, types.f32),
        (float, numpy.float64(3), types.f64),
        (bool, True, types.bool_),
        (types.u64, (1 << 64) - 1, types.u64),
    ],
)
def test_an_annotated_dtype_wins(annotation, value, dtype):
    assert kind(annotation, value) == ScalarKind(dtype) == kind(dtype)


def test_a_value_never_is_part_of_the_kind():
    assert kind(MISSING, 1).key == kind(MISSING, 2).key


def test_an_int_beyond_i32_says_what_to_annotate():
    text = refused(MISSING, args=(1 << 31,))
    assert "value is 2147483648, expected -2147483648 to 2147483647 (i32)" in text
    assert "hint: annotate a: weft.i64" in text
    assert "weft.u64" in refused(int, args=(1 << 63,))


def test_numbers_of_the_wrong_kind():
    assert "it is annotated i32, received a Python float 1.5" in refused(types.i32, args=(1.5,))
    assert "it is annotated bool, received a Python int 1" in refused(bool, args=(1,))
    assert "expected f32, received 9223372036854775808" in refused(types.f32, args=(1 << 63,))
    assert "value is -1, expected 0 to 255 (u8)" in refused(types.u8, args=(-1,))
