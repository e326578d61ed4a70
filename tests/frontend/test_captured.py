# SPDX-License-Identifier: Apache-2.0
"""Changes of captured values are noticed: globals, closures, modules' and objects' attributes."""

from __future__ import annotations

import types

import numpy as np
import pytest

import weft
from tests.frontend.tracing import trace_kernel, vector
from weft.frontend.state.captured import snapshot

SCALE = 2.0
TABLE = [1.0, 2.0]
settings = types.SimpleNamespace(block=4)
config = types.ModuleType("config")
config.SIZE = 8


def helper(x):
    return x * SCALE


def kernel(a):
    a[0] = helper(a[0]) + TABLE[1] + settings.block + config.SIZE


def captured(function=kernel):
    return {value.name: value for value in trace_kernel(function, vector(weft.f32)).captured}


def test_what_was_read_is_listed_with_its_value():
    found = captured()
    assert {name: found[name].value for name in ("SCALE", "settings.block", "config.SIZE")} == {
        "SCALE": 2.0,
        "settings.block": 4,
        "config.SIZE": 8,
    }
    assert found["helper"].value is helper
    assert "weft" not in found
    assert all(value.is_current() for value in found.values())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("SCALE", lambda patch: patch.setitem(globals(), "SCALE", 3.0)),
        ("SCALE", lambda patch: patch.setitem(globals(), "SCALE", 2)),
        ("SCALE", lambda patch: patch.delitem(globals(), "SCALE")),
        ("TABLE", lambda patch: patch.setitem(TABLE, 1, 5.0)),
        ("helper", lambda patch: patch.setitem(globals(), "helper", lambda x: x)),
        ("settings.block", lambda patch: patch.setattr(settings, "block", 5)),
        ("config.SIZE", lambda patch: patch.setattr(config, "SIZE", 9)),
    ],
)
def test_a_change_is_noticed(name, change, monkeypatch):
    value = captured()[name]
    if name == "TABLE":
        monkeypatch.setitem = lambda table, key, new: table.__setitem__(key, new)
        change(monkeypatch)
        assert not value.is_current()
        TABLE[1] = 2.0
        assert value.is_current()
        return
    change(monkeypatch)
    assert not value.is_current()
    monkeypatch.undo()
    assert value.is_current()


def test_a_change_of_a_closure_is_noticed():
    size = 4

    def inner(a):
        a[0] = size

    value = captured(inner)["size"]
    assert value.is_current()
    size = 5
    assert not value.is_current()


def test_names_of_the_language_are_not_captured():
    def inner(a):
        a[weft.thread_idx.x] = weft.f32(1)

    assert not captured(inner).keys() & {"weft", "thread_idx", "f32", "weft.f32", "weft.thread_idx"}


RECURSIVE: list = [1.0]
RECURSIVE.append(RECURSIVE)
OBJECT = object()


@pytest.mark.joined
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 2), (1.0, 2.0)),
        (0.0, -0.0),
        ([0.0], [-0.0]),
        ([[1.0]], [[9.0]]),
        (([1.0],), ([2.0],)),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1, 2}, {1, 3}),
        (True, 1),
        (bytearray(b"ab"), bytearray(b"ac")),
        (np.ones(3, np.float32), np.full(3, 5, np.float32)),
        (np.ones(2, np.float32), np.ones(2, np.float32).view(np.int32)),
        (np.ones((2, 3)), np.ones((3, 2))),
        ([np.ones(2)], [np.zeros(2)]),
        (np.float32(0.0), np.float32(-0.0)),
        (np.array(["2020"], "datetime64[Y]"), np.array(["2021"], "datetime64[Y]")),
        ([1], (1,)),
        (RECURSIVE, [1.0, RECURSIVE]),
        (OBJECT, object()),
    ],
    ids=lambda value: "an object" if type(value) is object else str(value),
)
def test_what_compiles_to_other_code_has_another_snapshot(before, after):
    assert snapshot(before) == snapshot(before)
    assert snapshot(before) != snapshot(after)
    assert snapshot(after) == snapshot(after)


