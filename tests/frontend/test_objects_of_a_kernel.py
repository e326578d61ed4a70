# SPDX-License-Identifier: Apache-2.0
"""Helpers that get an object of the kernel's compile time, such as a profiler, by any way that Python has."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import weft
from tests.frontend.tracing import kernel_text, ops, vector

F32 = vector(weft.f32)
WORDS = vector(weft.u64)


class Event(Enum):
    STEP = 0


EVENT = Event.STEP


class Pair(NamedTuple):
    profiler: Any
    number: int

    def step(self):
        self.profiler.start(EVENT)
        self.profiler.end(EVENT)

    @property
    def stepped(self):
        self.profiler.start(EVENT)
        return self.profiler.end(EVENT)


@dataclass(frozen=True)
class Frozen:
    profiler: Any
    number: int = 1

    def __call__(self):
        step(self.profiler)

    def __getitem__(self, event):
        return step(self.profiler)


@dataclass
class Plain:
    profiler: Any
    names: list[str] = field(default_factory=list)

    def step(self):
        step(self.profiler)


class Holder:
    def __init__(self, profiler):
        self.profiler = profiler

    def step(self):
        self.profiler.start(EVENT)
        self.profiler.end(EVENT)

    @property
    def stepped(self):
        return self.step()

    def __call__(self):
        self.step()


class Slotted:
    __slots__ = ("inner",)

    def __init__(self, inner):
        self.inner = inner


def step(p):
    p.start(EVENT)
    p.end(EVENT)


def keyword_only(*, p):
    p.start(EVENT)
    p.end(EVENT)


def starred(*values):
    values[-1].start(EVENT)
    values[-1].end(EVENT)


def double_starred(**named):
    named["p"].start(EVENT)
    named["p"].end(EVENT)


def of_field(holder):
    holder.profiler.start(EVENT)
    holder.profiler.end(EVENT)


def of_first(holder):
    holder[0].start(EVENT)
    holder[0].end(EVENT)


def of_key(holder):
    holder["p"].start(EVENT)
    holder["p"].end(EVENT)


def deep(holder):
    holder["a"][1].profiler.start(EVENT)
    holder["a"][1].profiler.end(EVENT)


def of_inner(holder):
    holder.inner.profiler.start(EVENT)
    holder.inner.profiler.end(EVENT)


def in_region(region):
    with region:
        pass


def by_methods(start, end):
    start(EVENT)
    end(EVENT)


def twice_removed(**named):
    keyword_only(**named)


@functools.lru_cache
def cached(p):
    p.start(EVENT)
    p.end(EVENT)


def by_default(p):
    def inner(q=p, *, r=p):
        q.start(EVENT)
        r.end(EVENT)

    inner()


def calling(function):
    function()


ROUTES: dict[str, Callable[[Any], object]] = {
    "positional": step,
    "keyword": lambda p: step(p=p),
    "keyword only": lambda p: keyword_only(p=p),
    "*args": lambda p: starred(1, *(2, p)),
    "**kwargs": lambda p: double_starred(**{"p": p}),
    "tuple": lambda p: of_first((p, 1)),
    "list": lambda p: of_first([p]),
    "dict": lambda p: of_key({"p": p}),
    "named tuple": lambda p: of_field(Pair(p, 1)),
    "named tuple's method": lambda p: Pair(p, 1).step(),
    "named tuple's property": lambda p: Pair(p, 1).stepped,
    "frozen dataclass": lambda p: of_field(Frozen(p)),
    "frozen dataclass, keyword": lambda p: of_field(holder=Frozen(p)),
    "called dataclass": lambda p: Frozen(p)(),
    "operator of a dataclass": lambda p: Frozen(p)[EVENT],
    "dataclass": lambda p: of_field(Plain(p)),
    "dataclass's method": lambda p: Plain(p).step(),
    "attribute": lambda p: of_field(Holder(p)),
    "method": lambda p: Holder(p).step(),
    "property": lambda p: Holder(p).stepped,
    "called object": lambda p: Holder(p)(),
    "slots": lambda p: of_inner(Slotted(Holder(p))),
    "nested": lambda p: deep({"a": [1, Pair(p, 2)]}),
    "context": lambda p: in_region(p.range(EVENT)),
    "contexts in a tuple": lambda p: [in_region(r) for r in (p.range(EVENT),)],
    "bound methods": lambda p: by_methods(p.start, p.end),
    "bound methods by keyword": lambda p: by_methods(end=p.end, start=p.start),
    "through two": lambda p: twice_removed(p=p),
    "cached": cached,
    "partial": lambda p: functools.partial(step, p)(),
    "partial in a call": lambda p: calling(functools.partial(step, p)),
    "closure": lambda p: calling(lambda: step(p)),
    "closure by keyword": lambda p: calling(function=lambda: step(p)),
    "closure in a tuple": lambda p: [f() for f in (lambda: step(p),)],
    "method as an argument": lambda p: calling(Holder(p).step),
    "default": by_default,
}


def track(trace):
    return weft.profiler.Profiler(events=Event, buffer=trace)


def tirx(trace):
    return weft.profiler.CudaProfiler(trace, 1, 1, weft.thread_idx.x == 0)


@functools.cache
def recorded(work: Callable[[Any], object], make: Callable[[Any], Any]) -> dict[str, int]:
    def kernel(trace, out):
        p = make(trace)
        p.init(0)
        work(p)
        out[0] = 1.0

    return ops(kernel_text(kernel, WORDS, F32), "simt.mark", "simt.store")


@pytest.mark.joined
@pytest.mark.parametrize("make", [track, tirx])
@pytest.mark.parametrize("route", ROUTES)
def test_a_profiler_reaches_a_helper_by_every_way_that_python_has(
    route: str, make: Callable[[Any], Any]
):
    assert recorded(ROUTES[route], make) == recorded(step, make)


def test_what_is_compared_depends_on_what_is_recorded():
    for make in (track, tirx):
        assert recorded(step, make) != recorded(lambda p: None, make)


def coordinates(index, scale=1):
    return index.x * scale


def given(*, index):
    return coordinates(index=index)


def of_default(index=weft.thread_idx):
    return index.x


@pytest.mark.parametrize(
    "work",
    [
        coordinates,
        lambda i: coordinates(index=i),
        lambda i: given(index=i),
        lambda i: of_default(),
        lambda i: of_default(index=i),
        lambda i: of_key_x({"p": (i, 1)}),
    ],
)
def test_an_index_reaches_a_helper(work: Callable[[Any], Any]):
    def kernel(out):
        out[0] = weft.f32(work(weft.thread_idx))

    assert ops(kernel_text(kernel, F32), "simt.thread_idx") == {"simt.thread_idx": 1}


def of_key_x(table):
    return table["p"][0].x


def synchronize():
    weft.sync_threads()


def over_all(functions):
    for function in functions:
        function()


INDICES = (weft.thread_idx,)
TABLE = {"f": (weft.sync_threads, synchronize)}


def of_table(table):
    for function in table["f"]:
        function()


@pytest.mark.parametrize(
    ("work", "count"),
    [
        (lambda: calling(weft.sync_threads), 1),
        (lambda: calling(function=weft.sync_threads), 1),
        (lambda: calling(synchronize), 1),
        (lambda: calling(function=synchronize), 1),
        (lambda: over_all((weft.sync_threads, synchronize)), 2),
        (lambda: over_all(functions=[synchronize]), 1),
        (lambda: of_table({"f": (weft.sync_threads, synchronize)}), 2),
        (lambda: calling(functools.partial(synchronize)), 1),
    ],
)
def test_operations_and_functions_of_the_language_reach_a_helper(
    work: Callable[[], object], count: int
):
    def kernel(out):
        work()
        out[0] = 1.0

    assert ops(kernel_text(kernel, F32), "simt.barrier") == {"simt.barrier": count}


def test_a_table_of_operations_reaches_a_helper():
    def kernel(out):
        of_table(TABLE)
        out[0] = weft.f32(of_key_x({"p": (INDICES[0], 1)}))

    found = ops(kernel_text(kernel, F32), "simt.barrier", "simt.thread_idx")
    assert found == {"simt.barrier": 2, "simt.thread_idx": 1}


def plain(table, *, key):
    with Path("/dev/null").open() as file:  # which compiled code refuses
        return len(json.dumps(table)) + len(file.read()) + key.bits


def test_a_function_of_constants_runs_in_python():
    def kernel(out):
        out[0] = weft.f32(plain({"a": [1, 2]}, key=weft.f32))

    assert "4.500000e+01" in kernel_text(kernel, F32)
