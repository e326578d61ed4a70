# SPDX-License-Identifier: Apache-2.0
"""mma against NumPy: every type, several tiles along each dimension."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft.types.fragment_layout import FragmentLayout

NUMPY = {
    weft.bf16: ml_dtypes.bfloat16,
    weft.f16: np.float16,
    weft.f32: np.float32,
    weft.f64: np.float64,
    weft.i8: np.int8,
    weft.u8: np.uint8,
    weft.i32: np.int32,
    weft.f8e4m3: ml_dtypes.float8_e4m3fn,
    weft.f8e5m2: ml_dtypes.float8_e5m2,
}


def product(a_type, b_type, sums, shape):
    """A host function of a, b (row-major) and out, with one row of `out` for each lane."""
    rows, columns, depth = shape

    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
        a_tile, b_tile = weft.shared((rows, depth), a_type), weft.shared((depth, columns), b_type)
        for i in range(rows * depth // 32):
            row, column = divmod(32 * i + weft.thread_idx.x, depth)
            a_tile[row, column] = a[row, column]
        for i in range(depth * columns // 32):
            row, column = divmod(32 * i + weft.thread_idx.x, columns)
            b_tile[row, column] = b[row, column]
        weft.sync_warp()
        acc = weft.mma.zeros((rows, columns), sums)
        acc = weft.mma.mma(weft.mma.load_a(a_tile), weft.mma.load_b(b_tile), acc)
        values = acc.map(lambda x: x + 1).values
        for i in weft.static_range(len(values)):
            out[weft.thread_idx.x, i] = values[i]

    @weft.jit
    def host(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
        kernel(a, b, out).launch(grid=1, block=32)

    return host


def numbers(dtype, shape, seed):
    generator = np.random.default_rng(seed)
    low = 0 if dtype is weft.u8 else -8
    return generator.integers(low, 9, shape).astype(NUMPY[dtype])


TYPES = [
    (weft.bf16, weft.bf16, weft.f32),
    (weft.f16, weft.f16, weft.f32),
    (weft.f16, weft.f16, weft.f16),
    (weft.f32, weft.f32, weft.f32),
    (weft.f64, weft.f64, weft.f64),
]


@pytest.mark.parametrize(
    ("types", "shape"),
    [
        *sampled(
            itertools.product(TYPES, [(16, 8, 16), (32, 24, 16), (16, 40, 48), (64, 16, 32)]),
            3,
            several=True,
        ),
        ((weft.f8e4m3, weft.f8e5m2, weft.f16), (32, 48, 64)),
    ],
    ids=str,
)
def test_products_are_those_of_numpy(types, shape):
    rows, columns, depth = shape
    a, b = numbers(types[0], (rows, depth), 1), numbers(types[1], (depth, columns), 2)
    layout = FragmentLayout((rows, columns), types[2].itemsize, "mma", "c")
    out = np.zeros((32, layout.elements), NUMPY[types[2]])
    product(*types, shape)(a, b, out)
    expected = (a.astype(np.float64) @ b.astype(np.float64) + 1).astype(out.dtype)
    for lane in range(32):
        for number, place in enumerate(layout.coordinates(lane)):
            assert out[lane, number] == expected[place]


def test_f32_operands_are_tf32_whose_last_13_bits_do_not_count():
    a = np.full((16, 8), 1 + 2**-10 + 2**-11, np.float32)
    b = np.zeros((8, 8), np.float32)
    b[0] = 1
    out = np.zeros((32, 4), np.float32)
    product(weft.f32, weft.f32, weft.f32, (16, 8, 8))(a, b, out)
    np.testing.assert_array_equal(out, 2 + 2.0**-10)


def test_integer_sums_wrap_and_float_sums_follow_k():
    a, b = np.ones((16, 16), np.float16), np.zeros((16, 8), np.float16)
    b[:3] = [[2048], [1], [-2048]]
    out = np.zeros((32, 4), np.float32)
    product(weft.f16, weft.f16, weft.f32, (16, 8, 16))(a, b, out)
    np.testing.assert_array_equal(out, 2.0)


@pytest.mark.parametrize(("dtype", "step"), [(weft.f16, 16), (weft.f8e5m2, 32)])
def test_sums_in_f16_are_rounded_after_each_instruction(dtype, step):
    """2048 + 1 is 2048 in f16, twice; two ones in one instruction make 2050. The kernel adds 1, to 2048 and 2052."""
    a, b = np.ones((16, 3 * step), NUMPY[dtype]), np.zeros((3 * step, 16), NUMPY[dtype])
    b[0], b[step, 0], b[2 * step, 0], b[step : step + 2, 1] = 2048, 1, 1, 1
    out = np.zeros((32, 8), np.float16)
    product(dtype, dtype, weft.f16, (16, 16, 3 * step))(a, b, out)
    np.testing.assert_array_equal(out[0, :2], [2048, 2052])


@pytest.mark.parametrize("dtype", [weft.f8e4m3, weft.f8e5m2], ids=str)
def test_sums_in_f16_of_8_bit_floats_are_within_the_bound(dtype):
    """Every target rounds once in 16 terms at most: some GPUs make the instruction of 32 of two of f16."""
    rows, columns, depth = 16, 16, 256
    random = np.random.default_rng(3)
    a = random.standard_normal((rows, depth)).astype(NUMPY[dtype])
    b = random.standard_normal((depth, columns)).astype(NUMPY[dtype])
    layout = FragmentLayout((rows, columns), 2, "mma", "c")
    out = np.zeros((32, layout.elements), np.float16)
    product(dtype, dtype, weft.f16, (rows, columns, depth))(a, b, out)
    terms = a.astype(np.float64)[:, :, None] * b.astype(np.float64)[None]
    largest = np.abs(terms.cumsum(1)).max(1) + 1
    bound = (depth // 16 + 1) * 2.0**-11 * largest
    for lane in range(32):
        for number, place in enumerate(layout.coordinates(lane)):
            assert abs(out[lane, number] - (terms.sum(1)[place] + 1)) <= bound[place]


def test_sums_in_f16_of_8_bit_floats_on_the_cpu_round_once_in_32_terms():
    a, b = np.ones((16, 32), NUMPY[weft.f8e5m2]), np.zeros((32, 16), NUMPY[weft.f8e5m2])
    b[0], b[1], b[31] = 2048, 1, 1
    out = np.zeros((32, 8), np.float16)
    product(weft.f8e5m2, weft.f8e5m2, weft.f16, (16, 16, 32))(a, b, out)
    np.testing.assert_array_equal(out, 2052)  # 2050 + 1, to even; 2048 where each half is rounded


@weft.kernel
def without_all_lanes(a: weft.Tensor):
    tile = weft.shared((16, 16), weft.bf16)
    if weft.lane_id() < a.shape[0]:
        left, right = weft.mma.load_a(tile), weft.mma.load_b(tile)
        acc = weft.mma.mma(left, right, weft.mma.zeros((16, 16)))
        a[0] = acc.values[0]


@weft.jit
def some_lanes(a: weft.Tensor[weft.f32, ("n",)], threads: weft.i32):
    without_all_lanes(a).launch(grid=1, block=threads)


@pytest.mark.parametrize(("lanes", "threads"), [(31, 32), (16, 16)])
def test_a_product_needs_all_lanes_of_a_warp(lanes, threads):
    with pytest.raises(RuntimeError, match="a warp multiplies without some of its 32 lanes"):
        some_lanes(np.zeros(lanes, np.float32), threads)
