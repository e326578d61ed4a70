# SPDX-License-Identifier: Apache-2.0
"""Compile-time evaluation: constants, captured values, helpers, tuples, unrolled loops.

In: kernels over compile-time Python objects. Out: the values that Python would give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.conformance.harness import define, run_threads

SCALE = 3
WEIGHTS = (1, 10, 100)


class Pair(NamedTuple):
    first: int
    second: int


@dataclass(frozen=True)
class Affine:
    scale: float
    offset: float = 0.0

    def __call__(self, x):
        return self.apply(x)

    def apply(self, x):
        return self.scale * x + self.offset

    @property
    def doubled(self):
        return 2 * self.scale


class Mode(IntEnum):
    DOUBLE = 1
    SQUARE = 2


def run_one(body: str, count: int = 4, **names) -> list[int]:
    out = np.zeros(count, np.int32)
    run_threads(body, count, {"out": out}, **names)
    return out.tolist()


def test_module_constants_are_captured():
    @weft.kernel
    def kernel(out: weft.Tensor):
        out[weft.thread_idx.x] = SCALE * weft.thread_idx.x + WEIGHTS[1]

    out = np.zeros(4, np.int32)
    kernel[1, 4](out)
    assert out.tolist() == [10, 13, 16, 19]


def test_closure_constants_are_captured():
    def make(offset):
        @weft.kernel
        def kernel(out: weft.Tensor):
            out[weft.thread_idx.x] = weft.thread_idx.x + offset

        return kernel

    for offset in (5, -2):
        out = np.zeros(3, np.int32)
        make(offset)[1, 3](out)
        assert out.tolist() == [offset, offset + 1, offset + 2]


def test_changed_global_is_noticed_by_a_direct_call():
    names = define(
        """
        FACTOR = 2

        @weft.kernel
        def kernel(out: weft.Tensor):
            out[weft.thread_idx.x] = weft.thread_idx.x * FACTOR

        @weft.jit
        def host(out: weft.Tensor):
            kernel(out).launch(grid=1, block=3)
        """
    )
    out = np.zeros(3, np.int32)
    compiled = weft.compile(names["host"], out)
    names["host"](out)
    assert out.tolist() == [0, 2, 4]
    names["FACTOR"] = 5
    names["host"](out)
    assert out.tolist() == [0, 5, 10]
    compiled(out)  # compile freezes what it saw
    assert out.tolist() == [0, 2, 4]


def test_numpy_constants_keep_their_type():
    body = "weft.static_assert((i * K).dtype is weft.i64)\nout[i] = weft.i32(i * K)"
    assert run_one(body, K=np.int64(3)) == [0, 3, 6, 9]


def test_enum_members_are_integers():
    body = "out[i] = i * 2 if MODE == Mode.DOUBLE else i * i\nout[i] += Mode.SQUARE"
    assert run_one(body, MODE=Mode.DOUBLE, Mode=Mode) == [2, 4, 6, 8]
    assert run_one(body, MODE=Mode.SQUARE, Mode=Mode) == [2, 3, 6, 11]


def test_compile_time_if_compiles_one_branch_only():
    body = """
        if FLAG:
            out[i] = 1
        else:
            out[i] = this_name_does_not_exist
        """
    assert run_one(body, FLAG=True) == [1] * 4
    with pytest.raises(weft.CompileError, match="this_name_does_not_exist"):
        run_one(body, FLAG=False)


def test_static_range_unrolls_with_constants():
    body = """
        total = 0
        for k in weft.static_range(2, -1, -1):
            total = total * 10 + WEIGHTS[k] * i
        out[i] = total
        """
    expected = [(100 * i * 10 + 10 * i) * 10 + i for i in range(4)]
    assert run_one(body, WEIGHTS=WEIGHTS) == expected


def test_loop_over_a_compile_time_sequence_unrolls():
    body = """
        total = i
        for weight in (2, 3):
            total *= weight
        for index, (left, right) in enumerate(PAIRS):
            total += index * left - right
        for left, right in zip((1, 2), (3, 4)):
            total += left * right
        out[i] = total
        """
    assert run_one(body, PAIRS=[(1, 2), (3, 4)]) == [i * 6 + 3 - 6 + 11 for i in range(4)]


def test_break_and_continue_in_an_unrolled_loop():
    body = """
        total = 0
        for k in weft.static_range(6):
            if k == 1:
                continue
            if k == i:
                break
            total += 10 ** k
        out[i] = total
        """
    expected = []
    for i in range(4):
        total = 0
        for k in range(6):
            if k == 1:
                continue
            if k == i:
                break
            total += 10**k
        expected.append(total)
    assert run_one(body) == expected


def test_comprehensions_of_constants():
    body = """
        squares = [k * k for k in range(5) if k % 2 == 0]
        table = {name: number for number, name in enumerate(("a", "b"))}
        out[i] = sum(squares) + table["b"] + len(squares) * i
        """
    assert run_one(body) == [21 + 3 * i for i in range(4)]


def test_a_closure_in_a_comprehension_sees_the_last_values():
    body = """
        j = 1000
        late = [lambda x: x + j for j in (1, 2, 3)]
        bound = [lambda x, j=j: x + j for j in (1, 2, 3)]
        nested = [[lambda x: x * k + j for k in (1, 2)] for j in (10, 20)]
        now = [(lambda: j * k)() for j in (5, 6) for k in (7, 8) if k == 7]
        staged = [lambda: part + j for part in (i, i * i)]
        seen = lambda: j
        outside = [f() + seen() for j in [lambda: j + 1] for f in [j]]
        out[i] = late[0](i) + 10 * bound[0](i) + 100 * nested[0][0](i) + now[0] + 7 * staged[0]() + outside[0]
        """
    assert run_one(body) == [
        (i + 3) + 10 * (i + 1) + 100 * (2 * i + 20) + 35 + 7 * (i * i + 1000) + 2001
        for i in range(4)
    ]


def test_comprehension_over_staged_values_makes_a_tuple_of_them():
    body = """
        parts = [i * k for k in range(4)]
        out[i] = parts[1] + parts[3]
        """
    assert run_one(body) == [4 * i for i in range(4)]


def test_tuples_of_staged_values():
    body = """
        point = (i, i + 1, i * 2)
        x, *rest = point
        a, b = rest
        nested = (point, (x, 5))
        (p, q, r), (s, t) = nested
        out[i] = a * 100 + b + p + q + r + s + t + len(point) + point[-1]
        """
    assert run_one(body) == [
        (i + 1) * 100 + 2 * i + i + (i + 1) + 2 * i + i + 5 + 3 + 2 * i for i in range(4)
    ]


def test_named_tuple_of_staged_values():
    body = """
        pair = Pair(i, second=i * i)
        pair = pair._replace(first=7) if FLAG else pair
        out[i] = pair.first * 100 + pair.second + pair[1]
        """
    assert run_one(body, Pair=Pair, FLAG=False) == [i * 100 + 2 * i * i for i in range(4)]


def test_tuple_that_changes_in_a_loop():
    body = """
        state = (0, 1)
        for _ in range(i):
            state = (state[1], state[0] + state[1])
        out[i] = state[0]
        """
    assert run_one(body, count=8) == [0, 1, 1, 2, 3, 5, 8, 13]


def test_dataclass_and_its_methods():
    body = """
        map = Affine(2.0, 1.0)
        out[i] = int(map.apply(i)) + int(map(i)) + int(map.doubled)
        """
    assert run_one(body, Affine=Affine) == [2 * (2 * i + 1) + 4 for i in range(4)]


def test_dataclass_of_staged_values():
    body = """
        map = Affine(weft.f32(i), offset=0.5)
        out[i] = int(map.apply(4))
        """
    assert run_one(body, Affine=Affine) == [4 * i for i in range(4)]


def test_captured_object_and_its_methods():
    assert run_one("out[i] = int(map(i))", map=Affine(3.0, 2.0)) == [3 * i + 2 for i in range(4)]


def test_helper_with_defaults_keywords_and_varying_types():
    names = define(
        """
        def blend(a, b=10, *, weight=2):
            return a * weight + b

        def twice(function, x):
            return function(function(x))
        """
    )
    body = """
        out[i] = blend(i) + blend(i, 1, weight=3) + twice(lambda x: x + 1, i)
        """
    expected = [(2 * i + 10) + (3 * i + 1) + (i + 2) for i in range(4)]
    assert run_one(body, **{name: names[name] for name in ("blend", "twice")}) == expected


def test_nested_functions_see_the_variables_around_them():
    body = """
        base = i * 10

        def shifted(x):
            return base + x

        def both(x):
            return shifted(x) + shifted(x + 1)

        out[i] = both(1)
        """
    assert run_one(body) == [20 * i + 3 for i in range(4)]


def test_helper_that_returns_several_values_from_branches():
    names = define(
        """
        def ordered(a, b):
            if a > b:
                return b, a
            return a, b
        """
    )
    body = "low, high = ordered(i * 2, 3)\nout[i] = low * 10 + high"
    expected = [min(2 * i, 3) * 10 + max(2 * i, 3) for i in range(4)]
    assert run_one(body, ordered=names["ordered"]) == expected


def test_only_recursion_over_constants_unrolls():
    names = define(
        """
        def power(x, n):
            if n == 0:
                return 1
            return x * power(x, n - 1)
        """
    )
    assert run_one("out[i] = power(i, 3)", power=names["power"]) == [0, 1, 8, 27]
    with pytest.raises(weft.CompileError, match="recurs"):
        run_one("out[i] = power(2, i)", power=names["power"])


def test_python_math_of_constants():
    body = "out[i] = i * int(math.floor(math.pi * 10)) + max(3, *(1, 5)) + abs(-2)"
    assert run_one(body, math=math) == [31 * i + 7 for i in range(4)]


def test_strings_are_compile_time_values():
    body = """
        name = f"{'ab'}{3}".upper()
        out[i] = i if name == "AB3" else -1
        out[i] += 1 if "B" in name else 0
        """
    assert run_one(body) == [1, 2, 3, 4]


def test_match_on_constants():
    body = """
        match MODE:
            case "double":
                out[i] = i * 2
            case "square":
                out[i] = i * i
            case _:
                out[i] = -1
        """
    assert run_one(body, MODE="square") == [0, 1, 4, 9]
    assert run_one(body, MODE="other") == [-1] * 4


def test_a_constexpr_is_given_to_compile_alone():
    names = define(
        """
        @weft.kernel
        def kernel(out: weft.Tensor, times: weft.Constexpr[int]):
            total = 0
            for k in weft.static_range(times):
                total += k
            out[weft.thread_idx.x] = total

        @weft.jit
        def host(out: weft.Tensor, times: weft.Constexpr[int]):
            kernel(out, times).launch(grid=1, block=2)
        """
    )
    host, out = names["host"], np.zeros(2, np.int32)
    compiled = weft.compile(host, out, 5)
    compiled(out)
    assert out.tolist() == [10, 10]
    host(out, 4)
    assert out.tolist() == [6, 6]
    host(out, times=3)
    assert out.tolist() == [3, 3]


def test_types_are_compile_time_values():
    body = """
        dtype = out.dtype
        zero = dtype(0)
        kind = weft.i64 if dtype is weft.i32 else weft.f32
        out[i] = weft.i32(kind(i) * 3) + zero
        """
    assert run_one(body) == [0, 3, 6, 9]


def test_containers_that_operators_and_slices_make_can_be_changed():
    body = """
    tile = [0] * 3 + [1]
    part = tile[1:]
    tid = weft.thread_idx.x
    tile[0] = tid
    part[2] += 10
    named = {"a": 1} | {"b": 2}
    named["b"] = tid + 5
    out[tid] = tile[0] * 1000 + tile[3] * 100 + part[2] + named["b"]
    """
    assert run_one(body) == [116, 1117, 2118, 3119]


def test_a_lambda_is_a_kernel():
    kernel = weft.kernel(lambda out, value: weft.atomic_add(out, 0, value))
    out = np.zeros(1, np.int32)
    kernel[1, 4](out, 3)
    assert out[0] == 12


def test_global_and_nonlocal_that_only_read_say_nothing_new():
    namespace = define(
        """
        SCALE = 3

        @weft.kernel
        def kernel(out: weft.Tensor):
            global SCALE
            offset = out[1]

            def moved(x):
                nonlocal offset
                return x + offset

            out[0] = moved(SCALE)

        @weft.jit
        def host(out: weft.Tensor):
            kernel(out).launch(grid=1, block=1)
        """
    )
    out = np.array([0, 4], np.int32)
    namespace["host"](out)
    assert out[0] == 7


def test_extremes_of_any_compile_time_sequence():
    body = """
        pair = {3, 8}
        out[i] = max(pair) + min(x * a[i] for x in (5, 2)) + max({1: 0, 7: 0})
        out[i] += max("ab", "b", key=len) == "ab"
        out[i] += weft.i32(min(float("nan"), 1.0))
        """
    out = np.zeros(1, np.int32)
    run_threads(body, 1, {"a": np.array([10], np.int32), "out": out})
    assert out[0] == 8 + 20 + 7 + 1 + 1
