# SPDX-License-Identifier: Apache-2.0
"""The sum of a vector and that of its squares: chunks stream through shared memory, and the blocks' sums meet in `red`.

Shapes: `a` is a vector of float32 of any length, `sums` has two elements, to which both sums are added. One producer
warp per block issues bulk copies, four chunks ahead of the others: enough bytes are in flight to saturate the memory,
and no thread waits for its own load. The consumer warps sum each chunk as it arrives, four elements at once. In the end
each warp adds its two sums to the result by `red`, which returns no value, so that the L2 cache does the addition.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.profiler import Profiler

Vector = Annotated[weft.Tensor, weft.fake_tensor(weft.f32, ("n",), alignment_bytes=16)]
CHUNK, STAGES = 4096, 4  # elements of a chunk: 16 kB
WARPS = 8  # that add


@weft.kernel(max_threads=32 * (WARPS + 1))
def sums_kernel(a: weft.Tensor, sums: weft.Tensor, profiled: weft.Constexpr[bool]):
    """Each block: every `gridDim`-th chunk."""
    p = Profiler(groups=[*(f"add {i}" for i in range(WARPS)), "copy"], enabled=profiled)
    p.init(weft.warp_id(), weft.elect_one())
    ring = weft.shared((STAGES, CHUNK), weft.f32)
    full = weft.mbarrier(STAGES, arrivals=1)
    empty = weft.mbarrier(STAGES, arrivals=WARPS)
    thread, n = weft.thread_idx.x, a.shape[0]
    whole = n // 4 * 4  # bulk copies are multiples of 16 bytes
    begin, stride = CHUNK * weft.block_idx.x, CHUNK * weft.grid_dim.x

    if weft.warp_id() == WARPS:
        if weft.elect_one():
            state = weft.PipelineState(STAGES, producer=True)
            for first in range(begin, whole, stride):
                count = min(CHUNK, whole - first)
                with p.range("wait"):
                    empty[state].wait()
                full[state].arrive(expect_bytes=4 * count)
                source = a[first : first + count]
                p.begin_async("load", state.index)
                weft.bulk_copy(ring[state][:count], source, full[state], cache="evict_first")
                state = state.next()
    else:
        state = weft.PipelineState(STAGES)
        total, squares = 0.0, 0.0
        for first in range(begin, whole, stride):
            count = min(CHUNK, whole - first)
            with p.range("wait"):
                full[state].wait()
            if weft.warp_id() == 0:
                p.end_async("load", state.index)
            with p.range("add"):
                for i in range(4 * thread, count, 4 * 32 * WARPS):
                    x, y, z, w = weft.load_vector(ring[state], i, 4)
                    total += (x + y) + (z + w)
                    squares += (x * x + y * y) + (z * z + w * w)
            empty[state].release()
            state = state.next()
        if weft.block_idx.x == 0 and whole + thread < n:  # up to three more
            rest = a[whole + thread]
            total += rest
            squares += rest * rest
        with p.range("store"):
            total, squares = weft.warp.sum(total), weft.warp.sum(squares)
            if weft.lane_id() == 0:
                weft.atomic_add(sums, 0, total)
                weft.atomic_add(sums, 1, squares)


@weft.jit
def add_sums(a: Vector, sums: weft.Tensor[weft.f32, (2,)], profiled: weft.Constexpr[bool] = False):
    """Add the vector's sum and that of its squares to `sums`."""
    blocks = min(weft.ceil_div(a.shape[0], CHUNK), 2 * weft.multiprocessors())
    sums_kernel(a, sums, profiled).launch(grid=max(blocks, 1), block=32 * (WARPS + 1))


def make_arguments(size: int) -> Arguments:
    """A vector of about that length that ends within a chunk."""
    a = np.random.default_rng(38).random(size // 4 * 4 + 3, np.float32)
    return {"a": a, "sums": np.zeros(2, np.float32)}


def fake_arguments():
    """A vector that begins at a multiple of 16 bytes, and two numbers."""
    vector = weft.fake_tensor(weft.f32, (weft.sym("n"),), alignment_bytes=16)
    return vector, weft.fake_tensor(weft.f32, (2,))


def reference(a: np.ndarray, sums: np.ndarray) -> Arrays:
    """What NumPy says, in float64."""
    wide = a.astype(np.float64)
    return {"sums": (sums + np.array((wide.sum(), (wide * wide).sum()))).astype(np.float32)}


EXAMPLE = Example(
    name="bulk_reduction",
    function=add_sums,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"{size // 4 * 4 + 3} f32",
    size=1 << 22,
    test_size=50_000,
    tolerance=1e-5,  # sums of many numbers in another order
    instructions=("cp.async.bulk.shared::", "mbarrier.try_wait", "ld.shared.v4"),
)

if __name__ == "__main__":
    show(EXAMPLE)
