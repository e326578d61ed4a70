# SPDX-License-Identifier: Apache-2.0
"""The order in which a warp adds floats: adjacent lanes of the mask, then adjacent results.

In: floats whose sum depends on the order. Out: the bits of a tree in Python.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported, define
from tests.sampling import sampled


def tree(values: list[np.generic]) -> np.generic:
    """The sum of the values as every target adds them, rounded to their type after each step, smaller ones to f32."""
    while len(values) > 1:
        pairs = [values[i] + values[i + 1] for i in range(0, len(values) - 1, 2)]
        values = pairs + values[2 * len(pairs) :]
    return values[0]


def lanes_of(mask: int, count: int) -> list[int]:
    return [lane for lane in range(count) if mask >> lane & 1]


@pytest.mark.parametrize("dtype", sampled([weft.f16, weft.bf16, weft.f32, weft.f64], 2), ids=str)
@pytest.mark.parametrize("count", [1, 2, 7, 20, 31, 32])
def test_sums_of_whole_and_partial_warps_are_trees(dtype: weft.DType, count: int):
    host = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor, sums: weft.Tensor):
            i = weft.thread_idx.x
            sums[0, i] = weft.warp.sum(a[i])
            if weft.lane_id() % 3 != 1:
                sums[1, i] = weft.warp.sum(a[i], 0x6DB6DB6D)

        @weft.jit
        def host(a: weft.Tensor, sums: weft.Tensor):
            kernel(a, sums).launch(grid=1, block=a.shape[0])
        """
    )["host"]
    numpy_type = NUMPY_TYPES[dtype]
    a = (np.random.default_rng(count).standard_normal(count) * 100).astype(numpy_type)
    sums = np.zeros((2, count), numpy_type)
    wrap = Exported if dtype is weft.bf16 else lambda array: array
    host(wrap(a), wrap(sums))
    for row, mask in enumerate((0xFFFFFFFF, 0x6DB6DB6D)):
        lanes = lanes_of(mask, count)
        expected = tree([a[lane].astype(np.result_type(a, np.float32)) for lane in lanes]).astype(
            a.dtype
        )
        assert {sums[row, lane].tobytes() for lane in lanes} == {expected.tobytes()}
