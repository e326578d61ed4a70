# SPDX-License-Identifier: Apache-2.0
"""Python callables as functions of the ABI: every argument and result, re-entered, kept, released anywhere."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from tests.ffi.building import run_python
from weft import ffi

pytestmark = pytest.mark.joined

ARGUMENTS = [
    None,
    True,
    -1,
    2**70,
    2.5,
    "short",
    "a text of more than seven bytes",
    b"short",
    b"bytes of more than seven",
    (1, ("two", None)),
    {"key": (1, 2)},
    ffi.Shape((1, 2)),
    ffi.Device("cuda:1"),
    ffi.DataType("int8"),
]


@pytest.mark.parametrize("value", ARGUMENTS, ids=repr)
def test_every_kind_of_argument_and_result_goes_through(library, value):
    seen = []

    def callback(argument):
        seen.append(argument)
        return argument

    assert library.apply(callback, value) == value
    assert seen == [value]
    assert type(seen[0]) is type(value)


def test_objects_arrive_as_objects(library):
    seen = []
    values = [ffi.List([1]), ffi.Dict({1: 2}), library.make_counter(3, "c"), library]
    for value in values:
        library.apply(seen.append, value)
    assert seen == values
    assert [type(value) for value in seen] == [type(value) for value in values]


def test_a_shared_list_is_changed_by_the_callback(library):
    shared = ffi.List([1])
    library.apply(lambda values: values.append("added"), shared)
    assert shared == [1, "added"]


def test_a_callback_returns_its_argument_as_the_same_object(library):
    values = [
        np.zeros(3),
        "a text of more than seven bytes",
        b"bytes of more than seven",
        ffi.List([1]),
    ]
    values += [library.make_counter(1, "c"), library.echo, ValueError("x"), object()]
    for value in values:
        assert library.apply(lambda given: given, value) is value
        assert ffi.wrap_function(lambda given: given)(value) is value


def test_a_copy_that_a_callback_changed_is_returned_as_it_is_now(library):
    def change(mapping, sequence):
        mapping["added"] = 1
        return mapping

    assert library.apply(change, {"a": 0}, ()) == {"a": 0, "added": 1}
    assert library.apply(lambda values: values, ({"inner": 1},)) == ({"inner": 1},)


def test_arrays_arrive_as_the_caller_s_own_object(library):
    array = np.zeros(3)
    seen = []
    library.apply(seen.append, array)
    assert seen[0] is array


@pytest.mark.torch
def test_new_tensors_arrive_as_the_caller_s_library_has_them(library):
    torch = pytest.importorskip("torch")
    seen = []

    library.apply(lambda tensor: seen.append(library.transposed(tensor)), torch.zeros(2, 3))
    library.apply(seen.append, torch.zeros(2))
    assert [type(value) for value in seen] == [torch.Tensor, torch.Tensor]
    wrapped = ffi.wrap_function(seen.append, tensor_type=torch.Tensor)
    library.apply(wrapped, np.zeros(3))
    assert type(seen[-1]) is torch.Tensor


def test_tensors_arrive_as_the_class_that_is_asked_for(library):
    seen = []
    array = np.zeros(3)
    library.apply(ffi.wrap_function(seen.append, tensor_type=ffi.Tensor), array)
    assert isinstance(seen[0], ffi.Tensor)
    assert seen[0].data == array.ctypes.data
    with pytest.raises(TypeError, match="array class"):
        ffi.wrap_function(seen.append, tensor_type=list)
    with pytest.raises(ValueError, match="'values', 'objects' or 'tvm_ffi'"):
        ffi.wrap_function(seen.append, objects="no")


def test_containers_arrive_as_objects_where_that_is_asked_for(library):
    seen = []
    library.apply(ffi.wrap_function(seen.append, objects="objects"), (1, 2))
    assert type(seen[0]) is ffi.Array


def test_functions_are_arguments_and_results(library):
    def make_adder(amount):
        return lambda value: value + amount

    add = library.apply(make_adder, 5)
    assert isinstance(add, ffi.Function)
    assert add(10) == 15
    assert library.apply(lambda function: function(1, 2), lambda a, b: a * 10 + b) == 12


def test_a_bound_method_a_class_and_a_partial_are_callables(library):
    import functools

    class Adder:
        def __init__(self, amount=0):
            self.amount = amount

        def add(self, value):
            return value + self.amount

        def __call__(self, value):
            return value - self.amount

    adder = Adder(3)
    assert library.apply(adder.add, 4) == 7
    assert library.apply(adder, 4) == 1
    assert library.apply(functools.partial(adder.add), 1) == 4
    assert library.apply(int, "12") == 12
    assert library.apply(max, 1, 5, 3) == 5


@pytest.mark.parametrize("count", [0, 1, 2, 14, 15, 16, 17, 100])
def test_a_callback_takes_any_number_of_arguments(library, count):
    assert library.apply(lambda *values: values, *range(count)) == tuple(range(count))


def test_a_callback_calls_back_to_any_depth(library):
    def descend(depth):
        return 0 if depth == 0 else 1 + library.apply(descend, depth - 1)

    assert library.apply(descend, 50) == 50


def test_a_callback_that_recurses_for_ever_is_an_error(library):
    def descend():
        return library.apply(descend)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        with pytest.raises(RecursionError):
            descend()
    finally:
        sys.setrecursionlimit(limit)


def test_a_callback_runs_on_threads_that_python_has_never_seen(library):
    identities = set()

    def callback(worker, call):
        identities.add(threading.get_ident())
        return worker * 1000 + call

    total = library.sum_on_threads(callback, 8, 50)
    assert total == sum(worker * 1000 + call for worker in range(8) for call in range(50))
    assert threading.get_ident() not in identities


def test_a_kept_callback_is_released_by_any_thread(library):
    class Callable:
        def __call__(self, value):
            return value * 2

    callback = Callable()
    reference = weakref.ref(callback)
    library.keep_function(callback)
    del callback
    gc.collect()
    assert library.call_kept(21) == 42
    library.forget_function_on_thread()
    library.echo(0)  # what another thread dropped goes at the next call
    gc.collect()
    assert reference() is None


def test_a_callback_that_forgets_itself_while_it_runs_finishes(library):
    def callback(value):
        library.forget_function()
        gc.collect()
        return value + 1

    library.keep_function(callback)
    del callback
    assert library.call_kept(1) == 2


def test_arguments_may_be_kept_and_outlive_the_call(library):
    kept = []
    array = np.arange(4.0)
    library.apply(lambda *values: kept.extend(values), array, ["a", "b"], "some longer text")
    del array
    gc.collect()
    assert kept[0].tolist() == [0, 1, 2, 3]
    assert kept[1:] == [("a", "b"), "some longer text"]


def test_a_lent_tensor_is_read_while_the_callback_runs(library):
    def total(view):
        assert isinstance(view, ffi.TensorView)
        assert (view.shape, view.dtype.name, view.device.name) == ((2, 3), "float32", "cpu")
        assert view.is_valid()
        return float(np.from_dlpack(view).sum())

    assert library.lend_tensor(total) == 15.0
    assert library.lend_tensor(
        ffi.wrap_function(lambda a: a.tolist()[1], tensor_type=np.ndarray)
    ) == (3, 4, 5)


def test_a_lent_tensor_ends_with_the_callback(library):
    kept = []
    library.lend_tensor(kept.append)
    view = kept[0]
    assert not view.is_valid()
    assert repr(view) == "<weft.ffi.TensorView, ended>"
    for use in (
        lambda: view.shape,
        lambda: view.data,
        lambda: np.from_dlpack(view),
        lambda: library.echo(view),
    ):
        with pytest.raises(ValueError, match="was lent to a callback that has returned"):
            use()


def keep_array(library, kept):
    library.lend_tensor(lambda view: kept.append(np.from_dlpack(view)))


def return_array(library, kept):
    library.lend_tensor(np.from_dlpack)


def keep_as_array(library, kept):
    library.lend_tensor(ffi.wrap_function(kept.append, tensor_type=np.ndarray))


@pytest.mark.parametrize("misuse", [keep_array, return_array, keep_as_array])
def test_an_array_over_a_lent_tensor_that_is_kept_is_an_error(library, misuse):
    kept = []
    with pytest.raises(RuntimeError, match="kept an array over a tensor that was only lent"):
        misuse(library, kept)


def test_a_copy_of_a_lent_tensor_may_be_kept(library):
    kept = []
    library.lend_tensor(lambda view: kept.append(np.from_dlpack(view).copy()))
    assert kept[0].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_views_are_borrowed_until_the_callback_returns(library):
    seen = []

    def callback(*views):
        seen.extend(views)
        assert all(isinstance(view, ffi.AnyView) for view in views)
        return views[0].copy() + views[1].copy()

    assert library.apply(ffi.wrap_function(callback, views=True), 2, 3) == 5
    with pytest.raises(ValueError, match="was lent to a callback that has returned"):
        seen[0].copy()
    array = ffi.Array([1])
    owned = []
    library.apply(ffi.wrap_function(lambda view: owned.append(view.to_any()), views=True), array)
    assert owned[0].take() == (1,)


def test_a_moved_argument_becomes_the_callback_s(library):
    seen = []

    def callback(values):
        seen.append(values)
        return len(values)

    assert library.give_away(callback) == 3
    assert seen == [(1, 2, 3)]


def test_texts_of_c_arrive_as_texts(library):
    assert library.pass_text(lambda text, number: f"{text} {number}") == "raw text 7"


def test_a_non_callable_is_refused():
    with pytest.raises(TypeError, match="expected a callable"):
        ffi.wrap_function(3)  # type: ignore[arg-type]


def test_weft_and_tvm_ffi_call_each_other(library):
    import tvm_ffi

    ours = ffi.wrap_function(lambda *values: values[::-1])
    theirs = tvm_ffi.convert(lambda *values: list(values))
    assert tuple(ours.__tvm_ffi_object__()(1, "two")) == ("two", 1)
    assert library.apply(theirs, 1, "two") == (1, "two")
    assert library.apply(ours, theirs, 2)[0] == 2


def test_a_program_that_ends_with_callbacks_everywhere_ends_well():
    run_python(
        "from tests.ffi.building import build\n"
        "from weft import ffi\n"
        "library = ffi.load_module(build('library.cpp'))\n"
        "class Noisy:\n"
        "    def __call__(self): return 1\n"
        "    def __del__(self): library.echo(1)\n"
        "library.keep_function(Noisy())\n"
        "library.keep_value([Noisy(), {'a': Noisy()}])\n"
        "ffi.register_global('weft_test.at_exit', Noisy())\n"
        "cycle = ffi.List()\n"
        "cycle.append(lambda: cycle)\n"
    )


class Owner:
    """Holds a callback that holds it."""

    def __init__(self, wrap):
        self.callback = wrap(self.method)

    def method(self, x):
        return x


HOLDERS = {
    "function": ffi.wrap_function,
    "named": lambda method: ffi.name_parameters(ffi.wrap_function(method), "method", ("x",)),
    "twice removed": lambda method: [{"a": ffi.wrap_function(method)}],
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_callback_of_an_objects_own_method_is_collected_with_it(holder):
    owners = [Owner(HOLDERS[holder]) for _ in range(10)]
    kept = [weakref.ref(owner) for owner in owners]
    gc.collect()
    assert all(ref() is not None for ref in kept)
    del owners
    gc.collect()
    assert [ref() for ref in kept] == [None] * 10


def test_a_callback_that_foreign_code_holds_keeps_what_it_calls():
    owner = Owner(ffi.wrap_function)
    array = ffi.Array([owner.callback])
    kept = weakref.ref(owner)
    del owner
    gc.collect()
    assert kept() is not None
    assert array[0](3) == 3
    del array
    gc.collect()
    assert kept() is None


def test_a_callback_passed_on_while_collected_survives():
    given = []

    class Gives(Owner):
        def __del__(self):
            given.append(ffi.Array([self.callback]))

    gives = Gives(ffi.wrap_function)
    del gives
    gc.collect()
    assert given[0][0](5) == 5


def test_callbacks_are_released_by_hand_and_say_so():
    mine = ffi.wrap_function(lambda x: x)
    ffi.register_global("test.released", lambda x: x, override=True)
    assert ffi.release_callbacks() >= 1
    with pytest.raises(RuntimeError, match="called after it had been released"):
        ffi.get_global("test.released")(1)
    assert mine(1) == 1
    assert ffi.release_callbacks() == 0
    ffi.remove_global("test.released")
