# SPDX-License-Identifier: Apache-2.0
"""Loops on run-time values mean what they mean in Python: each program runs as both."""

from __future__ import annotations

import pytest

from tests.frontend.interpreter import AssertionFails
from tests.frontend.tracing import check_like_python, programs_of, run

INPUTS = [[3, 1, 4, 1, 5, 9, 2, 6], [0], [], [-5, 7, -5], [1, 2, 3, 4, 5]]


def sum_of_range(a, out, n):
    total = 0
    for i in range(n):
        total += a[i]
    out[0] = total


def break_in_for(a, out, n):
    found = -1
    for i in range(n):
        if a[i] == 5:
            found = i
            break
    out[0] = found


def continue_in_for(a, out, n):
    total = 0
    for i in range(n):
        if a[i] == 1:
            continue
        total += a[i]
        if a[i] > 4:
            continue
        total += 100
    out[0] = total


def break_and_continue(a, out, n):
    total = 0
    for i in range(n):
        if a[i] < 0:
            continue
        if a[i] > 6:
            break
        total += a[i]
    out[0] = total


def break_two_deep(a, out, n):
    total = 0
    for i in range(n):
        if a[i] > 2:
            if a[i] > 4:
                break
            total += 1000
        total += a[i]
    out[0] = total


def return_in_for(a, out, n):
    for i in range(n):
        if a[i] == 4:
            out[0] = i
            return
        out[1] = a[i]
    out[2] = 77


def return_and_break(a, out, n):
    total = 0
    for i in range(n):
        if a[i] == 9:
            out[0] = -1
            return
        if a[i] == 7:
            break
        total += a[i]
    out[1] = total


def return_in_nested_for(a, out, n):
    count = 0
    for i in range(n):
        for j in range(i):
            if a[i] == a[j]:
                out[0] = i
                out[1] = j
                return
            count += 1
        out[2] = count
    out[3] = 1


def break_in_inner(a, out, n):
    total = 0
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            total += a[j]
        else:
            total += 10000
        if total > 100:
            break
    out[0] = total


def for_else(a, out, n):
    for i in range(n):
        if a[i] == 9:
            out[0] = 1
            break
    else:
        out[1] = 2
    out[2] = 3


def for_else_return(a, out, n):
    for i in range(n):
        if a[i] == 9:
            break
        if a[i] == 3:
            out[3] = 3
            return
    else:
        out[1] = 2
        return
    out[2] = 3


def while_loop(a, out, n):
    i = 0
    while i < n and a[i] != 9:
        out[0] = out[0] + a[i]
        i += 1
    out[1] = i


def while_with_break(a, out, n):
    i = 0
    while True:
        if i >= n:
            break
        if a[i] == 1:
            i += 2
            continue
        out[0] += a[i]
        i += 1
    out[1] = i


def while_else(a, out, n):
    i = 0
    while i < n:
        if a[i] == 4:
            break
        i += 1
    else:
        out[1] = 1
    out[0] = i


def while_return(a, out, n):
    i = 0
    while i < n:
        j = 0
        while j < i:
            if a[i] + a[j] == 10:
                out[0] = i
                out[1] = j
                return
            j += 1
        i += 1
    out[2] = 1


def collatz(a, out, n):
    x = n + 6
    steps = 0
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    out[0] = steps


def negative_step(a, out, n):
    k = 0
    for i in range(n - 1, -1, -1):
        out[k] = a[i]
        k += 1


def negative_step_with_break(a, out, n):
    for i in range(n - 1, -1, -2):
        out[i] = 1
        if a[i] == 1:
            break


def dynamic_step(a, out, n):
    step = n - 3
    if step != 0:
        k = 0
        for i in range(0, 2 * step, step):
            out[k] = i
            k += 1


def dynamic_step_with_break(a, out, n):
    step = 2 - n
    if step != 0:
        k = 0
        for i in range(7, 7 + 5 * step, step):
            if k == 3:
                break
            out[k] = i
            k += 1


