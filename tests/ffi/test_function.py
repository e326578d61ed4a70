# SPDX-License-Identifier: Apache-2.0
"""Functions of the ABI are called, named, given away and found again; results are what was passed."""

from __future__ import annotations

import gc
import sys
import threading
import time

import numpy as np
import pytest

from weft import ffi


def test_a_function_returns_the_very_object_it_was_given(library):
    values = [np.zeros(3), "a text of more than seven bytes", b"bytes of more than seven", [1, 2]]
    values += [{"a": 1}, (1, 2), ffi.List([1]), ffi.Map({}), library.echo, ffi.wrap_function(len)]
    values += [ffi.from_dlpack(np.zeros(2)), object(), ffi.Any("held text of some length")]
    for value in values:
        assert library.echo(value) is value


def test_identity_is_by_handle_and_not_by_memory(library):
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    transposed = library.transposed(array)
    assert transposed is not array
    assert transposed.shape == (3, 2)
    assert transposed.ctypes.data == array.ctypes.data
    assert transposed.tolist() == array.T.tolist()
    view = array[:1]
    assert library.echo(view) is view


def test_results_come_as_the_library_of_the_first_tensor(library):
    made = library.transposed(np.zeros((2, 3), np.float32))
    assert isinstance(made, np.ndarray)
    tensor = library.transposed(ffi.from_dlpack(np.zeros((2, 3), np.float32)))
    assert isinstance(tensor, ffi.Tensor)


def test_results_come_as_the_class_that_is_asked_for(library):
    function = library.get_function("transposed")
    assert function.tensor_type is None
    function.tensor_type = ffi.Tensor
    assert isinstance(function(np.zeros((2, 3), np.float32)), ffi.Tensor)
    function.tensor_type = np.ndarray
    assert isinstance(function(ffi.from_dlpack(np.zeros((2, 3), np.float32))), np.ndarray)
    echo = library.get_function("echo")
    echo.tensor_type = ffi.Tensor
    assert isinstance(echo(np.zeros(3)), ffi.Tensor)
    echo.tensor_type = None
    assert isinstance(echo(np.zeros(3)), np.ndarray)
    with pytest.raises(TypeError, match="array class"):
        function.tensor_type = str


def test_containers_come_as_python_s_own_or_as_objects(library):
    function = library.get_function("make_map")
    array = np.zeros(2)
    made = function(3, array)
    assert type(made) is dict
    assert made["number"] == 3
    assert made["tensor"] is array
    assert type(made["list"]) is ffi.List  # it can change, so it is shared and not copied
    function.objects = "objects"
    assert type(function(3, array)) is ffi.Map
    assert function.objects == "objects"
    function.objects = "tvm_ffi"
    import tvm_ffi

    assert type(function(3, array)) is tvm_ffi.Map
    with pytest.raises(ValueError, match="'values', 'objects' or 'tvm_ffi'"):
        function.objects = "other"


def test_keywords_need_named_parameters(library):
    with pytest.raises(TypeError, match="takes no keyword arguments"):
        library.join(parts=["a"], separator="-")
    join = ffi.name_parameters(
        library.join, "join", ("parts", "separator"), defaults={"separator": ", "}
    )
    assert join(["a", "b"]) == "a, b"
    assert join(separator="-", parts=["a", "b"]) == "a-b"
    assert repr(join) == "<weft function join(parts, separator)>"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'parts'"):
        join(separator="-")
    only = ffi.name_parameters(library.join, "join", ("parts", "separator"), keyword_only=1)
    with pytest.raises(TypeError, match="keyword-only"):
        only(["a"])
    assert only(["a", "b"], separator="+") == "a+b"
    with pytest.raises(ValueError, match="which is not a parameter"):
        ffi.name_parameters(library.join, "join", ("a", "b"), defaults={"c": 1})
    with pytest.raises(ValueError, match="expected distinct names, received 'a' twice"):
        ffi.name_parameters(library.join, "join", ("a", "b", "a"))


def test_an_argument_that_cannot_be_read_is_named(library):
    with pytest.raises(TypeError, match="argument #1"):
        library.echo(1, np.zeros(2, object))
    named = ffi.name_parameters(library.echo, "echo", ("first", "second"))
    with pytest.raises(TypeError, match=r"^echo\(first, second\): argument #1 'second'"):
        named(1, np.zeros(2, object))


