# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes: every swizzle, dtype and edge against NumPy; what is missing shows on the CPU too.

Reductions and copies into several blocks are in test_tma_reductions.py and test_tma_multicast.py.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft.errors import TypeMismatchError, UnavailableError

DTYPES = {weft.u8: np.uint8, weft.f16: np.float16, weft.f32: np.float32, weft.i64: np.int64}
ROWS = 16


def aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    raw = np.zeros(np.prod(shape) * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    whole = raw[start : start + raw.size - 64]
    return whole.view(dtype).reshape(shape)


@functools.cache
def copier(dtype, swizzle: int, atoms: int, rank: int, fill: str = "zero"):
    """Copies `source` to `target` box by box, through a swizzled tile."""
    columns = atoms * swizzle // dtype.itemsize
    box = (1,) * (rank - 2) + (ROWS, columns)

    @weft.kernel
    def kernel(source: weft.TensorMap, target: weft.TensorMap, down: weft.i32, along: weft.i32):
        tile = weft.shared((ROWS, columns), dtype, swizzle=swizzle)
        full = weft.mbarrier(1, arrivals=1)
        rest = (weft.block_idx.z,) * (rank - 2)
        row, column = weft.block_idx.y * ROWS, weft.block_idx.x * columns
        if weft.thread_idx.x == 0:
            weft.tma.prefetch(source)
            full[0].arrive(expect_bytes=tile.nbytes)
            weft.tma.load(source, (*rest, row + down, column + along), tile, full[0])
        full[0].wait(0)
        if weft.thread_idx.x == 0:
            weft.tma.store(target, (*rest, row, column), tile)
            weft.tma.wait()

    @weft.jit
    def host(source, target, down: weft.i32 = 0, along: weft.i32 = 0):
        grid = (
            weft.ceil_div(target.shape[rank - 1], columns),
            weft.ceil_div(target.shape[rank - 2], ROWS),
            target.shape[0] if rank > 2 else 1,
        )
        kernel(
            weft.tensor_map(source, box=box, swizzle=swizzle, fill=fill),
            weft.tensor_map(target, box=box, swizzle=swizzle),
            down,
            along,
        ).launch(grid=grid, block=32)

    return host


@pytest.mark.parametrize(
    ("dtype", "swizzle", "atoms", "rank"),
    sampled(itertools.product(DTYPES, [32, 64, 128], [1, 2], [2, 3]), 5, several=True),
    ids=str,
)
def test_boxes_beyond_the_edges_copy_what_is_inside(dtype, swizzle, atoms, rank):
    shape = (2,) * (rank - 2) + (37, 16 * 11 // dtype.itemsize)
    source, target = aligned(shape, DTYPES[dtype]), aligned(shape, DTYPES[dtype])
    source.flat = np.arange(source.size) % 251
    copier(dtype, swizzle, atoms, rank)(source, target)
    np.testing.assert_array_equal(target, source)


# Boxes of plain arrays: one with dims of 1 left out, of every rank, in one copy and in several.
PLAIN = {
    (256,): (256,),
    (1024,): (1024,),
    (16, 12): (16, 12),
    (2, 1, 8, 64): (2, 8, 64),
    (2, 3, 4, 5, 4): (2, 3, 4, 5, 4),
    (2, 2, 128): (2, 2, 1, 128),
    (512, 8): (512, 8),
}


@pytest.mark.parametrize("box", PLAIN, ids=str)
def test_boxes_of_arrays_without_a_swizzle_lie_as_in_numpy(box):
    @weft.kernel
    def kernel(source: weft.TensorMap, target: weft.TensorMap, out: weft.Tensor):
        small = weft.shared(3, weft.f32)
        ring = weft.shared((2, *PLAIN[box]), weft.f32)
        full = weft.mbarrier(1, arrivals=1)
        small[0] = 1.0
        start = (1,) * (len(box) - 1) + (4,)
        if weft.thread_idx.x == 0:
            full[0].arrive(expect_bytes=ring[1].nbytes)
            weft.tma.load(source, start, ring[1], full[0], cache="evict_first")
        full[0].wait(0)
        weft.load_vector(ring[1], (0,) * len(PLAIN[box]), 4)
        out[0] = ring[(1, *(1 if size > 1 else 0 for size in PLAIN[box]))]
        if weft.thread_idx.x == 0:
            weft.tma.store(target, start, ring[1], cache="evict_normal")
            weft.tma.wait()

    @weft.jit
    def host(source, target, out):
        maps = weft.tensor_map(source, box=box), weft.tensor_map(target, box=box)
        kernel(*maps, out).launch(grid=1, block=32)

    shape = tuple(size + 8 for size in box)
    source, target = aligned(shape, np.float32), aligned(shape, np.float32)
    source.flat = np.arange(source.size)
    host(source, target, out := np.zeros(1, np.float32))
    inside = (*(slice(1, 1 + size) for size in box[:-1]), slice(4, 4 + box[-1]))
    np.testing.assert_array_equal(target[inside], source[inside])
    assert target.sum() == source[inside].sum()
    assert out[0] == source[inside][tuple(1 if size > 1 else 0 for size in box)]
    found = weft.compile(host, source, target, out, options="--gpu-arch sm_90a")
    pieces = -(-max(box) // 256)
    assert found.ptx.count(f"cp.async.bulk.tensor.{len(box)}d.shared") == pieces
    assert found.ptx.count("L2::cache_hint") == 2 * pieces


@pytest.mark.parametrize("fill", ["zero", "nan"])
@pytest.mark.parametrize(("down", "along"), [(-3, -4), (5, 8)])
def test_what_is_outside_is_filled(down, along, fill):
    source, target = aligned((32, 64), np.float32), aligned((32, 64), np.float32)
    source.flat = np.arange(source.size)
    copier(weft.f32, 128, 1, 2, fill)(source, target, down, along)
    padded = np.full((64, 128), np.nan if fill == "nan" else 0, np.float32)
    padded[16:48, 32:96] = source
    np.testing.assert_array_equal(target, padded[16 + down :, 32 + along :][:32, :64])


def broken(change: str, value: float = 7.0):
    """A copy of one tile, whole of one value, in which something is wrong."""

    @weft.kernel
    def kernel(source: weft.TensorMap, target: weft.TensorMap, out: weft.Tensor):
        tile = weft.shared((8, 64), weft.f16, swizzle=128)
        full = weft.mbarrier(1, arrivals=1)
        if weft.thread_idx.x == 0:
            if change == "few bytes":
                full[0].arrive(expect_bytes=512)
            elif change == "many bytes":
                full[0].arrive(expect_bytes=2048)
            else:
                full[0].arrive(expect_bytes=tile.nbytes)
            weft.tma.load(source, (0, 0), tile, full[0])
        if change != "no wait":
            full[0].wait(0)
        out[weft.thread_idx.x] = tile[0, weft.thread_idx.x]
        weft.fence_proxy()
        weft.sync_threads()
        if weft.thread_idx.x == 0:
            weft.tma.store(target, (0, 0), tile)
            if change != "no wait for the store":
                weft.tma.wait()

    @weft.jit
    def host(source, target, out):
        kernel(
            weft.tensor_map(source, box=(8, 64), swizzle=128),
            weft.tensor_map(target, box=(8, 64), swizzle=128),
            out,
        ).launch(grid=1, block=32)

    source, target = aligned((8, 64), np.float16), aligned((8, 64), np.float16)
    source[:] = value
    host(source, target, out := np.zeros(32, np.float16))
    return out


def test_a_whole_copy_is_right():
    assert set(broken("").tolist()) == {7.0}


def test_a_missing_wait_shows():
    assert 9.0 not in broken("no wait", 9.0).tolist()


@pytest.mark.parametrize("change", ["few bytes", "many bytes"])
def test_a_wrong_number_of_bytes_never_completes(change):
    with pytest.raises(RuntimeError, match=r"bytes came|and 1024 bytes"):
        broken(change)


def test_a_block_that_ends_with_a_store_in_flight_is_an_error():
    with pytest.raises(RuntimeError, match="ended with a copy out of shared memory"):
        broken("no wait for the store")


FAKE = weft.fake_tensor(weft.f16, (weft.sym("m"), weft.sym("n", divisibility=8)))


def test_copies_are_instructions_of_one_thread():
    found = weft.compile(copier(weft.f16, 128, 2, 2), FAKE, FAKE, options="--gpu-arch sm_90a")
    assert found.remarks == ()
    assert found.sass.count("UTMALDG.2D") == found.sass.count("UTMASTG.2D") == 2
    assert found.ptx.count("cp.async.bulk.tensor.2d.shared::cluster.global") == 2


def test_an_architecture_without_them_is_named():
    with pytest.raises(UnavailableError, match="sm_90"):
        weft.compile(copier(weft.f16, 128, 1, 2), FAKE, FAKE, options="--gpu-arch sm_80")


def test_a_tile_of_another_swizzle_is_refused():
    @weft.kernel
    def kernel(source: weft.TensorMap):
        tile = weft.shared((8, 64), weft.f16, swizzle=64)
        full = weft.mbarrier(1, arrivals=1)
        weft.tma.load(source, (0, 0), tile, full[0])

    @weft.jit
    def host(source):
        kernel(weft.tensor_map(source, box=(8, 64), swizzle=128)).launch(grid=1, block=32)

    with pytest.raises(TypeMismatchError, match="is not a box of source") as caught:
        weft.compile(host, FAKE)
    assert caught.value.code == "TMA_TILE"


@weft.kernel
def sizes_kernel(one: weft.TensorMap, others: tuple, out: weft.Tensor):
    rows, columns = one.shape
    out[0], out[1] = rows, columns
    for i in weft.static_range(2):
        for size in others[i].shape:
            out[2 + i] += size
    out[4] = one.shape[0] * one.box[0]


@weft.jit
def sizes_of_maps(
    a: weft.Tensor[weft.f32, ("n", weft.sym("m", divisibility=4))],
    b: weft.Tensor[weft.f32, (8, 16)],
    out: weft.Tensor[weft.i64, (5,)],
):
    part = weft.tensor_map(a[2:], box=(8, 32))
    maps = part, weft.tensor_map(b, box=(8, 16))
    sizes_kernel(weft.tensor_map(a, box=(4, 32)), maps, out).launch(grid=1, block=1)
    if part.shape[0] > 10:
        sizes_kernel(part, maps, out).launch(grid=1, block=1)


@pytest.mark.parametrize(("rows", "columns"), [(5, 44), (13, 4)])
def test_a_map_knows_the_shape_of_its_tensor(rows, columns):
    a, b = aligned((rows, columns), np.float32), aligned((8, 16), np.float32)
    sizes_of_maps(a, b, out := np.zeros(5, np.int64))
    launches = 2 if rows > 12 else 1
    last = rows - 2 if launches == 2 else rows
    step = 8 if launches == 2 else 4
    others = [launches * (rows - 2 + columns), launches * (8 + 16)]
    assert out.tolist() == [last, columns, *others, last * step]


def test_sizes_of_a_map_are_arguments_only_where_a_kernel_reads_them():
    found = weft.compile(copier(weft.f16, 128, 2, 2), FAKE, FAKE)
    assert "_dim" not in str(found.ir_module).partition("attributes")[0]
