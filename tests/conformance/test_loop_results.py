# SPDX-License-Identifier: Apache-2.0
"""Variables that a loop is the first to assign: what was found before a `break`, and what its `else` says instead.

In: functions of two small integers. Out: the values that Python gives, and PTX.
"""

from __future__ import annotations

import itertools

import pytest

import weft
from tests.conformance.harness import assert_python_agrees_everywhere, define

PAIRS = list(itertools.product(range(-4, 9), (-3, 0, 1, 2, 5)))


def search_with_else(x, y):
    for k in range(x):
        if k * k >= y:
            found = 100 + k
            break
    else:
        found = -1
    return found


def search_of_constants_with_else(x, y):
    for k in (1, 2, 3):
        if k == x:
            found = k
            break
    else:
        found = -7
    return found + y


def several_breaks_with_else(x, y):
    for k in range(8):
        if k == x:
            found, kind = k, 1
            break
        if k * 2 == y + 3:
            found, kind = k * 10, 2
            break
        if k > 5:
            return 99
    else:
        found, kind = 0, 3
    return found * 10 + kind


def returns_beside_the_search(x, y):
    product = abs(6 * x)
    for k in range(y + 3):
        if product > 20:
            found = k + 1
            break
        if y < x <= 3:
            if x // 4 == 0:
                if y < x <= product:
                    return 3
                if x == 2:
                    return 5
    else:
        found = 6
    return found + product


def else_that_returns(x, y):
    for k in range(5):
        square = k * k
        if square > x:
            break
    else:
        return -1
    return square + y


def while_with_else(x, y):
    k = 0
    while k < x:
        if k == y:
            found = k + 50
            break
        k += 1
    else:
        found = k + 1000
    return found


def while_with_continue_and_else(x, y):
    k = 0
    while k < 10:
        k += 1
        if k % 2 == 0:
            continue
        if k == x:
            return 77
        if k == 9 and x == 5:
            break
    else:
        k = 5
    return k + y


def endless_loop_that_returns(x, y):
    k = x
    while True:
        k += 1
        if k % 7 == 0:
            return k + y


def endless_loop_that_breaks(x, y):
    k = x
    while True:
        square = k * k
        k += 1
        if square % 5 == 4:
            found = square
            break
    return square + found * 2 + y


def endless_loop_that_breaks_or_returns(x, y):
    k = x
    while 1:
        k += 3
        if k % 4 == 1:
            if k > y:
                return k * 100
            last = k
            break
    return last


def do_while(x, y):
    n, digits = abs(x * 37 + y), 0
    while True:
        digit = n % 10
        n //= 10
        digits += 1
        if n == 0:
            break
    return digits * 10 + digit


def nested_search(x, y):
    for i in range(6):
        for j in range(6):
            if i * j == x:
                place = 10 * i + j
                break
        else:
            continue
        break
    else:
        place = -1
    return place


def found_in_the_inner_loop_of_an_endless_one(x, y):
    start = x
    while True:
        for k in range(start, start + 4):
            if k % 9 == 0:
                found = k
                break
        else:
            start += 4
            continue
        break
    return found + y


def a_tuple_that_was_found(x, y):
    for k in range(6):
        if k > x:
            pair = (k, k * y)
            break
    else:
        pair = (x, 0)
    return pair[0] * 10 + pair[1]


FUNCTIONS = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", "") == __name__ and hasattr(value, "__code__")
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_what_a_loop_finds_is_what_python_finds(function):
    assert_python_agrees_everywhere(function, PAIRS)


LAUNCH = """
@weft.jit
def host(out: weft.Tensor[weft.i32, (8,)]):
    kernel(out).launch(grid=1, block=8)
"""


@pytest.mark.parametrize("rest", ["", "    else:\n        pass\n"])
def test_a_variable_assigned_only_at_a_break_is_refused(rest):
    source = f"""\
@weft.kernel
def kernel(out: weft.Tensor):
    i = weft.thread_idx.x
    for k in range(i):
        if k * k > 10:
            found = k
            break
{rest}
    out[i] = found
{LAUNCH}"""
    with pytest.raises(weft.CompileError) as caught:
        weft.compile(define(source)["host"])
    assert "'found' is assigned only where the loop in line 4 is left by a break" in str(
        caught.value
    )


def test_types_that_differ_at_a_break_are_refused():
    source = f"""\
@weft.kernel
def kernel(out: weft.Tensor):
    i = weft.thread_idx.x
    for k in range(i):
        if k * k > 10:
            found = k
            break
    else:
        found = weft.f32(i)
    out[i] = weft.i32(found)
{LAUNCH}"""
    with pytest.raises(weft.CompileError) as caught:
        weft.compile(define(source)["host"])
    assert "f32 (line 9)" in str(caught.value) and "i32 (line 6)" in str(caught.value)


FIRST_BREAK = """\
    for k in range(i):
        if k == 3:
            break
        if k == 4:
            found = k
            break
"""
LATER_ROUND = """\
    for k in (3, 4):
        if k == 3:
            if i == k:
                found = k
                break
        elif i == 5:
            break
"""
LATER_BREAK = """\
    for k in range(i):
        if k > 2:
            if k > 3:
                found = k
                break
        if k == 1:
            break
"""


@pytest.mark.parametrize("loop", [FIRST_BREAK, LATER_ROUND, LATER_BREAK])
def test_a_break_that_leaves_the_name_without_a_value_is_refused(loop):
    source = f"""\
@weft.kernel
def kernel(out: weft.Tensor):
    i = weft.thread_idx.x
{loop}\
    else:
        found = -1
    out[i] = found
{LAUNCH}"""
    with pytest.raises(weft.CompileError, match="'found' is assigned"):
        weft.compile(define(source)["host"])
