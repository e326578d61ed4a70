# SPDX-License-Identifier: Apache-2.0
"""The functions and types that tvm-ffi's own test library exports work through weft."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from weft import ffi
from weft.ffi.library import find_ffi_library, open_ffi_library

pytestmark = pytest.mark.joined


@pytest.fixture(scope="module", autouse=True)
def testing_library():
    open_ffi_library()
    path = Path(find_ffi_library()).with_name("libtvm_ffi_testing.so")
    return ctypes.CDLL(str(path))


def call(name, *arguments):
    return ffi.get_global(f"testing.{name}")(*arguments)


SCHEMA_VALUES = {
    "int": 5,
    "float": 2.5,
    "bool": True,
    "string": "a longer text",
    "bytes": b"some bytes",
    "dtype": ffi.DataType("float16"),
    "device": ffi.Device("cuda:1"),
    "any": (1, "two"),
    "arr": (1, "two"),
    "arr_int": (1, 2),
    "arr_str": ("a", "b"),
    "map": {"a": 1},
    "map_str_int": {"a": 1},
    "map_str_str": {"a": "b"},
}


@pytest.mark.parametrize("name", SCHEMA_VALUES)
def test_typed_functions_take_and_return_their_type(name):
    value = SCHEMA_VALUES[name]
    result = call(f"schema_id_{name}", value)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("int", "text"),
        ("float", "text"),
        ("string", 1),
        ("arr_int", ("a",)),
        ("dtype", 1.5),
        ("device", 1.5),
    ],
)
def test_typed_functions_refuse_another_type(name, wrong):
    with pytest.raises((TypeError, ValueError)):
        call(f"schema_id_{name}", wrong)


def test_plain_functions():
    assert call("add_one", 41) == 42
    assert call("nop", 1, "two", None) is None
    assert call("echo", "text") == "text"
    assert call("apply", lambda a, b: a - b, 5, 3) == 2
    with pytest.raises(ValueError, match="went wrong"):
        call("test_raise_error", "ValueError", "went wrong")


def test_tensors_in_containers():
    array = np.zeros(3)
    for name in ("make_array_with_tensor", "make_list_with_tensor"):
        arguments = (array,) if "array" in name else (array, 2)
        assert call(name, *arguments)[0] is array
    made = call("make_map_with_tensor", array)
    assert any(value is array for value in made.values())
    nested = call("make_nested_array_with_tensor", array)
    assert nested[0][0] is array
    mixed = call("make_array_with_mixed", array, 7)
    assert mixed[0] is array
    assert 7 in mixed[1:]
    assert any(value is array for value in call("make_dict_with_tensor", array).values())


def test_a_missing_tensor_is_none():
    assert call("optional_tensor_view_has_value", np.zeros(2)) is True
    assert call("optional_tensor_view_has_value", None) is False


def test_reference_counts_are_seen_by_c():
    made = ffi.create_object("testing.TestIntPair", 1, 2)
    before = call("object_use_count", made)
    other = ffi.Object(made.address, borrowed=True)
    assert call("object_use_count", made) == before + 1
    del other
    assert call("object_use_count", made) == before


def test_objects_are_constructed_read_and_written():
    pair = ffi.create_object("testing.TestIntPair", 3, 4)
    assert (pair.a, pair.b, pair.sum()) == (3, 4, 7)
    base = ffi.create_object("testing.TestObjectBase", v_i64=5, v_str="text")
    assert (base.v_i64, base.v_f64, base.v_str) == (5, 10.0, "text")
    base.v_i64 = 6
    assert base.add_i64(1) == 7
    derived = ffi.create_object("testing.TestObjectDerived", {"a": 1}, (1, 2), v_i64=8)
    assert (derived.v_map, derived.v_array, derived.v_i64) == ({"a": 1}, (1, 2), 8)
    derived.v_array = [3]
    assert derived.v_array == (3,)
    assert derived.add_i64(1) == 9


def test_keywords_of_constructors():
    made = ffi.create_object("testing.TestCxxKwOnly", x=1, y=2, z=3)
    assert (made.x, made.y, made.z, made.w) == (1, 2, 3, 100)
    with pytest.raises(TypeError):
        ffi.create_object("testing.TestCxxKwOnly", 1, 2, 3)
    with pytest.raises(TypeError):
        ffi.create_object("testing.TestCxxKwOnly", x=1, nothing=2)


def test_a_type_without_a_class_is_a_plain_object():
    made = call("make_unregistered_object")
    assert type(made) is ffi.Object
    assert made.v1 == 41 or isinstance(made.v1, int)
    assert made.get_v1_plus_one() == made.v1 + 1
    assert made.get_v2_plus_two() == made.v2 + 2


def test_a_type_that_cannot_be_copied_is_shared():
    made = ffi.create_object("testing.TestNonCopyable", 3)
    assert call("echo", made) is made
    assert made.value == 3


def test_functions_as_plain_symbols():
    symbol = call("get_add_one_c_symbol")
    assert ffi.function_at(symbol)(41) == 42
