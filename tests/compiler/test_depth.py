# SPDX-License-Identifier: Apache-2.0
"""Programs that are nested as deeply as generated code is compile, in time that grows with their length."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import weft
from tests.conformance.harness import define
from tests.conformance.test_cuda import why_no_cuda
from weft.compiler.defects import deep_recursion

DEEP = 550


def lines(*parts: str) -> str:
    return "\n".join(parts)


def numbered(text: str, count: int = DEEP) -> list[str]:
    return [text.replace("#", str(number)) for number in range(1, count)]


# What a kernel of x = a[0] writes to out[0]: 3 * x for x from 1 up, else -1.
PROGRAMS = {
    "elif": lines(
        "if x == 0:\n    out[0] = -1",
        *numbered("elif x == #:\n    out[0] = # * 3"),
        "else:\n    out[0] = -1",
    ),
    "elif with a value": lines(
        "if x == 0:\n    y = -1",
        *numbered("elif x == #:\n    y = # * 3"),
        "else:\n    y = -1",
        "out[0] = y",
    ),
    "return": lines(*numbered("if x == #:\n    out[0] = # * 3\n    return"), "out[0] = -1"),
    "continue": lines(
        "for k in range(x, x + 1):",
        *numbered("    if k == #:\n        out[0] = # * 3\n        continue"),
        "    out[0] = -1",
    ),
    "match": lines(
        "match x:",
        *numbered("    case #:\n        out[0] = # * 3"),
        "    case _:\n        out[0] = -1",
    ),
    "conditional expression": "out[0] = " + "".join(numbered("# * 3 if x == # else ")) + "-1",
    "and": lines("y = " + " and ".join(numbered("x != #")), "out[0] = -1 if y else 3 * x"),
    "or": lines("y = " + " or ".join(numbered("x == #")), "out[0] = 3 * x if y else -1"),
    "return of a helper": "out[0] = helper(x)",
    "sum": "out[0] = " + " + ".join(numbered("(x == #) * # * 3", 1000)) + " - (x == 0 or x > 9)",
}
HELPER = lines("def helper(x):", *numbered("    if x == #:\n        return # * 3"), "    return -1")


def host_of(body: str, before: str = ""):
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return define(f"""{before}
@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor):
    x = a[0]
{indented}

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    kernel(a, out).launch(grid=1, block=1)
""")["host"]


QUICK = ("elif", "sum")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PROGRAMS]


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_generated_programs_are_compiled(name):
    host = host_of(PROGRAMS[name], HELPER if "helper" in name else "")
    values = (0, 1, 9) if name == "sum" else (0, 1, 250, DEEP - 1, DEEP)
    for x in values:
        out = np.zeros(1, np.int32)
        host(np.array([x], np.int32), out)
        assert out[0] == (3 * x if 0 < x < DEEP else -1), x
    if name not in QUICK:
        return
    if why_no_cuda():
        pytest.skip(why_no_cuda())
    fakes = [weft.fake_tensor(weft.i32, (None,))] * 2
    assert weft.compile(host, *fakes, options="--gpu-arch sm_90a").cubin


def test_the_error_inside_a_long_sum_is_the_one_that_is_reported():
    for place in (0, 400, 799):
        terms = ["a[0]"] * 800
        terms[place] = "unknown_name"
        with pytest.raises(weft.CompileError, match="NAME_UNKNOWN") as caught:
            host_of("out[0] = " + " + ".join(terms))(np.zeros(1, np.int32), np.zeros(1, np.int32))
        assert caught.value.location.function == "kernel"
        terms[place] = "out"
        with pytest.raises(weft.CompileError, match="TYPE_NOT_A_NUMBER"):
            host_of("out[0] = " + " + ".join(terms))(np.zeros(1, np.int32), np.zeros(1, np.int32))


def test_what_is_too_deep_is_reported_with_its_place():
    body = lines(*numbered("if x == #:\n    out[0] = #\n    return", 2500))
    with pytest.raises(weft.CompileError, match="TOO_DEEP") as caught:
        host_of(body)(np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert caught.value.location.function == "kernel"
    assert caught.value.location.line > 1000


def test_the_recursion_limit_is_restored():
    before = sys.getrecursionlimit()
    entered, leave = threading.Event(), threading.Event()

    def other():
        with deep_recursion():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with deep_recursion():
        deep = sys.getrecursionlimit()
        assert deep > 5 * before
        thread.start()
        assert entered.wait(10)
    assert sys.getrecursionlimit() == deep
    leave.set()
    thread.join()
    assert sys.getrecursionlimit() == before


def test_a_limit_set_meanwhile_is_kept():
    before = sys.getrecursionlimit()
    try:
        with deep_recursion():
            sys.setrecursionlimit(before + 7)
        assert sys.getrecursionlimit() == before + 7
        with deep_recursion():
            pass
        assert sys.getrecursionlimit() == before + 7
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("line", range(12))
def test_a_signal_handler_may_compile_at_any_moment(line: int):
    before = sys.getrecursionlimit()
    left = [line]

    def handle(frame, event, _):
        if not frame.f_code.co_filename.endswith("compiler/defects.py"):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == -1:
                with deep_recursion():
                    pass
        return handle

    tracer = sys.gettrace()
    sys.settrace(handle)
    try:
        with deep_recursion():
            raised = sys.getrecursionlimit()
    finally:
        sys.settrace(tracer)
    assert left[0] < 0  # it was called
    assert raised > before
    assert sys.getrecursionlimit() == before
