# SPDX-License-Identifier: Apache-2.0
"""Fragments: what `map`, `rows`, `cols` and `to` compute at each place, and how control flow carries them."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported
from tests.sampling import sampled
from weft.types.fragment_layout import FragmentLayout

OUT = weft.Tensor[weft.f32, (32, "n")]


def gathered(out, layout):
    """The tile that the rows of `out`, one per lane, hold."""
    tile = np.full(layout.shape, np.nan, out.dtype)
    for lane in range(32):
        for number, place in enumerate(layout.coordinates(lane)):
            tile[place] = out[lane, number]
    return tile


def run(body, shape, *numbers, dtype=np.float32):
    """The tile that `body(zeros, *numbers)` returns."""

    @weft.kernel
    def kernel(out: weft.Tensor, numbers):
        found = body(weft.mma.zeros(shape, weft.f32), *numbers)
        values = found.values
        for i in weft.static_range(len(values)):
            out[weft.thread_idx.x, i] = values[i]

    @weft.jit
    def host(out: weft.Tensor, numbers):
        kernel(out, numbers).launch(grid=1, block=32)

    layout = FragmentLayout(shape, 4, "mma", "c")
    out = np.zeros((32, layout.elements), dtype)
    host(out, numbers)
    return gathered(out, layout)


def places(shape):
    return np.indices(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(16, 8), (32, 24), (64, 32), (128, 64)])
def test_coordinates_are_rows_and_columns(shape):
    def body(zeros):
        return zeros.map(lambda x, row, column: x + 1000.0 * row + column, coordinates=True)

    rows, columns = places(shape)
    np.testing.assert_array_equal(run(body, shape), 1000 * rows + columns)


def test_values_of_rows_and_columns_are_broadcast():
    def body(zeros):
        rows, columns = zeros.rows(lambda row: row * row), zeros.cols(lambda column: column + 1)
        return zeros.map(lambda x, r, c: x + r * c, rows, columns)

    rows, columns = places((32, 16))
    np.testing.assert_array_equal(run(body, (32, 16)), rows**2 * (columns + 1))


def test_rows_and_columns_take_a_constant():
    def body(zeros):
        ones = zeros.rows(1.0).map(lambda one, row: one + row, zeros.rows(lambda row: row))
        return zeros.map(lambda x, one, two: x + one * two, ones, zeros.cols(2.0))

    rows, _ = places((16, 16))
    np.testing.assert_array_equal(run(body, (16, 16)), 2 * (rows + 1))


def test_functions_are_lambdas_builtins_operations_and_helpers():
    def shifted(x, by):
        if by > 2:
            return x - by
        return x + by

    def body(zeros, n):
        found = zeros.map(lambda x, row, column: row + column - 8.0, coordinates=True)
        found = found.map(max, zeros.rows(lambda row: row - 4.0)).map(abs).map(weft.math.exp2)
        return found.map(lambda x: shifted(x, n))

    rows, columns = places((16, 8))
    found = run(body, (16, 8), 3)
    expected = np.exp2(np.abs(np.maximum(rows + columns - 8, rows - 4))) - 3
    np.testing.assert_array_equal(found, expected)


def test_a_loop_carries_fragments_of_any_type_in_containers_too():
    class State(NamedTuple):
        total: object
        largest: object

    def body(zeros, n):
        state, flags = State(zeros, zeros.rows(float("-inf"))), zeros.to(weft.bf16)
        for i in range(n):
            new = state.largest.map(max, zeros.rows(lambda row, i=i: row * (i + 1) % 7))
            state = State(state.total.map(lambda t, x: t + x, new), new)
            if i % 2 == 0:
                flags = flags.map(lambda x: x + 0.5)
            i += 1
        while n > 0:
            state = State(state.total.map(lambda t: t + 1), state.largest)
            n -= 1
        return state.total.map(lambda t, f: t + weft.f32(f), flags.to(weft.f32))

    rows, _ = places((16, 8))
    largest, total = np.full_like(rows, -np.inf), np.zeros_like(rows)
    for i in range(5):
        largest = np.maximum(largest, rows * (i + 1) % 7)
        total += largest
    np.testing.assert_array_equal(run(body, (16, 8), 5), total + 5 + 1.5)


@pytest.mark.parametrize(
    ("dtype", "numpy"),
    [
        (weft.f16, np.float16),
        (weft.bf16, ml_dtypes.bfloat16),
        (weft.f64, np.float64),
        (weft.f8e4m3, ml_dtypes.float8_e4m3fn),
        (weft.f8e5m2, ml_dtypes.float8_e5m2),
        (weft.i8, np.int8),
        (weft.u8, np.uint8),
        (weft.i16, np.int16),
        (weft.i32, np.int32),
        (weft.u64, np.uint64),
        (weft.bool_, np.bool_),
    ],
)
def test_conversions_round_as_those_of_numbers(dtype, numpy):
    def body(zeros):
        found = zeros.map(lambda x, row, column: 0.3 * (24 * row + column), coordinates=True)
        return found.to(dtype).map(lambda x: x).to(weft.f32)

    rows, columns = places((16, 24))
    expected = np.float32(0.3) * (24 * rows + columns)
    np.testing.assert_array_equal(run(body, (16, 24)), expected.astype(numpy).astype(np.float32))


def test_a_map_reads_memory_and_what_is_outside_of_it():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor, factor: weft.f32):
        found = weft.mma.zeros((16, 8)).map(
            lambda x, row, column: a[row, column] * factor, coordinates=True
        )
        values = found.values
        for i in weft.static_range(len(values)):
            out[weft.thread_idx.x, i] = values[i]

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor, factor: weft.f32):
        kernel(a, out, factor).launch(grid=1, block=32)

    a = np.random.default_rng(1).random((16, 8), np.float32)
    out = np.zeros((32, 4), np.float32)
    host(a, out, 3.0)
    np.testing.assert_array_equal(gathered(out, FragmentLayout((16, 8), 4, "mma", "c")), a * 3)


def test_facts_are_constants():
    def body(zeros):
        weft.static_assert(zeros.shape == (32, 16) and zeros.dtype is weft.f32)
        weft.static_assert(zeros.layout.elements == 16 and zeros.layout.coordinates(0)[1] == (0, 1))
        weft.static_assert(isinstance(zeros, weft.Fragment) and not isinstance(1, weft.Fragment))
        return zeros

    assert not run(body, (32, 16)).any()


def test_reductions_of_rows_reach_all_threads_that_share_one():
    def body(zeros):
        found = zeros.map(
            lambda x, row, column: (row * 7 + column * 5) % 11 - 5.0, coordinates=True
        )
        largest, sums = found.row_max(), found.row_sum()
        partial = found.row_sum(partial=True).map(lambda x: x * 2).quad_sum()
        return zeros.map(lambda x, m, s, p: m * 10000 + s * 100 + p, largest, sums, partial)

    rows, columns = places((32, 40))
    values = (rows * 7 + columns * 5) % 11 - 5
    sums = values.sum(axis=1, keepdims=True)
    expected = np.broadcast_to(values.max(axis=1, keepdims=True) * 10000 + sums * 102, (32, 40))
    np.testing.assert_array_equal(run(body, (32, 40)), expected)


def test_sums_of_narrow_elements_are_wide():
    def body(zeros):
        sums = zeros.map(lambda x: x + 0.1).to(weft.bf16).row_sum()
        weft.static_assert(sums.dtype is weft.f32)
        return zeros.map(lambda x, s: s, sums)

    tenth = float(ml_dtypes.bfloat16(0.1))
    np.testing.assert_allclose(run(body, (16, 64)), 64 * tenth, rtol=1e-6)


@pytest.mark.parametrize(
    ("first", "last"), sampled([(0, 8), (8, 24), (16, 48), (0, 48)], 2, several=True)
)
@pytest.mark.parametrize("dtype", [weft.f32, weft.bf16, weft.i8])
def test_columns_are_parts_of_the_fragment(first, last, dtype):
    def body(zeros):
        found = zeros.map(lambda x, row, column: row + column, coordinates=True).to(dtype)
        part = found[:, first:last]
        weft.static_assert(part.shape == (32, last - first))
        return part.to(weft.f32).map(lambda x, row, column: x * 100 + column, coordinates=True)

    @weft.kernel
    def kernel(out: weft.Tensor):
        body(weft.mma.zeros((32, 48), weft.f32)).store(out)

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out).launch(grid=1, block=32)

    out = np.zeros((32, last - first), np.float32)
    host(out)
    rows, columns = places(out.shape)
    np.testing.assert_array_equal(out, (rows + columns + first) * 100 + columns)


def test_a_result_is_the_left_operand_of_the_next_product():
    @weft.kernel
    def kernel(out: weft.Tensor):
        ones = weft.shared((32, 16), weft.bf16)
        for row in range(32):
            if weft.lane_id() < 16:
                ones[row, weft.lane_id()] = weft.bf16(row % 3)
        weft.sync_warp()
        found = weft.mma.zeros((16, 32)).map(lambda x, row, column: row + column, coordinates=True)
        left = found.to(weft.bf16).as_operand_a()
        weft.mma.mma(left, weft.mma.load_b(ones), weft.mma.zeros((16, 16))).store(out)

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out).launch(grid=1, block=32)

    out = np.zeros((16, 16), np.float32)
    host(out)
    rows, columns = places((16, 32))
    right = np.broadcast_to(np.arange(32)[:, None] % 3, (32, 16))
    np.testing.assert_array_equal(out, (rows + columns) @ right)


@functools.cache
def moving():
    """Loads, stores and adds a fragment at a place; compiled once for each type."""

    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor, total: weft.Tensor, row: weft.i32, column: weft.i32):
        found = weft.mma.zeros((32, 48)).load(a, (row, column))
        found.store(b, (row, column))
        found.to(weft.f32).map(lambda x: x + 1).red_add(total, (row, column))
        weft.mma.zeros((32, 48)).map(lambda x: x + 1).red_add(total, (row, column))

    @weft.jit
    def host(a: weft.Tensor, b: weft.Tensor, total: weft.Tensor, row: weft.i32, column: weft.i32):
        kernel(a, b, total, row, column).launch(grid=1, block=32)

    return host


@pytest.mark.joined
@pytest.mark.parametrize("shape", [(40, 56), (32, 48), (20, 48), (40, 47), (19, 33)])
@pytest.mark.parametrize("place", [(0, 0), (3, 8), (5, 1)])
@pytest.mark.parametrize("dtype", [weft.bf16, weft.f32, weft.f64, weft.i8])
def test_stores_and_loads_leave_out_what_the_tensor_does_not_have(shape, place, dtype):
    numpy = {weft.bf16: ml_dtypes.bfloat16, weft.i8: np.int8, weft.f64: np.float64}
    a = np.random.default_rng(3).integers(-9, 9, shape).astype(numpy.get(dtype, np.float32))
    b, total = np.zeros_like(a), np.zeros(shape, np.float32)
    moving()(a, b, total, *place)
    expected, sums = np.zeros_like(a), np.zeros(shape, np.float32)
    part = np.s_[place[0] : place[0] + 32, place[1] : place[1] + 48]
    expected[part] = a[part]
    sums[part] = a[part].astype(np.float32) + 2
    np.testing.assert_array_equal(b, expected)
    np.testing.assert_array_equal(total, sums)


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize(
    "place", sampled([(-3, 0), (-40, 0), (0, 60), (0, -3), (-70, -50), (0, 0), (3, 8)], 6)
)
@pytest.mark.parametrize("unit", [weft.mma, weft.wgmma])
@pytest.mark.parametrize("way", ["store", "red_add"])
def test_constant_places_before_and_beyond_the_edges_are_left_out(is_static, place, unit, way):
    rows, columns = shape = (64, 48)
    annotation = weft.Tensor[weft.f32, shape] if is_static else weft.Tensor

    @weft.kernel
    def kernel(a: annotation, b: annotation):
        f = (unit.zeros if unit is weft.mma else unit.accumulator)(shape, weft.f32).load(a, place)
        if way == "store":
            f.store(b, place)
        else:
            f.red_add(b, place)

    @weft.jit
    def host(a: annotation, b: annotation):
        kernel(a, b).launch(grid=1, block=128)

    a, whole = np.full(shape, 2.0, np.float32), np.full((rows + 256, columns), 5.0, np.float32)
    expected = whole.copy()
    inside = expected[128 : 128 + rows]
    part = tuple(
        slice(max(0, one), max(0, size + min(0, one)))
        for one, size in zip(place, shape, strict=True)
    )
    warps = 1 if unit is weft.wgmma else 4
    inside[part] = 2.0 if way == "store" else 5.0 + 2.0 * warps
    host(a, whole[128 : 128 + rows])
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize(
    ("swizzle", "dtype", "transposed"),
    sampled(
        itertools.product([None, 32, 64, 128], [weft.bf16, weft.f32], [False, True]),
        6,
        several=True,
    ),
)
def test_stores_into_tiles_go_where_elements_are(swizzle, dtype, transposed):
    @weft.kernel
    def kernel(out: weft.Tensor):
        tiles = weft.shared((2, 64, 64), dtype, swizzle=swizzle)
        tile = tiles[1].T if transposed else tiles[1]
        found = weft.mma.zeros((32, 64)).map(
            lambda x, row, column: row + column * 2, coordinates=True
        )
        for part in weft.static_range(2):
            found.to(dtype).store(tile.tile((32, 64), (part, 0)))
        weft.sync_warp()
        back = found.load(tile.tile((32, 64), (1, 0)))
        for i in range(64):
            row, column = weft.lane_id(), i
            out[row, column] = weft.f32(tile[row, column])
            out[row + 32, column] = weft.f32(tile[row + 32, column])
        weft.sync_warp()
        back.to(weft.f32).red_add(out, (0, 0))

    @weft.jit
    def host(out: weft.Tensor):
        kernel(out).launch(grid=1, block=32)

    out = np.zeros((64, 64), np.float32)
    host(out)
    rows, columns = places((32, 64))
    values = rows + columns * 2
    np.testing.assert_array_equal(out, np.concatenate([2 * values, values]))


def elementwise(function, shape, dtype, unit="mma"):
    """What `function(fragment, values of rows, values of columns)` makes of `a`, on the CPU and as NumPy's."""
    threads = 32 if unit == "mma" else 128

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        make = weft.mma.zeros if unit == "mma" else weft.wgmma.zeros
        tile = make(shape, weft.f32).load(a).to(dtype)
        rows, columns = tile.rows(lambda row: row - 8), tile.cols(lambda column: column - 8)
        function(tile, rows, columns).to(weft.f32).store(out)

    @weft.jit
    def host(a: weft.Tensor[weft.f32, shape], out: weft.Tensor[weft.f32, shape]):
        kernel(a, out).launch(grid=1, block=threads)

    return host


