# SPDX-License-Identifier: Apache-2.0
"""Loops over `weft.unroll(range(...), factor)` run the same iterations as over the range, however they are left.

In: loops of every form, whose number of iterations is 0 to 9, different for each thread, and factors up to five. Out:
Python's results.
"""

from __future__ import annotations

import itertools
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.conformance.harness import define, run_threads
from tests.sampling import sampled

FACTORS = range(1, 6)
COUNT = 10
PYTHON = SimpleNamespace(unroll=lambda values, factor: values)
FORMS = {
    "up": "for k in ROUNDS(range(n), F):\n    s = s * 3 + k",
    "down": "for k in ROUNDS(range(n, 0, -1), F):\n    s = s * 3 + k",
    "in steps": "for k in ROUNDS(range(-7, 5 * n - 7, 5), F):\n    s = s * 3 + k",
    "down in steps": "for k in ROUNDS(range(3 * n, 0, -3), F):\n    s = s * 3 + k",
    "known": "for k in ROUNDS(range(7), F):\n    s = s * 3 + k * n",
    "empty": "for k in ROUNDS(range(3, 3), F):\n    s = 5",
    "break": "for k in ROUNDS(range(n), F):\n    s = s * 3 + k\n    if k == 4:\n        break",
    "continue": "for k in ROUNDS(range(n), F):\n    if k % 3 == 1:\n        continue\n    s = s * 3 + k",
    "else": """
        for k in ROUNDS(range(n), F):
            s = s * 3 + k
        else:
            s += 100
        """,
    "break and else": """
        for k in ROUNDS(range(2 * n, n, -1), F):
            s = s * 3 + k
            if k == 9:
                break
        else:
            s += 100
        """,
    "return": "for k in ROUNDS(range(n), F):\n    s = s * 3 + k\n    out[i] = s\n    if k == 5:\n        return",
    "nested": """
        for k in ROUNDS(range(n), F):
            for j in ROUNDS(range(k, n, 2), 6 - F):
                s = (s * 3 + j) % 1001
            s += k
        """,
    "a variable": "values = ROUNDS(range(n), F)\nfor k in values:\n    s = s * 3 + k",
    "a helper": "for k in iterations_of(n):\n    s = s * 3 + k",
}


@pytest.mark.parametrize(
    ("form", "factor"), sampled(itertools.product(FORMS, FACTORS), 6, several=True)
)
def test_iterations_are_those_of_the_range(form: str, factor: int):
    loop = textwrap.dedent(FORMS[form]).strip()
    body = f"n = i\ns = START\n{loop}\nout[i] = s".replace("ROUNDS", "weft.unroll")
    helper = "def iterations_of(n):\n    return weft.unroll(range(n), F)\n"
    python = f"{helper}def one(i, out):\n{textwrap.indent(body, '    ')}"
    one = define(python, weft=PYTHON, F=factor, START=0)["one"]
    expected = np.zeros(COUNT, np.int32)
    for i in range(COUNT):
        one(i, expected)

    out = np.zeros(COUNT, np.int32)
    iterations_of = define(helper, F=factor)["iterations_of"]
    body = body.replace("START", "weft.i32(0)")
    run_threads(body, COUNT, {"out": out}, F=factor, iterations_of=iterations_of)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("factor", FACTORS)
def test_loops_of_host_functions_are_unrolled_too(factor: int):
    source = """
    @weft.jit
    def host(n: weft.i32) -> weft.i32:
        s = weft.i32(0)
        for k in weft.unroll(range(2 * n, 0, -2), F):
            if k == 4:
                continue
            s = s * 3 + k
        return s
    """
    host = define(source, F=factor)["host"]
    for n in range(COUNT):
        s = 0
        for k in range(2 * n, 0, -2):
            s = s if k == 4 else s * 3 + k
        assert host(n) == s


def test_a_factor_may_be_a_parameter_known_at_compile_time():
    source = """
    @weft.kernel
    def kernel(out: weft.Tensor, factor: weft.Constexpr[int]):
        for k in weft.unroll(range(len(out)), factor):
            out[k] = k

    @weft.jit
    def host(out: weft.Tensor, factor: weft.Constexpr[int]):
        kernel(out, factor).launch(grid=1, block=1)
    """
    out = np.zeros(11, np.int32)
    define(source)["host"](out, 3)
    assert out.tolist() == list(range(11))


def test_outside_a_kernel_it_says_where_it_works():
    with pytest.raises(weft.UnavailableError, match="unroll"):
        weft.unroll(range(4), 2)
