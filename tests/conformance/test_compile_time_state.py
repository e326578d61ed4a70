# SPDX-License-Identifier: Apache-2.0
"""Compile-time state under run-time control flow: what would happen once is refused, what is right is Python's.

In: kernels that change containers, objects, globals and iterators. Out: Python's values, or MUTATION.
"""

from __future__ import annotations

import enum
import functools
import heapq  # noqa: F401
import itertools  # noqa: F401
import operator  # noqa: F401
from collections import Counter, defaultdict, deque  # noqa: F401

import numpy as np
import pytest

import weft
from tests.conformance.harness import run_threads

N = 0
TABLE = np.arange(10)
LISTS = {"a": [1, 2]}


def push(h):
    h.append(1)


def store(h):
    h[0] = 7


def tick():
    global N  # noqa: PLW0603
    N += 1
    return N


def remember(x=3, memo=[]):  # noqa: B006
    memo.append(x)
    return len(memo)


def count_calls():
    count_calls.calls = getattr(count_calls, "calls", 0) + 1
    return count_calls.calls


def counter():
    n = 0

    def up():
        nonlocal n
        n += 1
        return n

    return up


def evens(n):
    for k in range(n):
        if k % 2 == 0:
            yield k


def one_and_two():
    yield 1
    yield 2


def total(xs):
    t = 0
    for x in xs:
        t += x
    return t


