# SPDX-License-Identifier: Apache-2.0
"""The callable: names, attributes, lifetime, and the same function for other languages."""

import ctypes
import gc
import inspect
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from tests.native.callee import AnyValue, address, foreign, library, planned
from weft import _native

ROOT = Path(__file__).parents[2]


class Details:
    """Not the function's own text."""

    ptx = "// ptx"

    @property
    def broken(self):
        raise AttributeError("from inside")


def test_attributes_come_from_the_details():
    function = planned("nothing", "a", details=Details())
    assert function.ptx == "// ptx"
    with pytest.raises(AttributeError, match="function 'nothing' has no attribute 'cubin'"):
        _ = function.cubin
    with pytest.raises(AttributeError, match="from inside"):
        _ = function.broken


def test_the_function_has_its_name_signature_and_no_borrowed_text():
    function = planned(
        "nothing", "a", "b", "c", positional_count=2, defaults={"b": 5}, details=Details()
    )
    assert function.__name__ == function.__qualname__ == "nothing"
    assert function.__doc__ is None
    assert str(inspect.signature(function)) == "(a, b=5, *, c)"
    assert repr(function) == "<weft function nothing(a, b, c)>"


def test_text_and_module_are_those_that_the_details_give():
    details = Details()
    assert planned("nothing", details=details).__module__ == "weft._native"
    details.documentation, details.module = "What it does.", "another.package"
    function = planned("nothing", details=details)
    assert (function.__doc__, function.__module__) == ("What it does.", "another.package")
    assert type(function).__module__ == "weft._native"


def test_the_first_argument_of_the_code_is_the_handle():
    assert _native.Function.from_address(address("return_handle"), 0x1234)() == 0x1234


def test_a_null_address_and_a_wrong_plan_are_refused():
    with pytest.raises(ValueError, match="null"):
        _native.Function.from_address(0, None)
    with pytest.raises(TypeError, match="CallPlan"):
        _native.Function.from_address(address("nothing"), None, None, "plan")


def test_functions_are_weakly_referenced_and_collected():
    class Holder:
        pass

    holder = Holder()
    function = planned("nothing", details=holder)
    holder.function = function
    reference = weakref.ref(function)
    del holder, function
    gc.collect()
    assert reference() is None


def test_the_owner_lives_as_long_as_the_function():
    class Owner:
        pass

    owner = Owner()
    reference = weakref.ref(owner)
    function = foreign("nothing", owner=owner)
    del owner
    gc.collect()
    assert reference() is not None
    del function
    gc.collect()
    assert reference() is None


def test_a_functions_object_calls_the_same_code():
    function = _native.Function.from_address(address("return_handle"), 0x4321)
    handle = function.to_object()
    result = AnyValue()
    assert library().call_function(ctypes.c_void_p(handle), None, 0, ctypes.byref(result)) == 0
    assert result.int64 == 0x4321
    again = _native.Function.from_object(handle, borrowed=False)
    assert again() == 0x4321


def test_a_functions_object_keeps_its_owner():
    class Owner:
        pass

    owner = Owner()
    reference = weakref.ref(owner)
    handle = foreign("nothing", owner=owner).to_object()
    del owner
    gc.collect()
    assert reference() is not None
    library().release_on_thread(ctypes.c_void_p(handle))  # ctypes has released the GIL
    foreign("nothing")()  # a call drops what other threads queued
    assert reference() is None


def test_a_borrowed_object_is_not_used_up():
    handle = foreign("return_true").to_object()
    first = _native.Function.from_object(handle, borrowed=True)
    del first
    assert _native.Function.from_object(handle, borrowed=False)() is True


def test_a_non_function_is_refused():
    error = foreign("echo")(foreign("nothing"))
    assert isinstance(error, _native.Function)
    header = (ctypes.c_int64 * 4)(0, 70, 0, 0)
    with pytest.raises(TypeError, match="type index 70"):
        _native.Function.from_object(ctypes.addressof(header), borrowed=True)


def test_calling_takes_no_reference_of_its_own():
    function = planned("nothing", "a")
    before = sys.getrefcount(function)
    for _ in range(1000):
        function(1)
    assert sys.getrefcount(function) == before


def test_functions_cannot_be_made_without_code():
    with pytest.raises(TypeError):
        _native.Function()


def test_nothing_crashes_when_the_process_ends_with_live_objects():
    program = (
        "import ctypes, threading\n"
        "from tests.native.callee import foreign, library\n"
        "class Owner: pass\n"
        "handle = foreign('nothing', owner=Owner()).to_object()\n"
        "foreign('keep')(bytearray(8))\n"
        "import atexit\n"
        "release = library().release_on_thread\n"
        "atexit.register(lambda: release(ctypes.c_void_p(handle)))\n"
        "functions = [foreign('nothing') for _ in range(3)]\n"
        "functions.append(functions)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_a_release_after_the_interpreter_has_ended_is_harmless():
    program = (
        "import ctypes\n"
        "from tests.native.callee import foreign, library\n"
        "handle = foreign('nothing', owner=object()).to_object()\n"
        "library().release_at_exit(ctypes.c_void_p(handle))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == 0
