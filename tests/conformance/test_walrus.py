# SPDX-License-Identifier: Apache-2.0
"""`:=` in a part of a condition that is not always evaluated: the name holds where the condition says that it was.

In: functions of two small integers. Out: the values that Python gives, and PTX.
"""

from __future__ import annotations

import itertools

import pytest

import weft
from tests.conformance.harness import assert_python_agrees_everywhere, define

PAIRS = list(itertools.product(range(-4, 9), (-3, 0, 1, 2, 5)))


def behind_and(x, y):
    if x > 0 and (t := x * y) > 2 and t < 30:
        return t
    return -1


def behind_or_that_returned(x, y):
    if x < 0 or (t := x + y) == 3:
        return 100
    return t


def in_a_chained_comparison(x, y):
    if 0 < x < (t := y + 3) < 8:
        return t * 2
    return 0


def in_a_ternary(x, y):
    return t + 1 if x > 1 and (t := y * 2) > 0 else 7


def in_the_and_of_a_while(x, y):
    k = 0
    while k < 6 and (t := k * x + y) < 20:
        k += 1 + (t > 5)
    return k


def in_the_or_of_a_while(x, y):
    k, s = 0, 0
    while k < 3 or (k := k + 1) + x < 5:
        k += 1
        s += k
        if k > 20:
            break
    return s * 3 + k


def with_a_value_before(x, y):
    t = 50
    if x > 0 and (t := x * y) > 2:
        t += 1
    return t


def in_nested_conditions(x, y):
    if (x > 2 and (a := y) > 0) and (b := x + y) != 4:
        return a * 10 + b
    return 5


def in_a_loop_that_carries_it(x, y):
    best, at = 1000, -1
    for k in range(5):
        d = k - x
        if d * d > 0 and (t := d * y + 3) > 0 and t < best:
            best = t
            at = k
    return best * 10 + at


def used_behind_the_same_condition_twice(x, y):
    holds = x > 0 and (t := x * y) > 2
    total = 0
    if holds:
        total += t
    if y > 1:
        total += 100
    if holds:
        total += t * 2
    return total


FUNCTIONS = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", "") == __name__ and hasattr(value, "__code__")
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_name_that_a_condition_assigns_is_what_python_says(function):
    assert_python_agrees_everywhere(function, PAIRS)


@pytest.mark.parametrize(
    "body",
    [
        "if i > 1 or (t := i * 2) > 4:\n        out[i] = t",
        "if i > 1 and (t := i * 2) > 4:\n        out[i] = 1\n    out[i] += t",
        "if not (i > 1 and (t := i * 2) > 4):\n        out[i] = t",
        "c = i > 1 and (t := i * 2) > 4\n    if i > 5:\n        t = 0\n    if c:\n        out[i] = t",
        "while i > 1 and (t := i * 2) > 4:\n        i -= 1\n    out[i] = t",
    ],
)
def test_where_it_may_not_have_been_assigned_it_is_refused(body):
    source = f"""
@weft.kernel
def kernel(out: weft.Tensor):
    i = weft.thread_idx.x
    {body}

@weft.jit
def host(out: weft.Tensor[weft.i32, (8,)]):
    kernel(out).launch(grid=1, block=8)
"""
    with pytest.raises(weft.CompileError, match="NAME_UNDEFINED"):
        weft.compile(define(source)["host"])
