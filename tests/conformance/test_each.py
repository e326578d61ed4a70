# SPDX-License-Identifier: Apache-2.0
"""Iterations of `weft.each` run once each, for any number, grid, type, alignment and layout.

In: every kernel twice, with its iterations spread as on the CPU and as on a GPU. Out: what NumPy computes.
"""

from __future__ import annotations

import functools
import itertools
import math

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES
from tests.sampling import sampled
from weft.compiler import pipeline
from weft.passes import map_each as the_pass

SIZES = (0, 1, 2, 3, 31, 32, 33, 127, 257, 1021, 2048, 4099, 10007)
GRIDS = ((1, 1), (1, 33), (3, 64), (2, (8, 4, 2)), ((2, 3, 2), (5, 2)))


@pytest.fixture(autouse=True, params=["as on the CPU", "as on a GPU"])
def spread(request, monkeypatch):
    """How iterations are spread: both ways are loops over the same operations, so a CPU runs both."""
    if request.param == "as on a GPU":
        change = functools.partial(the_pass.map_each)

        def map_each(module, on_host):
            change(module, on_host=False)

        monkeypatch.setattr(pipeline, "map_each", map_each)


@weft.kernel
def scale_kernel(a, b, factor: weft.f32):
    for i in weft.each(a.shape[0]):
        b[i] = weft.f32(a[i]) * factor


def test_every_iteration_runs_once_for_every_number_of_iterations():
    @weft.kernel
    def count_kernel(a):
        for i in weft.each(a.shape[0]):
            a[i] += i + 1

    @weft.jit
    def count(a: weft.Tensor[weft.i32, ("n",)]):
        count_kernel(a).launch(over=a.shape[0])

    for size in SIZES:
        guarded = np.zeros(size + 16, np.int32)
        count(guarded[8 : 8 + size])
        expected = np.zeros_like(guarded)
        expected[8 : 8 + size] = np.arange(1, size + 1)
        assert (guarded == expected).all()


@pytest.mark.parametrize(("grid", "block"), GRIDS)
def test_any_grid_shares_the_iterations(grid, block):
    run = scale_kernel[grid, block]
    for size in SIZES:
        a = np.arange(size, dtype=np.float32)
        b = np.full_like(a, -1)
        run(a, b, 2.0)
        assert (b == a * 2).all()


@pytest.mark.parametrize("dtype", sampled(["uint8", "uint16", "float32", "float64"], 3))
def test_addresses_may_be_aligned_alike_differently_or_not_at_all(dtype):
    @weft.kernel
    def copy_kernel(a, b):
        for i in weft.each(a.shape[0]):
            b[i] = a[i]

    memory = np.random.default_rng(0).integers(0, 256, 512).astype(dtype)
    width = 16 // memory.itemsize
    sizes = (1, width - 1, width, width + 1, 3 * width + 2, 131)
    run = copy_kernel[1, 32]
    for first, second, size in itertools.product(range(width), range(0, width, 3), sizes):
        a, result = memory[first : first + size], np.zeros(size + 3 * width, dtype)
        run(a, result[width + second : width + second + size])
        assert (result[width + second : width + second + size] == a).all()
        result[width + second : width + second + size] = 0
        assert (result == 0).all()


@pytest.mark.parametrize("columns", sampled([37, 1], 4))
def test_rows_may_be_aligned_differently_from_each_other(columns):
    @weft.kernel
    def copy_kernel(a, b):
        for index in weft.each(b.shape):
            b[index] = a[index]

    for dtype in ("uint8", "uint16", "float32"):
        memory = np.random.default_rng(0).integers(0, 256, (3, 4, 131)).astype(dtype)
        for source, target, start in itertools.product((131, 128, 120), (131, 96), (0, 1, 6)):
            a = memory.reshape(-1)[: 12 * source].reshape(3, 4, source)
            a = a[:, :, start : start + columns]
            result = np.zeros((3, 4, target), dtype)
            copy_kernel[2, 32](a, result[:, :, 3 : 3 + columns])
            assert (result[:, :, 3 : 3 + columns] == a).all()
            result[:, :, 3 : 3 + columns] = 0
            assert (result == 0).all()
            copy_kernel[2, 32](a[0], result[1, :, 3 : 3 + columns])
            assert (result[1, :, 3 : 3 + columns] == a[0]).all()