def test_functions_of_ours_have_no_cpp_call(library):
    def python(a):
        return a

    assert library.has_no_cpp_call(python)
    assert library.has_no_cpp_call(ffi.wrap_function(python))
    echo = ffi.function_at(library.echo.safe_call_address, 0)
    assert library.has_no_cpp_call(echo)


def test_code_lives_as_long_as_the_function(library):
    from tests.native.callee import address

    class Owner:
        pass

    import weakref

    owner = Owner()
    reference = weakref.ref(owner)
    function = ffi.function_at(address("nothing"), keep=owner)
    library.keep_function(function)
    del owner, function
    gc.collect()
    assert reference() is not None
    library.forget_function_on_thread()
    library.echo(0)
    gc.collect()
    assert reference() is None
    with pytest.raises(ValueError, match="null"):
        ffi.function_at(0)


def test_foreign_functions_release_the_gil_by_default(library):
    assert library.echo.release_gil
    assert not ffi.wrap_function(len).release_gil
    echo = library.get_function("echo")
    echo.release_gil = False
    assert echo(1) == 1
    with pytest.raises(AttributeError):
        del echo.release_gil


def test_waiting_for_a_thread_that_needs_the_gil_is_safe(library):
    assert library.apply_on_thread(lambda x: x + 1, 41) == 42


def test_the_gil_is_released_while_a_foreign_function_runs(library):
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(None)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        from tests.native.callee import address

        sleep = ffi.function_at(address("sleep_a_little"))
        before = len(ticks)
        sleep()
        released = len(ticks) - before
    finally:
        stop.set()
        thread.join()
    assert released > 5


def test_c_functions_see_signals_of_python(library):
    assert library.check_signals() == 0
    import os
    import signal

    def interrupt(_signal, _frame):
        raise KeyError("from the handler")

    former = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyError, match="from the handler"):
            os.kill(os.getpid(), signal.SIGUSR1)
            for _ in range(1000):
                if library.check_signals() != 0:
                    break
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_a_callee_allocates_tensors_of_the_caller_s_library(library):
    named = ffi.name_parameters(library.allocate, "allocate", ("shape",))
    tensor = named(ffi.Shape((2, 3)))
    assert isinstance(tensor, ffi.Tensor)
    assert tensor.shape == (2, 3)
    assert tensor.data % 64 == 0
    array = tensor.to(np.ndarray)
    array[:] = 7
    del tensor
    gc.collect()
    assert array.sum() == 42
    assert library.allocate(ffi.Shape(())).shape == ()
    assert library.allocate(ffi.Shape((0, 3))).shape == (0, 3)
    with pytest.raises(ValueError, match="more elements than fit 64 bits"):
        library.allocate(ffi.Shape((2**62, 2**40)))


@pytest.mark.torch
def test_a_callee_allocates_torch_tensors_where_torch_came_in(library):
    torch = pytest.importorskip("torch")
    allocate_like = ffi.wrap_function(lambda tensor: library.allocate(ffi.Shape(tensor.shape)))
    made = allocate_like(torch.zeros(2, 3))
    assert type(made) in (torch.Tensor, ffi.Tensor)
    apply = library.get_function("apply")
    result = apply(library.transposed, torch.zeros(2, 3))
    assert type(result) is torch.Tensor


def test_ten_thousand_functions_leave_nothing_behind(library):
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(10_000):
        library.echo(lambda x: x)
        ffi.wrap_function(len)
    gc.collect()
    assert sys.getallocatedblocks() - before < 500


def test_a_function_has_the_name_that_errors_call_it(library):
    function = library.echo
    assert (function.__name__, repr(function)) == ("echo", "<weft function echo>")
    function.__name__ = "mine"
    with pytest.raises(TypeError, match=r"^mine: argument #0: "):
        function(np.ma.masked_array([1, 2], [0, 1]))
    assert library.echo.__name__ == "echo"
    for wrong in (1, None, b"echo"):
        with pytest.raises(TypeError, match="expected a str as __name__, received"):
            function.__name__ = wrong
    with pytest.raises(TypeError, match="received nothing"):
        del function.__name__
    named = ffi.name_parameters(function, "named", ("value",))
    with pytest.raises(AttributeError, match="function 'named' has its name from its signature"):
        named.__name__ = "other"
