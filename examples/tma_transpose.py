# SPDX-License-Identifier: Apache-2.0
"""Transposes a matrix by TMA: a tile is loaded to swizzled memory, transposed through registers, and stored.

Shapes: `a` is m x n and `b` n x m, float32; both sides are multiples of four, since a row of a tensor map is a multiple
of 16 bytes. A warp transposes a tile of 32 x 32: each lane reads its row in chunks of 16 bytes, the warp writes whole
rows. The swizzle keeps both free of bank conflicts, with plain indices. Edges need no code.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.profiler import Profiler

TILE, WARPS = 32, 8


@weft.kernel(max_threads=32 * WARPS)
def transpose_kernel(a: weft.TensorMap, b: weft.TensorMap, profiled: weft.Constexpr[bool]):
    """Each warp: one tile."""
    loaded = weft.shared((WARPS, TILE, TILE), weft.f32, swizzle=128)
    transposed = weft.shared((WARPS, TILE, TILE), weft.f32, swizzle=128)
    full = weft.mbarrier(WARPS, arrivals=1)
    warp, lane = weft.warp_id(), weft.lane_id()
    row, column = TILE * weft.block_idx.y, TILE * (WARPS * weft.block_idx.x + warp)
    leader = weft.elect_one()
    p = Profiler(groups=[f"warp {i}" for i in range(WARPS)], enabled=profiled)
    p.init(warp, leader)

    p.start("load")
    if leader:
        full[warp].arrive(expect_bytes=loaded[warp].nbytes)
        weft.tma.load(a, (row, column), loaded[warp], full[warp])
    full[warp].wait(0)
    p.end("load")
    with p.range("transpose"):
        for j in weft.static_range(TILE // 4):
            values = weft.load_vector(loaded[warp], (lane, 4 * j), 4)
            for k in weft.static_range(4):
                transposed[warp][4 * j + k, lane] = values[k]
        weft.fence_proxy()  # makes this thread's writes visible to TMA
        weft.sync_warp()
    with p.range("store"):
        if leader:
            weft.tma.store(b, (column, row), transposed[warp])
            weft.tma.wait()


@weft.jit
def transpose(
    a: weft.Tensor[weft.f32, ("m", "n")],
    b: weft.Tensor[weft.f32, ("n", "m")],
    profiled: weft.Constexpr[bool] = False,
):
    """b = aᵀ."""
    box = (TILE, TILE)
    grid = weft.ceil_div(a.shape[1], TILE * WARPS), weft.ceil_div(a.shape[0], TILE)
    maps = weft.tensor_map(a, box=box, swizzle=128), weft.tensor_map(b, box=box, swizzle=128)
    transpose_kernel(*maps, profiled).launch(grid=grid, block=32 * WARPS)


def make_arguments(size: int) -> Arguments:
    """A matrix of about that size, whose tiles are cut off at both edges."""
    random = np.random.default_rng(36)
    m, n = size // 4 * 4 + 4, size // 4 * 4 + 72
    return {"a": random.random((m, n), np.float32), "b": np.empty((n, m), np.float32)}


def fake_arguments():
    """Matrices that tensor maps take."""
    m, n = weft.sym("m", divisibility=4), weft.sym("n", divisibility=4)
    return tuple(weft.fake_tensor(weft.f32, s, alignment_bytes=16) for s in ((m, n), (n, m)))


def reference(a: np.ndarray, b: np.ndarray) -> Arrays:
    """What NumPy says."""
    return {"b": a.T}


EXAMPLE = Example(
    name="tma_transpose",
    function=transpose,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"{size // 4 * 4 + 4}x{size // 4 * 4 + 72} f32",
    size=1024,
    test_size=200,
    tolerance=0.0,
    instructions=(
        "cp.async.bulk.tensor.2d",
        "mbarrier.try_wait",
        "ld.shared.v4",
        "fence.proxy.async",
    ),
)

if __name__ == "__main__":
    show(EXAMPLE)