def ceil_div(a, b):
    return -(-a // b)


def epsilon():
    return float(np.finfo(np.float32).eps)


def both(v):
    return [v, v + 1]


@functools.cache
def table(n):
    return [n, n + 1]


@functools.cache
def doubled(n):
    return n * 2


class Accumulator:
    total = 0

    def __init__(self):
        self.n = 0
        self.items = []

    def bump(self):
        self.n += 1
        return self.n

    def add(self):
        self.items.append(1)
        return len(self.items)

    def reset(self):
        self.items = []

    @classmethod
    def up(cls):
        cls.total += 1
        return cls.total

    def via(self):
        return self._inner()

    def _inner(self):
        return tick()

    @property
    def next(self):
        self.n += 1
        return self.n


class Layout:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def size(self):
        return self.n * self.n

    def area(self):
        return self.size + 1


class Flag(enum.Flag):
    A = 1
    B = 2


LAYOUT = Layout(3)
NAMES = {name: value for name, value in globals().items() if not name.startswith("__")}


def run(body, **more):
    out = np.zeros(40, np.int32)
    out[:4] = [1, 2, 3, 4]
    run_threads(body, 1, {"out": out}, **{**NAMES, **more})
    return out.tolist()


def refuses(body, **more):
    with pytest.raises(weft.CompileError, match=r"\[MUTATION\]") as error:
        run(body, **more)
    return str(error.value)


# What is there before, and what is done under a run-time condition.
CHANGES = {
    "push": ("h=[]", "push(h)"),
    "setit": ("h=[0]", "store(h)"),
    "listappend": ("h=[]", "list.append(h, 1)"),
    "setitem": ("h=[0]", "operator.setitem(h, 0, 1)"),
    "heap": ("h=[0]", "heapq.heappush(h, 1)"),
    "deque": ("h=deque()", "h.append(1)"),
    "counter": ("h=Counter()", "h.update('a')"),
    "defaultdict": ("h=defaultdict(int)", "x = h['a']"),
    "method": ("h=Accumulator()", "h.bump()"),
    "methodlist": ("h=Accumulator()", "h.add()"),
    "nested": ("h=([], 1)", "push(h[0])"),
    "global": ("", "tick()"),
    "classm": ("", "Accumulator.up()"),
    "via": ("h=Accumulator()", "h.via()"),
    "default": ("", "remember()"),
    "attr": ("", "count_calls()"),
    "closure": ("up=counter()", "up()"),
    "next": ("it=iter((1,2,3,4))", "x=next(it)"),
    "nextgen": ("it=evens(4)", "x=next(it)"),
    "nextfixed": ("it=one_and_two()", "x=next(it, 0)"),
    "genexpr": ("it=(k for k in (1,2,3))", "x=next(it)"),
    "map": ("it=map(lambda k: k+1, (1,2,3))", "x=next(it)"),
    "zip": ("it=zip((1,2),(3,4))", "x=list(it)"),
    "enumerate": ("it=enumerate((1,2))", "x=tuple(it)"),
    "reversed": ("it=reversed((1,2))", "x=tuple(it)"),
    "unpack": ("it=iter((1,2))", "p, q = it"),
    "in": ("it=iter((1,2))", "x = 2 in it"),
    "sum": ("it=iter((1,2))", "x = sum(it)"),
    "for": ("it=iter((1,2))", "\n        for q in it: x = q"),
    "zipof": ("it=iter((1,2))", "\n        for q in zip(it, (3,4)): x = 1"),
    "count": ("it=itertools.count()", "x=next(it)"),
    "cycle": ("it=itertools.cycle((1,2))", "x=next(it)"),
    "iadd": ("h=[1]; g=h", "h += [1]"),
    "bytearray": ("h=bytearray(3)", "operator.setitem(h, 0, 1)"),
    "numpy": ("h=np.zeros(3)", "operator.setitem(h, 0, 1)"),
    "setattr": ("h=Accumulator()", "setattr(h, 'n', 3)"),
    "helperfor": ("it=iter((1,2,3))", "x = sum(k * out[0] for k in it)"),
    "property": ("h=Accumulator()", "x = h.next"),
    "argument of a helper": ("h=[]", "both(out[0]); push(h)"),
}


@pytest.mark.joined
@pytest.mark.parametrize("how", ["if out[0] > 100:", "for j in range(3):", "while out[0] > 100:"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_under_run_time_control_flow_is_refused(name, how):
    before, change = CHANGES[name]
    refuses(
        f"{before}\n{how}\n    {change}\n    out[0] += 1\n".replace("\n        for", "\n    for")
    )


def test_a_refused_change_is_taken_back():
    lists = {"a": [1, 2]}
    for change in (
        "LISTS['a'].append(1)",
        "LISTS.get('a').append(1)",
        "LISTS.setdefault('q', [])",
        "push(LISTS['a'])",
        "LISTS['a'] += [3]",
    ):
        refuses(change, LISTS=lists)
        assert lists == {"a": [1, 2]}


def test_what_a_cached_function_returned_is_not_changed():
    refuses("table(3).append(1)")
    assert table(3) == [3, 4]


def test_an_iterator_of_the_module_is_not_advanced():
    for use in ("next(IT)", "sum(IT)", "x = list(zip(IT, (1, 2)))"):
        refuses(use, IT=iter((1, 2)))


RIGHT = """
h = []; push(h); push(h); x = len(h) + 17
h = Accumulator(); h.bump(); h.add(); h.reset(); h.add(); push(h.items); x = h.n + len(h.items) + 16
it = iter((1, 2, 3)); next(it); x = next(it) + 17
it = evens(9); next(it); next(it); x = sum(it) + 1
h = []; heapq.heappush(h, 3); heapq.heappush(h, 1); x = h[0] + 18
h = deque((1, 2)); h.append(5); h.popleft(); x = h[0] + h[1] + 12
h = Counter("aab"); h.update("a"); x = h["a"] + 16
g = (k * 2 for k in (1, 2, 3)); x = next(g); x = x + sum(g) + sum(g) + 7
x = LAYOUT.size + LAYOUT.area()
x = len(Flag.A | Flag.B) + 17
x = doubled(5) + 9
x = int(TABLE[3]) + len(TABLE) + LISTS["a"][1] + 4
x = 19 if epsilon() < 1 else 0
x = ceil_div(100, 6) + 2
x = total(evens(7)) + 7
x = total(k * out[0] for k in (1, 2, 3)) + 13
x = total(map(lambda k: k * out[0], (1, 2, 3))) + 13
x = total(both(out[0])) + 16
x = sum(k for k in range(4)) + 13
x = 19 if any(out[0] == k for k in (3, 1)) else 0
x = 19 if all(out[0] == k for k in (1, 1)) else 0
x = max(out[0] * k for k in (1, 19))
x = 19 if 19 in (out[0] * k for k in (1, 19)) else 0
x = list(map(lambda k: k * 19, (1, 2)))[0]
x = dict(zip(("a", "b"), (out[0], 19)))["b"]
x = functools.reduce(lambda a, b: a + b, (k for k in (9, 10)))
x = sum([*filter(None, (0, 9, 10))])
x = [b for a, b in zip((1, 2), (out[0], out[0] * 19)) if a == 2][0]
x = {k: v for k, v in enumerate((1, 19))}[1]
x = "abc".join(str(k) for k in (1, 9)).count("abc") * 19
x = sum(p * q for p, q in zip((k for k in (1, 2)), (out[0], out[0] * 9)))
""".strip().splitlines()


@pytest.mark.parametrize("how", ["if True:", "if out[0] > -100:", "for j in range(3):"])
def test_what_is_made_in_a_region_may_be_changed_there(how):
    lines = [f"    {line}\n    out[{4 + n}] = x\n" for n, line in enumerate(RIGHT)]
    assert dict(zip(RIGHT, run(f"{how}\n{''.join(lines)}")[4:], strict=False)) == dict.fromkeys(
        RIGHT, 19
    )


def test_an_iterator_computes_its_items_when_they_are_asked_for():
    assert run(
        "g = (k for k in (1, 2, 3))\nout[4] = sum(g)\nout[5] = sum(g)\n"
        "k = 5\nh = (q * k for q in (1, 2))\nk = 7\nout[6] = sum(h)"
    )[4:7] == [6, 0, 21]
    assert run(
        "m = map(lambda q: weft.atomic_add(out, 4, q), (1, 2, 3))\nout[5] = 1\nx = next(m)\nout[6] = out[4]"
    )[4:7] == [1, 1, 1]


def test_a_break_at_compile_time_leaves_the_other_items():
    assert run(
        "it = iter((1, 2, 3, 4))\nfor q in it:\n    if q == 2:\n        break\nout[4] = next(it)\n"
        "for q in itertools.count():\n    if q == 5: break\nout[5] = q"
    )[4:6] == [3, 5]


@pytest.mark.parametrize(
    "make",
    [
        "enumerate((5, 6, 7))",
        "zip((0, 1, 2), (5, 6, 7))",
        "((k, k + 5) for k in range(3))",
        "enumerate(k + 5 for k in (0, 1, 2))",
        "map(lambda k: (k, k + 5), (0, 1, 2))",
    ],
)
@pytest.mark.parametrize("stop", range(4))
def test_a_run_time_break_ends_a_loop_over_an_iterator(make, stop):
    body = f"for n, q in {make}:\n    if n == out[0]:\n        break\n    out[4] += q\n"
    body += "else:\n    out[5] = 1\nout[6] = 3"
    out = np.zeros(8, np.int32)
    out[0] = stop
    run_threads(body, 1, {"out": out}, **NAMES)
    assert out[4:7].tolist() == [sum((5, 6, 7)[:stop]), int(stop == 3), 3]


@pytest.mark.parametrize(
    "make", ["iter((5, 6, 7))", "(k for k in range(3))", "evens(9)", "map(lambda k: k, (1, 2))"]
)
def test_an_iterator_is_lost_behind_a_run_time_break(make):
    body = f"it = {make}\nfor q in it:\n    if q == out[0]:\n        break\n    out[4] += q\nout[6] = 3"
    run(body)
    refuses(body + "\nout[5] = next(it)")
    zipped = body.replace("in it:", "in (v for v, w in zip(it, it)):")
    refuses(zipped + "\nout[5] = next(it)")


def test_iterations_behind_a_run_time_break_advance_nothing():
    refuses(
        "it = iter((1, 2, 3, 4))\nfor q in weft.static_range(3):\n"
        "    if out[q] == 2:\n        break\n    out[4] += next(it)"
    )


def test_a_while_that_is_not_unrolled_takes_its_changes_back():
    assert run(
        "h = []\nn = 0\nwhile n < out[1]:\n    n += 1\n    out[4] += len(h)\nout[5] = len(h)"
    )[4:6] == [0, 0]
    assert run("h = []\nk = 0\nwhile k < 3:\n    h.append(k)\n    k += 1\nout[5] = sum(h)")[5] == 3
    body = "h = []\nk = 0\nwhile k < 3:\n    if len(h) == 0:\n        h.append(k)\n    k += out[0]\nout[5] = sum(h)"
    refuses(body)
    refuses(
        "it = iter((1, 2, 3))\nk = 0\nwhile k < 3:\n    if k == 0:\n        next(it)\n    k += out[0]\n"
    )
    refuses("it = iter((1, 2, 3))\nwhile next(it) < out[0]:\n    out[4] = 1\n")


def test_containers_of_a_run_time_choice_are_unchanged():
    refuses("p = [1]\nq = [2]\nx = p if out[0] > 5 else q\np.append(5)")
    refuses("s = {1}\nt = {1}\nx = s if out[0] > 5 else t\ns.add(7)")
    refuses("p = [1]\nq = p\nfor j in range(out[0]):\n    p = [j]\nq[0] = 9\nout[4] = p[0]")


def test_an_assignment_in_place_changes_the_list_itself():
    assert run("p = [1]\nq = p\nq += [2]\nq *= 2\nout[4] = len(p)")[4] == 4


def test_objects_may_cache_outside_of_control_flow():
    class Tiles:
        def __init__(self):
            self.known = {}

        def __call__(self, n):
            if n not in self.known:
                self.known[n] = n * 2
            return self.known[n]

    tiles, log, out = Tiles(), [], np.zeros(4, np.int32)

    @weft.kernel
    def kernel(out):
        x = tiles(5)
        if out[1] == 0:
            out[0] = x + tiles(5)

    kernel[1, 1](out)
    assert out[0] == 20

    @weft.kernel
    def first_in_a_branch(out):
        if out[1] == 0:
            out[0] = tiles(6)

    with pytest.raises(weft.CompileError, match=r"MUTATION[^$]*functools.cache"):
        first_in_a_branch[1, 1](out)
    assert tiles.known == {5: 10}

    @weft.kernel
    def into_a_captured_list(out):
        push(log)

    with pytest.raises(weft.CompileError, match="MUTATION"):
        into_a_captured_list[1, 1](out)
    assert log == []


def test_a_top_level_while_keeps_its_changes():
    @weft.kernel
    def kernel(out):
        found, k = [], 0
        while k < 3:
            if len(found) < 1:
                found.append(k)
            k += out[0]
        out[1] = len(found)

    with pytest.raises(weft.CompileError, match="MUTATION"):
        kernel[1, 1](np.ones(4, np.int32))

    @weft.kernel
    def unrolled(out):
        found, k = [], 0
        while k < 3:
            found.append(k)
            k += 1
        out[1] = len(found)

    out = np.ones(4, np.int32)
    unrolled[1, 1](out)
    assert out[1] == 3