def test_not_a_number_and_equal_copies_are_the_same():
    assert snapshot([float("nan"), np.float32("nan")]) == snapshot(
        [float("nan"), np.float32("nan")]
    )
    assert snapshot(np.arange(4)[::2]) == snapshot(np.array([0, 2]))
    assert snapshot(RECURSIVE) == snapshot(RECURSIVE)


def changed(build, change):
    """Whether a captured value notices a change of what it holds."""
    held = build()

    def inner(a):
        a[0] = weft.f32(len(held))

    value = captured(inner)["held"]
    assert value.is_current()
    change(held)
    return not value.is_current()


@pytest.mark.parametrize(
    ("build", "change"),
    [
        (lambda: np.ones(3), lambda held: held.__setitem__(1, 9)),
        (lambda: [[1.0]], lambda held: held[0].append(2.0)),
        (lambda: ([1.0],), lambda held: held[0].__setitem__(0, 2.0)),
        (lambda: {"a": {"b": 1}}, lambda held: held["a"].update(b=2)),
        (lambda: bytearray(2), lambda held: held.__setitem__(0, 1)),
    ],
    ids=["an array", "a list in a list", "a list in a tuple", "a dict in a dict", "bytes"],
)
def test_a_change_deep_inside_is_noticed(build, change):
    assert changed(build, change)


WEIGHTS = np.ones(3, np.float32)
COUNT = [1.0]


def inner_count():
    return COUNT[0] * 2.0


def count():
    return inner_count() + 1.0


@weft.kernel
def weight_kernel(out):
    out[0] = float(WEIGHTS[0]) + count()


def test_a_direct_call_follows_arrays_and_what_helpers_read(monkeypatch):
    out = np.zeros(1, np.float32)
    weight_kernel[1, 1](out)
    assert out[0] == 4
    monkeypatch.setitem(globals(), "WEIGHTS", np.full(3, 5, np.float32))
    weight_kernel[1, 1](out)
    assert out[0] == 8
    WEIGHTS[0] = 7
    weight_kernel[1, 1](out)
    assert out[0] == 10
    monkeypatch.setitem(globals(), "COUNT", [2.0])
    weight_kernel[1, 1](out)
    assert out[0] == 12


class Sized(type):
    def count(cls):
        return cls.SIZE


class Table(metaclass=Sized):
    SIZE = 8

    def own(self):
        return self.SIZE

    @classmethod
    def of_class(cls):
        return cls.SIZE


class Derived(Table):
    pass


TABLE_OBJECT = Derived()


def change_class(monkeypatch):
    monkeypatch.setattr(Table, "of_class", classmethod(lambda cls: 5), raising=False)
    monkeypatch.setattr(Table, "own", lambda self: 5)
    monkeypatch.setattr(Sized, "count", lambda cls: 5)


@pytest.mark.parametrize(
    "change",
    [
        change_class,
        lambda patch: patch.setattr(Table, "SIZE", 5),
        lambda patch: patch.setattr(Derived, "SIZE", 5, raising=False),
    ],
    ids=["methods", "attribute", "attribute of the derived class"],
)
def test_methods_of_classes_are_found_by_the_class_and_change_with_it(change, monkeypatch):
    @weft.jit
    def sizes(a):
        return Derived.of_class(), TABLE_OBJECT.of_class(), TABLE_OBJECT.own(), Derived.count()

    a = np.zeros(1, np.float32)
    assert sizes(a) == (8,) * 4
    # All are compared by the identity of an object, in native code.
    captured = sizes.specializations[-1].captured
    assert captured and all(value.places for value in captured)
    change(monkeypatch)
    assert sizes(a) == (5,) * 4
    monkeypatch.undo()
    assert sizes(a) == (8,) * 4
