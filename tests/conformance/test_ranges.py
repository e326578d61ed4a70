# SPDX-License-Identifier: Apache-2.0
"""Loops over `range` run Python's iterations, up to both limits of each integer type, however they are left.

In: bounds near the limits and steps of every size, as constants and known only at run time. Out: what Python's own
range gives.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from tests.conformance.harness import INTEGERS, NUMPY_TYPES, define, threads
from tests.sampling import sampled

MOST = 20  # iterations that are compared
EXITS = {
    "break": "if iterations == most: break",
    "return": "if iterations == most: return",
    "continue and break": "if iterations == most: break\n    if iterations < 0: continue",
    "none": "",
}
LOOP = """\
iterations = 0
for k in range({arguments}):
    {exit}
    out[i, iterations] = k
    iterations += 1
    counts[i] = iterations
"""
each_integer = pytest.mark.parametrize("dtype", INTEGERS, ids=str)


def courses(dtype: weft.DType) -> list[tuple[int, int, int]]:
    """Start, stop and step near the limits of a type; each fits the type but for the steps of an unsigned one."""
    low, high = dtype.minimum, dtype.maximum
    ends = [
        *((high - 10, high), (high - 11, high - 1), (low, low + 10), (low, high)),
        *((high, high - 10), (low + 10, low), (low + 9, low + 1), (high, low), (7, 7)),
    ]
    steps = (1, 2, 7, 10, 11, high // 3, high)
    return [
        (start, stop, step)
        for start, stop in ends
        for step in (*steps, *(-step for step in steps), low or -high)
    ]


def iterations_of(course: tuple[int, int, int]) -> list[int]:
    return list(itertools.islice(range(*course), MOST))


def is_long(course: tuple[int, int, int]) -> bool:
    start, stop, step = course
    return (stop - start) // step >= MOST


def variable_of(dtype: weft.DType) -> np.dtype:
    return np.dtype(np.uint64 if dtype is weft.u64 else np.int64)


def check(host, dtype: weft.DType, listed: list[tuple[int, int, int]], *arrays: np.ndarray) -> None:
    out = np.zeros((len(listed), MOST), variable_of(dtype))
    counts = np.zeros(len(listed), np.int32)
    host(len(listed), *arrays, out, counts, np.array([MOST], np.int32))
    for course, values, count in zip(listed, out.tolist(), counts.tolist(), strict=True):
        assert values[:count] == iterations_of(course), f"range{course}"


def body_of(arguments: str, leave: str) -> str:
    return "most = limit[0]\n" + LOOP.format(arguments=arguments, exit=EXITS[leave] or "pass")


@pytest.mark.parametrize(
    ("dtype", "leave"), sampled(itertools.product(INTEGERS, EXITS), 6, several=True), ids=str
)
def test_a_range_known_at_run_time_runs_pythons_iterations(dtype, leave):
    fitting = [c for c in courses(dtype) if dtype.minimum <= c[2] <= dtype.maximum]
    listed = [c for c in fitting if leave != "none" or not is_long(c)]
    names = ("starts", "stops", "steps")
    columns = np.array(listed, NUMPY_TYPES[dtype]).T
    body = body_of("starts[i], stops[i], steps[i]", leave)
    host = threads(body, (*names, "out", "counts", "limit"))
    check(host, dtype, listed, *(np.ascontiguousarray(column) for column in columns))


CONSTANT_STEPS = """
@weft.kernel
def kernel(ends: weft.Tensor, out: weft.Tensor, counts: weft.Tensor, limit: weft.Tensor):
    most = limit[0]
{loops}

@weft.jit
def host(count: weft.i32, ends: weft.Tensor, out: weft.Tensor, counts: weft.Tensor, limit: weft.Tensor):
    kernel(ends, out, counts, limit).launch(grid=1, block=1)
