# SPDX-License-Identifier: Apache-2.0
"""Read-only memory is never passed to code that may write to it, in any form and at any depth."""

from __future__ import annotations

import abc
import sys
import types
from typing import Any

import numpy as np
import pytest

import weft
from tests.native.callee import planned
from weft import ffi

pytestmark = pytest.mark.joined


def read_only() -> np.ndarray[Any, Any]:
    array = np.arange(3.0)
    array.flags.writeable = False
    return array


FORMS = {
    "array": read_only,
    "bytes": lambda: memoryview(b"immutable"),
    "tensor": lambda: ffi.from_dlpack(read_only()),
    "view": lambda: ffi.TensorView(read_only()),
    "any": lambda: ffi.Any(read_only()),
    "any of a tensor": lambda: ffi.Any(ffi.from_dlpack(read_only())),
    "view of an any": lambda: ffi.Any(read_only()).view(),
    "moved": lambda: ffi.from_dlpack(read_only()).move(),
    "list": lambda: [1, read_only()],
    "dict": lambda: {"a": read_only()},
    "nested": lambda: [1, {"a": (2, [read_only()])}],
    "Array": lambda: ffi.Array([1, read_only()]),
    "Map": lambda: ffi.Map({"a": read_only()}),
    "Any of a list": lambda: ffi.Any([1, {"a": read_only()}]),
    "Array in a list": lambda: [ffi.Array([ffi.Map({"a": read_only()})])],
    "moved Array": lambda: ffi.Array([read_only()]).move(),
}
KEPT = [form for form in FORMS if form != "view" and not form.startswith("moved")]


@pytest.fixture
def describe(library):
    yield library.describe
    library.describe.writes = True


@pytest.mark.parametrize("form", FORMS)
def test_a_foreign_function_takes_it_on_its_caller_s_word_only(library, form):
    called = []
    inner = ffi.wrap_function(lambda *_: called.append(1), views=True)
    function = library.apply
    value = FORMS[form]()
    with pytest.raises(ValueError, match=r"the function may write.*function\.writes = False"):
        function(inner, value)
    assert not called
    function.writes = False
    assert not function.writes
    function(inner, value)
    assert called == [1]
    function.writes = True
    with pytest.raises(ValueError, match="writable memory"):
        function(inner, FORMS[form]())


# What compiled functions take instead of one tensor.
SINGLE = ["array", "bytes", "tensor", "view", "any", "any of a tensor", "view of an any"]


@pytest.mark.parametrize("form", [*SINGLE, "list", "Array", "Any of a list"])
def test_a_kernel_that_writes_refuses_it(form):
    planned("nothing", "a")(FORMS[form]())
    with pytest.raises(ValueError, match="because a kernel writes to it"):
        planned("nothing", "a", written_mask=1)(FORMS[form]())


@weft.kernel
def copy_kernel(source: weft.Tensor, target: weft.Tensor):
    target[weft.thread_idx.x] = source[weft.thread_idx.x]


@weft.jit
def copy_pair(pair):
    copy_kernel(pair[0], pair[1]).launch(grid=1, block=3)


@pytest.mark.parametrize("make", [tuple, ffi.Array, ffi.Any], ids=["tuple", "Array", "Any"])
def test_each_item_of_a_container_has_its_own_rule(make):
    source, target = read_only(), np.zeros(3)
    call = weft.compile(copy_pair, (target, target))
    call(make((source, target)))
    assert target.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="because a kernel writes to it"):
        call(make((target, source)))


@pytest.mark.parametrize("form", KEPT)
@pytest.mark.parametrize(
    "share",
    [
        lambda value: ffi.List([value]),
        lambda value: ffi.List().append(value),
        lambda value: ffi.List([1]).insert(0, value),
        lambda value: ffi.List([1]).__setitem__(0, value),
        lambda value: ffi.Dict({"a": value}),
        lambda value: ffi.Dict().__setitem__("a", value),
        ffi.get_global("ffi.List"),
        lambda value: ffi.get_global("ffi.ListAppend")(ffi.List(), value),
    ],
)
def test_what_others_share_does_not_hold_it(share, form):
    with pytest.raises(ValueError, match=r"those who share this value.*pass a copy"):
        share(FORMS[form]())


def test_a_constructor_and_a_field_do_not_take_it(library):
    with pytest.raises(ValueError, match="those who share"):
        ffi.create_object("weft_test.Counter", read_only(), "name")
    counter = library.make_counter(5, "a counter")
    with pytest.raises(ValueError, match="those who share"):
        counter.count = read_only()