RELU = {
    "where": (lambda f, r, c: weft.where(f > 0, f, 0), lambda f, r, c: np.where(f > 0, f, 0)),
    "row": (lambda f, r, c: weft.where(f <= r, f, c), lambda f, r, c: np.where(f <= r, f, c)),
    "both": (
        lambda f, r, c: weft.where((f > -4) & (r != c), f, -f),
        lambda f, r, c: np.where((f > -4) & (r != c), f, -f),
    ),
    "else": (
        lambda f, r, c: weft.where((f == 2) == False, f, 100),  # noqa: E712
        lambda f, r, c: np.where(f == 2, 100, f),
    ),
    "max": (lambda f, r, c: max(f, r, 0), lambda f, r, c: np.maximum(np.maximum(f, r), 0)),
    "abs": (lambda f, r, c: abs(min(f, c)), lambda f, r, c: np.abs(np.minimum(f, c))),
    "math": (
        lambda f, r, c: weft.math.fma(weft.math.floor(f), 2.0, weft.math.max(x=r, y=f)),
        lambda f, r, c: 2 * f + np.maximum(r, f),
    ),
    "power": (lambda f, r, c: pow(f, 2), lambda f, r, c: f * f),
    "number": (
        lambda f, r, c: weft.where(weft.block_idx.x == 0, f, r),
        lambda f, r, c: f,
    ),
}