"""


def with_constants(listed: list[tuple[int, int, int]], form: str):
    """One loop per course; `form` says which of its parts are constants."""
    loops = []
    for place, (start, stop, step) in enumerate(listed):
        arguments = form.format(place=place, start=start, stop=stop, step=step)
        loop = LOOP.format(arguments=arguments, exit=EXITS["break"])
        loops.append(loop.replace("[i", f"[{place}").replace("\n", "\n    "))
    return define(CONSTANT_STEPS.format(loops="    " + "\n    ".join(loops)))["host"]


CONSTANTS = {
    "step": "ends[{place}, 0], ends[{place}, 1], {step}",
    "start and step": "{start}, ends[{place}, 1], {step}",
    "stop and step": "ends[{place}, 0], {stop}, {step}",
}
TYPES = (weft.u8, weft.i32, weft.u32, weft.i64, weft.u64)


@pytest.mark.parametrize(
    ("dtype", "constants"), sampled(itertools.product(TYPES, CONSTANTS), 4, several=True), ids=str
)
def test_a_range_with_constants_runs_pythons_iterations(dtype, constants):
    form = CONSTANTS[constants]
    listed = courses(dtype)[::8]
    host = with_constants(listed, form)
    check(host, dtype, listed, np.array([c[:2] for c in listed], NUMPY_TYPES[dtype]))


@pytest.mark.parametrize("dtype", [weft.i32, weft.i64, weft.u64], ids=str)
def test_a_range_of_constants_alone_runs_pythons_iterations(dtype):
    listed = [c for c in courses(dtype) if c[2] not in (-1, 1)][::4]
    if dtype is weft.u64:  # the others fit a signed type, and are counted in it
        listed = [c for c in listed if max(c[:2]) > weft.i64.maximum]
    host = with_constants(listed, "{start}, {stop}, {step}")
    check(host, dtype, listed, np.zeros((1, 1), np.int32))


def test_the_variable_of_a_range_of_u64_is_u64():
    body = """
        for k in range(n[0], n[1], n[2]):
            weft.static_assert(k.dtype is weft.u64)
            out[0] = k // 3
        """
    out = np.zeros(1, np.uint64)
    threads(body, ("n", "out"))(1, np.array([2**64 - 9, 2**64 - 1, 5], np.uint64), out)
    assert out[0] == (2**64 - 4) // 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("n[0] - 1, -1, -1", "CONSTANT_OUT_OF_RANGE"),
        ("-3, n[0]", "CONSTANT_OUT_OF_RANGE"),
        ("i, n[0]", "TYPE_MIXED_SIGN"),
        ("0, n[0], i", "TYPE_MIXED_SIGN"),
    ],
)
def test_a_range_of_u64_takes_nothing_that_u64_does_not_hold(arguments, code):
    with pytest.raises(weft.CompileError) as caught:
        threads(f"for k in range({arguments}):\n    n[0] = k", ("n",))(1, np.zeros(1, np.uint64))
    assert caught.value.code == code


@pytest.mark.parametrize("step", ["weft.block_dim.x", "weft.grid_dim.x * weft.block_dim.x"])
def test_a_grid_stride_may_pass_the_limit_at_the_end(step: str):
    high = weft.i32.maximum
    starts = np.array(
        [high - 200, high - 33, high - 32, high - 31, high - 1, high, -5, 0], np.int32
    )
    stops = np.array([*[high] * 6, 60, 90], np.int32)
    total, iterations = np.zeros(8, np.int64), np.zeros(8, np.int32)
    body = f"""
        for k in range(starts[i], stops[i], {step}):
            total[i] += k
            iterations[i] += 1
        """
    host = threads(body, ["starts", "stops", "total", "iterations"])
    host(8, starts, stops, total, iterations)
    expected = [range(start, stop, 32) for start, stop in zip(starts, stops, strict=True)]
    assert iterations.tolist() == [len(each) for each in expected]
    assert total.tolist() == [sum(map(int, each)) for each in expected]
