# SPDX-License-Identifier: Apache-2.0
"""Results are Python values, a returned argument is the same object, and every reference is given back."""

import ctypes
import gc
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from tests.native.callee import TENSOR, foreign, library, planned
from weft import _native

pytestmark = pytest.mark.joined


def test_plain_results_are_python_values():
    assert foreign("nothing")() is None
    assert foreign("return_true")() is True
    assert foreign("return_dtype")() == (2, 32, 1)
    assert foreign("return_device")() == (2, 3)


def test_an_array_that_is_returned_is_the_same_object():
    array = np.arange(6.0).reshape(2, 3)
    assert foreign("echo")(array) is array
    assert foreign("echo")((array, (array, 1))) == (array, (array, 1))


def kept_values() -> list:
    kept = ctypes.c_void_p(library().callee_kept())
    assert kept.value
    return_kept = foreign("return_kept")
    return_kept.tensor_type = np.ndarray
    return return_kept().tolist()


def test_an_escaped_tensor_survives_the_deletion_of_its_source():
    array = np.arange(6.0).reshape(2, 3)
    foreign("keep")(array)
    array.resize((6,), refcheck=False)
    del array
    gc.collect()
    assert kept_values() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    library().release_kept()


@pytest.mark.parametrize("release", ["release_kept", "release_kept_on_thread"])
def test_an_escaped_tensor_lets_go_of_its_source_from_any_thread(release):
    array = np.arange(6.0)
    before = sys.getrefcount(array)
    foreign("keep")(array)
    assert sys.getrefcount(array) == before + 1
    getattr(library(), release)()
    foreign("nothing")()
    assert sys.getrefcount(array) == before


def test_an_escaped_bytearray_cannot_be_resized():
    buffer = bytearray(8)
    foreign("keep")(buffer)
    with pytest.raises(BufferError):
        buffer.append(1)
    library().release_kept()
    foreign("nothing")()
    buffer.append(1)


def test_new_tensors_are_numpy_arrays_where_numpy_came_in():
    source = np.arange(4.0)
    foreign("keep")(source)
    source.shape = (2, 2)
    result = foreign("return_kept")(np.zeros(1))
    assert isinstance(result, np.ndarray)
    assert np.shares_memory(result, source)
    del result
    library().release_kept()


def test_an_array_that_was_kept_comes_back_as_the_same_object():
    source = np.arange(4.0)
    foreign("keep")(source)
    assert foreign("return_kept")() is source
    source.shape = (2, 2)  # no longer what was kept
    assert foreign("return_kept")().shape == (4,)
    library().release_kept()


def test_new_tensors_are_exporting_objects_where_nothing_came_in():
    source = bytearray(np.arange(4, dtype="i4"))
    foreign("keep")(memoryview(source).cast("i"))
    result = foreign("return_kept")()
    library().release_kept()
    assert isinstance(result, _native.Object)
    assert result.type_index == TENSOR
    assert result.type_key == "ffi.Tensor"
    assert result.__dlpack_device__() == (1, 0)
    legacy = np.from_dlpack(result)
    assert legacy.tolist() == [0, 1, 2, 3]
    assert _native.tensor_info(result).shape == (4,)
    assert foreign("echo")(result).address == result.address
    assert np.from_dlpack(result, copy=True).ctypes.data != legacy.ctypes.data
    assert "dltensor" in repr(result.__dlpack__())  # a capsule not taken releases what it holds
    assert "dltensor_versioned" in repr(result.__dlpack__(max_version=(1, 0)))


VALUES = {
    "array": lambda: np.zeros((3, 4)),
    "view": lambda: np.zeros((3, 4))[::2],
    "text": lambda: "a text of its own, " * 2,
    "bytes": lambda: bytes(50),
    "large int": lambda: 2**70,
    "tuple": lambda: (np.zeros(3), "a text of its own", 2**70),
    "list": lambda: [np.zeros(3), 1.5],
    "buffer": lambda: bytearray(100),
    "function": lambda: foreign("nothing"),
    "scalar": lambda: np.float32(1),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("code", ["nothing", "echo", "raise_value_error"])
def test_every_reference_taken_for_a_call_is_given_back(name, code):
    value = VALUES[name]()
    functions = [planned(code, "a"), foreign(code)] if code != "echo" else [foreign(code)]

    def call():
        for function in functions:
            try:
                function(value)
            except ValueError:
                pass

    call()
    gc.collect()
    before = sys.getrefcount(value)
    for _ in range(50):
        call()
    gc.collect()
    assert sys.getrefcount(value) == before


@pytest.mark.parametrize("bad", [object(), np.zeros(3, object), np.zeros(2, ">f4"), [object()]])
def test_a_refused_call_gives_back_what_came_before(bad):
    array, text = np.zeros(3), "a text of its own"
    function = planned("nothing", "a", "b", "c", "d", owned_tensors=True)
    before = sys.getrefcount(array), sys.getrefcount(text)
    for _ in range(20):
        with pytest.raises((TypeError, ValueError)):
            function(array, text, (array, text), bad)
    assert (sys.getrefcount(array), sys.getrefcount(text)) == before


def test_calls_keep_no_memory():
    array = np.zeros((4, 4))
    functions = [planned("nothing", "a", "b"), planned("nothing", "a", "b", owned_tensors=True)]
    for function in functions:
        function(array, 3)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for function in functions:
            for _ in range(2000):
                function(array, 3)
        assert tracemalloc.get_traced_memory()[0] - before < 500
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("release_gil", [False, True])
def test_threads_may_call_one_function_at_once(release_gil):
    function = planned("nothing", "a", "b", release_gil=release_gil, owned_tensors=True)
    array, failures = np.zeros((3, 4)), []

    def work():
        try:
            for index in range(2000):
                function(array, index)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