def loop_variable_behind_the_loop(a, out, n):
    i = -1
    for i in range(n):
        if a[i] == 4:
            break
    out[0] = i


def loop_variable_changed_in_the_body(a, out, n):
    total = 0
    for i in range(n):
        i = i * 2
        total += i
    out[0] = total


def known_to_run(a, out, n):
    for i in range(3):
        last = i + n
    out[0] = last
    out[1] = i


def swap_in_a_loop(a, out, n):
    x, y = 0, 1
    for _ in range(n):
        x, y = y, x + y
    out[0] = x


def tuple_carried(a, out, n):
    state = (0, (1, 2))
    for i in range(n):
        p, (q, r) = state
        state = (q, (r, p + a[i]))
    out[0] = state[0]
    out[1] = state[1][1]


def walrus(a, out, n):
    if (half := n // 2) > 1:
        out[0] = half
    out[1] = half
    i = 0
    while (left := n - i) > 2:
        i += 1
        out[2] += left
    out[3] = left


def unrolled_with_exits(a, out, n):
    for k in (1, 2, 4, 8):
        if k > n:
            break
        if k == 2:
            continue
        out[0] += k
    else:
        out[1] = 1
    out[2] = 2


def unrolled_with_return(a, out, n):
    total = 0
    for k in (0, 1, 2):
        if n <= k:
            out[0] = total
            return
        total += a[k]
    out[1] = total


def unrolled_while(a, out, n):
    k = 1
    while k < 8:
        out[k] = n + k
        k *= 2


def long_while(a, out, n):
    k = 0
    while k < 500:
        out[0] += k
        k += 1
    out[1] = k


def while_condition_with_loads(a, out, n):
    i = 0
    while i < n and a[i] < 5:
        if a[i] == 2:
            break
        i += 1
    out[0] = i


def exit_in_one_of_three(a, out, n):
    y = 1
    for i in range(n):
        if a[i] > 3:
            if a[i] > 8:
                y = 100
                break
            elif a[i] == 4:
                y += 5
                continue
            y += 1
        y = y * 2
    out[0] = y


def break_in_the_else_of_an_inner_loop(a, out, n):
    for i in range(n):
        for j in range(3):
            if a[i] == j:
                break
        else:
            out[0] = i
            break
        out[1] += 1
    else:
        out[2] = 5


def walrus_of_a_tuple_in_a_loop(a, out, n):
    i = 0
    while (pair := (i, n - i))[1] > 1:
        i += 1
        out[0] += pair[0]
    out[1] = pair[1]


def float_counter(a, out, n):
    x = 0
    k = 0
    while x < 3:
        x = x + 0.5
        k += 1
    for i in range(n):
        x = 1.5
        k = k + i
    out[0] = k


def while_with_constants_only(a, out, n):
    k = 1
    while k < 100:
        k *= 2
        if k == 64:
            break
    else:
        k = 0
    out[0] = k
    while n < 0:
        k = 1
    else:  # noqa: PLW0120
        out[1] = 3


PROGRAMS = programs_of(globals())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_means_what_it_means_in_python(program):
    for values in INPUTS:
        check_like_python(program, list(values), [0] * 10, len(values))


def zero_step(a, out, n):
    for i in range(0, 5, n):
        out[i] = 1


def test_a_dynamic_step_of_zero_fails_an_assertion():
    with pytest.raises(AssertionFails, match="range: the step is 0"):
        run(zero_step, [], [0] * 5, 0)


def extreme_bounds(out, start, stop):
    k = 0
    for i in range(start, stop, -1):
        if k == 2:
            break
        out[k] = i
        k += 1


@pytest.mark.parametrize(
    ("start", "stop"), [(-(2**31), -(2**31)), (-(2**31) + 1, -(2**31)), (2**31 - 1, -(2**31))]
)
def test_going_down_does_not_overflow_at_the_ends_of_the_type(start, stop):
    expected = [*list(range(start, max(stop, start - 2), -1)), 0, 0][:2]
    assert run(extreme_bounds, [0, 0], start, stop)[0] == expected
