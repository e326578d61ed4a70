# SPDX-License-Identifier: Apache-2.0
"""Sorts a vector with a network of compare-and-exchange steps, in shared memory where they are close.

Shapes: `values` has n float32 elements and is sorted in place; n need not be a power of two. Each
step merges pairs of sorted runs: each element is compared with its mirror image in the pair of runs, then
with elements at half the distance, and so on. Every exchange puts the smaller element first, so that
missing elements beyond the end may count as infinite and never move. Runs of up to 1024 elements are
merged in a block's shared memory; wider steps are launches of their own, and the host function is
their loop.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 512
CHUNK = 2 * THREADS


def exchange(values, first, second):
    """Put the smaller of two elements first, without a branch, which half of random elements would take."""
    a, b = values[first], values[second]
    swap = b < a
    values[first] = b if swap else a
    values[second] = a if swap else b


def lower_of_pair(pair, distance):
    """The first element of a pair of elements that lie `distance` apart; a power of two, whose negative is a mask."""
    return pair + (pair & -distance)


def mirror_image(first, run):
    """The element that an element of one run meets in the next."""
    return 2 * (first & -(2 * run)) + 2 * run - 1 - first


def load_chunk(values, chunk):
    """Copy this block's 1024 elements to shared memory; beyond the end they are infinite."""
    start, thread = weft.block_idx.x * CHUNK, weft.thread_idx.x
    for i in (thread, thread + THREADS):
        chunk[i] = values[start + i] if start + i < values.shape[0] else float("inf")
    weft.sync_threads()


def store_chunk(values, chunk):
    """Copy them back."""
    start, thread = weft.block_idx.x * CHUNK, weft.thread_idx.x
    for i in (thread, thread + THREADS):
        if start + i < values.shape[0]:
            values[start + i] = chunk[i]


def merge_in_chunk(chunk, distance):
    """Steps of this distance, half of it, and so on down to adjacent elements."""
    while distance > 0:
        first = lower_of_pair(weft.thread_idx.x, distance)
        exchange(chunk, first, first + distance)
        weft.sync_threads()
        distance //= 2


@weft.kernel
def sort_chunks_kernel(values: weft.Tensor):
    """One block: sorts 1024 elements."""
    chunk = weft.shared(CHUNK, weft.f32)
    load_chunk(values, chunk)
    run = 1
    while run < CHUNK:
        first = lower_of_pair(weft.thread_idx.x, run)
        exchange(chunk, first, mirror_image(first, run))
        weft.sync_threads()
        merge_in_chunk(chunk, run // 2)
        run *= 2
    store_chunk(values, chunk)


@weft.kernel
def merge_chunks_kernel(values: weft.Tensor):
    """One block: the last steps of a merge, whose distances fit into 1024 elements."""
    chunk = weft.shared(CHUNK, weft.f32)
    load_chunk(values, chunk)
    merge_in_chunk(chunk, CHUNK // 2)
    store_chunk(values, chunk)


@weft.kernel
def mirror_kernel(values: weft.Tensor, run: weft.i32):
    """One thread: an element of one run and its mirror image in the next."""
    first = lower_of_pair(weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x, run)
    second = mirror_image(first, run)
    if second < values.shape[0]:
        exchange(values, first, second)


@weft.kernel
def distant_kernel(values: weft.Tensor, distance: weft.i32):
    """One thread: two elements that lie `distance` apart."""
    first = lower_of_pair(weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x, distance)
    if first + distance < values.shape[0]:
        exchange(values, first, first + distance)


@weft.jit
def bitonic_sort(values: weft.Tensor[weft.f32, ("n",)]):
    """Sort the values."""
    chunks = weft.ceil_div(values.shape[0], CHUNK)
    sort_chunks_kernel(values).launch(grid=chunks, block=THREADS)
    run = CHUNK
    while run < values.shape[0]:
        # Pairs of runs, the last one perhaps without a second run: half as many pairs as elements.
        blocks = weft.ceil_div(values.shape[0], 2 * run) * (run // THREADS)
        mirror_kernel(values, run).launch(grid=blocks, block=THREADS)
        distance = run // 2
        while distance >= CHUNK:
            distant_kernel(values, distance).launch(grid=blocks, block=THREADS)
            distance //= 2
        merge_chunks_kernel(values).launch(grid=chunks, block=THREADS)
        run *= 2


def make_arguments(n: int) -> Arguments:
    """Numbers in no order."""
    return {"values": np.random.default_rng(14).standard_normal(n, dtype=np.float32)}


def fake_arguments():
    """Any number of values."""
    return (weft.fake_tensor(weft.f32, (weft.sym("n"),)),)


def reference(values: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"values": np.sort(values)}


EXAMPLE = Example(
    name="bitonic_sort",
    function=bitonic_sort,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} f32",
    size=1 << 18,
    test_size=10_007,
    instructions=("ld.shared", "st.shared", "bar.sync"),
)

if __name__ == "__main__":
    show(EXAMPLE)
