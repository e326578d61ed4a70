# SPDX-License-Identifier: Apache-2.0
"""Rows by index, loaded and stored: every swizzle, rows outside of the tensor, several instructions, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.test_tma import DTYPES, aligned
from tests.sampling import sampled
from weft.errors import UnavailableError

TALL = 40


def gathered(dtype, swizzle, columns, count, indices, begin=0, fill="zero"):
    """The rows at these indices, and a matrix of -1 with them stored at the same places in reverse order."""
    tile_swizzle = {"swizzle": swizzle} if swizzle else {}

    @weft.kernel
    def kernel(source: weft.TensorMap, target: weft.TensorMap, rows: weft.Tensor, out: weft.Tensor):
        tile = weft.shared((count, columns), dtype, **tile_swizzle)
        full = weft.mbarrier(1, arrivals=1)
        numbers = tuple(rows[i] for i in range(count))
        if weft.thread_idx.x == 0:
            full[0].arrive(expect_bytes=tile.nbytes)
            weft.tma.load(source, (numbers, begin), tile, full[0])
        full[0].wait(0)
        for i in range(weft.thread_idx.x, count * columns, 32):
            out[i // columns, i % columns] = tile[i // columns, i % columns]
        if weft.thread_idx.x == 0:
            swapped = tuple(numbers[count - 1 - i] for i in range(count))
            weft.tma.store(target, (swapped, begin), tile)
            weft.tma.wait()

    @weft.jit
    def host(source, target, rows, out):
        box = (1, columns)
        kernel(
            weft.tensor_map(source, box=box, fill=fill, **tile_swizzle),
            weft.tensor_map(target, box=box, **tile_swizzle),
            rows,
            out,
        ).launch(grid=1, block=32)

    kind = DTYPES[dtype]
    shape = (TALL, 256 // dtype.itemsize)
    source, target = aligned(shape, kind), aligned(shape, kind)
    source.flat = 1 + np.arange(source.size) % 251
    rows = np.array(indices, np.int32)
    host(source, target, rows, out := aligned((count, columns), kind))
    return source, target, out


@pytest.mark.parametrize(
    ("dtype", "swizzle", "count"),
    sampled(
        [(d, s, c) for d in DTYPES for s in (0, 32, 64, 128) for c in (4, 8, 16) if not s or c > 4],
        8,
        several=True,
    ),
    ids=str,
)
def test_rows_come_and_go_in_the_order_of_their_indices(dtype, swizzle, count):
    columns = (swizzle or 128) // dtype.itemsize
    indices = np.random.default_rng(count).permutation(TALL)[:count]
    source, target, out = gathered(dtype, swizzle, columns, count, indices, 16 // dtype.itemsize)
    begin = 16 // dtype.itemsize
    np.testing.assert_array_equal(out, source[indices, begin : begin + columns])
    expected = np.zeros_like(source)
    expected[indices[::-1], begin : begin + columns] = out
    np.testing.assert_array_equal(target, expected)


def test_a_tile_wider_than_its_swizzle_takes_several_copies():
    indices = [7, 7, 0, 39, 21, 22, 1, 2]
    source, _, out = gathered(weft.f16, 128, 128, 8, indices)
    np.testing.assert_array_equal(out, source[indices])


def test_rows_and_columns_outside_are_zeros_and_not_written():
    indices = [5, TALL, 2**31 - 1, 6, 7, 8, TALL + 1, 9]
    source, target, out = gathered(weft.f32, 128, 32, 8, indices, 48)
    inside = source[[5, 6, 7, 8, 9], 48:]
    np.testing.assert_array_equal(out[[0, 3, 4, 5, 7], :16], inside)
    assert not out[[1, 2, 6]].any()
    assert not out[:, 16:].any()
    expected = np.zeros_like(source)
    for row, index in zip(out, indices[::-1], strict=True):
        if index < TALL:
            expected[index, 48:] = row[:16]
    np.testing.assert_array_equal(target, expected)


def test_loads_may_have_rows_before_the_tensor():
    @weft.kernel
    def kernel(source: weft.TensorMap, out: weft.Tensor):
        tile, full = weft.shared((4, 32), weft.f32), weft.mbarrier(1, arrivals=1)
        if weft.thread_idx.x == 0:
            full[0].arrive(expect_bytes=tile.nbytes)
            weft.tma.load(source, ((-1, 1, 2, -40), 0), tile, full[0])
        full[0].wait(0)
        for row in weft.static_range(4):
            out[row, weft.thread_idx.x] = tile[row, weft.thread_idx.x]

    @weft.jit
    def host(source, out):
        kernel(weft.tensor_map(source, box=(1, 32)), out).launch(grid=1, block=32)

    source, out = aligned((4, 32), np.float32), np.zeros((4, 32), np.float32)
    source[...] = np.arange(128).reshape(4, 32) + 1
    host(source, out)
    np.testing.assert_array_equal(out[1:3], source[1:3])
    assert not out[[0, 3]].any()


@weft.kernel
def scatter_kernel(target: weft.TensorMap, rows: weft.Tensor):
    tile = weft.shared((4, 32), weft.f32)
    for row in weft.static_range(4):
        tile[row, weft.thread_idx.x] = 1.0
    weft.fence_proxy()
    weft.sync_threads()
    if weft.thread_idx.x == 0:
        weft.tma.store(target, ((rows[0], rows[1], rows[2], rows[3]), 0), tile)
        weft.tma.wait()


@weft.jit
def scatter(a: weft.Tensor[weft.f32, (8, 32)], rows: weft.Tensor[weft.i32, (4,)]):
    scatter_kernel(weft.tensor_map(a, box=(1, 32)), rows).launch(grid=1, block=32)


def test_a_store_before_the_tensor_is_an_error():
    with pytest.raises(AssertionError, match="0 or more along dimension 0"):
        scatter(aligned((8, 32), np.float32), np.array([1, -1, 2, 3], np.int32))


FAKE = weft.fake_tensor(weft.f16, (64, 64), alignment_bytes=16)


@weft.kernel
def copies_kernel(
    source: weft.TensorMap, rows: weft.Tensor, out: weft.Tensor, stores: weft.Constexpr
):
    tile = weft.shared((8, 64), weft.f16, swizzle=128)
    full = weft.mbarrier(1, arrivals=1)
    numbers = tuple(rows[i] for i in range(8))
    if weft.thread_idx.x == 0:
        full[0].arrive(expect_bytes=tile.nbytes)
        weft.tma.load(source, (numbers, 0), tile, full[0], cache="evict_first")
    full[0].wait(0)
    out[weft.thread_idx.x, 0] = tile[0, weft.thread_idx.x]
    if stores and weft.thread_idx.x == 0:
        weft.tma.store(source, (numbers, 0), tile)
        weft.tma.wait()


def copies(architecture, stores):
    @weft.jit
    def host(a: FAKE, rows: weft.Tensor[weft.i32, (8,)]):
        kernel = copies_kernel(weft.tensor_map(a, box=(1, 64), swizzle=128), rows, a, stores)
        kernel.launch(grid=1, block=32)

    return weft.compile(host, options=f"--gpu-arch {architecture}")


@pytest.mark.parametrize("architecture", ["sm_100", "sm_100a", "sm_103a", "sm_110a", "sm_120a"])
def test_four_rows_are_one_instruction(architecture):
    stores = architecture.endswith("a") and architecture != "sm_120a"
    found = copies(architecture, stores)
    assert found.sass.count("UTMALDG.2D.GATHER4") == 2
    assert found.sass.count("UTMASTG.2D.SCATTER4") == 2 * stores
    assert found.ptx.count(".shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes.L2") == 2


@pytest.mark.parametrize(("architecture", "stores"), [("sm_90a", False), ("sm_120a", True)])
def test_an_architecture_without_them_is_refused(architecture, stores):
    name = "store" if stores else "load"
    with pytest.raises(UnavailableError, match=f"tma.{name} of rows by index needs sm_100"):
        copies(architecture, stores)
