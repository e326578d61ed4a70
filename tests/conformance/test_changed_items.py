# SPDX-License-Identifier: Apache-2.0
"""Items of lists and dicts and attributes of objects, changed in loops and branches: what Python gives.

In: bodies that Python runs as they are, and weft as a kernel. Out: the same results on both.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, run_threads


class Sum:
    def __init__(self):
        self.total = 0
        self.count = 0

    def add(self, value):
        self.total += value
        self.count = self.count + 1

    def add_if(self, value):
        if value > 3:
            self.total += value
            return
        self.count += 1


class Pair:
    def __init__(self):
        self.parts = [Sum(), Sum()]


class Locked:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


class Watched:
    def __init__(self):
        self.n = 0

    @property
    def twice(self):
        return self.n * 2

    @twice.setter
    def twice(self, value):
        self.n = value

    @property
    def thrice(self):
        return self.n * 3


def bump(values, by):
    if by > 2:
        values[0] += by
        return
    values[1] += 1


NAMES = {"Sum": Sum, "Pair": Pair, "bump": bump, "Locked": Locked, "Watched": Watched}

# Each sees `a`, eight integers, `n`, which is 8 at run time, and `out`; `static(4)` is unrolled.
BODIES = {
    "a list of accumulators": """
acc = [0] * 4
for i in range(n):
    for k in static(4):
        acc[k] += a[i] * (k + 1)
for k in static(4):
    out[k] = acc[k]
""",
    "a negative index, and an index that is not changed": """
acc = [5, 0, 7]
for i in range(n):
    acc[-2] = acc[-2] + acc[0] * a[i]
out[0], out[1], out[2] = acc[0], acc[1], acc[2]
""",
    "a dict": """
seen = {"low": 0, 7: 1}
for i in range(n):
    if a[i] > 4:
        seen[7] += a[i]
    else:
        seen["low"] -= 1
out[0], out[1] = seen["low"], seen[7]
""",
    "an object": """
found = Sum()
for i in range(n):
    found.add(a[i])
found.total -= 1
out[0], out[1] = found.total, found.count
""",
    "an object whose method returns early": """
found = Sum()
for i in range(n):
    found.add_if(a[i])
out[0], out[1] = found.total, found.count
""",
    "objects in a list in an object": """
both = Pair()
for i in range(n):
    if i % 2 == 0:
        both.parts[0].add(a[i])
    else:
        both.parts[1].add(a[i])
out[0], out[1] = both.parts[0].total, both.parts[1].total
""",
    "nested lists and nested loops": """
m = [[0, 0], [0, 0]]
for i in range(n):
    row = m[0]
    for j in range(i):
        row[1] += a[j]
        if a[j] > 3 and a[i] > 3:
            continue
        m[1][0] += 1
    m[0][0] += a[i]
for x in static(2):
    for y in static(2):
        out[2 * x + y] = m[x][y]
""",
    "a break": """
acc = [0, 0]
for i in range(n):
    acc[0] += a[i]
    if acc[0] > 9:
        acc[1] = i
        break
    acc[1] -= 1
else:
    acc[1] = 99
out[0], out[1] = acc[0], acc[1]
""",
    "a while loop on an item": """
acc = [n, 0]
while acc[0] > 0:
    acc[0] -= 3
    acc[1] += acc[0]
out[0], out[1] = acc[0], acc[1]
""",
    "a branch, a conditional call and a conjunction": """
acc = [1, 2]
if n > 3:
    acc[0] = n
    acc[1] += 1
bump(acc, n) if n > 7 else bump(acc, 1)
out[0], out[1] = acc[0], acc[1]
""",
    "items that change places": """
acc = [1, 0]
for i in range(n):
    acc[0], acc[1] = acc[0] + acc[1], acc[0]
out[0], out[1] = acc[0], acc[1]
""",
    "a variable next to an item": """
acc = [0, 0]
last = (0, 0)
for i in range(n):
    acc[0] += a[i]
    last = (acc[0], i)
out[0], out[1], out[2] = last[0], last[1], acc[0]
""",
    "a copy of what a branch changed": """
acc = [1, 2]
copy = (0, 0)
if n > 3:
    acc[0] = n
    copy = tuple(acc)
out[0], out[1], out[2] = copy[0], copy[1], acc[0]
""",
    "one of two lists, one changed": """
acc = [1, 2]
chosen = [3, 4]
if a[0] > 100:
    pass
else:
    acc[0] = n
    chosen = acc
out[0], out[1], out[2] = chosen[0], chosen[1], acc[0]
""",
    "a list of three levels of loops": """
acc = [0]
for i in range(n):
    for j in range(i):
        for k in range(j):
            acc[0] += a[k]
out[0] = acc[0]
""",
    "a list made in each iteration": """
total = 0
for i in range(n):
    acc = [0, 0]
    for j in range(i):
        acc[0] += a[j]
    acc.append(1)
    total += acc[0] + len(acc)
out[0] = total
""",
    "a generator's and a comprehension's list": """