def test_arrays_that_are_all_written_may_be_aligned_alike_or_not():
    @weft.kernel
    def both_kernel(a, b, c):
        for i in weft.each(a.shape[0]):
            b[i] = a[i]
            c[i] = b[i] + 1

    memory = np.arange(200, dtype=np.float32)
    for offsets in itertools.product(range(3), range(3), (0, 1, 5)):
        for size in (1, 6, 131):
            a, b, c = (memory.copy()[start : start + size] for start in offsets)
            both_kernel[1, 32](a, b, c)
            assert (b == a).all()
            assert (c == a + 1).all()


PAIRS = [
    *((weft.i8, weft.i8), (weft.i8, weft.f64), (weft.bool_, weft.i32), (weft.u16, weft.f32)),
    *((weft.f16, weft.f16), (weft.bf16, weft.bf16), (weft.bf16, weft.f32), (weft.f64, weft.f32)),
    *((weft.f64, weft.f64), (weft.i64, weft.u8), (weft.f8e4m3, weft.f32), (weft.f32, weft.bool_)),
]


@pytest.mark.parametrize(("source", "target"), sampled(PAIRS, 6, several=True), ids=str)
def test_arrays_may_have_any_types(source, target):
    @weft.kernel
    def convert_kernel(a, b, c, kind: weft.Constexpr):
        for i in weft.each(a.shape[0]):
            x = weft.f32(a[i])
            b[i] = kind(x)
            c[i] = a[i]

    first, second = NUMPY_TYPES[source], NUMPY_TYPES[target]
    for offset, size in itertools.product((0, 1, 3, 8), (1, 15, 16, 17, 1027)):
        values = np.arange(size + offset) % 7
        a = values.astype(first)[offset:]
        b, c = np.zeros(size, second), np.zeros(size + offset, first)[offset:]
        convert_kernel[2, 32](a, b, c, target)
        assert (b == a.astype(np.float32).astype(second)).all()
        assert (c == a).all()


def test_iterations_may_read_and_write_in_place():
    @weft.kernel
    def step_kernel(a, b):
        for i in weft.each(a.shape[0]):
            a[i] = a[i] * 2.0 + b[i]
            b[i] = a[i] + b[i]

    for size in SIZES:
        a, b = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
        step_kernel.over(size)(a, b)
        assert (a == np.arange(size) * 2 + 1).all()
        assert (b == a + 1).all()
        # One array under two names: what an iteration stores first is what it reads then.
        a = np.arange(size, dtype=np.float32)
        step_kernel.over(size)(a, a)
        assert (a == np.arange(size) * 6).all()


def test_an_iteration_may_branch_loop_and_have_arrays_of_its_own():
    @weft.kernel
    def branch_kernel(a, b):
        for i in weft.each(a.shape[0]):
            x = a[i]
            if x % 3 == 0:
                continue
            own = weft.local(4, weft.i32)
            for k in range(x % 4):
                own[k] = x + k
            total = 0
            for k in range(x % 4):
                total += own[k]
            if x > 5:
                b[i] = total

    for size in SIZES:
        a, b = np.arange(size, dtype=np.int32), np.full(size, -1, np.int32)
        branch_kernel.over(size)(a, b)
        for x, found in zip(a.tolist(), b.tolist(), strict=True):
            expected = sum(x + k for k in range(x % 4)) if x % 3 and x > 5 else -1
            assert found == expected


