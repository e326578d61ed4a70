# SPDX-License-Identifier: Apache-2.0
"""One registry of functions with C++ and the tvm_ffi package."""

from __future__ import annotations

import gc
import uuid
import weakref

import pytest
import tvm_ffi

from weft import ffi


@pytest.fixture
def name():
    name = f"weft_test.{uuid.uuid4().hex}"
    yield name
    if name in ffi.list_global():
        ffi.remove_global(name)


def test_a_registered_function_is_found_by_everyone(name):
    registered = ffi.register_global(name, lambda x: x + 1)
    assert registered(1) == 2
    assert ffi.get_global(name)(2) == 3
    assert tvm_ffi.get_global_func(name)(3) == 4
    assert name in ffi.list_global()
    assert name in tvm_ffi.registry.list_global_func_names()


def test_what_the_package_registers_is_found(name):
    tvm_ffi.register_global_func(name, lambda x: x * 2)
    assert ffi.get_global(name)(4) == 8


def test_a_decorator_registers_and_leaves_the_function_alone(name):
    @ffi.register_global(name)
    def double(x):
        return 2 * x

    assert double(3) == 6
    assert ffi.get_global(name)(4) == 8


def test_a_name_is_taken_once_unless_that_is_wanted(name):
    ffi.register_global(name, lambda: 1)
    with pytest.raises(ValueError, match="override=True replaces it"):
        ffi.register_global(name, lambda: 2)
    assert ffi.get_global(name)() == 1
    ffi.register_global(name, lambda: 2, override=True)
    assert ffi.get_global(name)() == 2


def test_a_function_that_is_held_survives_being_removed(name):
    ffi.register_global(name, lambda: "still here")
    function = ffi.get_global(name)
    ffi.remove_global(name)
    assert function() == "still here"
    with pytest.raises(KeyError, match="no global function"):
        ffi.get_global(name)
    with pytest.raises(KeyError, match="no global function"):
        ffi.remove_global(name)


def test_a_misspelled_name_is_answered_with_names_that_are_alike():
    with pytest.raises(KeyError, match=r"similar names: .*ffi\.Array"):
        ffi.get_global("ffi.Aray")


def test_removing_a_function_releases_what_it_called(name):
    class Callable:
        def __call__(self):
            return 1

    callable_ = Callable()
    reference = weakref.ref(callable_)
    ffi.register_global(name, callable_)
    del callable_
    gc.collect()
    assert reference() is not None
    ffi.remove_global(name)
    gc.collect()
    assert reference() is None


def test_functions_of_the_abi_are_registered_as_they_are(name, library):
    ffi.register_global(name, library.join)
    assert ffi.get_global(name)(["a", "b"], "-") == "a-b"


def test_metadata_says_what_was_registered(name):
    assert "type_schema" in ffi.global_metadata("ffi.ArraySize")
    ffi.register_global(name, lambda: 1)
    assert ffi.global_metadata(name) == {}
    with pytest.raises(KeyError):
        ffi.global_metadata("no.such.function")


@pytest.mark.parametrize("wrong", [1, None, b"bytes"])
def test_a_name_is_a_text(wrong):
    with pytest.raises(TypeError, match="name as str"):
        ffi.get_global(wrong)
