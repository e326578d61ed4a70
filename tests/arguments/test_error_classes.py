# SPDX-License-Identifier: Apache-2.0
"""A first call, which has to infer a signature, raises what a compiled function raises: ValueError for values."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@weft.jit
def both(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    pass


@weft.jit
def packed(a: weft.Tensor[weft.f32, ("n",), "contiguous"]):
    pass


@weft.jit
def byte(a: weft.u8):
    pass


def vector(size: int, dtype=np.float32) -> np.ndarray:
    return np.zeros(size, dtype)


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (both, (vector(10), vector(12)), r"shape\[0\] is 12, expected 10 to match a.shape\[0\]"),
        (both, (vector(10), vector(10, np.float64)), "dtype is f64"),
        (packed, (vector(20)[::2],), "layout is strided"),
    ],
    ids=["size", "dtype", "layout"],
)
def test_what_does_not_fit_is_a_value_error_on_the_first_call(function, arguments, words: str):
    with pytest.raises(ValueError, match=words) as raised:
        function(*arguments)
    assert isinstance(raised.value, weft.ArgumentValueError)


def test_a_number_that_does_not_fit_is_a_value_error_of_the_call():
    with pytest.raises(ValueError, match="value is 256, expected 0 to 255"):
        byte(256)
    with pytest.raises(weft.ArgumentValueError, match="value is 256, expected 0 to 255"):
        weft.compile(byte, 256)


def test_wrong_kind_is_a_type_error_and_no_value_error():
    with pytest.raises(TypeError) as raised:
        both(vector(10), 1)
    assert not isinstance(raised.value, ValueError)
