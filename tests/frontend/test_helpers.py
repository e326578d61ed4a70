# SPDX-License-Identifier: Apache-2.0
"""Calls from compiled code: helpers are inlined with Python's rules, compile-time calls run in Python."""

from __future__ import annotations

import functools
import math
import types
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.frontend.tracing import check_like_python, kernel_text, ops, vector
from weft.errors import TypeMismatchError

F32 = vector(weft.f32)
STEP = np.int32(2)


def scaled(x, factor=2, *, offset=0):
    return x * factor + offset


def spread(*values, **named):
    return sum(values) + named.get("extra", 0)


def default_and_keyword_arguments(a, out, n):
    out[0] = scaled(n)
    out[1] = scaled(n, 3)
    out[2] = scaled(factor=4, x=n, offset=n)
    out[3] = spread(n, 2, *(3, n), **{"extra": n})


def two_results(x):
    return x + 1, (x + 2, -x)


def tuples_as_results(a, out, n):
    p, (q, r) = two_results(n)
    out[0], out[1], out[2] = p, q, r
    out[3] = two_results(n)[1][0]


class Point(NamedTuple):
    x: object
    y: object

    def dot(self, other):
        return self.x * other.x + self.y * other.y

    @property
    def total(self):
        return self.x + self.y


def named_tuples(a, out, n):
    p = Point(n, 2)
    q = Point(y=n + 1, x=3)
    if n > 2:
        p = Point(p.y, p.x)
    out[0] = p.dot(q)
    out[1] = p.total
    for k in range(n):
        p = Point(p.x + k, p.y)
    out[2], out[3] = p


@dataclass(frozen=True)
class Box:
    low: object
    size: object
    name: str = "box"

    def contains(self, x):
        return self.low <= x < self.low + self.size

    @property
    def end(self):
        return self.low + self.size


def frozen_dataclasses(a, out, n):
    box = Box(n, 3)
    for _ in range(n):
        box = Box(box.low - 1, box.size, box.name)
    if box.contains(2):
        out[0] = 1
    out[1] = box.end
    if n > 3:
        box = Box(box.low, box.size + 1)
    out[2] = box.size
    out[3] = len(box.name)


def gcd_of_constants(a, out, n):
    out[0] = math.gcd(12, 18) * n
    out[1] = int(math.sqrt(49.0)) + n
    out[2] = len("four")


@functools.cache
def table(size):
    # Everything that Python can do runs here, since all of it is known at compile time.
    try:
        values = sorted({(k * k) % 7 for k in range(size)}, reverse=True)
    except ValueError:
        values = []
    return tuple(values)


def compile_time_python(a, out, n):
    for k, value in enumerate(table(5)):
        out[k] = value * n


def power(x, n):
    if n == 0:
        return 1
    return x * power(x, n - 1)


def recursion_at_compile_time(a, out, n):
    out[0] = power(n, 3)
    out[1] = power(n, 0)


def apply(f, *values):
    return f(*values)


def functions_as_arguments(a, out, n):
    out[0] = apply(scaled, n)
    out[1] = apply(lambda x, y: x - y, n, 5)
    out[2] = functools.partial(scaled, offset=7)(n)


def make_counter(step):
    def count(x):
        return x + step

    return count


by_three = make_counter(3)


def closures(a, out, n):
    out[0] = by_three(n)
    add = make_counter(n)
    out[1] = add(n)


def void_helper(out, n):
    if n == 0:
        return
    out[0] = n


def helpers_without_results(a, out, n):
    void_helper(out, n)
    assert void_helper(out, n) is None


def reductions(a, out, n):
    values = (n, 2, n * n)
    out[0] = sum(values)
    out[1] = max(values)
    out[2] = min(n, 3)
    if any(v == 9 for v in values):
        out[3] = 1
    if all(v > 0 for v in values):
        out[4] = 1
    out[5] = abs(n - 3)
    out[6], out[7] = divmod(n, 3)
    out[8] = pow(n, 2)


def zipped(a, out, n):
    for k, (x, y) in enumerate(zip((n, 1), (2, n), strict=True)):
        out[k] = x * y
    for k, x in enumerate(reversed([n, 5])):
        out[k + 2] = x


def lists_that_grow_where_they_are_made(a, out, n):
    found = []
    for k in (1, 2, 3):
        found.append(n * k)
    found[0] = 7
    out[0] = found[0] + found[2]
    if n > 2:
        inner = [n]
        inner.append(4)
        out[1] = inner[1]