acc = [k for k in static(3)]
for i in range(n):
    acc[2] = max(acc[2], a[i])
out[0] = sum(acc)
""",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_changed_items_are_what_python_gives(body: str):
    a = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
    expected = np.zeros(4, np.int32)
    exec(body, {**NAMES, "a": a.tolist(), "n": 8, "out": expected, "static": range})
    out = np.zeros(4, np.int32)
    given = {"a": a, "out": out}
    run_threads(f"n = a.shape[0]\n{body}", 1, given, **NAMES, static=weft.static_range)
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [weft.f16, weft.f32, weft.f64, weft.i64, weft.u32], ids=str)
def test_an_item_takes_the_type_of_what_is_added(dtype: weft.DType):
    a = np.arange(8).astype(NUMPY_TYPES[dtype])
    out = np.zeros(2, a.dtype)
    zero = "0.0" if dtype.is_float else "0"
    body = f"acc = [{zero}, 1]\nfor i in range(a.shape[0]):\n    acc[0] += a[i]\nout[0] = weft.{dtype}(acc[0])"
    run_threads(body, 1, {"a": a, "out": out})
    assert out[0] == 28


WRONG = {
    "append": ("acc = [0]\nfor i in range(n):\n    acc.append(i)", "MUTATION", "by .append"),
    "a slice": ("acc = [0]\nfor i in range(n):\n    acc[:] = (i, i)", "MUTATION", "an assignment"),
    "a new key": ("d = {}\nfor i in range(n):\n    d['k'] = i", "MUTATION", "this dict"),
    "an attribute of one branch": (
        "s = Sum()\nif n > 2:\n    s.new = n\nn = s.new",
        "UNKNOWN_ATTRIBUTE",
        "has no attribute 'new'",
    ),
    "an attribute of iterations": (
        "s = Sum()\nfor i in range(n):\n    s.new = i\nn = s.new",
        "UNKNOWN_ATTRIBUTE",
        "has no attribute 'new'",
    ),
    "an attribute of the iteration before": (
        "s = Sum()\nfor i in range(n):\n    if i > 0:\n        n = s.new\n    s.new = i",
        "UNKNOWN_ATTRIBUTE",
        "has no attribute 'new'",
    ),
    "a list of the module's": ("for i in range(n):\n    LIST[0] = i", "MUTATION", "this list"),
    "an object of the module's": ("SUM.total = n", "MUTATION", "this Sum"),
    "types in a loop": (
        "acc = [weft.i32(0)]\nfor i in range(n):\n    acc[0] = i * 0.5",
        "TYPE_LOOP",
        "item 0 of this list is i32 before the loop and f32 at the end of its body",
    ),
    "types in a branch": (
        "s = Sum()\nif n > 2:\n    s.total = 'x'",
        "TYPE_JOIN",
        "attribute 'total' of this Sum is the str 'x' where the condition in line",
    ),
    "lengths": (
        "acc = [(0, 0)]\nif n > 2:\n    acc[0] = (1, 2, 3)",
        "TYPE_JOIN",
        "item 0 of this list",
    ),
    "slots": ("s = Locked()\ns.other = n", "UNKNOWN_ATTRIBUTE", "has no attribute 'other'"),
    "a property": ("s = Watched()\ns.thrice = n", "TARGET", "attribute 'thrice' of"),
    "a tensor": ("a.name = n", "TARGET", "attribute 'name' of"),
    "an index that Python refuses": (
        "acc = [0]\nfor i in range(n):\n    acc[3] = i",
        "",
        "out of range",
    ),
}


@pytest.mark.parametrize(("body", "code", "text"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_carried_is_refused(body: str, code: str, text: str):
    held = [0]
    given = {"a": np.zeros(8, np.int32), "out": np.zeros(4, np.int32)}
    with pytest.raises(weft.CompileError, match=re.escape(text)) as error:
        run_threads(f"n = a.shape[0]\n{body}", 1, given, **NAMES, LIST=held, SUM=Sum())
    assert code in error.value.code
    assert held == [0]


def test_a_change_is_taken_back_where_a_loop_is_traced_again():
    """An unrolled `while` that turns out to run at run time is traced again from the start."""
    out = np.zeros(2, np.int32)
    body = """
acc = [0, 0]
while acc[0] < 3:
    acc[0] += 1
    if out[0] == acc[0]:
        acc[1] += 10
while acc[1] < 100:
    acc[1] += out.shape[0]
out[0], out[1] = acc[0], acc[1]
"""
    run_threads(body, 1, {"out": out})
    assert out.tolist() == [3, 100]


def test_objects_made_in_a_kernel_recompile_nothing():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        found = Sum()
        for i in range(a.shape[0]):
            found.add(a[i])
        out[0] = found.total

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=1)

    a, out = np.arange(8, dtype=np.int32), np.zeros(1, np.int32)
    compiled = set()
    for _ in range(3):
        host(a, out)
        compiled |= set(map(id, host.specializations))
    assert out[0] == 28
    assert len(compiled) == 1
