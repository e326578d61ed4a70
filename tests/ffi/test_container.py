# SPDX-License-Identifier: Apache-2.0
"""Containers behave as Python's own, and are shared with other languages."""

from __future__ import annotations

import collections
import itertools
import sys
import threading
import time

import numpy as np
import pytest
import tvm_ffi

from weft import _native, ffi

SEQUENCES = [[], [1], [1, "two", None, 2.5, (3, 4)], list(range(100))]


@pytest.mark.parametrize("values", SEQUENCES, ids=len)
@pytest.mark.parametrize("kind", [ffi.Array, ffi.List])
def test_sequences_are_sequences(kind, values):
    made = kind(values)
    assert isinstance(made, collections.abc.Sequence)
    assert (len(made), list(made), made == values, made != [*values, 0]) == (
        len(values),
        values,
        True,
        True,
    )
    for index in range(-len(values), len(values)):
        assert made[index] == values[index]
    for wrong in (len(values), -len(values) - 1):
        with pytest.raises(IndexError, match="out of range"):
            made[wrong]
    assert list(made[1:-1:2]) == values[1:-1:2]
    assert list(reversed(made)) == values[::-1]
    if values:
        assert values[0] in made
        assert made.index(values[-1]) == values.index(values[-1])
    assert "missing" not in made


def test_a_list_changes_as_python_s_does():
    expected, made = [1, 2, 3], ffi.List([1, 2, 3])

    def both(change):
        change(expected)
        change(made)
        assert made == expected

    both(lambda values: values.append("x"))
    both(lambda values: values.insert(0, "first"))
    both(lambda values: values.insert(-1, "before the last"))
    both(lambda values: values.insert(99, "last"))
    both(lambda values: values.__setitem__(2, (1, 2)))
    both(lambda values: values.__delitem__(0))
    both(lambda values: values.__delitem__(slice(0, 4, 2)))
    both(lambda values: values.__setitem__(slice(1, 2), ["a", "b", "c"]))
    both(lambda values: values.extend([1, 2]))
    both(lambda values: values.reverse())
    both(lambda values: values.remove("a"))
    assert made.pop() == expected.pop()
    assert made.pop(0) == expected.pop(0)
    both(lambda values: values.clear())
    with pytest.raises(IndexError):
        made.pop()


def test_mappings_are_mappings():
    values = {"a": 1, 2: "two", (3, 4): None, 1.5: b"x"}
    for kind in (ffi.Map, ffi.Dict):
        made = kind(values)
        assert isinstance(made, collections.abc.Mapping)
        assert (len(made), dict(made), made == values, "a" in made, "z" in made) == (
            4,
            values,
            True,
            True,
            False,
        )
        assert set(made) == set(values)
        assert made.get("z", 5) == 5
        assert {key: made[key] for key in made.keys()} == values
        with pytest.raises(KeyError, match="z"):
            made["z"]
        assert dict(kind(values.items())) == values
        assert (len(kind({})), list(kind())) == (0, [])


def test_a_dict_changes_as_python_s_does():
    made = ffi.Dict({"a": 1})
    made["b"] = 2
    made["a"] = 3
    made[1, 2] = "a tuple"
    made[1, 2] = "again"
    assert made == {"a": 3, "b": 2, (1, 2): "again"}
    del made["a"], made[1, 2]
    with pytest.raises(KeyError):
        del made["a"]
    assert made.pop("b") == 2
    made.update({"c": 1, "d": 2})
    assert made.setdefault("c", 9) == 1
    made.clear()
    assert not made


def test_a_dict_that_changes_while_it_is_walked_is_harmless():
    made = ffi.Dict({index: index for index in range(20)})
    for key in made:
        made.pop(key)
        made[f"new {key}"] = 0
    assert len(made) == 20


def test_what_can_change_is_not_hashed_and_what_cannot_is():
    assert hash(ffi.Array([1, "a"])) == hash((1, "a"))
    assert hash(ffi.Map({1: 2})) == hash(ffi.Map({1: 2}))
    for made in (ffi.List([1]), ffi.Dict({})):
        with pytest.raises(TypeError, match="unhashable"):
            hash(made)


