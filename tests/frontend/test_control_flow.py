# SPDX-License-Identifier: Apache-2.0
"""Control flow on run-time values means what it means in Python: each program runs as both."""

from __future__ import annotations

import pytest

from tests.frontend.interpreter import AssertionFails
from tests.frontend.tracing import check_like_python, run

INPUTS = [[3, 1, 4, 1, 5, 9, 2, 6], [0], [], [-5, 7, -5], [1, 2, 3, 4, 5]]


def early_return(a, out, n):
    if n == 0:
        return
    out[0] = 1
    if n > 2:
        out[1] = 2
        return
    out[2] = 3


def return_in_both_branches(a, out, n):
    if n > 1:
        out[0] = 1
        return
    else:
        out[0] = 2
        return
    out[0] = 3


def nested_early_return(a, out, n):
    if n > 0:
        if n > 3:
            return
        y = 10
    else:
        y = 20
    out[0] = y
    if n == 1:
        out[1] = 1


def else_branch_returns(a, out, n):
    if n > 2:
        x = 7
    else:
        out[1] = 5
        return
    out[0] = x


def elif_chain(a, out, n):
    if n == 0:
        x = 1
    elif n == 1:
        x = 2
    elif n == 3:
        x = 4
    else:
        x = 8
    out[0] = x


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


def ternary(a, out, n):
    x = 5 if n > 2 else -5
    y = a[0] if n > 0 else 42
    out[0] = x + y


def short_circuit(a, out, n):
    if n > 0 and a[0] > 2:
        out[0] = 1
    if n == 0 or a[n - 1] > 5:
        out[1] = 1
    if not (n > 1 and a[1] == 1):
        out[2] = 1


def values_of_and_or(a, out, n):
    x = n and 7
    y = n or 9
    out[0] = x
    out[1] = y
    if (n > 2 and a[0]) or 0:
        out[2] = 5


def chained_comparison(a, out, n):
    if 0 < n < 5:
        out[0] = 1
    if 0 <= n < 2 < 3:  # noqa: PLR0133
        out[1] = 1
    if n > 0 and -10 < a[0] <= 3 != n:
        out[2] = 1


def walrus(a, out, n):
    if (half := n // 2) > 1:
        out[0] = half
    out[1] = half
    i = 0
    while (left := n - i) > 2:
        i += 1
        out[2] += left
    out[3] = left


def membership(a, out, n):
    if n in (1, 3, 8):
        out[0] = 1
    if n not in (0, 5):
        out[1] = 1


def nested_functions(a, out, n):
    def twice(x):
        return offset + 2 * x

    offset = 10
    out[0] = twice(n)
    offset = n
    out[1] = twice(3)
    add = lambda p, q=1: p + q
    out[2] = add(n) + add(n, 5)


def search(a, n, wanted):
    for i in range(n):
        if a[i] == wanted:
            return i
    return -1


def sign(x):
    if x > 0:
        return 1
    elif x < 0:
        return -1
    return 0


def helpers(a, out, n):
    out[0] = search(a, n, 4)
    out[1] = sign(out[0])
    out[2] = sign(n - 3)


def find_pair(a, n):
    for i in range(n):
        j = 0
        while j < i:
            if a[i] == a[j]:
                return i, j
            j += 1
    return n, -1


def tuple_of_helper(a, out, n):
    i, j = find_pair(a, n)
    out[0], out[1] = i, j


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


def constant_conditions(a, out, n):
    debug = False
    if debug:
        out[0] = 1
    elif n > 1:
        out[0] = 2
    x = 1 if debug else n
    while debug:
        out[1] = 1
    out[2] = x


def augmented(a, out, n):
    x = n
    x += 1
    x *= 3
    x -= 2
    x //= 2
    x %= 7
    x <<= 2
    x |= 1
    x ^= 6
    x &= 29
    out[0] = x
    out[1] += x


def delete(a, out, n):
    x = n
    out[0] = x
    del x
    x = n + 1
    out[1] = x


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


def comprehensions(a, out, n):
    parts = [n * k for k in range(3) if k != 1]
    out[0] = sum(parts)
    out[1] = max(x + y for x, y in zip(parts, (1, n), strict=True))
    names = {k: v for k, v in enumerate(parts)}
    out[2] = names[1]
    out[3] = 1 if any(p > 5 for p in parts) else 2
    first, *rest = parts
    out[4] = rest[0] - first


def matching(a, out, n):
    for pair in ((0, n), (1, 5), "text"):
        match pair:
            case (0, x):
                out[0] = x
            case (1, x) if x > 4:
                out[1] = x
            case _:
                out[2] = 1


def tuples_compared(a, out, n):
    pair = (n, n + 1)
    if pair == (3, 4):
        out[0] = 1
    if pair != (3, 4) and pair != (1, 2, 3) and [n] == [n]:  # noqa: PLR1714
        out[1] = 1
    out[2] = (1, 2) < (1, 3)
    if all([n > 1, n < 7]) and not any((n == 2, n == 3)):
        out[3] = 1
    out[4] = n in range(3) if n is None else 5
    out[5] = all((True, 1)) + any([False, n > 2, True])


def displays(a, out, n):
    sizes = {"x": n, **{"y": 2}, "z": 3}
    k = 100
    out[0] = sizes["x"] + sum(v for k, v in sizes.items() if k != "x")
    out[1] = k
    out[2] = len({1, 2, 2}) + len({v % 2 for v in (1, 2, 3)})  # noqa: B033
    squares = {i: i * n for i in (1, 2) for j in (0, 1) if i > j}
    out[3] = squares[2]
    sizes["x"] = 9
    sizes["x"] += n
    out[4] = sizes["x"]
    out[5] = [n, 5, 7][-1] + (n, *(1, 2))[2]
    text: int  # noqa: F842
    count: "int" = 3
    out[6] = count
    out[7] = (n, 4, 5, 6)[1:3][1]


def local_functions_with_defaults(a, out, n):
    base = n

    def add(x, y=base, *, z=base + 1):
        return x + y * z

    base = 50
    out[0] = add(1)
    out[1] = add(1, 2, z=3)


def more_matching(a, out, n):
    for value in (None, True, 3, (1, (2, n))):
        match value:
            case None:
                out[0] = 1
            case True | False:
                out[1] = 2
            case (1, (2, x)) as whole:
                out[2] = x + whole[0]
            case 3 | 4:
                out[3] = 4


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


PROGRAMS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and value.__code__.co_varnames[:3] == ("a", "out", "n")
]


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


def asserting(a, out, n):
    assert n < 3, "n is small"
    assert out[0] == 0
    out[0] = n


def test_an_assertion_keeps_its_text_or_its_source():
    assert run(asserting, [], [0], 2)[1] == [2]
    with pytest.raises(AssertionFails, match=r"^n is small$"):
        run(asserting, [], [0], 3)
    with pytest.raises(AssertionFails, match=r"^out\[0\] == 0$"):
        run(asserting, [], [1], 1)


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
