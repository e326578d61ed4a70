# SPDX-License-Identifier: Apache-2.0
"""`match` with every kind of pattern, on constants and on run-time values.

In: functions of two small integers. Out: the values that Python gives, and PTX.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tests.conformance.harness import assert_python_agrees_everywhere

PAIRS = list(itertools.product(range(-4, 9), (-3, 0, 1, 2, 5)))


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


class Span(NamedTuple):
    first: object
    last: object


@dataclass(frozen=True)
class Affine:
    scale: object
    offset: object = 0


def values_and_alternatives_of_a_constant(x, y):
    match "b":
        case "a":
            result = 1
        case "b" | "c":
            result = x
        case _:
            result = y
    return result


def enum_members_and_singletons(x, y):
    match Mode.EXACT:
        case Mode.FAST:
            result = 1
        case Mode.EXACT:
            result = x
    match None:
        case False:
            result += 100
        case None:
            result += 10
    match x > y:
        case True:
            result += 7
        case False:
            result += 9
    return result


def values_of_a_number(x, y):
    match x:
        case 1:
            result = 10
        case 2 | 3:
            result = 20
        case n if n > 5:
            result = n
        case _:
            result = y
    return result


def sequences_of_numbers(x, y):
    match (x, y):
        case (0, 0):
            return 1
        case (0, n):
            return n + 100
        case (m, 1) if m > 2:
            return m + 200
        case (m, 1):
            return m + 250
        case _:
            return 300


def starred_sequences(x, y):
    match (1, x, y, 4):
        case (2, *_):
            return 0
        case (1, *middle, 5):
            return 1
        case [1, *middle, last]:
            return middle[0] * 10 + middle[1] + last + len(middle)
    return -1


def mappings(x, y):
    match {"op": "add", "k": x, "extra": 3}:
        case {"op": "sub"}:
            return 0
        case {"op": "add", "missing": _}:
            return 1
        case {"op": "add", "k": 4}:
            return 44
        case {"op": "add", "k": value, **rest}:
            return value + y + len(rest) + rest["extra"]
    return -1


def classes(x, y):
    match Span(1, x):
        case Span(first=2, last=value):
            result = value
        case Span(1, value):
            result = value * 2
    match Affine(x, y):
        case Affine(scale=0):
            result += 50
        case Affine(scale=u, offset=3):
            result += u
        case Affine(u, offset=w) as line:
            result += u - w + line.scale
    return result


def classes_of_numbers(x, y):
    match 3:
        case float():
            result = 1
        case int(n) if n > 5:
            result = 2
        case int(n):
            result = n
    match x:
        case float() | str():
            result += 100
        case int(n):
            result += n * 10
    return result + y


def nested_patterns_with_names(x, y):
    match (x, (1, Affine(y, 2))):
        case [u, (1, Affine(scale=0, offset=w) as line) as pair]:
            return u + w + pair[0] + line.offset + 100
        case [u, (1, Affine(scale=v))]:
            return u + v
    return -1


def a_failed_pattern_binds_nothing(x, y):
    n = 100
    match (x, y):
        case (1, n):
            n += 1
        case (2, k) if k > 100:
            n = -1
    return n


def cases_that_leave(x, y):
    match x:
        case -1:
            return 5
        case 0:
            y += 1
        case 4:
            pass
        case 5 if y > 1:
            return 6
    return y * 3


def cases_that_leave_loops(x, y):
    total = 0
    for k in range(10):
        match k % 4:
            case 0:
                continue
            case 1:
                total += 1
            case 2 if k > x:
                break
            case other:
                total += 10 * other
    else:
        total += 1000
    return total + y


FUNCTIONS = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", "") == __name__ and hasattr(value, "__code__")
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_match_means_what_it_means_in_python(function):
    assert_python_agrees_everywhere(function, PAIRS)
