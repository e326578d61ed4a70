# SPDX-License-Identifier: Apache-2.0
"""Results of host functions are Python values: tuples, lists and records, at every depth."""

from __future__ import annotations

import collections
import gc
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft
from tests.sampling import sampled


class Point(NamedTuple):
    x: weft.i32
    y: weft.f64


Plain = collections.namedtuple("Plain", "first second")


@dataclass(frozen=True)
class Job:
    point: Point
    name: weft.Constexpr
    array: Any
    shift: weft.f32 | None = None

    def __post_init__(self):
        raise AssertionError("the class's own code does not run")


@dataclass(frozen=True)
class Slotted:
    __slots__ = ("value",)
    value: weft.i32


@weft.jit
def named(n: weft.i32):
    return Point(n, 2.0)


@weft.jit
def of_no_types(n: weft.i32):
    return Plain(n, (n, Plain(1, None)))


@weft.jit
def nested(n: weft.i32):
    return [(Point(n, 1.0), n), [Slotted(n)], (), []]


@weft.jit
def either(n: weft.i32):
    if n > 2:
        return Point(n, 1.0)
    return Point(-n, 2.0)


@weft.jit
def plain(n: weft.i32):
    return n, (n, 1)


@weft.jit
def given(job: Job):
    return job, job.point.x


CASES = {
    named: Point(3, 2.0),
    of_no_types: Plain(3, (3, Plain(1, None))),
    nested: [(Point(3, 1.0), 3), [Slotted(3)], (), []],
    either: Point(3, 1.0),
    plain: (3, (3, 1)),
}

WAYS = {
    "direct": lambda f, *a: f(*a),
    "compiled": lambda f, *a: weft.compile(f, *a)(*a),
    "prepared": lambda f, *a: weft.compile(f, *a).prepare(*a)(),
    "tvm-ffi": lambda f, *a: weft.compile(f, *a, options="--enable-tvm-ffi")(*a),
}


def same(one, other):
    """Equal, with the same classes at every depth."""
    if type(one) is not type(other) or one != other:
        return False
    if not isinstance(one, tuple | list):
        return True
    return all(same(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.function.__name__)
def test_a_result_is_of_the_class_that_was_returned(function, way):
    assert same(WAYS[way](function, 3), CASES[function])


@pytest.mark.parametrize("way", WAYS)
def test_a_record_comes_back_with_its_own_arrays(way):
    array = np.zeros(3, np.float32)
    job = object.__new__(Job)
    for name, value in (
        ("point", Point(4, 0.5)),
        ("name", "it"),
        ("array", array),
        ("shift", None),
    ):
        object.__setattr__(job, name, value)
    returned, x = WAYS[way](given, job)
    assert type(returned) is Job
    assert x == 4
    assert same(returned.point, Point(4, 0.5))
    assert (returned.name, returned.shift) == ("it", None)
    assert np.shares_memory(returned.array, array)


@weft.jit
def one_of_three(a: weft.Tensor, pair: tuple[weft.Tensor, weft.Tensor], n: weft.i32):
    if n == 0:
        return a
    b, c = pair
    for _ in range(n):
        a, b, c = b, c, a
    return a


@weft.jit
def exchanged(a: weft.Tensor, pair: tuple[weft.Tensor, weft.Tensor], n: weft.i32):
    b, c = pair
    while n > 0:
        a, b = b, a
        n -= 1
    return Point(n, 2.0), (b, a), [c], a


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n", sampled(range(5), 3))
@pytest.mark.parametrize("layout", [np.copy, lambda x: np.repeat(x, 2)[::2]])
def test_an_argument_that_was_chosen_at_run_time_is_a_result(way, n, layout):
    a, b, c = (layout(np.full((2, 3), k, np.float32)) for k in range(3))
    returned = WAYS[way](one_of_three, a, (b, c), n)
    assert np.shares_memory(returned, [a, b, c][n % 3])
    _, (second, first), (third,), last = WAYS[way](exchanged, a, (b, c), n)
    x, y = (b, a) if n % 2 else (a, b)
    for found, array in zip((first, second, third, last), (x, y, c, x), strict=True):
        assert np.shares_memory(found, array)


def test_overlapping_arguments_are_distinguished():
    whole = np.zeros(8, np.float32)
    for n, length in enumerate((2, 4, 8)):
        parts = whole[:2], (whole[:4], whole[:8])
        assert one_of_three(*parts, n).shape == (length,)


def test_as_an_object_it_is_a_sequence():
    fn = weft.compile(named, 3)
    fn.objects = "objects"
    assert list(fn(3)) == [3, 2.0]


def test_another_language_gets_a_sequence():
    tvm_ffi = pytest.importorskip("tvm_ffi")
    result = weft.compile(named, 3).as_tvm_ffi()(3)
    assert isinstance(result, tvm_ffi.Array)
    assert list(result) == [3, 2.0]


def test_what_makes_the_results_is_collected_with_the_function():
    def build():
        class Local(NamedTuple):
            x: weft.i32

        @weft.jit
        def local(n: weft.i32):
            return Local(n)

        fn = weft.compile(local, 1)
        assert fn(1).x == 1
        Local.fn = fn
        return weakref.ref(fn)

    reference = build()
    gc.collect()
    assert reference() is None


@dataclass
class Mutable:
    x: int


@weft.jit
def mutable(n: weft.i32):
    return Mutable(n)


def test_a_dataclass_that_is_not_frozen_is_refused():
    with pytest.raises(weft.CompileError):
        mutable(3)