@pytest.mark.parametrize(
    ("dtype", "unit"),
    sampled(
        [
            *((weft.f32, "wgmma"), (weft.f32, "mma"), (weft.f16, "mma"), (weft.f16, "wgmma")),
            *((weft.bf16, "mma"), (weft.bf16, "wgmma")),
        ],
        2,
        several=True,
    ),
    ids=str,
)
@pytest.mark.parametrize("name", sampled(RELU, 2))
def test_functions_of_numbers_are_computed_at_each_place(name, dtype, unit):
    shape = (32, 24) if unit == "mma" else (64, 24)
    a = np.random.default_rng(4).integers(-6, 7, shape).astype(np.float32)
    rows, columns = np.arange(shape[0])[:, None] - 8, np.arange(shape[1])[None] - 8
    out = np.full(shape, 77, np.float32)
    ours, numpys = RELU[name]
    elementwise(ours, shape, dtype, unit)(a, out)
    np.testing.assert_array_equal(out, np.broadcast_to(numpys(a, rows, columns), shape))


def test_a_mask_is_carried_and_used_after_its_fragment_has_changed():
    """Truths are those of the line that compared, however late they are used."""

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        tile = weft.mma.zeros((16, 8)).load(a)
        mask = tile > 2
        for i in range(weft.block_dim.x // 8):
            mask = mask & (tile != i + 3)
            tile = weft.where(mask, tile * 2, tile)
        weft.where(mask, tile, -1).store(out)

    @weft.jit
    def host(a: weft.Tensor[weft.f32, (16, 8)], out: weft.Tensor[weft.f32, (16, 8)]):
        kernel(a, out).launch(grid=1, block=32)

    a = np.random.default_rng(4).integers(-6, 7, (16, 8)).astype(np.float32)
    out, expected = np.zeros_like(a), a.copy()
    mask = expected > 2
    for i in range(4):
        mask &= expected != i + 3
        expected = np.where(mask, 2 * expected, expected)
    host(a, out)
    np.testing.assert_array_equal(out, np.where(mask, expected, -1))


def test_a_mask_of_sums_is_used_after_they_are_used_up():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        left = weft.shared((64, 64), weft.bf16, swizzle=128)
        right = weft.shared((16, 64), weft.bf16, swizzle=128)
        for i in range(weft.thread_idx.x, 64 * 64, 128):
            left[i // 64, i % 64] = a[i // 64, i % 64]
            right[i // 64 % 16, i % 64] = a[i // 64 % 16, i % 64]
        weft.fence_proxy()
        weft.sync_threads()
        acc = weft.wgmma.wait(weft.wgmma.mma(left, right.T))
        mask = acc > 0
        acc = weft.wgmma.wait(weft.wgmma.mma(left, right.T, acc))
        weft.where(mask, acc, -1).store(out)

    @weft.jit
    def host(a: weft.Tensor[weft.f32, (64, 64)], out: weft.Tensor[weft.f32, (64, 16)]):
        kernel(a, out).launch(grid=1, block=128)

    a = np.random.default_rng(4).integers(-3, 4, (64, 64)).astype(np.float32)
    out = np.zeros((64, 16), np.float32)
    host(a, out)
    once = a @ a[:16].T
    np.testing.assert_array_equal(out, np.where(once > 0, 2 * once, -1))


@pytest.mark.parametrize("unit", ["mma", "wgmma"])
@pytest.mark.parametrize(
    ("role", "dtype"),
    sampled(
        [
            ("c", weft.f32),
            ("c", weft.bf16),
            ("a", weft.f16),
            ("c", weft.f8e5m2),
            ("a", weft.f8e5m2),
        ],
        2,
        several=True,
    ),
    ids=str,
)
def test_pairs_of_adjacent_elements_are_mapped(role, dtype, unit):
    """Swapped, with what depends on rows and columns added; each pair once."""
    shape = (32, 64) if unit == "mma" else (64, 32)
    threads = 32 if unit == "mma" else 128

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        make = weft.mma.from_values if unit == "mma" else weft.wgmma.from_values
        tile = make(shape, lambda row, column: a[row, column], weft.f32).to(dtype)
        if role == "a":
            tile = tile.as_operand_a()

        def swapped(x, y, row, same, scale, number, at, column):
            x, y = y * scale + (row + number), x - (same + column // 2 % 2 + at % 2)
            return dtype(x), dtype(y)

        rows = tile.rows(lambda row: dtype(row % 3))
        tile.map(swapped, rows, dtype(-1), dtype(1), coordinates=True, pairs=True).store(out)

    @weft.jit
    def host(a: weft.Tensor[weft.f32, shape], out: weft.Tensor[dtype, shape]):
        kernel(a, out).launch(grid=1, block=threads)

    a = np.random.default_rng(0).integers(-2, 3, shape).astype(np.float32)
    out = np.zeros(shape, NUMPY_TYPES[dtype])
    row = np.arange(shape[0])[:, None]
    expected = np.zeros(shape, np.float32)
    expected[:, ::2] = -a[:, 1::2] + row % 3 + 1
    expected[:, 1::2] = a[:, ::2] - (row % 3 + np.arange(shape[1] // 2) % 2 + row % 2)
    host(a, Exported(out))
    np.testing.assert_array_equal(out.astype(np.float32), expected)


@pytest.mark.parametrize("columns", [False, True])
def test_pairs_of_rows_and_columns(columns):
    """Of an operand b a pair is two rows of a column; values of columns come in pairs, too."""

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        if columns:
            tile = weft.mma.zeros((32, 16)).cols(lambda column: a[0, column])
        else:
            tile = weft.mma.from_values((32, 16), lambda row, column: a[row, column], weft.f16, "b")
        found = tile.map(lambda x, y: (y, x + 1), pairs=True)
        if columns:
            found.store(out[0])
        else:
            found.store(out)

    @weft.jit
    def host(a: weft.Tensor[weft.f16, (32, 16)], out: weft.Tensor[weft.f16, (32, 16)]):
        kernel(a, out).launch(grid=1, block=32)

    a = np.random.default_rng(0).integers(-9, 9, (32, 16)).astype(np.float16)
    host(a, out := np.zeros((32, 16), np.float16))
    expected = np.zeros_like(a)
    if columns:
        expected[0, ::2], expected[0, 1::2] = a[0, 1::2], a[0, ::2] + 1
    else:
        expected[::2], expected[1::2] = a[1::2], a[::2] + 1
    np.testing.assert_array_equal(out, expected)


def held(fragment, shape, dtype, role, values, block=32, rows=32):
    """Elements of `fragment(shape, values, dtype, role)` that each thread holds, after one call with its own values."""
    layout = FragmentLayout(shape, dtype.itemsize, "mma" if block == 32 else "wgmma", role)

    @weft.kernel
    def kernel(given: weft.Tensor, out: weft.Tensor):
        thread = weft.thread_idx.x
        mine = [given[thread, i] for i in weft.static_range(values.shape[1])]
        found = fragment(shape, tuple(mine), dtype, role).values
        for i in weft.static_range(len(found)):
            out[thread, i] = weft.f32(found[i])

    @weft.jit
    def host(given: weft.Tensor, out: weft.Tensor):
        kernel(given, out).launch(grid=1, block=block)

    out = np.zeros((block, layout.elements), np.float32)
    host(values, out)
    return out


@pytest.mark.parametrize(("role", "shape"), [("a", (32, 32)), ("b", (32, 24)), ("c", (32, 32))])
@pytest.mark.parametrize("dtype", sampled([weft.bf16, weft.f8e4m3, weft.f32], 2))
def test_a_fragment_of_values_and_of_registers_holds_them(role, shape, dtype):
    layout = FragmentLayout(shape, dtype.itemsize, "mma", role)
    numpy = {weft.bf16: ml_dtypes.bfloat16, weft.f8e4m3: ml_dtypes.float8_e4m3fn}.get(dtype)
    values = np.random.default_rng(0).standard_normal((32, layout.elements)).astype(numpy or "f4")
    expected = values.astype(np.float32)
    found = held(weft.mma.from_values, shape, dtype, role, expected)
    np.testing.assert_array_equal(found, expected)
    if dtype is weft.f32:
        return
    words = np.ascontiguousarray(values).view(np.uint32)
    np.testing.assert_array_equal(held(weft.mma.from_values, shape, dtype, role, words), expected)


@pytest.mark.parametrize("role", ["a", "c"])
def test_a_warpgroups_fragment_of_registers_holds_them(role):
    layout = FragmentLayout((128, 32), 2, "wgmma", role)
    values = np.random.default_rng(0).standard_normal((128, layout.elements))
    values = values.astype(ml_dtypes.bfloat16)
    found = held(
        weft.wgmma.from_values, (128, 32), weft.bf16, role, values.view(np.uint32), block=128
    )
    np.testing.assert_array_equal(found, values.astype(np.float32))


def test_operands_of_a_function_of_row_and_column_multiply():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        left = weft.mma.from_values((16, 32), lambda row, column: a[row, column], weft.bf16, "a")
        right = weft.mma.from_values((32, 8), lambda row, column: row == column, weft.bf16, "b")
        weft.mma.mma(left, right, weft.mma.full((16, 8), 1.0)).store(out)

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=32)

    a = np.random.default_rng(0).integers(-8, 8, (16, 32)).astype(np.float32)
    host(a, out := np.zeros((16, 8), np.float32))
    np.testing.assert_array_equal(out, a[:, :8] + 1)


def test_registers_of_operands_are_elements_of_another_type():
    def swapped(word):
        return word << 16 | word >> 16

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        left = weft.mma.from_values((16, 16), lambda i, j: a[i, j], weft.bf16, "a")
        words = left.bitcast(weft.u32)
        weft.static_assert(words.shape == (16, 8) and words.dtype is weft.u32)
        weft.static_assert(left.bitcast(weft.u8).shape == (16, 32))
        left = words.map(swapped).bitcast(weft.bf16)
        left.store(out)

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=32)

    a = np.random.default_rng(0).standard_normal((16, 16)).astype(ml_dtypes.bfloat16)
    host(a, out := np.zeros_like(a))
    np.testing.assert_array_equal(out, a.reshape(16, 8, 2)[:, :, ::-1].reshape(16, 16))


def test_registers_are_packed_elements_and_tuples_bitcast_to_them():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        half = weft.mma.zeros((16, 16)).load(a).to(weft.bf16)
        values, words = half.values, half.registers
        for i in weft.static_range(len(words)):
            pair = values[2 * i], values[2 * i + 1]
            low, high = weft.bitcast((words[i],), weft.bf16)
            same = (weft.bitcast(pair, weft.u32) == words[i]) & (low == pair[0]) & (high == pair[1])
            out[weft.thread_idx.x, i] = weft.i32(same)
        four = weft.bitcast((words[0], words[1]), weft.u8)
        whole = weft.bitcast(four, weft.u64)
        out[weft.thread_idx.x, 4] = weft.i32(weft.u32(whole) == words[0]) & weft.i32(
            weft.u32(whole >> 32) == words[1]
        )

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=32)

    a = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    host(a, out := np.zeros((32, 5), np.int32))
    assert out.all()


def test_operators_are_elementwise_and_take_row_and_column_values():
    def body(zeros, alpha):
        x = zeros.map(lambda x, row, column: row + 0.5 * column, coordinates=True)
        y = x * alpha + zeros.rows(lambda row: row) - 2.0 * zeros.cols(lambda column: column)
        y += x * x
        y -= 1
        return -y / (zeros.cols(lambda column: column + 1.0) * 2.0) + alpha // 2 + (3.0 - y)

    rows, columns = places((32, 16))
    x = rows + np.float32(0.5) * columns
    y = x * 3 + rows - 2 * columns + x * x - 1
    expected = -y / (2 * (columns + 1)) + 1 + (3 - y)
    np.testing.assert_allclose(run(body, (32, 16), 3.0), expected, rtol=1e-6)


def test_operators_of_integers_shift_and_mask():
    def body(zeros):
        x = zeros.map(lambda x, row, column: 16 * row + column, coordinates=True)
        return ((x >> 2) & 0x0F | 64) ^ 1 | x % 4

    rows, columns = np.indices((16, 8))
    x = 16 * rows + columns
    expected = ((x >> 2) & 0x0F | 64) ^ 1 | x % 4
    np.testing.assert_array_equal(run(body, (16, 8), dtype=np.int32), expected)


def test_a_product_and_a_sum_of_one_expression_round_once():
    def body(zeros, alpha, beta):
        return zeros.map(lambda x: alpha) * beta - 1.0

    alpha = np.float32(1 + 2**-12)
    expected = np.float32(float(alpha) * float(alpha) - 1)
    assert (run(body, (16, 8), float(alpha), float(alpha)) == expected).all()


REDUCTIONS = {
    "row_min": (lambda f: f.row_min(), np.min, True),
    "row_max": (lambda f: f.row_max(), np.max, True),
    "row_sum": (lambda f: f.row_sum(), np.sum, True),
    "row_reduce": (lambda f: f.row_reduce(lambda x, y: x * y), np.prod, True),
    "col_min": (lambda f: f.col_min(), np.min, False),
    "col_max": (lambda f: f.col_max(), np.max, False),
    "col_sum": (lambda f: f.col_sum(), np.sum, False),
    "col_reduce": (lambda f: f.col_reduce(lambda x, y: x * y), np.prod, False),
}


@pytest.mark.parametrize("shape", sampled([(48, 40), (16, 8), (128, 32)], 3))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_rows_and_columns_are_stored_once(name, shape):
    reduction, numpy, is_row = REDUCTIONS[name]

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor, total: weft.Tensor, first: weft.i32):
        acc = weft.mma.zeros(shape).load(a)
        found = reduction(acc)
        found.store(out, first)
        found.red_add(total)
        found.red_add(total)

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor, total: weft.Tensor, first: weft.i32):
        kernel(a, out, total, first).launch(grid=1, block=32)

    a = np.random.default_rng(0).integers(1, 3, shape).astype(np.float32)
    expected = numpy(a, axis=1 if is_row else 0)
    out, total = np.zeros(len(expected) + 1, np.float32), np.zeros(len(expected), np.float32)
    host(a, out, total, 3)
    np.testing.assert_array_equal(out[3:], expected[:-2])
    assert not out[:3].any()
    np.testing.assert_array_equal(total, 2 * expected)


def test_a_warpgroups_rows_and_columns_are_reduced():
    @weft.kernel
    def kernel(a: weft.Tensor, rows: weft.Tensor, columns: weft.Tensor, numbers: weft.Tensor):
        acc = weft.wgmma.full((128, 24), 1.0)
        acc = acc + acc.load(a)
        acc.row_reduce(max).store(rows)
        acc.col_sum(per_warp=True).red_add(columns)
        acc.cols(lambda column: column).store(numbers)

    @weft.jit
    def host(a: weft.Tensor, rows: weft.Tensor, columns: weft.Tensor, numbers: weft.Tensor):
        kernel(a, rows, columns, numbers).launch(grid=1, block=128)

    a = np.random.default_rng(0).integers(-9, 9, (128, 24)).astype(np.float32)
    rows, columns, numbers = (np.zeros(n, t) for n, t in ((128, "f4"), (24, "f4"), (24, "i4")))
    host(a, rows, columns, numbers)
    np.testing.assert_array_equal(rows, a.max(1) + 1)
    np.testing.assert_array_equal(columns, a.sum(0) + 128)
    np.testing.assert_array_equal(numbers, np.arange(24))


@pytest.mark.parametrize("columns", sampled([8, 24, 136], 2))
@pytest.mark.parametrize("name", [name for name in REDUCTIONS if name.startswith("col")])
def test_the_columns_of_warpgroups_are_reduced_through_scratch(name, columns):
    """Two warpgroups, each through its own part of an array, twice."""
    method, numpy = name, REDUCTIONS[name][1]
    shape = 128, columns

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor, scaled: weft.Tensor):
        group = weft.warpgroup_id()
        own = weft.shared((2, 4, columns), weft.f32)[group]
        acc = weft.wgmma.zeros(shape).load(a, (128 * group, 0))
        if method == "col_reduce":
            found = acc.col_reduce(lambda x, y: x * y, scratch=own)
        else:
            found = getattr(acc, method)(scratch=own)
        (acc * found).store(scaled, (128 * group, 0))
        if method == "col_reduce":
            again = (acc + acc).col_reduce(max, scratch=own)
        else:
            again = getattr(acc + acc, method)(scratch=own)
        (again - found).store(out[group])

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor, scaled: weft.Tensor):
        kernel(a, out, scaled).launch(grid=1, block=256)

    a = np.random.default_rng(0).integers(1, 3, (256, columns)).astype(np.float32)
    a[3:] = np.where(np.arange(3, 256)[:, None] % 16, 1, a[3:])  # so that products are exact
    out, scaled = np.zeros((2, columns), np.float32), np.zeros_like(a)
    host(a, out, scaled)
    for group in range(2):
        own = a[128 * group :][:128]
        found = numpy(own, axis=0)
        again = (2 * own).max(0) if name == "col_reduce" else numpy(2 * own, axis=0)
        np.testing.assert_array_equal(out[group], again - found)
        np.testing.assert_array_equal(scaled[128 * group :][:128], own * found)


