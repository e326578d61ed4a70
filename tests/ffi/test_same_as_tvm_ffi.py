# SPDX-License-Identifier: Apache-2.0
"""Random argument lists mean to a C++ function what they mean when tvm_ffi passes them."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
import tvm_ffi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ffi.building import build
from weft import ffi

OURS = ffi.load_module(build("library.cpp"))
THEIRS = tvm_ffi.load_module(str(build("library.cpp")))

texts = st.text(max_size=20)
numbers = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False)
plain = st.none() | st.booleans() | numbers | texts | st.binary(max_size=20)
dtypes = st.sampled_from(["f4", "f8", "i4", "u1", "?"])
arrays = st.builds(
    lambda shape, dtype, order: np.ones(shape, dtype, order=order),
    st.lists(st.integers(0, 3), max_size=4).map(tuple),
    dtypes,
    st.sampled_from("CF"),
)
keys = st.integers(-(2**40), 2**40) | texts
values = st.recursive(
    plain | arrays,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=8,
)


def plain_form(value: object) -> object:
    """What a value is, whichever binding made it."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return (type(value).__name__, value)
    if isinstance(value, str | bytes):
        return ("text", str(value) if isinstance(value, str) else bytes(value))
    if isinstance(value, np.ndarray | tvm_ffi.Tensor | ffi.Tensor):
        array = np.from_dlpack(value) if not isinstance(value, np.ndarray) else value
        return ("tensor", str(array.dtype), array.shape, array.tolist())
    if isinstance(value, dict | tvm_ffi.Map | ffi.Map):
        return ("map", sorted((repr(plain_form(k)), plain_form(v)) for k, v in value.items()))
    return ("sequence", [plain_form(item) for item in value])


SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
pytestmark = pytest.mark.usefixtures("small_heap")


@SETTINGS
@given(values)
def test_a_value_has_the_same_type_and_contents(value):
    assert OURS.describe(value) == THEIRS.describe(value)
    assert plain_form(ffi.Any(value).take()) == plain_form(THEIRS.echo(value))


@SETTINGS
@given(st.lists(values, max_size=6))
def test_a_callback_sees_the_same_arguments(arguments):
    ours, theirs = [], []
    OURS.apply(lambda *seen: ours.extend(plain_form(value) for value in seen), *arguments)
    THEIRS.apply(lambda *seen: theirs.extend(plain_form(value) for value in seen), *arguments)
    assert ours == theirs == [plain_form(value) for value in arguments]


@SETTINGS
@given(values)
def test_a_callback_s_result_comes_back_the_same(value):
    assert plain_form(OURS.apply(lambda: value)) == plain_form(THEIRS.apply(lambda: value))


@SETTINGS
@given(values)
def test_no_reference_is_taken_or_lost(value):
    gc.collect()
    holder = [value]
    before = sys.getrefcount(value)
    for function in (OURS.echo, OURS.describe):
        function(value)
    OURS.apply(lambda given: None, value)
    ffi.Any(value).take()
    gc.collect()
    assert sys.getrefcount(value) == before
    assert holder[0] is value
