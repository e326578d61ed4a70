# SPDX-License-Identifier: Apache-2.0
"""Containers, devices, element types and errors behave in Python as those of tvm_ffi do, where both have them."""

from __future__ import annotations

import itertools
import math
import operator
import pickle

import numpy as np
import pytest
import tvm_ffi

from weft import ffi

CONTENTS = [[], [1], [1, 2], [1.5, "two"], [[1], [2]], [(1,), (2,)], [b"a", None], ["one"]]
MAPPINGS = [{}, {"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 2}, {"a": [1, 2]}, {1: "a"}]
BUILTINS = {"list": list, "tuple": tuple, "dict": dict}


def made(binding, kind, values):
    return BUILTINS[kind](values) if kind in BUILTINS else getattr(binding, kind)(values)


@pytest.mark.parametrize(
    "kinds", list(itertools.product(("Array", "List"), ("Array", "List", "list", "tuple"))), ids=str
)
def test_sequences_are_equal_and_unequal_as_theirs_are(kinds):
    for first, second in itertools.product(CONTENTS, CONTENTS):
        ours = made(ffi, kinds[0], first), made(ffi, kinds[1], second)
        theirs = made(tvm_ffi, kinds[0], first), made(tvm_ffi, kinds[1], second)
        if (
            "Array" in kinds and "List" in kinds
        ):  # which tvm_ffi tells apart, unlike lists and tuples
            expected = first == second or list(map(list_or_self, first)) == list(
                map(list_or_self, second)
            )
        else:
            expected = theirs[0] == theirs[1]
        assert (ours[0] == ours[1]) is expected, ours
        assert (ours[0] != ours[1]) is not expected, ours
        assert (ours[1] == ours[0]) is expected, ours
        assert (ours[1] != ours[0]) is not expected, ours


def list_or_self(value):
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    "kinds", list(itertools.product(("Map", "Dict"), ("Map", "Dict", "dict"))), ids=str
)
def test_mappings_are_equal_by_their_contents(kinds):
    for first, second in itertools.product(MAPPINGS, MAPPINGS):
        ours = made(ffi, kinds[0], first), made(ffi, kinds[1], second)
        for a, b in (ours, ours[::-1]):
            assert (a == b) is (first == second), ours
            assert (a != b) is (first != second), ours


@pytest.mark.parametrize("kind", ["Array", "List", "Map", "Dict"])
def test_a_container_is_unequal_to_anything_else(kind):
    container = getattr(ffi, kind)({} if kind in ("Map", "Dict") else [])
    for other in (None, 0, "", b"", object(), ffi.String("x"), ffi.Shape()):
        if kind in ("Array", "List") and isinstance(other, tuple):
            continue
        assert container != other and not container == other


def test_a_list_that_holds_itself_is_equal_to_itself():
    for binding in (ffi, tvm_ffi):
        numbers = binding.List([1])
        numbers.append(numbers)
        assert numbers == numbers and not numbers != numbers
    table = ffi.Dict({"a": 1})
    table["self"] = table
    assert table == table and not table != table


@pytest.mark.parametrize(
    "make",
    [
        lambda: ffi.Array([1, "two"]),
        lambda: ffi.List([1]),
        lambda: ffi.Map({"a": 1}),
        lambda: ffi.Dict({"a": 1}),
        lambda: ffi.to_error(ValueError("x")),
        ffi.system_library,
        lambda: ffi.from_dlpack(np.zeros(2)),
    ],
)
def test_equal_wrappers_have_equal_hashes(make):
    first = make()
    second = ffi.Object(first.address, borrowed=True)
    assert type(second) is type(first) and second == first and not second != first
    if first.__hash__ is None:
        with pytest.raises(TypeError, match="unhashable"):
            hash(second)
    else:
        assert hash(second) == hash(first)


@pytest.mark.parametrize("name", ["Error", "Module", "Array", "List", "Map", "Dict", "Tensor"])
def test_a_class_takes_no_handle_of_another_type(name):
    others = {
        "Array": ffi.Array([1]),
        "List": ffi.List([1]),
        "Map": ffi.Map({}),
        "Error": ffi.to_error(ValueError("x")),
        "Module": ffi.system_library(),
        "Tensor": ffi.from_dlpack(np.zeros(2)),
    }
    for kind, other in others.items():
        count = other.reference_count
        if kind != name:
            with pytest.raises(
                TypeError,
                match=f"{name}: expected a handle of its type, received one of type ffi.{kind}",
            ):
                ffi.Object.__new__(getattr(ffi, name), other.address, borrowed=True)
        assert other.reference_count == count


def test_sums_and_slices_keep_the_kind():
    for binding in (ffi, tvm_ffi):
        array = binding.Array([1, 2])
        for found, expected in (
            (operator.add(array, [3]), [1, 2, 3]),
            (operator.add(array, (3,)), [1, 2, 3]),
            (operator.add([0], array), [0, 1, 2]),
            (array + array, [1, 2, 1, 2]),
            (operator.add(binding.List([1]), [2]), [1, 2]),
            (operator.add([2], binding.List([1])), [2, 1]),
        ):
            assert type(found) in (binding.Array, binding.List) and list(found) == expected
    for kind in (ffi.Array, ffi.List):
        for selected in (slice(None), slice(1, None), slice(None, None, -2), slice(5, 9)):
            part = kind([1, 2, 3])[selected]
            assert type(part) is kind and list(part) == [1, 2, 3][selected]
    for other in (1, None):
        with pytest.raises(TypeError):
            operator.add(ffi.Array([1]), other)


def test_membership_looks_into_nested_sequences():
    for binding in (ffi, tvm_ffi):
        array = binding.Array([[1], 2])
        assert [1] in array and (1,) in array and 2 in array and [2] not in array and 3 not in array


def test_a_missing_global_function_may_be_asked_for():
    for ask in (ffi.get_global, tvm_ffi.get_global_func):
        assert ask("example.nothing_of_that_name", allow_missing=True) is None
        assert ask("ffi.ArraySize", allow_missing=True) is not None
    with pytest.raises(KeyError, match="there is no global function"):
        ffi.get_global("example.nothing_of_that_name")


INTEGERS = [np.int8, np.uint8, np.int32, np.int64, np.uint64, np.array]


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_of_numpy_are_numbers_of_devices_and_types(kind):
    assert ffi.Device(kind(2), kind(1)) == ffi.Device("cuda", kind(1)) == ffi.Device("cuda:1")
    assert ffi.DataType(kind(2), kind(32), kind(4)) == ffi.DataType("float32x4")
    assert tuple(map(type, ffi.DataType(kind(2), kind(32)))) == (int, int, int)


@pytest.mark.parametrize(
    "wrong", [True, 1.0, "1", np.float32(1), np.bool_(True), np.zeros(2, int), np.int64]
)
def test_other_things_are_not_numbers_of_devices_and_types(wrong):
    with pytest.raises(TypeError):
        ffi.Device("cuda", wrong)
    with pytest.raises(TypeError):
        ffi.DataType(2, wrong)


@pytest.mark.parametrize(
    "name", ["int32xvscalex4", "float16xvscalex8", "int8xvscalex1", "float32x4", "int8", "bool"]
)
def test_lanes_are_theirs_of_scalable_vectors_too(name):
    ours, theirs = ffi.DataType(name), tvm_ffi.dtype(name)
    assert (ours.bits, ours.lanes, ours.name) == (theirs.bits, theirs.lanes, str(theirs))
    assert pickle.loads(pickle.dumps(ours)) == ours == ffi.DataType(*ours)
    echo = ffi.wrap_function(lambda given: given)
    assert echo(ours) == ours and echo(theirs) == ours
    if ours.lanes < 0:
        for size in (lambda: ours.itemsize, lambda: theirs.itemsize):
            with pytest.raises(ValueError):
                size()
    else:
        assert ours.itemsize == math.ceil(ours.bits * ours.lanes / 8)


class Holder:
    def __init__(self, held):
        self.held = held

    def __tvm_ffi_object__(self):
        return self.held


@pytest.mark.parametrize(
    "held",
    [
        ffi.Array([1, 2]),
        ffi.Map({"a": 1}),
        ffi.from_dlpack(np.zeros(2)),
        ffi.get_global("ffi.ArraySize"),
        tvm_ffi.Array([1, 2]),
        tvm_ffi.get_global_func("ffi.ArraySize"),
    ],
    ids=lambda held: f"{type(held).__module__}.{type(held).__name__}",
)
def test_an_objects_ffi_object_may_be_of_either_package(held):
    kind = ffi.wrap_function(lambda given: type(given).__name__)
    assert kind(Holder(held)) == kind(held)


@pytest.mark.parametrize(
    "held", [None, 1, [1], "text", Holder(None)], ids=lambda held: type(held).__name__
)
def test_anything_else_is_refused_by_name(held):
    with pytest.raises(
        TypeError,
        match=r"Holder.__tvm_ffi_object__ returned .*, expected an object of weft.ffi or tvm_ffi",
    ):
        ffi.get_global("ffi.ArraySize")(Holder(held))


def test_exceptions_of_errors_cross_processes():
    def fail(*_):
        try:
            raise KeyError("the cause")
        except KeyError as error:
            raise ValueError("to be sent") from error

    error = ffi.to_error(caught(fail))
    again = pickle.loads(pickle.dumps(error))
    assert (again.kind, again.message, again.backtrace) == (
        error.kind,
        error.message,
        error.backtrace,
    )
    assert (again.cause.kind, again.cause.message) == ("KeyError", "'the cause'")
    missing = caught(ffi.get_global("ffi.ModuleLoadFromFile"), "/nothing/of/that/name.so")
    assert ffi.error_of(missing) is not None
    sent = pickle.loads(pickle.dumps(missing))
    assert type(sent) is type(missing) and str(sent) == str(missing)
    assert ffi.error_of(sent).message == ffi.error_of(missing).message


def caught(function, *arguments):
    with pytest.raises(Exception) as found:
        function(*arguments)
    return found.value
