# SPDX-License-Identifier: Apache-2.0
"""The marshaller's records of classes with fields, adapters, constants and items; no compiler is needed."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from weft import _native
from weft.arguments.constant import Constexpr


@dataclass(frozen=True)
class Setting:
    scale: float
    tile: Constexpr[int] = 4


@dataclass
class Mutable:
    scale: float


class Pair(NamedTuple):
    a: int
    tile: Constexpr[int]


def key(*arguments: object) -> object:
    return _native.argument_key(arguments)


def test_the_kind_of_each():
    assert _native.describe(Setting(1.0))[0] == "record"
    assert _native.describe(Pair(1, 2))[0] == "record"
    assert _native.describe((1, 2))[0] == "tuple"
    assert _native.describe(Mutable(1.0))[0] == "unknown"


def test_a_key_has_types_of_fields_and_constant_values():
    assert key(Setting(1.0)) == key(Setting(2.5))
    assert key(Setting(1.0)) != key(Setting(1))
    assert key(Setting(1.0, 4)) != key(Setting(1.0, 8))
    assert key(Setting(1.0, 1)) != key(Setting(1.0, True))
    assert key(Pair(1, 2)) != key((1,))
    assert key((Setting(1.0), 3)) == key((Setting(9.0), 7))
    assert hash(key(Setting(1.0))) == hash(key(Setting(2.0)))


def test_a_key_without_constants_is_bytes():
    assert isinstance(key((1, 2.0)), bytes)
    assert isinstance(key(Setting(1.0)), tuple)


def test_what_no_record_can_be_has_no_key():
    with pytest.raises(TypeError, match="received Mutable"):
        key(Mutable(1.0))


class Point(NamedTuple):
    x: object


class Other(NamedTuple):
    x: object


@dataclass(frozen=True)
class Held:
    x: object


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ((1,), (True,)),
        ((0.0, 1), (-0.0, 1)),
        ((1, 2), [1, 2]),
        (Point(3), Point(3.0)),
        (Point(3), Other(3)),
        (Point(3), (3,)),
        (Held(1), Held(1.0)),
        (Held(0.0), Held(-0.0)),
        (Held((Held(1),)), Held((Held(True),))),
        (frozenset({1}), frozenset({1.0})),
    ],
)
def test_equal_constants_of_other_code_differ(left, right):
    assert _native.constant_key(left) != _native.constant_key(right)


@pytest.mark.parametrize(
    "value",
    [
        *(float("nan"), (float("nan"), 1), "a", None, (1, (2.0, "b"))),
        *(Point(float("nan")), Held(float("nan")), frozenset({1, "a"}), Point, Held),
    ],
)
def test_a_constant_is_itself(value):
    assert _native.constant_key(value) == _native.constant_key(copy.copy(value))
    hash(_native.constant_key(value))


def test_a_constant_that_contains_itself_is_refused():
    items: list = []
    record = Held(items)
    items.append(record)
    with pytest.raises(TypeError, match="unhashable"):
        hash(_native.constant_key(record))


def test_adapters_are_found_and_replaced():
    class Registered:
        pass

    assert _native.find_adapter(Registered) is None
    for adapter in (lambda _: 1, lambda _: 2.0):
        _native.register_adapter(Registered, adapter)
        assert _native.find_adapter(Registered) is adapter
    assert key(Registered()) != key(2.0)
    with pytest.raises(ValueError, match="instances of int are arguments already"):
        _native.register_adapter(int, lambda value: value)


@pytest.mark.parametrize(
    "items",
    [[None], (None, None), ((1, 2),), (((1, "a"), ()),), (((1,), [2]),), (((((1,),),), ()),)],
)
def test_a_plan_of_items_is_checked_when_it_is_made(items):
    with pytest.raises(TypeError, match="CallPlan: expected"):
        _native.CallPlan("f", "f(a)", ("a",), items=items)


def test_a_plan_of_items_may_nest():
    items = ((((1, 0, ((2,), ())), (4, "x"))),)
    assert _native.CallPlan("f", "f(a)", ("a",), items=items).parameters == ("a",)
