# SPDX-License-Identifier: Apache-2.0
"""What a trace built in is noticed when it changes: globals, closures, modules' and objects' attributes."""

from __future__ import annotations

import types

import pytest

import weft
from tests.frontend.tracing import trace_kernel, vector

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

    assert captured(inner).keys() <= {"kernel"}