def test_an_iteration_reloads_only_what_it_stored():
    @weft.kernel
    def again_kernel(a, b, c):
        for i in weft.each(a.shape[0]):
            c[i] = 2.0 * a[i] if a[i] > 3.0 else a[i]
            b[i] = a[i] + 1.0
            c[i] = c[i] + (a[i] if a[i] > 3.0 else -a[i])

    for size in SIZES:
        a, b, c = (np.arange(size, dtype=np.float32) for _ in range(3))
        again_kernel.over(size)(a, b, c)
        assert (b == a + 1).all()
        assert (c == np.where(a > 3, 3 * a, 0)).all()
        # b is a: what an iteration reads after its store is new.
        a, c = (np.arange(size, dtype=np.float32) for _ in range(2))
        again_kernel.over(size)(a, a, c)
        first = np.arange(size)
        new = first + 1
        assert (a == new).all()
        assert (c == np.where(first > 3, 2 * first, first) + np.where(new > 3, new, -new)).all()


def test_iterations_gather_and_sum_with_atomics():
    @weft.kernel
    def histogram_kernel(index, table, counts):
        for i in weft.each(index.shape[0]):
            weft.atomic_add(counts, index[i], table[index[i]])

    for size in SIZES:
        index = (np.arange(size) % 5).astype(np.int32)
        counts = np.zeros(5, np.int32)
        histogram_kernel.over(size)(index, np.arange(5, dtype=np.int32), counts)
        assert (counts == np.bincount(index, minlength=5) * np.arange(5)).all()


def test_iterations_read_adjacent_elements():
    @weft.kernel
    def blur_kernel(a, b):
        for i in weft.each(a.shape[0] - 2):
            b[i] = a[i] + a[i + 1] + a[i + 2]

    for size in SIZES[2:]:
        a = np.arange(size, dtype=np.float32)
        b = np.zeros(max(size - 2, 0), np.float32)
        blur_kernel.over(size)(a, b)
        assert (b == 3 * a[1:-1]).all()


def test_arrays_that_are_only_read_may_overlap():
    @weft.kernel
    def differ_kernel(a, b, c):
        for i in weft.each(c.shape[0]):
            c[i] = a[i] - b[i]

    for size in SIZES[1:]:
        a = np.arange(size, dtype=np.float32) ** 2
        c = np.zeros(size - 1, np.float32)
        differ_kernel.over(size - 1)(a[1:], a[:-1], c)
        assert (c == np.diff(a)).all()


def test_two_dimensions_run_over_any_layout():
    @weft.kernel
    def bias_kernel(a, x, b):
        for i, j in weft.each(a.shape):
            b[i, j] = a[i, j] + x[j]

    @weft.kernel
    def copy_kernel(a, b):
        for index in weft.each(a.shape):
            b[index] = a[index]

    for shape in ((0, 3), (3, 0), (1, 1), (5, 7), (4, 64), (33, 31), (3, 1024)):
        rows, columns = shape
        width = 2 * (columns + 8)
        wide = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
        tall = np.arange(rows * columns, dtype=np.float32).reshape(columns, rows)
        inputs = (wide[:, :columns].copy(), wide[:, :columns], wide[:, 3 : 3 + columns], tall.T)
        inputs += (wide[:, 1 : 1 + 2 * columns : 2],)
        x = np.arange(columns, dtype=np.float32)
        for a in inputs:
            b = np.full(shape, -1, np.float32)
            bias_kernel.over(a.shape)(a, x, b)
            assert (b == a + x).all()
            b = np.full((rows, columns + 5), -1, np.float32)
            copy_kernel.over(a.shape)(a, b[:, :columns])
            assert (b[:, :columns] == a).all()
            assert (b[:, columns:] == -1).all()


