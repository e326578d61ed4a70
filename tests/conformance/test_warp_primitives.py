# SPDX-License-Identifier: Apache-2.0
"""`weft.warp` against NumPy: whole and partial warps, groups of lanes, any mask, functions that do not commute."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft

SIZES = (1, 31, 32, 33, 100)


class Line(NamedTuple):
    """A function x ↦ a·x + b; two of them do not commute."""

    a: Any
    b: Any


def after(first, second):
    return Line(second.a * first.a, second.a * first.b + second.b)


def through(lines: np.ndarray) -> list[tuple[int, int]]:
    """The compositions of the lines up to each one, as 32-bit integers."""
    found, a, b = [], 1, 0
    for factor, term in lines.tolist():
        a, b = ((x + 2**31) % 2**32 - 2**31 for x in (factor * a, factor * b + term))
        found.append((a, b))
    return found


def warps(size: int, width: int = 32) -> list[np.ndarray]:
    return [np.arange(first, min(first + width, size)) for first in range(0, size, width)]


@weft.kernel
def collect_kernel(values: weft.Tensor, lines: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    x = values[i]
    out[0, i] = weft.warp.sum(x)
    out[1, i] = weft.warp.max(x)
    out[2, i] = weft.warp.min(x)
    out[3, i] = weft.warp.count(x > 4)
    out[4, i] = weft.warp.any(x > 8)
    out[5, i] = weft.warp.all(x > 0)
    out[6, i] = weft.warp.scan(x)
    out[7, i] = weft.warp.exclusive_scan(x)
    out[8, i] = weft.warp.exclusive_scan(x, max, initial=-1)
    _, out[9, i] = weft.warp.argmax(x)
    _, out[10, i] = weft.warp.argmin(x, i)
    line = Line(lines[i, 0], lines[i, 1])
    whole = weft.warp.reduce(line, after)
    out[11, i], out[12, i] = whole.a, whole.b
    out[13, i] = weft.warp.scan(line, after).b
    out[14, i] = weft.warp.shuffle(line, 0).b
    out[15, i] = weft.warp.sum(x, width=8)
    out[16, i] = weft.warp.scan(x, width=4)
    out[17, i] = weft.warp.exclusive_scan(x, operator.mul, initial=3, width=2)
    out[18, i] = weft.warp.argmax(x, width=16)[1]


@weft.jit
def collect(values: weft.Tensor, lines: weft.Tensor, out: weft.Tensor):
    collect_kernel(values, lines, out).launch(grid=1, block=values.shape[0])


@pytest.mark.parametrize("size", SIZES)
def test_each_warp_of_a_block_of_any_size_has_results_of_its_own(size: int):
    values = np.random.default_rng(size).integers(0, 10, size).astype(np.int32)
    lines = np.random.default_rng(1).integers(-5, 6, (size, 2)).astype(np.int32)
    out = np.zeros((19, size), np.int32)
    collect(values, lines, out)
    for at in warps(size):
        x, of = values[at], lines[at]
        sums, compositions = np.cumsum(x), through(of)
        expected = [
            *(x.sum(), x.max(), x.min(), (x > 4).sum(), (x > 8).any(), (x > 0).all()),
            *(sums, sums - x, [-1, *np.maximum.accumulate(x)[:-1]]),
            *(x.argmax(), at[x.argmin()], *compositions[-1]),
            *([b for _, b in compositions], of[0, 1]),
        ]
        for row, one in enumerate(expected):
            assert (out[row, at] == one).all(), row
    for at in warps(size, 8):
        assert (out[15, at] == values[at].sum()).all()
    for at in warps(size, 4):
        assert (out[16, at] == np.cumsum(values[at])).all()
    for at in warps(size, 2):
        assert out[17, at].tolist() == [3, 3 * values[at[0]]][: len(at)]
    for at in warps(size, 16):
        assert (out[18, at] == values[at].argmax()).all()


@weft.kernel
def masked_kernel(keys: weft.Tensor, lines: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    key = keys[i]
    mask = weft.match(key)  # the lanes of one key, wherever they are
    line = Line(lines[i, 0], lines[i, 1])
    out[0, i] = weft.warp.reduce(line, after, mask=mask).b
    out[1, i] = weft.warp.scan(line, after, mask=mask).b
    out[2, i] = weft.warp.exclusive_scan(lines[i, 1], mask=mask)
    out[3, i] = weft.warp.argmax(lines[i, 1], mask=mask)[0]
    out[4, i] = weft.warp.sum(lines[i, 0], mask)


@weft.jit
def masked(keys: weft.Tensor, lines: weft.Tensor, out: weft.Tensor):
    masked_kernel(keys, lines, out).launch(grid=1, block=keys.shape[0])


@pytest.mark.slow
@pytest.mark.parametrize("keys", [1, 3, 40])
def test_lanes_of_a_mask_follow_each_other_however_far_apart(keys: int):
    size = 77
    random = np.random.default_rng(keys)
    key = random.integers(0, keys, size).astype(np.int32)
    lines = random.integers(-5, 6, (size, 2)).astype(np.int32)
    out = np.zeros((5, size), np.int32)
    masked(key, lines, out)
    for at in warps(size):
        for one in np.unique(key[at]):
            where = at[key[at] == one]
            of = lines[where]
            compositions = [b for _, b in through(of)]
            assert (out[0, where] == compositions[-1]).all()
            assert out[1, where].tolist() == compositions
            assert (out[2, where] == np.cumsum(of[:, 1]) - of[:, 1]).all()
            assert (out[3, where] == of[:, 1].max()).all()
            assert (out[4, where] == of[:, 0].sum()).all()


@weft.kernel
def extremes_kernel(values: weft.Tensor, out: weft.Tensor, at: weft.Tensor):
    i = weft.thread_idx.x
    out[0, i], at[0, i] = weft.warp.argmax(values[i])
    out[1, i], at[1, i] = weft.warp.argmin(values[i])


@weft.jit
def extremes(values: weft.Tensor, out: weft.Tensor, at: weft.Tensor):
    extremes_kernel(values, out, at).launch(grid=1, block=values.shape[0])


@pytest.mark.slow
def test_a_number_wins_over_nan_and_the_first_of_equal_ones():
    nan = float("nan")
    for values, largest, least in (
        ([nan, 2, 5, 5, nan, 2], 2, 1),
        ([nan, nan, nan], 0, 0),
        ([nan, -np.inf], 1, 1),
    ):
        given = np.array(values, np.float32)
        out, at = np.zeros((2, len(values)), np.float32), np.zeros((2, len(values)), np.int32)
        extremes(given, out, at)
        assert (at[0] == largest).all() and (at[1] == least).all()
        assert np.array_equal(out[0], given[at[0]], equal_nan=True)


def test_python_cannot_run_a_primitive():
    with pytest.raises(weft.UnavailableError, match=r"weft\.warp\.sum\(\.\.\.\) works only in"):
        weft.warp.sum(1)