@pytest.mark.parametrize("shape", sampled([(16, 32), (48, 96)], 2))
@pytest.mark.parametrize(
    ("dtype", "numpy"),
    [(weft.f8e4m3, ml_dtypes.float8_e4m3fn), (weft.i8, np.int8), (weft.bf16, ml_dtypes.bfloat16)],
)
def test_a_result_of_8_or_16_bits_is_a_left_operand(dtype, numpy, shape):
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        weft.mma.zeros(shape).load(a).to(dtype).as_operand_a().store(out)

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=32)

    a = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    host(a, out := np.zeros(shape, numpy))
    np.testing.assert_array_equal(out.astype(np.float32), a.astype(numpy).astype(np.float32))


@pytest.mark.parametrize("dtype", sampled([np.float32, ml_dtypes.bfloat16, np.float64, np.int8], 2))
@pytest.mark.parametrize("place", [(0, 0), (5, 8), (-3, -8), (1, 3)])
def test_what_lies_outside_of_a_tensor_is_loaded_as_zero(dtype, place):
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor, row: weft.i32, column: weft.i32):
        weft.mma.zeros((32, 40)).load(a, (row, column)).store(out)

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor, row: weft.i32, column: weft.i32):
        kernel(a, out, row, column).launch(grid=1, block=32)

    a = np.random.default_rng(0).integers(-99, 99, (32, 40)).astype(dtype)
    host(a, out := np.zeros((32, 40), dtype), *place)
    wide = np.zeros((96, 120), dtype)
    wide[32:64, 40:80] = a
    row, column = 32 + place[0], 40 + place[1]
    np.testing.assert_array_equal(out, wide[row : row + 32, column : column + 40])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("shape", "dtype", "sums"),
    [
        ((16, 16), weft.bf16, weft.f32),
        ((48, 32), weft.bf16, weft.f32),
        ((32, 64), weft.i8, weft.i32),
        ((96, 32), weft.f8e4m3, weft.f32),
    ],
    ids=str,
)
def test_a_result_is_the_right_operand_of_the_next_product(shape, dtype, sums, transposed):
    depth, columns = shape[::-1] if transposed else shape

    @weft.kernel
    def kernel(a: weft.Tensor, c: weft.Tensor, out: weft.Tensor):
        left = weft.mma.from_values((16, depth), lambda i, j: dtype(a[i, j]), dtype, "a")
        right = weft.mma.zeros(shape).load(c).to(dtype).as_operand_b(transposed=transposed)
        found = weft.mma.mma(left, right, weft.mma.zeros((16, columns), sums))
        found.to(weft.f32).store(out)

    @weft.jit
    def host(a: weft.Tensor, c: weft.Tensor, out: weft.Tensor):
        kernel(a, c, out).launch(grid=1, block=32)

    random = np.random.default_rng(0)
    a, c = (random.integers(-8, 8, one).astype(np.float32) for one in ((16, depth), shape))
    host(a, c, out := np.zeros((16, columns), np.float32))
    np.testing.assert_array_equal(out, a @ (c.T if transposed else c))


