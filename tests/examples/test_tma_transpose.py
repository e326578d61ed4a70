# SPDX-License-Identifier: Apache-2.0
"""The transposition by TMA: right on the CPU at every kind of edge; on GPUs copies, vectors, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from examples.common import run
from examples.tma_transpose import EXAMPLE, fake_arguments, transpose, transpose_kernel
from tests.sampling import sampled


def test_the_example_is_right():
    report = run(EXAMPLE, EXAMPLE.test_size)
    assert report.passed, report.error


@pytest.mark.parametrize("shape", [(4, 4), (32, 256), (36, 260), (4, 1000), (516, 8)])
def test_every_shape_is_right(shape):
    a = np.random.default_rng(7).random(shape, np.float32)
    transpose(a, b := np.full(shape[::-1], np.nan, np.float32))
    np.testing.assert_array_equal(b, a.T)


@pytest.mark.parametrize("architecture", sampled(["sm_90a", "sm_100a", "sm_120a"], 3))
def test_a_tile_is_two_copies_and_40_accesses(architecture):
    function = weft.compile(transpose, *fake_arguments(), options=f"--gpu-arch {architecture}")
    kernel = function.kernels[transpose_kernel.function.__name__]
    assert (function.remarks, kernel.spill_load_bytes) == ((), 0)
    assert [text for text in EXAMPLE.instructions if text not in function.ptx] == []
    counts = {name: function.sass.count(name) for name in ("UTMALDG", "UTMASTG", "LDS.128", "STS ")}
    assert counts == {"UTMALDG": 1, "UTMASTG": 1, "LDS.128": 8, "STS ": 32}


def bank(row: int, byte: int) -> int:
    """The bank of a byte of a tile whose rows have 128 bytes, in a swizzle of 128."""
    linear = 128 * row + byte
    return (linear ^ (linear >> 3 & 0x70)) // 4 % 32


def test_no_access_of_a_warp_meets_itself_in_a_bank():
    for chunk in range(8):  # a quarter of a warp reads 16 bytes per lane at once
        for first in range(0, 32, 8):
            banks = [
                bank(row, 16 * chunk + 4 * word)
                for row in range(first, first + 8)
                for word in range(4)
            ]
            assert sorted(banks) == list(range(32))
    for row in range(32):
        assert sorted(bank(row, 4 * lane) for lane in range(32)) == list(range(32))
