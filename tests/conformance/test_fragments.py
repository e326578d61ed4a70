# SPDX-License-Identifier: Apache-2.0
"""Fragments: what `map`, `rows`, `cols` and `to` compute at each place, and how control flow carries them."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import weft
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


def test_rows_and_columns_take_a_constant_and_are_mapped_themselves():
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
