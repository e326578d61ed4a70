# SPDX-License-Identifier: Apache-2.0
"""`weft.block.radix_sort` and `merge_sort` against NumPy: every type, both directions, partial blocks, in a loop."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES
from tests.sampling import sampled

ITEMS = 3
SIZES = (1, 5, 33, 256)


@weft.kernel
def sort_kernel(keys: weft.Tensor, values: weft.Tensor, descending: weft.Constexpr[bool]):
    n = keys.shape[0]
    own, with_them = weft.block.load(keys, 0, ITEMS), weft.block.load(values, 0, ITEMS)
    own, with_them = weft.block.radix_sort(own, with_them, descending=descending, count=n)
    weft.block.store(keys, 0, own)
    weft.block.store(values, 0, with_them)


@weft.jit
def sort(
    keys: weft.Tensor,
    values: weft.Tensor,
    threads: weft.i32,
    descending: weft.Constexpr[bool] = False,
):
    sort_kernel(keys, values, descending).launch(grid=1, block=threads)


def order_of(keys: np.ndarray, descending: bool) -> np.ndarray:
    """A stable order with NaN last."""
    if not descending:
        return np.argsort(keys, kind="stable")
    backward = np.argsort(keys[::-1], kind="stable")[::-1]
    order = len(keys) - 1 - backward
    return np.concatenate([order[~np.isnan(keys[order])], order[np.isnan(keys[order])][::-1]])


def check(keys: np.ndarray, threads: int, descending: bool = False) -> None:
    expected = order_of(keys.astype(np.float64) if keys.dtype == np.float16 else keys, descending)
    found, values = keys.copy(), np.arange(len(keys), dtype=np.int32)
    sort(found, values, threads, descending)
    numbers = ~np.isnan(keys[expected])
    assert np.array_equal(found, keys[expected], equal_nan=True)
    assert values[numbers].tolist() == expected[numbers].tolist()


@pytest.mark.parametrize("threads", SIZES)
@pytest.mark.parametrize("missing", [0, 2])
def test_a_blocks_sort_is_stable_at_any_size(threads, missing):
    keys = np.random.default_rng(threads).integers(-20, 20, ITEMS * threads - missing)
    check(keys.astype(np.int32), threads)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype",
    sampled([weft.u8, weft.i64, weft.f16, weft.f32], 2),
    ids=str,
)
def test_every_type_sorts_both_ways_with_its_limits(dtype: weft.DType):
    kind, random = NUMPY_TYPES[dtype], np.random.default_rng(7)
    if dtype.is_float:
        keys = (random.standard_normal(200) * 50).astype(kind)
        keys[::17], keys[3], keys[4], keys[5], keys[6] = np.nan, np.inf, -np.inf, 0, -np.nan
    else:
        limits = np.iinfo(kind)
        keys = random.integers(limits.min, limits.max, 200, dtype=kind, endpoint=True)
        keys[3], keys[4], keys[5] = limits.max, limits.min, limits.max
    check(keys, 80)
    check(keys, 80, descending=True)


@weft.kernel
def by_bits_kernel(keys: weft.Tensor):
    i = weft.thread_idx.x
    for row in range(keys.shape[0]):
        x = weft.block.radix_sort(keys[row, i], bits=(3, 9))
        keys[row, i] = weft.block.radix_sort(x, bits=(0, 3)) if row == 2 else x


@weft.jit
def by_bits(keys: weft.Tensor):
    by_bits_kernel(keys).launch(grid=1, block=keys.shape[1])


@pytest.mark.slow
def test_keys_sort_by_some_bits_in_a_loop():
    keys = np.random.default_rng(8).integers(0, 1 << 10, (4, 90)).astype(np.uint32)
    expected = [row[np.argsort((row >> 3) & 63, kind="stable")] for row in keys]
    expected[2] = expected[2][np.argsort(expected[2] & 7, kind="stable")]
    by_bits(keys)
    assert (keys == expected).all()


@weft.kernel
def merge_kernel(points: weft.Tensor, out: weft.Tensor, count: weft.i32):
    first = 2 * weft.thread_idx.x
    items = [(points[first + k, 0], points[first + k, 1]) for k in weft.static_range(2)]
    items = weft.block.merge_sort(items, lambda p, q: abs(p[0]) < abs(q[0]), count=count)
    for k in weft.static_range(2):
        out[first + k, 0], out[first + k, 1] = items[k]
    out[first, 2] = weft.block.merge_sort(points[first, 0])


@weft.jit
def merge(points: weft.Tensor, out: weft.Tensor, count: weft.i32):
    merge_kernel(points, out, count).launch(grid=1, block=points.shape[0] // 2)


@pytest.mark.parametrize(("threads", "count"), [(1, 2), (33, 66), (100, 157), (128, 256)])
def test_a_comparison_of_ones_own_sorts_records(threads: int, count: int):
    random = np.random.default_rng(count)
    points = random.integers(-9, 9, (2 * threads, 2)).astype(np.int32)
    points[:, 1] = np.arange(len(points))
    out = np.zeros((len(points), 3), np.int32)
    merge(points, out, count)
    order = np.argsort(abs(points[:count, 0]), kind="stable")
    assert (out[:count, :2] == points[order]).all()
    assert (out[count:, :2] == points[count:]).all()
    assert (out[::2, 2] == np.sort(points[::2, 0])).all()