def test_containers_are_shared_with_c(library):
    shared = ffi.List()
    library.append(shared, 1)
    library.append(shared, "two")
    assert shared == [1, "two"]
    mapping = ffi.Dict()
    library.assign(mapping, "key", (1, 2))
    assert mapping == {"key": (1, 2)}


def test_python_s_containers_become_arrays_and_maps(library):
    for value, key in [
        ((1,), "ffi.Array"),
        ([1], "ffi.Array"),
        ({"a": 1}, "ffi.Map"),
        ((), "ffi.Array"),
    ]:
        assert library.describe(value) == key
    named = collections.namedtuple("Named", "a b")(1, 2)
    assert library.describe(named) == "ffi.Array"
    ordered = collections.OrderedDict(b=1, a=2)
    assert ffi.Any(ordered).take() == {"b": 1, "a": 2}
    assert library.join(["a", "b"], ",") == "a,b"


def test_nested_containers_of_any_depth_come_back_or_are_refused():
    value: object = ()
    for depth in range(50):
        value = (depth, {"inner": value})
    assert ffi.Any(value).take() == value
    endless: list = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        ffi.Any(endless)


def test_elements_keep_references_of_their_own():
    array = np.zeros(3)
    made = ffi.Array([array, [array]])
    assert made[0] is array
    inner = ffi.List([1])
    outer = ffi.List([inner])
    assert inner.reference_count == 2
    del outer
    assert inner.reference_count == 1


def test_the_package_s_containers_are_taken_and_given(library):
    for value in (
        tvm_ffi.Array([1, 2]),
        tvm_ffi.List([1]),
        tvm_ffi.Map({"a": 1}),
        tvm_ffi.Dict({1: 2}),
    ):
        assert library.describe(value) == f"ffi.{type(value).__name__}"
        assert library.echo(value) is value
    assert tuple(ffi.Array([1, 2]).__tvm_ffi_object__()) == (1, 2)
    assert type(ffi.Map({"a": 1}).__tvm_ffi_object__()) is tvm_ffi.Map
    theirs = tvm_ffi.convert(len)
    assert theirs(ffi.List([1, 2, 3])) == 3


def test_a_dict_is_read_while_other_threads_change_it():
    shared = ffi.Dict({f"key number {number}": number for number in range(50)})
    failures: list[BaseException] = []
    ended = threading.Event()

    def guarded(work):
        try:
            while not ended.is_set():
                work()
        except BaseException as error:
            failures.append(error)

    numbers = itertools.count(50)

    def change():
        number = next(numbers)
        shared[f"key number {number}"] = number
        if number % 97 == 0:
            shared.clear()

    def read():
        assert all(isinstance(key, str) for key in shared)
        assert repr(shared).startswith("Dict({")
        assert (1, 2) not in shared

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=guarded, args=(work,)) for work in (change, read, read)]
    try:
        for thread in threads:
            thread.start()
        time.sleep(0.5)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert failures == []


def test_only_mappings_have_items():
    with pytest.raises(TypeError, match=r"ffi.Map or an ffi.Dict"):
        _native.mapping_items(ffi.Array([1]), None)


@pytest.mark.parametrize("kind", [ffi.Array, ffi.List, ffi.Map, ffi.Dict])
def test_a_moved_container_says_so(kind):
    container = kind()
    handle = container.release()
    assert repr(container) == f"<{kind.__name__}, moved from>"
    assert ffi.Object(handle, borrowed=False) == kind()  # owned again, in the class of its type


def test_a_container_that_holds_itself_has_a_text():
    values, table = ffi.List([1]), ffi.Dict()
    values.append(values)
    table["values"] = values
    table["same"] = ffi.Array([table, 2])
    try:
        assert repr(values) == "List([1, List(...)])"
        assert repr(table) == "Dict({'values': List([1, List(...)]), 'same': (Dict(...), 2)})"
        assert repr(values) == "List([1, List(...)])"  # nothing of the last time is left
    finally:
        values.clear()
        table.clear()
