# SPDX-License-Identifier: Apache-2.0
"""Loads that come into several blocks of a cluster: what each finds, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.test_tma import aligned

ROWS, COLUMNS = 8, 32
MATRIX = weft.Tensor[weft.f32, ("m", COLUMNS)]


@weft.kernel(cluster=4)
def shared_rows_kernel(a: weft.TensorMap, b: weft.TensorMap):
    """Each block loads a quarter of its cluster's rows for all four, and writes all of them."""
    tiles = weft.shared((4, ROWS, COLUMNS), weft.f32, swizzle=128)
    full = weft.mbarrier(1, arrivals=1)
    rank, first = weft.cluster_rank(), 4 * ROWS * (weft.block_idx.x // 4)
    if weft.thread_idx.x == 0:
        full[0].arrive(expect_bytes=tiles.nbytes)
        weft.tma.load(a, (first + ROWS * rank, 0), tiles[rank], full[0], multicast=range(4))
    full[0].wait(0)
    if weft.thread_idx.x == 0:
        for i in weft.static_range(4):
            weft.tma.store(b, (4 * ROWS * weft.block_idx.x + ROWS * i, 0), tiles[i])
        weft.tma.wait()


@weft.jit
def shared_rows(a: MATRIX, b: weft.Tensor[weft.f32, ("n", COLUMNS)]):
    maps = (weft.tensor_map(one, box=(ROWS, COLUMNS), swizzle=128) for one in (a, b))
    shared_rows_kernel(*maps).launch(grid=a.shape[0] // ROWS, block=32)


def test_each_block_gets_what_all_load():
    a, b = aligned((64, COLUMNS), np.float32), aligned((256, COLUMNS), np.float32)
    a.flat = np.arange(a.size)
    shared_rows(a, b)
    expected = a.reshape(2, 1, 32, COLUMNS).repeat(4, axis=1)
    np.testing.assert_array_equal(b.reshape(2, 4, 32, COLUMNS), expected)


def test_a_load_is_one_instruction_for_all_blocks():
    fakes = [weft.fake_tensor(weft.f32, (n, COLUMNS), alignment_bytes=16) for n in "mn"]
    found = weft.compile(shared_rows, *fakes, options="--gpu-arch sm_90a")
    assert found.sass.count("UTMALDG.2D.MULTICAST") == 1
    assert found.ptx.count(".multicast::cluster") == 1


@weft.kernel(cluster=2)
def crossed_kernel(a: weft.TensorMap, out: weft.Tensor, change: weft.Constexpr[str]):
    tile = weft.shared((ROWS, COLUMNS), weft.f32, swizzle=128)
    full = weft.mbarrier(1, arrivals=1)
    rank, lane = weft.cluster_rank(), weft.lane_id()
    tile[0, lane] = -1.0
    weft.fence_proxy()
    weft.sync_cluster()
    if lane == 0:
        full[0].arrive(expect_bytes=tile.nbytes)
        weft.tma.load(a, (ROWS * rank, 0), tile, full[0], multicast=1 - rank)
    if change == "not waited":
        weft.sync_cluster()
    else:
        full[0].wait(0)
    out[weft.block_idx.x, lane] = tile[0, lane]


def crossed(change: str):
    @weft.jit
    def host(a: MATRIX, out: weft.Tensor[weft.f32, (2, COLUMNS)]):
        map_of_a = weft.tensor_map(a, box=(ROWS, COLUMNS), swizzle=128)
        crossed_kernel(map_of_a, out, change).launch(grid=2, block=32)

    a, out = aligned((2 * ROWS, COLUMNS), np.float32), np.zeros((2, COLUMNS), np.float32)
    a.flat = np.arange(a.size)
    host(a, out)
    return a, out


def test_a_rank_known_at_run_time_is_one_block():
    a, out = crossed("")
    np.testing.assert_array_equal(out, a[[ROWS, 0]])


def test_a_block_that_does_not_wait_is_reported():
    with pytest.raises(RuntimeError, match="ended with a multicast load to it in flight"):
        crossed("not waited")
