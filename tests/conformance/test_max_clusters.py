# SPDX-License-Identifier: Apache-2.0
"""``kernel.max_clusters(blocks)``: more than one on the CPU, and grids of clusters made of it."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import _native
from weft.errors import UnavailableError


@weft.kernel(cluster=2)
def count_kernel(counts: weft.Tensor):
    cluster = weft.block_idx.x // 2
    for tile in range(cluster, counts.shape[0], weft.grid_dim.x // 2):
        if weft.cluster_rank() == tile % 2:
            counts[tile] += weft.grid_dim.x


@weft.jit
def count(counts: weft.Tensor[weft.i32, ("n",)]):
    clusters = min(counts.shape[0], count_kernel.max_clusters(2))
    count_kernel(counts).launch(grid=2 * clusters, block=1)
    return count_kernel.max_clusters(blocks=2)


@pytest.fixture
def set_max_clusters():
    yield _native.set_cpu_max_clusters
    _native.set_cpu_max_clusters(0)


def test_a_grid_of_fewer_clusters_than_tiles_reaches_all_tiles(set_max_clusters):
    counts = np.zeros(11, np.int32)
    assert count(counts) == 2
    assert set(counts.tolist()) == {4}
    set_max_clusters(5)
    counts = np.zeros(11, np.int32)
    assert count(counts) == 5
    assert set(counts.tolist()) == {10}


def test_it_is_asked_of_each_kernel_that_is_launched():
    """The same function of two kinds of arguments is two kernels."""

    @weft.jit
    def host(a: weft.Tensor[weft.i32, ("n",)], b: weft.Tensor[weft.i64, ("n",)]):
        count_kernel(a).launch(grid=4, block=1)
        count_kernel(b).launch(grid=4, block=1)
        return count_kernel.max_clusters(2)

    a, b = np.zeros(3, np.int32), np.zeros(3, np.int64)
    found = weft.compile(host, a, b)
    assert "simt.max_clusters [@count_kernel, @count_kernel_1]" in str(found.ir_module)
    assert found(a, b) == 2


def test_python_cannot_ask():
    with pytest.raises(UnavailableError, match="works only in code that weft compiles"):
        count_kernel.max_clusters(2)
