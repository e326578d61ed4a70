# SPDX-License-Identifier: Apache-2.0
"""Swizzled arrays, tiles and transposed matrices: the elements of the same array, whatever lies where."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from tests.sampling import sampled

DTYPES = {weft.u8: np.uint8, weft.f16: np.float16, weft.f32: np.float32, weft.f64: np.float64}
SWIZZLES = (32, 64, 128)
THREADS = 64


def numbered(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 251).astype(dtype).reshape(shape)


@pytest.mark.parametrize(
    ("atoms", "dtype", "swizzle"),
    sampled(itertools.product([1, 3], DTYPES, SWIZZLES), 5, several=True),
    ids=str,
)
def test_tiles_of_a_swizzled_ring_have_the_elements_of_the_array(dtype, swizzle, atoms):
    """Written through the array, read through tiles of part of a swizzle atom, of one atom and of all."""
    width = swizzle // dtype.itemsize
    rows, columns = 16, atoms * width
    part = width // 2

    @weft.kernel
    def kernel(a: weft.Tensor, narrow: weft.Tensor, wide: weft.Tensor, transposed: weft.Tensor):
        ring = weft.shared((2, rows, columns), dtype, swizzle=swizzle)
        t = weft.thread_idx.x
        for slot in range(2):
            for i in range(t, rows * columns, THREADS):
                ring[slot, i // columns, i % columns] = a[slot, i // columns, i % columns]
        weft.sync_threads()
        for slot in range(2):
            for j in range(columns // part):
                tile = ring[slot].tile((8, part), (1, j))
                for i in range(t, 8 * part, THREADS):
                    narrow[slot, i // part, j * part + i % part] = tile[i // part, i % part]
            for j in weft.static_range(atoms):
                tile = ring[slot].tile((8, width), (0, j))
                for i in range(t, 8 * width, THREADS):
                    wide[slot, i // width, j * width + i % width] = tile[i // width, i % width]
            other = ring[slot].T.tile((columns, 8), (0, 1))
            for i in range(t, columns * 8, THREADS):
                transposed[slot, i // 8, i % 8] = other[i // 8, i % 8]

    @weft.jit
    def host(a, narrow, wide, transposed):
        kernel(a, narrow, wide, transposed).launch(grid=1, block=THREADS)

    a = numbered((2, rows, columns), DTYPES[dtype])
    narrow, wide = np.zeros((2, 2, 8, columns), DTYPES[dtype])
    transposed = np.zeros((2, columns, 8), DTYPES[dtype])
    host(a, narrow, wide, transposed)
    np.testing.assert_array_equal(narrow, a[:, 8:])
    np.testing.assert_array_equal(wide, a[:, :8])
    np.testing.assert_array_equal(transposed, a[:, 8:].swapaxes(1, 2))


@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_vectors_of_a_row_are_its_elements(swizzle):
    columns = 128

    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor):
        source = weft.shared((16, columns), weft.f16, swizzle=swizzle)
        target = weft.shared((16, columns), weft.f16, swizzle=swizzle)
        t = weft.thread_idx.x
        for i in range(t, 16 * columns, THREADS):
            source[i // columns, i % columns] = a[i // columns, i % columns]
        weft.sync_threads()
        for i in range(t, 16 * columns // 8, THREADS):
            place = i // (columns // 8), 8 * (i % (columns // 8))
            weft.store_vector(target, place, weft.load_vector(source, place, 8))
        weft.sync_threads()
        for i in range(t, 16 * columns, THREADS):
            b[i // columns, i % columns] = target[i // columns, i % columns]

    @weft.jit
    def host(a, b):
        kernel(a, b).launch(grid=1, block=THREADS)

    a = numbered((16, columns), np.float16)
    host(a, b := np.zeros_like(a))
    np.testing.assert_array_equal(b, a)


def test_atomics_reach_the_elements_of_a_swizzled_array():
    @weft.kernel
    def kernel(b: weft.Tensor):
        counts = weft.shared((8, 32), weft.i32, swizzle=128)
        t = weft.thread_idx.x
        for i in range(t, 256, THREADS):
            counts[i // 32, i % 32] = i
        weft.sync_threads()
        for i in range(256):
            weft.atomic_add(counts, (i // 32, i % 32), 1)
        weft.sync_threads()
        for i in range(t, 256, THREADS):
            b[i] = counts[i // 32, i % 32]

    @weft.jit
    def host(b: weft.Tensor[weft.i32, (256,)]):
        kernel(b).launch(grid=1, block=THREADS)

    host(b := np.zeros(256, np.int32))
    np.testing.assert_array_equal(b, np.arange(256) + THREADS)


def test_loops_and_helpers_take_swizzled_tiles():
    def first(tile):
        return tile[0, 0]

    @weft.kernel
    def kernel(b: weft.Tensor):
        ring = weft.shared((2, 8, 64), weft.f16, swizzle=128)
        t = weft.thread_idx.x
        if t < 2:
            ring[t, 0, 0] = weft.f16(t + 1)
        weft.sync_threads()
        tile = ring[0]
        total = weft.f16(0)
        for i in range(4):
            total += first(tile)
            tile = ring[1] if i % 2 == 0 else ring[0]
        b[t] = total

    @weft.jit
    def host(b: weft.Tensor[weft.f16, (THREADS,)]):
        kernel(b).launch(grid=1, block=THREADS)

    host(b := np.zeros(THREADS, np.float16))
    assert set(b.tolist()) == {6.0}


@pytest.mark.parametrize("layout", ["contiguous", "inner", "strided"])
def test_tiles_and_transposes_of_any_tensor(layout):
    @weft.kernel
    def kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor, facts: weft.Tensor):
        tile = a.tile((4, 2), (weft.block_idx.x, 1))
        i, j = weft.thread_idx.x // 2, weft.thread_idx.x % 2
        b[weft.block_idx.x, i, j] = tile[i, j]
        transposed = a.T
        c[weft.block_idx.x, j, i] = transposed.tile((2, 4), (1, weft.block_idx.x))[j, i]
        facts[0], facts[1], facts[2], facts[3] = (
            tile.nbytes,
            a.nbytes,
            transposed.shape[0],
            transposed.shape[1],
        )

    @weft.jit
    def host(a, b, c, facts):
        kernel(a, b, c, facts).launch(grid=2, block=8)

    a = numbered((8, 6), np.float32)
    given = {
        "contiguous": a,
        "inner": np.concatenate([a, a], axis=1)[:, :6],
        "strided": np.asfortranarray(a),
    }[layout]
    b, c = np.zeros((2, 4, 2), np.float32), np.zeros((2, 2, 4), np.float32)
    host(given, b, c, facts := np.zeros(4, np.int64))
    np.testing.assert_array_equal(b, a.reshape(2, 4, 6)[:, :, 2:4])
    np.testing.assert_array_equal(c, b.swapaxes(1, 2))
    assert facts.tolist() == [32, 192, 6, 8]