def strings(a, out, n):
    name = f"{n is None}-{3:02d}"
    out[0] = len(name)
    out[1] = "x" in name


PROGRAMS = [
    value
    for value in list(globals().values())
    if callable(value)
    and hasattr(value, "__code__")
    and value.__code__.co_varnames[:3] == ("a", "out", "n")
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_means_what_it_means_in_python(program):
    for n in (0, 1, 3, 5):
        check_like_python(program, [1, 2, 3], [0] * 10, n)


def thread():
    return weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x


def two():
    return weft.f32(2)


def uses_the_language(a):
    a[thread()] = two()


def test_a_helper_without_arguments_is_inlined():
    assert ops(kernel_text(uses_the_language, F32), "simt.thread_idx") == {"simt.thread_idx": 1}


def typed(x: weft.f64, n: weft.i32 = 3):
    return x * n


def calls_typed(a):
    a[0] = typed(a[1])
    a[1] = typed(2, 4)


def test_annotated_parameters_of_helpers_have_their_types():
    text = kernel_text(calls_typed, vector(weft.f64))
    assert ops(text, "arith.mulf", "f32") == {"arith.mulf": 1, "f32": 0}
    assert "arith.constant 8.000000e+00 : f64" in text
    with pytest.raises(TypeMismatchError, match="expected an i32"):
        kernel_text(lambda a: typed(a[0], a[1]), vector(weft.f64))


def test_a_lambda_can_be_a_kernel():
    assert "simt.kernel @lambda" in kernel_text(lambda a: weft.atomic_add(a, 0, 1), vector())


def replaced(a):
    box = replace(Box(1, 2), size=3)
    a[0] = box.end


def test_python_may_build_compile_time_objects():
    assert "arith.constant 4 : i32" in kernel_text(replaced, vector())


class Doubler:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor

    def method(self, x):
        return self(x) + 1


double = Doubler(2)


def calls_objects(a):
    a[0] = double(a[0])
    a[1] = double.method(a[1])


def test_objects_of_the_module_and_their_methods_inline():
    assert ops(kernel_text(calls_objects, F32), "arith.mulf", "arith.addf") == {
        "arith.mulf": 2,
        "arith.addf": 1,
    }


def numpy_scalars(a, out):
    total = np.float64(0)
    best = STEP
    for i in range(a.shape[0]):
        total += a[i]
        if a[i] > 3.0:
            best = np.int32(7)
    out[0] = total * best


def test_numpy_scalars_have_their_types_in_loops_and_branches():
    text = kernel_text(numpy_scalars, F32, vector(weft.f64))
    assert "-> (f64, i32) : i32" in text


library = types.ModuleType("library")
library.thread = thread


def uses_a_library(a):
    a[library.thread()] = 1.0


def test_a_helper_in_a_module_of_helpers_is_inlined():
    assert ops(kernel_text(uses_a_library, F32), "simt.thread_idx") == {"simt.thread_idx": 1}
    assert ops(kernel_text(uses_library_inside, F32), "simt.thread_idx") == {"simt.thread_idx": 1}


def library_place():
    return library.thread()


def uses_library_inside(a):
    a[library_place()] = 1.0


ROOTS = (weft.math.sqrt, weft.math.rsqrt)


@weft.kernel
def apply_kernel(x: weft.Tensor, y: weft.Tensor, function: weft.Constexpr):
    i = weft.thread_idx.x
    y[i] = function(x[i]) + ROOTS[1](x[i])


def test_a_function_of_the_language_is_a_value_like_any_other():
    x, y = np.array([4.0, 16.0], np.float32), np.zeros(2, np.float32)
    apply_kernel[1, 2](x, y, weft.math.sqrt)
    assert y.tolist() == [2.5, 4.25]


def smallest_share(n):
    shares = []
    for threads in range(weft.WARP_SIZE, weft.MAX_THREADS + 1, weft.WARP_SIZE):
        shares.append(round(math.log2(n / threads), 2))  # no constants if the loop were traced
    return min(shares)


def test_a_helper_that_takes_numbers_of_the_package_alone_runs_in_python():
    @weft.kernel
    def kernel(out: weft.Tensor):
        out[0] = smallest_share(1000)

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out).launch(grid=1, block=1)

    assert weft.math.sqrt  # from now on the package has a module named like Python's
    out = np.zeros(1)
    host(out)
    assert out[0] == smallest_share(1000)
