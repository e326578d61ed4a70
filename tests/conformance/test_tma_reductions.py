# SPDX-License-Identifier: Apache-2.0
"""Tiles that are added to a tensor, and the like: each type against NumPy, from several blocks at once."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported
from tests.sampling import sampled

SUMS = (weft.i32, weft.u32, weft.u64, weft.f16, weft.bf16, weft.f32)
EXTREMES = (weft.i32, weft.u32, weft.i64, weft.u64, weft.f16, weft.bf16)
BITS = (weft.i32, weft.u32, weft.u64)
MEANINGS = {
    "add": (np.add, SUMS),
    "min": (np.minimum, EXTREMES),
    "max": (np.maximum, EXTREMES),
    "and": (np.bitwise_and, BITS),
    "or": (np.bitwise_or, BITS),
    "xor": (np.bitwise_xor, BITS),
}
BLOCKS, ROWS, COLUMNS = 24, 8, 128


def reducer(kind, dtype, waits=True):
    """Each block combines its tile with the same box of `target`."""
    swizzle = 128 if kind in ("add", "min") else None
    columns = 128 // dtype.itemsize

    @weft.kernel
    def kernel(source: weft.TensorMap, target: weft.TensorMap):
        tile = weft.shared((ROWS, columns), dtype, swizzle=swizzle)
        full = weft.mbarrier(1, arrivals=1)
        if weft.thread_idx.x == 0:
            full[0].arrive(expect_bytes=tile.nbytes)
            weft.tma.load(source, (weft.block_idx.x, 0, 0), tile, full[0])
            full[0].wait(0)
            weft.tma.reduce(target, (2, 0), tile, op=kind, cache="evict_last")
            if waits:
                weft.tma.wait()

    @weft.jit
    def host(source, target):
        kernel(
            weft.tensor_map(source, box=(1, ROWS, columns), swizzle=swizzle),
            weft.tensor_map(target, box=(ROWS, columns), swizzle=swizzle),
        ).launch(grid=source.shape[0], block=32)

    return host


@pytest.mark.parametrize(
    ("kind", "dtype"),
    sampled(
        [(kind, dtype) for kind, (_, dtypes) in MEANINGS.items() for dtype in dtypes],
        3,
        several=True,
    ),
    ids=str,
)
def test_every_block_combines_its_tile_with_the_tensor(kind, dtype):
    random = np.random.default_rng(5)
    columns, element = 128 // dtype.itemsize, NUMPY_TYPES[dtype]
    shape = BLOCKS, ROWS, columns
    if dtype.is_float:  # small integers, so that sums are exact in any order
        source = random.integers(-3, 4, shape).astype(element)
    else:
        limits = np.iinfo(element)
        source = random.integers(limits.min, limits.max, shape, element, endpoint=True)
    # Two rows before the box, and the last two of it are beyond the end.
    target = source[0, :ROWS, :].copy()
    expected = target.copy()
    for tile in source:
        expected[2:] = MEANINGS[kind][0](expected[2:], tile[:-2])
    reducer(kind, dtype)(Exported(source), Exported(target))
    np.testing.assert_array_equal(target.astype(object), expected.astype(object))


def fakes(dtype):
    tile = ROWS, 128 // dtype.itemsize
    return (
        weft.fake_tensor(dtype, ("n", *tile), alignment_bytes=16),
        weft.fake_tensor(dtype, tile, alignment_bytes=16),
    )


@pytest.mark.parametrize("kind", sampled(MEANINGS, 3))
def test_a_tile_is_one_instruction(kind):
    dtype = MEANINGS[kind][1][-1]
    found = weft.compile(reducer(kind, dtype), *fakes(dtype), options="--gpu-arch sm_90a")
    assert found.remarks == ()
    assert found.sass.count(f"UTMAREDG.2D.{kind.upper()}") == 1
    assert f"shared::cta.{kind}.tile.bulk_group.L2::cache_hint" in found.ptx
    assert found.ptx.count("createpolicy.fractional.L2::evict_last") == 1


def test_a_block_that_ends_with_a_sum_in_flight_is_an_error():
    source, target = np.ones((1, 8, 32), np.float32), np.ones((8, 32), np.float32)
    with pytest.raises(RuntimeError, match="ended with a copy out of shared memory in flight"):
        reducer("add", weft.f32, waits=False)(Exported(source), Exported(target))