def test_three_dimensions_and_a_shape_of_one():
    @weft.kernel
    def sum_kernel(a, b):
        for i, j, k in weft.each(a.shape):
            b[i, j, k] = a[i, j, k] + 100 * i + 10 * j + k

    @weft.kernel
    def plus_kernel(a, b):
        for index in weft.each(a.shape):
            b[index] = a[index] + 1

    for shape in ((2, 3, 4), (5, 1, 33), (1, 1, 1), (4, 0, 2), (3, 5, 16)):
        a = np.random.default_rng(0).integers(0, 99, shape).astype(np.int32)
        b = np.zeros_like(a)
        sum_kernel.over(shape)(a, b)
        i, j, k = np.indices(shape)
        assert (b == a + 100 * i + 10 * j + k).all()
        plus_kernel.over(shape)(a, b)
        assert (b == a + 1).all()
        flat = a.reshape(-1)
        plus_kernel.over(flat.shape)(flat, c := np.zeros_like(flat))
        assert (c == flat + 1).all()


def test_extents_may_be_of_any_kind_and_sign():
    @weft.kernel
    def part_kernel(a, n: weft.i64, m: weft.i32):
        for i in weft.each(n):
            a[i] += 1
        for i in weft.each(m):
            a[i] += 10
        for i in weft.each(3):
            a[i] += 100

    for n, m in ((5, 2), (-1, 4), (7, -3)):
        a = np.zeros(8, np.int32)
        part_kernel[2, 4](a, n, m)
        expected = np.zeros(8, np.int32)
        expected[: max(n, 0)] += 1
        expected[: max(m, 0)] += 10
        expected[:3] += 100
        assert (a == expected).all()


def test_extents_are_as_wide_as_an_i64_and_empty_rows_cost_nothing():
    @weft.kernel
    def mark_kernel(found, rows: weft.i64, columns: weft.i64):
        for i, j in weft.each((rows, columns)):
            if j == columns - 1:
                weft.atomic_add(found, 0, i)

    found = np.zeros(1, np.int64)
    mark_kernel[1, 1](found, 3, 1 << 20)
    assert found[0] == 3
    mark_kernel[4, 2](found, 0, 1 << 40)
    mark_kernel[4, 2](found, 1 << 40, 0)
    assert found[0] == 3


@pytest.mark.slow
@pytest.mark.parametrize("shape", [((1 << 16) + 1, 1 << 15), ((1 << 31) + (1 << 15),)], ids=str)
def test_more_iterations_than_an_i32_counts(shape):
    @weft.kernel
    def sum_kernel(a, found):
        for at in weft.each(a.shape):
            if a[at] != 0:
                weft.atomic_add(found, 0, weft.i32(a[at]))

    flat = np.zeros(math.prod(shape), np.uint8)  # memory that is only read is not taken
    powers = {0: 1, (1 << 31) - 1: 2, 1 << 31: 4, flat.size - 2: 8, flat.size - 1: 16}
    for place, power in powers.items():
        flat[place] = power
    found = np.zeros(1, np.int32)
    sum_kernel[8, 4](flat.reshape(shape), found)
    assert found[0] == sum(powers.values())


def test_an_array_shorter_than_the_iterations_is_named():
    a, b = np.zeros(12, np.float32), np.zeros(10, np.float32)
    with pytest.raises(AssertionError, match=r"weft.each: b.shape\[0\] >= a.shape\[0\]"):
        scale_kernel.over(12)(a, b, 1.0)
    scale_kernel.over(10)(b, a, 1.0)