@pytest.mark.parametrize("swizzle", [None, 32])
def test_tiles_of_bytes_are_loaded_across_and_stored(swizzle):
    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor, copy: weft.Tensor):
        left_tile = weft.shared((64, 32), weft.i8, swizzle=swizzle)
        right_tile = weft.shared((64, 32), weft.i8, swizzle=swizzle)
        along_k = weft.shared((32, 64), weft.i8, swizzle=swizzle)
        for i in range(weft.lane_id(), 64 * 32, 32):
            left_tile[i // 32, i % 32] = a[i // 32, i % 32]
            right_tile[i // 32, i % 32] = b[i // 32, i % 32]
        weft.sync_warp()
        left, right = weft.mma.load_a(left_tile.T), weft.mma.load_b(right_tile)
        weft.mma.mma(left, right, weft.mma.zeros((32, 32), weft.i32)).store(out)
        left.store(along_k)
        weft.sync_warp()
        for i in range(weft.lane_id(), 64 * 32, 32):
            copy[i // 64, i % 64] = along_k[i // 64, i % 64]

    @weft.jit
    def host(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor, copy: weft.Tensor):
        kernel(a, b, out, copy).launch(grid=1, block=32)

    random = np.random.default_rng(0)
    a, b = (random.integers(-128, 128, (64, 32)).astype(np.int8) for _ in range(2))
    host(a, b, out := np.zeros((32, 32), np.int32), copy := np.zeros((32, 64), np.int8))
    np.testing.assert_array_equal(out, a.T.astype(np.int32) @ b)
    np.testing.assert_array_equal(copy, a.T)
