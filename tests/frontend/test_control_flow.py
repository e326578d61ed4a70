# SPDX-License-Identifier: Apache-2.0
"""Branches, expressions and calls on run-time values mean what they mean in Python: each program runs as both."""

from __future__ import annotations

import pytest

from tests.frontend.interpreter import AssertionFails
from tests.frontend.tracing import check_like_python, programs_of, run

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


PROGRAMS = programs_of(globals())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_means_what_it_means_in_python(program):
    for values in INPUTS:
        check_like_python(program, list(values), [0] * 10, len(values))


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
