# SPDX-License-Identifier: Apache-2.0
"""An Any owns its value until it is taken; an AnyView ends with what it borrows from."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import sys

import numpy as np
import pytest

from weft import ffi

VALUES = [None, True, 7, -(2**63), 2**70, 1.5, "short", "a text of more than seven bytes", b"ab"]
VALUES += [b"bytes of more than seven", (1, "two", (3.0, None)), {"a": 1, "b": (2, 3)}]
VALUES += [ffi.Shape((2, 3)), ffi.Device("cuda:1"), ffi.DataType("float32")]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_out_as_it_went_in(value):
    held = ffi.Any(value)
    assert held.copy() == value
    assert type(held.copy()) is type(value)
    assert held.take() == value


def test_taking_leaves_the_any_empty():
    held = ffi.Any((1, 2))
    assert not held.is_moved
    assert held.take() == (1, 2)
    assert held.is_moved
    for use in (held.take, held.copy, held.view, lambda: held.type_index, lambda: held.address):
        with pytest.raises(ValueError, match="this Any has been moved from"):
            use()
    assert repr(held) == "<weft.ffi.Any, moved from>"


def test_copying_takes_a_reference_and_taking_moves_one():
    array = ffi.Array([1])
    held = ffi.Any(array)
    assert array.reference_count == 2
    view = held.view()
    assert array.reference_count == 2
    kept = held.copy()  # a tuple: the array itself is not kept
    assert array.reference_count == 2
    held.take()
    assert array.reference_count == 1
    assert kept == (1,)
    with pytest.raises(ValueError, match="that this view borrowed from has been moved from"):
        view.copy()
    assert repr(view) == "<weft.ffi.AnyView, ended>"


def test_dropping_an_any_gives_its_reference_back():
    array = ffi.Array([1])
    ffi.Any(array)
    gc.collect()
    assert array.reference_count == 1


def test_a_view_keeps_its_any_alive_and_can_outlive_it_as_a_copy():
    array = ffi.Array([1])
    view = ffi.Any(array).view()
    gc.collect()
    assert view.type_key == "ffi.Array"
    assert view.is_object
    owned = view.to_any()
    del view
    assert array.reference_count == 2
    assert owned.take() == (1,)
    assert array.reference_count == 1


def test_an_any_is_an_argument_that_needs_no_encoding(library):
    text = ffi.Any("a text of more than seven bytes")
    before = text.address
    assert library.echo(text) is text
    assert library.describe(text) == "ffi.String"
    assert text.address == before
    text.take()
    with pytest.raises(ValueError, match="moved from"):
        library.echo(text)


def test_foreign_code_may_fill_an_any():
    held = ffi.Any()
    ctypes.c_int32.from_address(held.address).value = ffi.TypeIndex.INT
    ctypes.c_int64.from_address(held.address + 8).value = 42
    assert held.take() == 42


def test_an_any_in_memory_is_shared_or_moved():
    array = ffi.Array([1])
    source = ffi.Any(array)
    shared = ffi.Any.from_address(source.address, borrowed=True)
    assert array.reference_count == 3
    moved = ffi.Any.from_address(source.address, borrowed=False)
    assert array.reference_count == 3
    assert source.copy() is None
    del shared, moved
    assert array.reference_count == 1


def test_whose_reference_an_address_is_must_be_said():
    with pytest.raises(TypeError):
        ffi.Any.from_address(1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="null"):
        ffi.Any.from_address(0, borrowed=True)


def test_a_tensor_view_cannot_be_owned():
    with pytest.raises(TypeError, match="valid for one call only"):
        ffi.Any(ffi.TensorView(np.zeros(3)))


def test_tensors_come_out_as_the_class_that_is_asked_for():
    array = np.arange(3.0)
    held = ffi.Any(array)
    assert held.copy() is array
    tensor = held.copy(tensor_type=ffi.Tensor)
    assert isinstance(tensor, ffi.Tensor)
    assert tensor.data == array.ctypes.data
    with pytest.raises(TypeError, match="array class"):
        held.copy(tensor_type=int)
    assert held.take(tensor_type=np.ndarray) is array


def test_any_and_views_are_not_copied_or_pickled():
    held = ffi.Any(1)
    for refuse in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            refuse(held)
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            refuse(held.view())
    with pytest.raises(TypeError):
        type(held.view())()


def test_python_objects_of_no_other_kind_travel_as_themselves(library):
    class Token:
        pass

    token = Token()
    before = sys.getrefcount(token)
    held = ffi.Any(token)
    assert held.type_key == "ffi.OpaquePyObject"
    assert held.copy() is token
    assert held.take() is token
    assert library.echo(token) is token
    library.keep_value(token)
    assert library.kept_value() is token
    library.forget_value()
    assert sys.getrefcount(token) == before