def test_a_callback_passes_it_only_to_python(library):
    array = read_only()
    function = ffi.wrap_function(lambda *_: array)
    assert function() is array
    assert ffi.wrap_function(lambda value: value)(array) is array
    with pytest.raises(ValueError, match="those who share"):
        library.apply(function, 1)
    with pytest.raises(RuntimeError, match=r"ValueError: .*those who share"):
        library.apply_on_thread(ffi.wrap_function(lambda *_: [array]), 1)


def test_what_holds_it_can_be_looked_at():
    array = read_only()
    held = ffi.Map({"a": array, "b": (1, array)})
    assert held["a"] is array
    assert "a" in held
    assert len(held) == 2
    assert ffi.Array([array])[0] is array
    tensor = ffi.from_dlpack(array)
    assert tensor not in ffi.Map({1: 2})
    assert tensor not in ffi.Dict({1: 2})


def test_a_compiled_function_knows_what_it_writes_itself():
    reads, writes = planned("nothing", "a"), planned("nothing", "a", written_mask=1)
    assert (reads.writes, writes.writes) == (False, True)
    with pytest.raises(AttributeError, match="knows which of its arguments it writes"):
        writes.writes = False


def test_names_for_parameters_change_nothing_about_it(library):
    function = library.apply
    function.writes = False
    inner = ffi.wrap_function(lambda _: 1, views=True)
    assert ffi.name_parameters(function, "apply", ("f", "a"))(f=inner, a=read_only()) == 1
    function.writes = True
    with pytest.raises(ValueError, match="argument #1 'a'"):
        ffi.name_parameters(function, "apply", ("f", "a"))(inner, a=read_only())


def test_the_path_to_it_is_reported(library):
    with pytest.raises(ValueError, match=r"argument #1\[1\]\['a'\]"):
        library.apply(len, [1, {"a": read_only()}])


class Immutable:
    """Like JAX's arrays: immutable, though the export does not say so."""

    def __init__(self) -> None:
        self.memory = np.arange(3.0)

    def __dlpack__(self, **options: Any) -> object:
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory.__dlpack_device__()


@pytest.fixture
def immutable(monkeypatch):
    """An array of a class that `jax.Array` knows, as its own array class is."""
    array_class = abc.ABCMeta("Array", (), {})
    own = type("ArrayImpl", (Immutable,), {})
    array_class.register(own)
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(Array=array_class))
    return own()


def test_arrays_of_jax_are_read_only(library, immutable):
    planned("nothing", "a")(immutable)
    assert ffi.from_dlpack(immutable).read_only
    for value in (immutable, ffi.from_dlpack(immutable), ffi.Any(immutable)):
        with pytest.raises(ValueError, match="a kernel writes to it"):
            planned("nothing", "a", written_mask=1)(value)
    with pytest.raises(ValueError, match=r"immutable ArrayImpl.*writable=True"):
        library.apply(len, immutable)
    with pytest.raises(ValueError, match="immutable ArrayImpl"):
        ffi.List([immutable])


def test_arrays_of_jax_are_written_when_that_is_asked_for(library, immutable):
    tensor = ffi.from_dlpack(immutable, writable=True)
    assert not tensor.read_only
    planned("nothing", "a", written_mask=1)(tensor)
    np.from_dlpack(tensor)[0] = 7
    assert immutable.memory[0] == 7
    assert ffi.List([tensor])[0] == tensor


def test_arrays_of_jax_go_back_in_the_form_that_jax_asks_for(immutable):
    for made in (ffi.from_dlpack(immutable), ffi.TensorView(immutable)):
        assert ffi.from_dlpack(made.__dlpack__()).data == immutable.memory.ctypes.data
        assert ffi.from_dlpack(made.__dlpack__(max_version=(1, 1))).read_only


def test_memory_that_is_read_only_is_never_called_writable():
    with pytest.raises(BufferError, match="read-only"):
        ffi.from_dlpack(read_only(), writable=True)
    with pytest.raises(BufferError, match="read-only"):
        ffi.from_dlpack(ffi.from_dlpack(read_only()), writable=True)
    with pytest.raises(BufferError, match="read-only"):
        ffi.from_dlpack(ffi.to_dlpack(read_only()), writable=True)
    assert not ffi.from_dlpack(np.zeros(3), writable=True).read_only
