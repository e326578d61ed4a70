# SPDX-License-Identifier: Apache-2.0
"""The area of a quarter circle by throwing darts, with random numbers that are a function of a counter.

Shapes: `hits` has one uint64, the number of darts inside. Philox makes four random words of a counter and a key,
so threads need no state and no result depends on how many threads there are.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 128
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
PAIRS = 16  # of darts per thread


def wide_product(a, b):
    """The upper and the lower half of a 32-bit multiplication."""
    wide = weft.u64(a) * b
    return weft.u32(wide >> 32), weft.u32(wide)


def philox(counter, key):
    """Four random words for a counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in weft.static_range(ROUNDS):
        high0, low0 = wide_product(c0, MULTIPLIERS[0])
        high1, low1 = wide_product(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 += KEY_STEPS[0]
        k1 += KEY_STEPS[1]
    return c0, c1, c2, c3


def is_inside(x, y):
    """Whether a dart hits the quarter circle; its place is the upper 24 bits of each word."""
    u, v = (weft.f32(word >> 8) * 2.0**-24 for word in (x, y))
    return u * u + v * v < 1.0


@weft.kernel
def throw_kernel(hits: weft.Tensor, count: weft.i32, seed: weft.u64):
    """One thread: some darts; one atomic addition per warp."""
    thread = weft.block_idx.x * THREADS + weft.thread_idx.x
    inside = 0
    if thread < count:
        key = weft.u32(seed), weft.u32(seed >> 32)
        for k in range(PAIRS):
            a, b, c, d = philox((weft.u32(thread), weft.u32(k), weft.u32(0), weft.u32(0)), key)
            inside += is_inside(a, b)
            inside += is_inside(c, d)
    inside = weft.warp.sum(inside)
    if weft.lane_id() == 0:
        weft.atomic_add(hits, 0, weft.u64(inside))


@weft.jit
def throw(hits: weft.Tensor[weft.u64, (1,)], count: weft.i32, seed: weft.u64):
    """Add the darts of `count` threads that hit."""
    throw_kernel(hits, count, seed).launch(grid=weft.ceil_div(count, THREADS), block=THREADS)


def make_arguments(count: int) -> Arguments:
    """No dart is thrown yet."""
    return {"hits": np.zeros(1, np.uint64), "count": count, "seed": 0x2545F4914F6CDD1D}


def fake_arguments():
    """Any number of threads, any seed."""
    return weft.fake_tensor(weft.u64, (1,)), 1, np.uint64(1)


def reference(hits: np.ndarray, count: int, seed: int) -> Arrays:
    """The same words, for all threads at once."""
    words = 0xFFFFFFFF
    c0, c1 = np.meshgrid(np.arange(count, dtype=np.uint64), np.arange(PAIRS, dtype=np.uint64))
    c2, c3 = np.zeros_like(c0), np.zeros_like(c0)
    k0, k1 = seed & words, seed >> 32
    for _ in range(ROUNDS):
        first, second = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (second >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            second & np.uint64(words),
            (first >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            first & np.uint64(words),
        )
        k0, k1 = (k0 + KEY_STEPS[0]) & words, (k1 + KEY_STEPS[1]) & words
    u, v, w, x = (
        (word >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
        for word in (c0, c1, c2, c3)
    )
    one = np.float32(1)
    inside = np.count_nonzero(u * u + v * v < one) + np.count_nonzero(w * w + x * x < one)
    return {"hits": hits + np.uint64(inside)}


EXAMPLE = Example(
    name="monte_carlo",
    function=throw,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda count: f"{count * PAIRS * 2:,} darts",
    size=50_000,
    test_size=1000,
    instructions=("redux.sync.add.s32", "atom.global.add.u64"),
)

if __name__ == "__main__":
    show(EXAMPLE)
