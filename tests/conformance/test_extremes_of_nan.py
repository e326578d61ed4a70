# SPDX-License-Identifier: Apache-2.0
"""One rule for NaN in maxima and minima: a number wins; with ``nan=True`` NaN does, at every level."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.sampling import sampled

NAN = float("nan")


def pairwise(x, nan):
    largest = smallest = x
    for distance in weft.static_range(5):
        largest = weft.math.max(largest, weft.shfl_xor(largest, 1 << distance), nan=nan)
        smallest = weft.math.min(smallest, weft.shfl_xor(smallest, 1 << distance), nan=nan)
    return largest, smallest


# Level → the largest and smallest of 32 values that the threads hold, and the place of the first.
LEVELS = {
    "math": pairwise,
    "warp": lambda x, nan: (weft.warp.max(x, nan=nan), weft.warp.min(x, nan=nan)),
    "warp, groups": lambda x, nan: (
        weft.warp.max(weft.warp.max(x, width=8, nan=nan), nan=nan),
        weft.warp.min(weft.warp.min(x, width=8, nan=nan), nan=nan),
    ),
    "warp, mask": lambda x, nan: (
        weft.warp.max(x, 0xFFFFFFFF, nan=nan),
        weft.warp.min(x, 0xFFFFFFFF, nan=nan),
    ),
    "block": lambda x, nan: (weft.block.max(x, nan=nan), weft.block.min(x, nan=nan)),
    "warp.argmax": lambda x, nan: (
        weft.warp.argmax(x, nan=nan)[0],
        weft.warp.argmin(x, nan=nan)[0],
    ),
    "block.argmax": lambda x, nan: (
        weft.block.argmax(x, nan=nan)[0],
        weft.block.argmin(x, nan=nan)[0],
    ),
}


VALUES = {
    "numbers": lambda x: x,
    "one NaN": lambda x: np.where(np.arange(32) == 7, NAN, x),
    "first NaN": lambda x: np.where(np.arange(32) == 0, NAN, x),
    "many NaN": lambda x: np.where(np.arange(32) % 3 == 0, NAN, x),
    "NaN alone": lambda x: np.full(32, NAN),
}


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("level", sampled(LEVELS, 3))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float64, np.float16], 2))
def test_a_number_wins_unless_nan_is_wanted(level, nan, dtype):
    function = LEVELS[level]

    @weft.kernel
    def kernel(a, out):
        largest, smallest = function(a[weft.thread_idx.x], nan)
        if weft.thread_idx.x == 5:
            out[0] = largest
            out[1] = smallest

    for made in VALUES.values():
        a = made(np.random.default_rng(1).normal(size=32)).astype(dtype)
        kernel[1, 32](a, out := np.zeros(2, dtype))
        with np.errstate(all="ignore"):
            expected = (a.max(), a.min()) if nan else (np.fmax.reduce(a), np.fmin.reduce(a))
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("nan", [False, True])
def test_places_of_extremes(nan):
    @weft.kernel
    def kernel(a, out):
        i = weft.thread_idx.x
        found = weft.block.argmax(a[i], nan=nan)[1], weft.block.argmin(a[i], nan=nan)[1]
        if i == 0:
            out[0], out[1] = found

    for made in list(VALUES.values())[:-1]:
        a = made(np.random.default_rng(1).normal(size=32)).astype(np.float32)
        kernel[1, 32](a, out := np.zeros(2, np.int32))
        functions = (np.argmax, np.argmin) if nan else (np.nanargmax, np.nanargmin)
        assert out.tolist() == [function(a) for function in functions]


def test_constants_and_rows_of_fragments():
    @weft.kernel
    def kernel(a, out):
        f = weft.mma.zeros((16, 8)).load(a, (0, 0))
        rows, known = f.row_max(nan=True).values, f.row_max().values
        if weft.thread_idx.x == 0:
            out[0] = weft.math.max(1.0, NAN)
            out[1] = weft.math.max(1.0, NAN, nan=True)
            out[2] = max(out[0], NAN)
            out[3], out[4] = rows[0], known[0]

    a = np.zeros((16, 8), np.float32)
    a[0, 3], a[0, 5] = NAN, 4.0
    kernel[1, 32](a, out := np.zeros(5, np.float32))
    np.testing.assert_array_equal(out, [1.0, NAN, 1.0, NAN, 4.0])
