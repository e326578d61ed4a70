# SPDX-License-Identifier: Apache-2.0
"""Sorting by digits: count each digit per block, turn the counts into places, and move the keys there.

Shapes: `keys` and `spare` have n uint32, `counts` is 16 x the number of blocks, int32. Each of the eight passes
sorts by four bits and keeps the order of equal digits, so that the last pass leaves all in order.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 256
BITS = 4
DIGITS = 1 << BITS
WARPS = THREADS // 32


@weft.kernel
def count_kernel(keys: weft.Tensor, counts: weft.Tensor, shift: weft.i32):
    """One block: how often each digit is in its part."""
    found = weft.shared(DIGITS, weft.i32)
    thread = weft.thread_idx.x
    if thread < DIGITS:
        found[thread] = 0
    weft.sync_threads()
    i = weft.block_idx.x * THREADS + thread
    if i < len(keys):
        weft.atomic_add(found, (keys[i] >> shift) % DIGITS, 1)
    weft.sync_threads()
    if thread < DIGITS:
        counts[thread, weft.block_idx.x] = found[thread]


@weft.kernel
def place_kernel(counts: weft.Tensor):
    """One warp: each count becomes the number of keys before those that it counts."""
    lane = weft.lane_id()
    before = 0
    for digit in range(DIGITS):
        row = counts[digit]
        for first in range(0, len(row), 32):
            is_there = first + lane < len(row)
            own = row[first + lane] if is_there else 0
            total = own
            for step in (1, 2, 4, 8, 16):
                below = weft.shfl_up(total, step)
                total += below if lane >= step else 0
            if is_there:
                row[first + lane] = before + total - own
            before += weft.shfl_idx(total, 31)


@weft.kernel
def move_kernel(keys: weft.Tensor, moved: weft.Tensor, counts: weft.Tensor, shift: weft.i32):
    """One block: its keys in order, each after the equal digits that came before it."""
    of_warps = weft.shared((DIGITS, WARPS), weft.i32)
    thread, warp, lane = weft.thread_idx.x, weft.warp_id(), weft.lane_id()
    i = weft.block_idx.x * THREADS + thread
    is_there = i < len(keys)
    key = keys[i] if is_there else weft.u32(0)
    digit = weft.i32((key >> shift) % DIGITS)
    equal = weft.u32(0)
    for candidate in range(DIGITS):
        votes = weft.ballot(is_there and digit == candidate)
        if digit == candidate:
            equal = votes
        if lane == 0:
            of_warps[candidate, warp] = weft.math.popcount(votes)
    weft.sync_threads()
    if is_there:
        place = counts[digit, weft.block_idx.x]
        for earlier in range(warp):
            place += of_warps[digit, earlier]
        place += weft.math.popcount(equal & ((weft.u32(1) << lane) - 1))
        moved[place] = key


@weft.jit
def radix_sort(
    keys: weft.Tensor[weft.u32, ("n",)],
    spare: weft.Tensor[weft.u32, ("n",)],
    counts: weft.Tensor[weft.i32, (DIGITS, "blocks")],
):
    """Sort the keys in place; `spare` is as long, and `counts` has a column per 256 keys."""
    blocks = counts.shape[1]
    for turn in weft.static_range(32 // BITS):
        source, target = (keys, spare) if turn % 2 == 0 else (spare, keys)
        count_kernel(source, counts, turn * BITS).launch(grid=blocks, block=THREADS)
        place_kernel(counts).launch(grid=1, block=32)
        move_kernel(source, target, counts, turn * BITS).launch(grid=blocks, block=THREADS)


def make_arguments(n: int) -> Arguments:
    """Random keys."""
    keys = np.random.default_rng(16).integers(0, 1 << 32, n, np.uint32)
    blocks = weft.ceil_div(n, THREADS)
    return {
        "keys": keys,
        "spare": np.zeros_like(keys),
        "counts": np.zeros((DIGITS, blocks), np.int32),
    }


def fake_arguments():
    """Any number of keys."""
    keys = weft.fake_tensor(weft.u32, (weft.sym("n"),))
    return keys, keys, weft.fake_tensor(weft.i32, (DIGITS, weft.sym("blocks")))


def reference(keys: np.ndarray, spare: np.ndarray, counts: np.ndarray) -> Arrays:
    """What NumPy's sort gives."""
    return {"keys": np.sort(keys)}


EXAMPLE = Example(
    name="radix_sort",
    function=radix_sort,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} keys",
    size=50_000,
    test_size=3000,
    instructions=("vote.sync.ballot.b32", "shfl.sync", "bar.sync"),
)

if __name__ == "__main__":
    show(EXAMPLE)
