# SPDX-License-Identifier: Apache-2.0
"""Values lent to a call are kept by nothing that outlives it; its arguments stay while it runs."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from weft import ffi

pytestmark = pytest.mark.joined

KEPT = "valid for one call only and cannot be kept"


class Valued:
    def __init__(self, value: object) -> None:
        self.value = value

    def __tvm_ffi_value__(self) -> object:
        return self.value


DEPTHS = {
    "itself": lambda view: view,
    "list": lambda view: [view],
    "nested": lambda view: [1, ({"a": [view]},)],
    "dict": lambda view: {"a": view},
    "key": lambda view: {view: 1},
    "protocol": lambda view: [Valued(view)],
}

KEEPERS = {
    "Any": ffi.Any,
    "Array": lambda value: ffi.Array([value]),
    "List": lambda value: ffi.List([value]),
    "Map": lambda value: ffi.Map({"a": value}),
    "Dict": lambda value: ffi.Dict({"a": value}),
    "append": lambda value: ffi.List().append(value),
    "insert": lambda value: ffi.List([1]).insert(0, value),
    "set item": lambda value: ffi.List([1]).__setitem__(0, value),
    "set slice": lambda value: ffi.List([1]).__setitem__(slice(0, 1), [value]),
    "set key": lambda value: ffi.Dict().__setitem__("a", value),
    "callback": lambda value: ffi.wrap_function(lambda: value)(),
    "ffi.Array": ffi.get_global("ffi.Array"),
    "ffi.List": ffi.get_global("ffi.List"),
    "ffi.Map": lambda value: ffi.get_global("ffi.Map")("a", value),
    "ffi.Dict": lambda value: ffi.get_global("ffi.Dict")("a", value),
    "ffi.ListAppend": lambda value: ffi.get_global("ffi.ListAppend")(ffi.List(), value),
    "named": lambda value: ffi.name_parameters(ffi.get_global("ffi.Array"), "f", ("a",))(a=value),
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_view_is_kept_by_nothing_at_any_depth(keeper, depth):
    view = ffi.TensorView(np.zeros(3))
    with pytest.raises(TypeError, match=KEPT):
        KEEPERS[keeper](DEPTHS[depth](view))
    gc.collect()


@pytest.mark.joined
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_tensor_on_the_stack_of_c_plus_plus_is_kept_by_nothing(library, keeper, depth):
    def keep(view: Any) -> None:
        KEEPERS[keeper](DEPTHS[depth](view))

    with pytest.raises(TypeError, match=KEPT):
        library.lend_tensor(ffi.wrap_function(keep, views=True))


def test_a_view_of_a_lent_tensor_does_not_become_owned(library):
    kept = []
    with pytest.raises(TypeError, match=KEPT):
        library.lend_tensor(ffi.wrap_function(lambda view: kept.append(view.to_any()), views=True))
    assert kept == []
    with pytest.raises(TypeError, match=KEPT):
        library.lend_tensor(ffi.wrap_function(lambda view: [view], views=True))


def test_a_lent_tensor_is_passed_on_while_it_is_lent(library):
    ranks = []
    inner = ffi.wrap_function(lambda view: ranks.append(len(view.shape)))
    library.lend_tensor(ffi.wrap_function(inner, views=True))
    assert ranks == [2]


def test_texts_that_are_lent_become_owned(library):
    kept: list[Any] = []
    library.pass_text(
        ffi.wrap_function(
            lambda view, _: kept.extend([view.to_any(), ffi.Array([view])]), views=True
        )
    )
    assert kept[0].copy() == "raw text"
    assert kept[1] == ("raw text",)


class RawAny(ctypes.Structure):
    _fields_ = (
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
    )


def test_a_lent_tensor_is_not_adopted_from_memory():
    raw = RawAny(ffi.TypeIndex.TENSOR_VIEW, 0, 0x1000)
    for borrowed in (True, False):
        with pytest.raises(TypeError, match=KEPT):
            ffi.Any.from_address(ctypes.addressof(raw), borrowed=borrowed)
    filled = ffi.Any()
    RawAny.from_address(filled.address).type_index = ffi.TypeIndex.TENSOR_VIEW
    with pytest.raises(TypeError, match=KEPT):
        ffi.wrap_function(lambda value: None)(filled)


class Thing:
    """Something whose end can be seen."""


def with_thing(make) -> tuple[Any, weakref.ref[Thing]]:
    thing = Thing()
    return make(ffi.Array([thing])), weakref.ref(thing)


class Holder:
    def __init__(self, array: ffi.Array) -> None:
        self.array = array

    def __tvm_ffi_value__(self) -> object:
        return self.array

    def release(self) -> None:
        ffi.Object(self.array.release(), borrowed=False)


def give_up(value: Any) -> None:
    if isinstance(value, ffi.Object):
        ffi.Object(value.release(), borrowed=False)
    elif isinstance(value, Holder):
        value.release()
    else:
        value.take()
    gc.collect()


@pytest.mark.parametrize("keyword", [False, True], ids=["positional", "keyword"])
@pytest.mark.parametrize(
    "make", [lambda array: array, ffi.Any, Holder], ids=["object", "any", "held"]
)
def test_what_a_call_was_given_stays_while_it_runs(make, keyword):
    value, seen = with_thing(make)
    alive = []

    def look(view: Any) -> None:
        give_up(value)
        alive.append(seen() is not None)

    function = ffi.wrap_function(look, views=True)
    if keyword:
        ffi.name_parameters(function, "look", ("value",))(value=value)
    else:
        function(value)
    gc.collect()
    assert alive == [True]
    assert seen() is None


def test_a_view_of_an_any_stays_while_a_call_runs():
    value, seen = with_thing(ffi.Any)
    view = value.view()
    alive = []

    def look(_: Any) -> None:
        give_up(value)
        alive.append(seen() is not None)

    ffi.wrap_function(look, views=True)(view)
    assert alive == [True]
    assert seen() is None


def test_a_release_on_another_thread_waits_for_the_call(library):
    value, seen = with_thing(ffi.Any)
    alive = []

    def look() -> None:
        give_up(value)
        alive.append(seen() is not None)

    # With views nothing of the argument is converted, so that only the call can hold it.
    inner = ffi.wrap_function(
        lambda *_: library.apply_on_thread(lambda _: look(), None), views=True
    )
    library.apply(inner, value)
    assert alive == [True]
    assert seen() is None


def test_calls_keep_no_reference_to_their_arguments():
    array = ffi.Array([1, "two"])
    theirs = tvm_ffi.Array([1, 2])
    before = array.reference_count
    for _ in range(10):
        ffi.wrap_function(lambda *_: None)(array, ffi.Any(array), [array], theirs)
    gc.collect()
    assert array.reference_count == before
