# SPDX-License-Identifier: Apache-2.0
"""`weft.warp` with several items per lane: loads, exchanges, sorts, scans and reductions of each warp against NumPy."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import weft
from tests.sampling import sampled

COUNTS = (3, 1, 4)
SIZES = (1, 31, 70, 256)


@weft.kernel
def items_kernel(
    a: weft.Tensor, out: weft.Tensor, results: weft.Tensor, count: weft.Constexpr[int]
):
    first = (weft.thread_idx.x & -32) * count
    lanes = min(32, weft.block_dim.x - (weft.thread_idx.x & -32))
    place = count * weft.lane_id()
    blocked = weft.warp.load(a, first, count, fill=-1)
    striped = weft.warp.load(a, first, count, fill=-1, order="striped")
    weft.warp.store(out[0], first, weft.warp.to_striped(blocked), order="striped")
    weft.warp.store(out[1], first, weft.warp.to_blocked(striped))
    last = lanes * count - 1
    moved = weft.warp.exchange(
        [(blocked[k], place + k) for k in weft.static_range(count)],
        [last - place - k for k in weft.static_range(count)],
    )
    weft.warp.store(out[2], first, [item for item, _ in moved])
    weft.warp.store(out[3], first, [number for _, number in moved])
    for row in range(2):  # shared memory is used again
        keys, places = weft.warp.radix_sort(
            blocked, [place + k for k in weft.static_range(count)], descending=True
        )
        weft.warp.store(out[4 + row], first, keys if row == 0 else places)
        sorted_ = weft.warp.merge_sort(moved, lambda p, q: p[0] < q[0])
        weft.warp.store(out[6 + row], first, [p if row == 0 else q for p, q in sorted_])
    weft.warp.store(out[8], first, weft.warp.scan(blocked))
    weft.warp.store(out[9], first, weft.warp.exclusive_scan(blocked, max, initial=7))
    weft.warp.store(
        out[10], first, weft.warp.scan(blocked, lambda p, q: q if q > 25 else p, width=8)
    )
    i = weft.thread_idx.x
    results[0, i] = weft.warp.sum(blocked)
    results[1, i] = weft.warp.max(blocked, width=4)
    results[2, i] = weft.warp.argmin(blocked)[1]
    results[3, i] = weft.warp.reduce(blocked, operator.xor, mask=weft.match(weft.lane_id() & 1))


@weft.jit
def items(
    a: weft.Tensor,
    out: weft.Tensor,
    results: weft.Tensor,
    threads: weft.i32,
    count: weft.Constexpr[int],
):
    items_kernel(a, out, results, count).launch(grid=1, block=threads)


@pytest.mark.parametrize("count", sampled(COUNTS, 2))
@pytest.mark.parametrize("threads", SIZES)
def test_the_items_of_each_warp_are_its_own(threads: int, count: int):
    a = np.random.default_rng(threads).integers(0, 50, threads * count).astype(np.int32)
    out, results = np.full((11, len(a)), -7, np.int32), np.zeros((4, threads), np.int32)
    items(a, out, results, threads, count)
    assert (out[:2] == a).all()
    for start in range(0, len(a), 32 * count):
        part = slice(start, start + 32 * count)
        x, found = a[part], out[:, part]
        assert (found[2] == x[::-1]).all() and (found[3] == np.arange(len(x))[::-1]).all()
        order = len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1]
        assert (found[4] == x[order]).all() and (found[5] == order).all()
        backward = np.argsort(x[::-1], kind="stable")
        assert (found[6] == np.sort(x)).all()
        assert (found[7] == np.arange(len(x))[::-1][backward]).all()
        assert (found[8] == np.cumsum(x)).all()
        assert (found[9] == np.maximum.accumulate([7, *x])[:-1]).all()
        lanes = x.reshape(-1, count)
        own = results[:, start // count : start // count + 32]
        assert (own[0] == x.sum()).all() and (own[2] == x.argmin()).all()
        for lane, row in enumerate(own.T):
            group = lanes[lane & -4 : (lane & -4) + 4]
            assert row[1] == group.max()
            assert row[3] == np.bitwise_xor.reduce(lanes[lane & 1 :: 2], axis=None)
        for first in range(0, len(x), 8 * count):  # the last one above 25 of those up to each
            last = x[first]
            for k in range(first, min(first + 8 * count, len(x))):
                last = x[k] if x[k] > 25 else last
                assert found[10, k] == last
