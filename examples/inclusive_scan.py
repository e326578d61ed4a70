# SPDX-License-Identifier: Apache-2.0
"""Running totals of a vector, in three launches: of each slice, of the slices, and both together.

Shapes: `a` and `totals` have n int32 elements; `of_slices`, with one element for each slice of 256,
passes from launch to launch. Within a warp each lane adds the values 1, 2, 4, 8 and 16 lanes before
it; the last lanes' values are then scanned in the same way by one warp.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 256
WARPS = THREADS // 32


def scan_of_warp(value):
    """The sum of the values of this lane and all lanes before it."""
    lane = weft.lane_id()
    for step in weft.static_range(5):
        distance = 1 << step
        before = weft.shfl_up(value, distance)
        if lane >= distance:
            value += before
    return value


def scan_of_block(value, of_warps):
    """The sum of the values of this thread and all threads before it; all 256 threads call it."""
    value = scan_of_warp(value)
    warp = weft.warp_id()
    if weft.lane_id() == 31:
        of_warps[warp] = value
    weft.sync_threads()
    if warp == 0:
        lane = weft.lane_id()
        scanned = scan_of_warp(of_warps[lane] if lane < WARPS else 0)
        if lane < WARPS:
            of_warps[lane] = scanned
    weft.sync_threads()
    return value if warp == 0 else value + of_warps[warp - 1]


@weft.kernel
def scan_slices_kernel(a: weft.Tensor, totals: weft.Tensor, of_slices: weft.Tensor):
    """One block: the running totals within one slice, and the slice's sum."""
    of_warps = weft.shared(WARPS, weft.i32)
    i = weft.block_idx.x * THREADS + weft.thread_idx.x
    # Threads beyond the end take part: no thread may leave while others wait for the block.
    value = scan_of_block(a[i] if i < a.shape[0] else 0, of_warps)
    if i < a.shape[0]:
        totals[i] = value
    if weft.thread_idx.x == THREADS - 1:
        of_slices[weft.block_idx.x] = value


@weft.kernel
def scan_sums_kernel(of_slices: weft.Tensor):
    """One block in all: running totals of the slices' sums, 256 at a time."""
    of_warps = weft.shared(WARPS, weft.i32)
    before = weft.shared(1, weft.i32)
    thread = weft.thread_idx.x
    if thread == 0:
        before[0] = 0
    for first in range(0, of_slices.shape[0], THREADS):
        i = first + thread
        inside = i < of_slices.shape[0]
        value = scan_of_block(of_slices[i] if inside else 0, of_warps) + before[0]
        if inside:
            of_slices[i] = value
        weft.sync_threads()
        if thread == THREADS - 1:
            before[0] = value
        weft.sync_threads()


@weft.kernel
def add_sums_kernel(totals: weft.Tensor, of_slices: weft.Tensor):
    """One thread: adds what lies before its slice. The first slice has nothing before it."""
    i = (weft.block_idx.x + 1) * THREADS + weft.thread_idx.x
    if i < totals.shape[0]:
        totals[i] += of_slices[weft.block_idx.x]


@weft.jit
def inclusive_scan(
    a: weft.Tensor[weft.i32, ("n",)],
    totals: weft.Tensor[weft.i32, ("n",)],
    of_slices: weft.Tensor[weft.i32, ("slices",)],
):
    """Write the sum of each element and all before it."""
    slices = of_slices.shape[0]
    scan_slices_kernel(a, totals, of_slices).launch(grid=slices, block=THREADS)
    scan_sums_kernel(of_slices).launch(grid=1, block=THREADS)
    add_sums_kernel(totals, of_slices).launch(grid=slices - 1, block=THREADS)


def make_arguments(n: int) -> Arguments:
    """Small integers, and room for totals."""
    a = np.random.default_rng(13).integers(-100, 100, n).astype(np.int32)
    return {"a": a, "totals": np.empty_like(a), "of_slices": np.zeros(-(-n // THREADS), np.int32)}


def fake_arguments():
    """Two vectors of one length, and one for the slices."""
    n, slices = weft.sym("n"), weft.sym("slices")
    return (
        weft.fake_tensor(weft.i32, (n,)),
        weft.fake_tensor(weft.i32, (n,)),
        weft.fake_tensor(weft.i32, (slices,)),
    )


def reference(a: np.ndarray, totals: np.ndarray, of_slices: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"totals": np.cumsum(a, dtype=np.int32)}


EXAMPLE = Example(
    name="inclusive_scan",
    function=inclusive_scan,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} i32",
    size=1 << 21,
    test_size=100_003,
    instructions=("shfl.sync.up", "bar.sync"),
)

if __name__ == "__main__":
    show(EXAMPLE)
