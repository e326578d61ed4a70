# SPDX-License-Identifier: Apache-2.0
"""``weft.multiprocessors()``: more than one on the CPU, the device's on a GPU, and grids made of it."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import _native
from weft.errors import UnavailableError


@weft.kernel
def count_kernel(counts: weft.Tensor):
    for tile in range(weft.block_idx.x, counts.shape[0], weft.grid_dim.x):
        counts[tile] += weft.grid_dim.x


@weft.jit
def count(counts: weft.Tensor[weft.i32, ("n",)]):
    count_kernel(counts).launch(grid=min(counts.shape[0], weft.multiprocessors()), block=1)
    return weft.multiprocessors()


@pytest.fixture
def set_multiprocessors():
    yield _native.set_cpu_multiprocessors
    _native.set_cpu_multiprocessors(0)


def test_a_grid_of_fewer_blocks_than_tiles_reaches_all_tiles(set_multiprocessors):
    counts = np.zeros(11, np.int32)
    assert count(counts) == 4
    assert set(counts.tolist()) == {4}
    set_multiprocessors(7)
    counts = np.zeros(11, np.int32)
    assert count(counts) == 7
    assert set(counts.tolist()) == {7}


@pytest.mark.parametrize("number", [-1, 1025])
def test_other_numbers_of_multiprocessors_are_refused(number):
    with pytest.raises(ValueError, match="the number of multiprocessors is"):
        _native.set_cpu_multiprocessors(number)


def test_a_kernel_cannot_ask():
    @weft.kernel
    def kernel(a):
        a[0] = weft.multiprocessors()

    @weft.jit
    def host(a):
        kernel(a).launch(grid=1, block=1)

    with pytest.raises(UnavailableError, match="KERNEL_OPERATION"):
        host(np.zeros(1, np.int32))
