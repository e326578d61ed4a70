# SPDX-License-Identifier: Apache-2.0
"""Random argument lists mean to a C++ function what they mean when tvm_ffi passes them."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

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
    """Describe a value, whichever binding made it."""
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


ARRIVES_AS: dict[str, tuple[Any, type, Any]] = {
    "data type": (ffi.DataType("int8x4"), tvm_ffi.dtype, "int8x4"),
    "device": (ffi.Device("cuda:1"), tvm_ffi.Device, "cuda:1"),
    "shape": (ffi.Shape((2, 3)), tvm_ffi.Shape, "(2, 3)"),
    "short text": (ffi.String("abc"), str, "abc"),
    "text": (ffi.String("longer than that"), str, "longer than that"),
    "short bytes": (ffi.Bytes(b"abc"), bytes, "b'abc'"),
    "bytes": (ffi.Bytes(b"longer than that"), bytes, "b'longer than that'"),
    "any of an int": (ffi.Any(3), int, "3"),
    "any of a big int": (ffi.Any(2**70), int, str(2**70)),
    "any of a float": (ffi.Any(2.5), float, "2.5"),
    "any of a bool": (ffi.Any(True), bool, "True"),
    "any of None": (ffi.Any(), type(None), "None"),
    "any of a text": (ffi.Any("a text of some length"), str, "a text of some length"),
    "any of a device": (ffi.Any(ffi.Device("cuda:1")), tvm_ffi.Device, "cuda:1"),
    "any of a data type": (ffi.Any(ffi.DataType("float32")), tvm_ffi.dtype, "float32"),
    "any of a shape": (ffi.Any(ffi.Shape((2, 3))), tvm_ffi.Shape, "(2, 3)"),
    "any of a list": (ffi.Any([1, 2]), tvm_ffi.Array, "(1, 2)"),
    "any of a tensor": (ffi.Any(np.zeros(2)), tvm_ffi.Tensor, None),
    "any of a function": (ffi.Any(len), tvm_ffi.Function, None),
    "any of a pointer": (ffi.Any(ctypes.c_void_p(64)), ctypes.c_void_p, "c_void_p(64)"),
    "view of an any": (ffi.Any("a text of some length").view(), str, "a text of some length"),
}


@pytest.mark.parametrize("kind", ARRIVES_AS)
def test_a_value_of_weft_is_the_same_in_the_package(kind):
    value, expected, text = ARRIVES_AS[kind]
    for passed, take in ((value, lambda v: v), ([value], lambda v: v[0])):
        seen = []
        tvm_ffi.convert(lambda v, seen=seen: seen.append(v))(passed)
        arrived = take(seen[0])
        assert isinstance(arrived, expected)
        assert text is None or str(arrived) == text or repr(arrived) == text
    index = ffi.Any(value).type_index
    echo = ffi.wrap_function(lambda view: view.type_index, views=True)
    assert echo.__tvm_ffi_object__()(value) == index


@pytest.mark.parametrize(
    "value",
    [
        tvm_ffi.Shape((2, 3)),
        tvm_ffi.dtype("float32"),
        tvm_ffi.device("cuda:1"),
    ],
)
def test_a_value_of_the_package_comes_back_unchanged(value):
    own = {tvm_ffi.Shape: ffi.Shape, tvm_ffi.dtype: ffi.DataType}.get(type(value), ffi.Device)
    assert type(ffi.Any(value).copy()) is own
    for nested in ([value], {"a": value}):
        (inner,) = (
            ffi.Any(nested).copy() if isinstance(nested, list) else ffi.Any(nested).copy().values()
        )
        assert type(inner) is own
