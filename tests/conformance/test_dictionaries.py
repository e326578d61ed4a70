# SPDX-License-Identifier: Apache-2.0
"""Look-ups in containers with run-time values: compared in the kernel, or refused, and never by identity.

In: expressions that look for a value. Out: Python's value, or an error that says why there is none.
"""

from __future__ import annotations

import collections
import heapq
import operator

import numpy as np
import pytest

import weft
from tests.conformance.harness import run_threads

pytestmark = pytest.mark.joined

FOUND = {
    "{3: 1, 1: 9}.get(out[0], 7)": 9,
    "{3: 1}.get(out[0], 7)": 7,
    "{3: 1, 1: out[1]}.get(out[0], 7)": 2,
    "(out[0], out[1], 1).count(1)": 2,
    "[out[0], 1].count(out[0])": 2,
    "2 in {'a': out[1]}.values()": 1,
    "3 in {'a': out[1]}.values()": 0,
    "('a', 2) in {'a': out[1]}.items()": 1,
    "{1, 2}.isdisjoint((out[0],))": 0,
    "{5}.isdisjoint([out[0]])": 1,
    "(out[0], 2) == (1, out[1])": 1,
    "{(1, 2): 5}.get((out[0], out[1]), 0)": 5,
    "max({'a': out[3], 'b': out[0]}.values())": 4,
}
REFUSED = [
    "(out[0], out[1]).index(5)",
    "(5, 6).index(out[0])",
    "{1: 2}.pop(out[0])",
    "{1: 2}.setdefault(out[0], 3)",
    "{1, 2}.intersection((out[0],))",
    "dict(zip((out[0], out[0]), (1, 2)))",
    "s.add(out[0])",
    "(out[0], 5).__eq__((1, 5))",
    "[out[0]].remove(5)",
    "set(out[k] for k in (0, 1))",
    "sorted(out[k] for k in (0, 1))",
    "sorted({'a': out[0], 'b': out[1]}.values())",
    "{1: 2}.__contains__(out[0])",
    "{1: 2}.__getitem__(out[0])",
    "frozenset((out[0],))",
    "hash((out[0],))",
    "hash(out[0])",
    "min((1, 2), key=lambda k: out[k])",
    "{1}.issubset([out[0]])",
    "{1} & {out[0]}",
    "operator.contains((out[0],), 5)",
    "operator.countOf((out[0],), 5)",
    "operator.indexOf((out[0],), 5)",
    "collections.Counter((out[0], out[1]))",
    "heapq.nlargest(1, (out[0], out[1]))",
]


def run(body):
    out = np.zeros(40, np.int32)
    out[:4] = [1, 2, 3, 4]
    run_threads(body, 1, {"out": out}, collections=collections, heapq=heapq, operator=operator)
    return out.tolist()


def test_a_look_up_compares_values():
    lines = [f"x = {text}\nout[{4 + n}] = int(x)\n" for n, text in enumerate(FOUND)]
    assert dict(zip(FOUND, run("".join(lines))[4:], strict=False)) == FOUND


@pytest.mark.parametrize("text", REFUSED)
def test_what_only_python_could_look_up_is_refused(text):
    with pytest.raises(weft.CompileError) as error:
        run(f"s = {{1}}\nx = {text}")
    assert "INTERNAL" not in str(error.value)
    assert "PYTHON_RAISED" not in str(error.value)


def test_a_get_whose_values_have_no_common_type_says_so():
    with pytest.raises(weft.CompileError, match="TYPE_JOIN"):
        run("x = {1: 2}.get(out[0])")
