# SPDX-License-Identifier: Apache-2.0
"""The tvm_ffi package takes weft's functions and objects, and weft takes the package's."""

import ctypes

import numpy as np
import pytest
import tvm_ffi
import tvm_ffi.testing  # registers testing.echo

from tests.native.callee import foreign, planned
from weft import _native


def test_a_function_is_a_genuine_function_of_the_package():
    function = planned("echo", "a").__tvm_ffi_object__()
    assert isinstance(function, tvm_ffi.Function)
    assert function("a text of its own") == "a text of its own"
    assert function(41) == 41


def test_a_function_can_be_an_argument_of_the_package():
    apply = tvm_ffi.convert(lambda function, value: function(value))
    assert apply(planned("echo", "a"), 7) == 7


def test_functions_of_tvm_ffi_take_every_argument():
    @tvm_ffi.convert
    def describe(*values):
        return [type(value).__name__ for value in values]

    function = _native.Function.from_object(describe.__chandle__(), borrowed=True)
    names = function(1, 2.5, None, True, "a longer text", np.zeros(3), (1, 2), 2**70)
    assert list(names) == ["int", "float", "NoneType", "bool", "String", "Tensor", "Array", "int"]


def test_errors_of_tvm_ffi_are_raised_as_their_class():
    @tvm_ffi.convert
    def fail():
        raise KeyError("where")

    function = _native.Function.from_object(fail.__chandle__(), borrowed=True)
    with pytest.raises(KeyError, match="where"):
        function()


def test_the_package_s_objects_are_arguments():
    echo = foreign("echo")
    assert echo(tvm_ffi.convert([1, 2, "x"])) == (1, 2, "x")
    tensor = tvm_ffi.from_dlpack(np.arange(3.0))
    assert _native.tensor_info(tensor).shape == (3,)
    result = echo(tensor)
    assert np.from_dlpack(result).tolist() == [0.0, 1.0, 2.0]


def test_an_object_of_weft_is_an_argument_of_the_package():
    echo = foreign("echo")
    tensor = echo(tvm_ffi.from_dlpack(np.arange(3.0)))
    size = tvm_ffi.convert(lambda value: value.shape[0])
    assert size(tensor) == 3


def test_registered_functions_are_called_by_their_address():
    echo = tvm_ffi.get_global_func("testing.echo")
    function = _native.Function.from_object(echo.__chandle__(), borrowed=True)
    array = np.arange(4.0)
    assert function(array) is array
    assert function("some longer text") == "some longer text"


def test_both_use_one_library():
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123
        loaded = {line.split()[-1] for line in maps if "libtvm_ffi.so" in line}
    assert len(loaded) == 1
    assert ctypes.sizeof(ctypes.c_void_p) == 8