def test_a_helper_and_shared_tables_serve_iterations():
    def squared(x):
        return x * x

    @weft.kernel
    def table_kernel(a, b):
        table = weft.shared(8, weft.f32)
        if weft.thread_idx.x < 8:
            table[weft.thread_idx.x] = squared(weft.f32(weft.thread_idx.x))
        weft.sync_threads()
        for i in weft.each(a.shape[0]):
            b[i] = table[a[i]]

    for size in SIZES:
        a, b = (np.arange(size) % 8).astype(np.int32), np.zeros(size, np.float32)
        table_kernel[3, 32](a, b)
        assert (b == (a * a)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_in_mixed_arithmetic(dtype):
    kind = np.dtype(dtype) if dtype == "float16" else np.dtype(ml_dtypes.bfloat16)

    @weft.kernel
    def mixed_kernel(a, b, c):
        for i in weft.each(a.shape[0]):
            c[i] = a[i] * b[i]

    for size in SIZES:
        a = (np.arange(size) % 17).astype(kind)
        b, c = np.full(size, 0.5, np.float32), np.zeros(size, np.float32)
        mixed_kernel.over(size)(a, b, c)
        assert (c == a.astype(np.float32) * b).all()


def test_events_around_a_loop_record_each_blocks_share():
    @weft.kernel
    def timed_kernel(a):
        p = weft.profiler.Profiler()
        p.init(0)
        with p.range("iterations"):
            for i in weft.each(a.shape[0]):
                a[i] = a[i] + 1

    a = np.zeros(1000, np.float32)
    with weft.profiler.capture() as trace:
        timed_kernel[3, 32](a)
    assert sorted(trace.spans()["block"]) == [0, 1, 2]
    assert (a == 1).all()


def test_a_grid_for_iterations_is_chosen_in_every_form_of_a_launch():
    class Filler:
        def __init__(self, value):
            self.value = value

        @weft.kernel
        def fill(self: weft.Constexpr, a):
            for index in weft.each(a.shape):
                a[index] = a[index] + self.value

    @weft.kernel
    def add_kernel(a, value: weft.f32):
        for index in weft.each(a.shape):
            a[index] = a[index] + value

    filler = Filler(5.0)

    @weft.jit
    def run(a: weft.Tensor[weft.f32, ("m", "n")]):
        add_kernel(a, 1.0).launch(over=a.shape)
        add_kernel(a, 1.0).launch(over=a.shape[0] * a.shape[1], block=64)
        add_kernel.over(a.shape)(a, 1.0)
        add_kernel.over(iterations=a.size)(a, value=1.0)
        filler.fill(a).launch(over=a.shape)
        filler.fill.over(a.shape)(a)
        filler.fill[2, 32](a)

    for shape in ((0, 3), (1, 1), (7, 300)):
        a = np.zeros(shape, np.float32)
        run(a)
        assert (a == 19).all()
        filler.fill.over(shape)(a)
        add_kernel.over(list(shape))(a, value=1.0)
        assert (a == 25).all()


@pytest.mark.parametrize(
    ("iterations", "error", "text"),
    [
        (1.5, TypeError, "expected a number of iterations or a tuple of them, received 1.5"),
        ((3, "n"), TypeError, "received (3, 'n')"),
        (True, TypeError, "received True"),
        (-1, ValueError, "-1 iterations, expected 0 to 2**63 - 1"),
        ((1 << 62, 4), ValueError, "expected 0 to 2**63 - 1"),
    ],
)
def test_a_number_of_iterations_is_checked(iterations, error, text):
    with pytest.raises(error) as caught:
        scale_kernel.over(iterations)
    assert text in str(caught.value)


@pytest.mark.parametrize("iterations", [0, (4, 0), 1])
def test_every_iteration_runs_whatever_a_launch_is_over(iterations):
    a, b = np.arange(300, dtype=np.int32), np.zeros(300, np.float32)
    scale_kernel.over(iterations)(a, b, 2.0)
    assert (b == 2 * a).all()


def test_iterations_before_and_after_a_barrier_of_the_grid():
    @weft.kernel
    def twice_kernel(a, b):
        for i in weft.each(a.shape[0]):
            b[i] = a[i] + 1
        weft.sync_grid()
        for i in weft.each(a.shape[0]):
            a[i] = b[a.shape[0] - 1 - i]

    @weft.jit
    def twice(a: weft.Tensor[weft.i32, ("n",)], b: weft.Tensor[weft.i32, ("n",)]):
        twice_kernel(a, b).launch(grid=3, block=64, cooperative=True)
        twice_kernel(a, b).launch(over=a.shape[0], cooperative=True)

    for size in SIZES:
        a, b = np.arange(size, dtype=np.int32), np.zeros(size, np.int32)
        twice(a, b)
        assert (a == np.arange(size) + 2).all()
