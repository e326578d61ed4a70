# SPDX-License-Identifier: Apache-2.0
"""`weft.block` against NumPy: blocks of any size and shape, items in lists, calls in loops and side by side."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES
from tests.conformance.test_warp_primitives import Line, after, through
from tests.sampling import sampled

SIZES = (1, 31, 32, 33, 100, 256, 1000, 1024)


@weft.kernel
def collect_kernel(values: weft.Tensor, lines: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    i += weft.block_dim.x * (weft.thread_idx.y + weft.block_dim.y * weft.thread_idx.z)
    x = values[i]
    out[0, i] = weft.block.sum(x)
    out[1, i] = weft.block.max(x)
    out[2, i] = weft.block.min(x)
    out[3, i] = weft.block.count(x > 4)
    out[4, i] = weft.block.any(x > 8)
    out[5, i] = weft.block.all(x > 0)
    out[6, i] = weft.block.scan(x)
    out[7, i] = weft.block.exclusive_scan(x)
    out[8, i], out[9, i] = weft.block.exclusive_scan(x, max, initial=-1, with_total=True)
    _, out[10, i] = weft.block.argmax(x)
    _, out[11, i] = weft.block.argmin(x, i + 7)
    line = Line(lines[i, 0], lines[i, 1])
    whole = weft.block.reduce(line, after)
    out[12, i], out[13, i] = whole.a, whole.b
    out[14, i] = weft.block.scan(line, after).b
    out[15, i] = weft.block.reduce(line, after, count=weft.ceil_div(len(values), 2)).b


@weft.jit
def collect(values: weft.Tensor, lines: weft.Tensor, out: weft.Tensor):
    collect_kernel(values, lines, out).launch(grid=1, block=values.shape[0])


def check(size: int, function) -> None:
    x = np.random.default_rng(size).integers(0, 10, size).astype(np.int32)
    lines = np.random.default_rng(1).integers(-5, 6, (size, 2)).astype(np.int32)
    out = np.zeros((16, size), np.int32)
    function(x, lines, out)
    sums, compositions = np.cumsum(x), through(lines)
    expected = [
        *(x.sum(), x.max(), x.min(), (x > 4).sum(), (x > 8).any(), (x > 0).all()),
        *(sums, sums - x, [-1, *np.maximum.accumulate(x)[:-1]], x.max()),
        *(x.argmax(), x.argmin() + 7, *compositions[-1]),
        *([b for _, b in compositions], compositions[(size - 1) // 2][1]),
    ]
    for row, one in enumerate(expected):
        assert (out[row] == one).all(), row


@pytest.mark.parametrize("size", SIZES)
def test_a_block_whose_size_only_the_launch_knows(size: int):
    check(size, collect)


@pytest.mark.parametrize("block", sampled([1, 32, 33, 256, (5, 3, 3), (8, 4, 2)], 4))
def test_a_block_of_constant_size(block):
    @weft.jit
    def host(values: weft.Tensor, lines: weft.Tensor, out: weft.Tensor):
        collect_kernel(values, lines, out).launch(grid=1, block=block)

    check(int(np.prod(block)), host)


@weft.kernel
def items_kernel(values: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    items = [values[3 * i + k] for k in weft.static_range(3)]
    through = weft.block.scan(items)
    before, total = weft.block.exclusive_scan(items, with_total=True)
    largest, place = weft.block.argmax(items)
    highest = weft.block.scan(items, max)
    for k in weft.static_range(3):
        out[0, 3 * i + k] = through[k]
        out[1, 3 * i + k] = before[k]
        out[2, 3 * i + k] = total + weft.block.sum(items)
        out[3, 3 * i + k] = place
        out[4, 3 * i + k] = highest[k]
        out[5, 3 * i + k] = largest + weft.block.min(items)


@weft.jit
def of_items(values: weft.Tensor, out: weft.Tensor):
    items_kernel(values, out).launch(grid=1, block=values.shape[0] // 3)


@pytest.mark.parametrize("threads", [1, 40, 96])
def test_several_items_per_thread_follow_each_other(threads: int):
    x = np.random.default_rng(2).integers(-50, 50, 3 * threads).astype(np.int32)
    out = np.zeros((6, len(x)), np.int32)
    of_items(x, out)
    sums = np.cumsum(x)
    rows = [sums, sums - x, 2 * x.sum(), x.argmax(), np.maximum.accumulate(x)]
    for row, one in enumerate([*rows, x.max() + x.min()]):
        assert (out[row] == one).all(), row


@weft.kernel
def iterations_kernel(values: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    kept = 0
    for round in range(values.shape[0]):
        x = values[round, i]
        total, largest = weft.block.sum(x), weft.block.max(x)
        before = weft.block.exclusive_scan(x)
        while weft.block.sum(weft.i32(x > largest // 2)) > 0:
            kept += weft.block.reduce(x, min)
            x //= 2
        out[round, i] = total + 3 * largest + 7 * before + kept


@weft.jit
def iterations(values: weft.Tensor, out: weft.Tensor, block: weft.Constexpr[object]):
    iterations_kernel(values, out).launch(grid=1, block=values.shape[1] if block is None else block)


@pytest.mark.parametrize("block", [None, 33, 128])
def test_calls_in_a_loop_wait_until_what_they_share_is_read(block):
    values = np.random.default_rng(3).integers(1, 100, (5, block or 70)).astype(np.int32)
    out = np.zeros_like(values)
    iterations(values, out, block)
    kept = 0
    for x, row in zip(values, out, strict=True):
        expected = x.sum() + 3 * x.max() + 7 * (np.cumsum(x) - x)
        largest = x.max()
        while (x > largest // 2).any():
            kept += x.min()
            x = x // 2
        assert (row == expected + kept).all()


def types_of(dtype: weft.DType, wide: weft.DType):
    """A host function that reduces values of one type."""

    @weft.kernel
    def kernel(values: weft.Tensor, sums: weft.Tensor, extremes: weft.Tensor):
        i = weft.thread_idx.x
        total, through = weft.block.sum(values[i]), weft.block.scan(values[i])
        weft.static_assert(total.dtype is wide and through.dtype is wide)
        sums[0, i], sums[1, i] = total, through
        extremes[0, i], extremes[1, i] = weft.block.max(values[i]), weft.block.argmin(values[i])[0]

    @weft.jit
    def host(values: weft.Tensor, sums: weft.Tensor, extremes: weft.Tensor):
        kernel(values, sums, extremes).launch(grid=1, block=values.shape[0])

    return host


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "wide"),
    sampled(
        [
            (weft.i8, weft.i32),
            (weft.u16, weft.i32),
            (weft.u32, weft.u32),
            (weft.f16, weft.f32),
            (weft.f64, weft.f64),
            (weft.i64, weft.i64),
            (weft.u64, weft.u64),
        ],
        3,
        several=True,
    ),
    ids=str,
)
def test_sums_are_wide_and_extremes_keep_their_type(dtype: weft.DType, wide: weft.DType):
    low = 0 if dtype.kind == "uint" else -8
    values = np.random.default_rng(4).integers(low, 60, 75).astype(NUMPY_TYPES[dtype])
    sums = np.zeros((2, 75), NUMPY_TYPES[wide])
    extremes = np.zeros((2, 75), values.dtype)
    types_of(dtype, wide)(values, sums, extremes)
    assert (sums[0] == values.sum(dtype=sums.dtype)).all()
    assert (sums[1] == np.cumsum(values, dtype=sums.dtype)).all()
    assert (extremes[0] == values.max()).all() and (extremes[1] == values.min()).all()


@weft.kernel
def bits_kernel(values: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    out[0, i] = weft.block.sum(values[i])
    out[1, i] = weft.block.reduce(values[i], lambda x, y: x + y)


@weft.jit
def bits(values: weft.Tensor, out: weft.Tensor):
    bits_kernel(values, out).launch(grid=1, block=values.shape[0])


@pytest.mark.parametrize("size", [30, 256, 1024])
def test_a_sum_of_floats_is_a_tree_of_adjacent_lanes(size: int):
    values = np.random.default_rng(5).standard_normal(size).astype(np.float32)
    out = np.zeros((2, size), np.float32)
    bits(values, out)
    for width in (32, 32):
        level = np.concatenate([values, np.zeros(-len(values) % width, np.float32)])
        for _ in range(5):
            level = level[::2] + level[1::2]
        values = level
    assert (out == values[0]).all()


def test_a_sum_of_negative_zeros_is_one():
    out = np.ones((2, 64), np.float32)
    bits(np.full(64, -0.0, np.float32), out)
    assert np.signbit(out).all()
