# SPDX-License-Identifier: Apache-2.0
"""Tensor maps that kernels choose, copy and edit: groups of run-time sizes, other warps, other kernels; and misuse."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import weft
from tests.conformance.test_tma import aligned

ROWS, COLUMNS = 16, 64


@weft.kernel
def groups_kernel(
    source: weft.TensorMap,
    target: weft.TensorMap,
    a: weft.Tensor,
    b: weft.Tensor,
    starts: weft.Tensor,
    places: weft.Tensor,
):
    """Doubles each group of rows by two edited maps; what is past the end of a group is neither read nor written."""
    slots = weft.shared((2, 16), weft.u64)
    tile = weft.shared((ROWS, COLUMNS), weft.f16, swizzle=128)
    full = weft.mbarrier(1, arrivals=1)
    read = weft.tma.copy_map(source, places[0])
    written = weft.tma.copy_map(target, places[1])
    lane, leader, step = weft.lane_id(), weft.elect_one(), 0
    for group in range(starts.shape[0] - 1):
        first, end = starts[group], starts[group + 1]
        if first < end:
            weft.tma.edit_map(read, a[first:end], slots[0])
            weft.tma.edit_map(written, b[first:end], slots[1])
        for row in range(0, end - first, ROWS):
            if leader:
                full[0].arrive(expect_bytes=tile.nbytes)
                weft.tma.load(read, (row, 0), tile, full[0])
            full[0].wait(step)
            for i in range(ROWS):
                tile[i, 2 * lane] = tile[i, 2 * lane] * weft.f16(2)
                tile[i, 2 * lane + 1] = tile[i, 2 * lane + 1] * weft.f16(2) + weft.f16(1)
            weft.fence_proxy()
            weft.sync_warp()
            if leader:
                weft.tma.store(written, (row, 0), tile)
                weft.tma.wait()
            weft.sync_warp()
            step += 1


@weft.jit
def double_groups(
    a: weft.Tensor[weft.f16, ("n", COLUMNS)],
    b: weft.Tensor[weft.f16, ("n", COLUMNS)],
    starts: weft.Tensor[weft.i32, ("bounds",)],
):
    box = (ROWS, COLUMNS)
    maps = weft.tensor_map(a, box=box, swizzle=128), weft.tensor_map(b, box=box, swizzle=128)
    places = weft.scratch((2, 16), weft.u64)
    groups_kernel(*maps, a, b, starts, places).launch(grid=1, block=32)


def test_one_map_is_that_of_each_group_in_turn():
    starts = np.array([0, 5, 5, 40, 72, 73], np.int32)
    a, b = aligned((73, COLUMNS), np.float16), aligned((73, COLUMNS), np.float16)
    a[:] = np.random.default_rng(0).integers(-50, 50, a.shape)
    double_groups(a, b, starts)
    expected = 2 * a
    expected[:, 1::2] += 1
    assert (b == expected).all()


def test_tensors_of_read_maps_may_be_read_only():
    starts = np.array([0, 3], np.int32)
    a, b = aligned((3, COLUMNS), np.float16), aligned((3, COLUMNS), np.float16)
    starts.flags.writeable = a.flags.writeable = False
    double_groups(a, b, starts)
    a, b = b, a
    with pytest.raises(ValueError, match=r"'b'.*read-only"):
        double_groups(a, b, starts)


@weft.kernel
def write_maps_kernel(
    like: weft.TensorMap, a: weft.Tensor, sizes: weft.Tensor, places: weft.Tensor
):
    """Block i writes the map of matrix i, of which some rows and columns count."""
    mine = weft.tma.copy_map(like, places[weft.block_idx.x])
    number = weft.block_idx.x
    part = a[number, : sizes[number, 0], : sizes[number, 1]]
    weft.tma.edit_map(mine, part, weft.shared(16, weft.u64))


@weft.kernel
def read_maps_kernel(like: weft.TensorMap, out: weft.Tensor, places: weft.Tensor):
    """Warp 1 finds what warp 0 of another kernel has written."""
    tile = weft.shared((8, 32), weft.f32)
    full = weft.mbarrier(1, arrivals=1)
    number, lane = weft.block_idx.x, weft.lane_id()
    if weft.warp_id() == 1:
        found = weft.tma.map_at(places[number], like)
        if weft.elect_one():
            full[0].arrive(expect_bytes=tile.nbytes)
            weft.tma.load(found, (0, 0), tile, full[0])
    full[0].wait(0)
    if weft.warp_id() == 0:
        for i in range(8):
            out[number, i, lane] = tile[i, lane]


@weft.jit
def through_an_array(
    a: weft.Tensor[weft.f32, ("k", 8, 32)],
    sizes: weft.Tensor[weft.i32, ("k", 2)],
    out: weft.Tensor[weft.f32, ("k", 8, 32)],
):
    places = weft.scratch((a.shape[0], 16), weft.u64)
    like = weft.tensor_map(a[0], box=(8, 32), fill="nan")
    write_maps_kernel(like, a, sizes, places).launch(grid=a.shape[0], block=32)
    read_maps_kernel(like, out, places).launch(grid=a.shape[0], block=64)


def test_an_array_of_maps_goes_from_one_kernel_to_another():
    a, out = aligned((4, 8, 32), np.float32), aligned((4, 8, 32), np.float32)
    a[:] = np.arange(a.size).reshape(a.shape)
    sizes = np.array([[8, 32], [3, 20], [1, 4], [7, 31]], np.int32)
    through_an_array(a, sizes, out)
    for number, (rows, columns) in enumerate(sizes):
        expected = np.full((8, 32), np.nan, np.float32)
        expected[:rows, :columns] = a[number, :rows, :columns]
        np.testing.assert_array_equal(out[number], expected)


@weft.kernel
def whole_kernel(like: weft.TensorMap, a: weft.Tensor, out: weft.Tensor, which: weft.i32):
    """A copy of a copy, one of two, is that of a whole argument."""
    tile = weft.shared((4, 32), weft.f32)
    full = weft.mbarrier(1, arrivals=1)
    first = weft.tma.copy_map(like, weft.global_scratch(16, weft.u64))
    both = first, weft.tma.copy_map(first, weft.global_scratch(16, weft.u64))
    weft.tma.edit_map(both[which], a, weft.shared((2, 8), weft.u64))
    if weft.elect_one():
        full[0].arrive(expect_bytes=tile.nbytes)
        weft.tma.load(both[1], (0, 0), tile, full[0])
    full[0].wait(0)
    out[weft.lane_id()] = tile[3, weft.lane_id()]


@weft.jit
def edit_whole(a, other: weft.Tensor[weft.f32, ("n", "k")], out, which: weft.i32):
    like = weft.tensor_map(other, box=(4, 32), fill="nan")
    whole_kernel(like, a, out, which).launch(grid=1, block=32)


def test_a_map_is_that_of_a_whole_argument():
    a, other = aligned((4, 32), np.float32), aligned((3, 32), np.float32)
    a[:] = 5
    out = np.zeros(32, np.float32)
    edit_whole(a, other, out, 1)
    assert (out == 5).all()
    edit_whole(a, other, out, 0)
    assert np.isnan(out).all()  # the copy is of before


@functools.cache
def editor(rank: int):
    """Copies the first box of a part of `a`, by a map that was of all of another tensor."""
    box = (2,) * (rank - 1) + (32,)

    @weft.kernel
    def kernel(like: weft.TensorMap, a: weft.Tensor, out: weft.Tensor):
        tile = weft.shared(box, weft.f32)
        full = weft.mbarrier(1, arrivals=1)
        mine = weft.tma.copy_map(like, weft.global_scratch(16, weft.u64))
        part = a[tuple(slice(1, None) for _ in range(rank - 1))] if rank > 1 else a[4:]
        weft.tma.edit_map(mine, part, weft.shared(16, weft.u64))
        if weft.elect_one():
            full[0].arrive(expect_bytes=tile.nbytes)
            weft.tma.load(mine, (0,) * rank, tile, full[0])
        full[0].wait(0)
        for outer in itertools.product(range(2), repeat=rank - 1):
            out[(*outer, weft.lane_id())] = tile[(*outer, weft.lane_id())]

    @weft.jit
    def host(other, a, out):
        kernel(weft.tensor_map(other, box=box, fill="nan"), a, out).launch(grid=1, block=32)

    return host, box


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_an_edit_has_address_sizes_and_strides_of_each_dimension(rank):
    host, box = editor(rank)
    shape = (*(3, 2, 3)[: rank - 1], 28)  # the second part is one element wide
    a = aligned(shape, np.float32)
    a[:] = np.arange(a.size).reshape(shape)
    out = aligned(box, np.float32)
    host(aligned((5,) * (rank - 1) + (64,), np.float32), a, out)
    part = a[(slice(1, None),) * (rank - 1)] if rank > 1 else a[4:]
    expected = np.full(box, np.nan, np.float32)
    expected[tuple(map(slice, part.shape))] = part
    np.testing.assert_array_equal(out, expected)


@weft.kernel
def chosen_kernel(maps: tuple, which: weft.Tensor, out: weft.Tensor):
    tile = weft.shared((4, 32), weft.f32)
    full = weft.mbarrier(1, arrivals=1)
    number = weft.block_idx.x
    if weft.elect_one():
        full[0].arrive(expect_bytes=tile.nbytes)
        weft.tma.load(maps[which[number]], (0, 0), tile, full[0])
    full[0].wait(0)
    out[number, weft.lane_id()] = tile[1, weft.lane_id()]


@weft.jit
def chosen(a, b, c, which: weft.Tensor[weft.i32, ("n",)], out: weft.Tensor[weft.f32, ("n", 32)]):
    maps = tuple(weft.tensor_map(one, box=(4, 32)) for one in (a, b, c))
    chosen_kernel(maps, which, out).launch(grid=which.shape[0], block=32)


def test_a_tuple_of_maps_is_indexed_at_run_time():
    matrices = [aligned((4 + i, 32), np.float32) for i in range(3)]
    for i, matrix in enumerate(matrices):
        matrix[:] = i + 1
    which, out = np.array([2, 0, 1, 1], np.int32), np.zeros((4, 32), np.float32)
    chosen(*matrices, which, out)
    assert out[:, 5].tolist() == [3, 1, 2, 2]


def test_on_the_cpu_a_map_that_is_not_in_the_tuple_is_an_error():
    matrices = [aligned((4, 32), np.float32) for _ in range(3)]
    for wrong in (3, -1):
        with pytest.raises(AssertionError, match="an index of 3 tensor maps is 0 to 2"):
            chosen(*matrices, np.array([0, wrong], np.int32), np.zeros((2, 32), np.float32))


@weft.kernel
def misused_kernel(
    like: weft.TensorMap,
    a: weft.Tensor,
    places: weft.Tensor,
    rows: weft.i32,
    first: weft.i32,
    lanes: weft.i32,
    up: weft.Constexpr[bool],
):
    mine = weft.tma.copy_map(like, places[0])
    slot = weft.shared(16, weft.u64)
    if weft.lane_id() < lanes:
        weft.tma.edit_map(mine, a[:rows, first:] if up else a[::-1], slot)
    weft.sync_warp()


@weft.jit
def misused(
    a: weft.Tensor[weft.f32, ("n", "k")],
    rows: weft.i32,
    first: weft.i32,
    lanes: weft.i32,
    up: weft.Constexpr[bool] = True,
):
    places = weft.scratch((1, 16), weft.u64)
    like = weft.tensor_map(a, box=(8, 32))
    misused_kernel(like, a, places, rows, first, lanes, up).launch(grid=1, block=32)


@pytest.mark.parametrize(
    ("columns", "rows", "first", "lanes", "text"),
    [
        (32, 0, 0, 32, "a_part has elements, fewer than 2.32"),
        (32, 8, 32, 32, "a_part has elements, fewer than 2.32"),
        (32, 8, 1, 32, "the address of a_part is a multiple of 16 bytes"),
        (32, 8, 0, 16, "elect_one"),
    ],
)
def test_on_the_cpu_what_a_gpu_cannot_do_is_an_error(columns, rows, first, lanes, text):
    a = aligned((8, columns), np.float32)
    misused(a, 8, 4, 32)
    with pytest.raises((AssertionError, RuntimeError), match=text):
        misused(a, rows, first, lanes)


def test_on_the_cpu_a_map_of_rows_in_reverse_is_an_error():
    with pytest.raises(AssertionError, match=r"strides of .* are multiples of 16 bytes, from 0 up"):
        misused(aligned((8, 32), np.float32), 8, 0, 32, up=False)
