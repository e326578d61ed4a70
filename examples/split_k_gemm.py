# SPDX-License-Identifier: Apache-2.0
"""A matrix product of few tiles and a long sum: blocks share each tile's sum, and a second kernel adds up their parts.

Shapes: `a` is m x k, `b` is n x k, `c` is m x n = a · bᵀ, float16, summed in float32; rows are multiples of 16 bytes.
With one block for each tile most of a GPU would idle, so several take a part of k each, and leave their sums in scratch
memory. The second kernel is launched before the first has ended: it begins once every block has finished its sum, and
waits for the stores, not for the end of a launch and the beginning of the next.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.profiler import Profiler

BM, BN, BK, STAGES = 64, 128, 64, 4


@weft.kernel
def part_kernel(
    a: weft.TensorMap,
    b: weft.TensorMap,
    parts: weft.Tensor,
    steps: weft.i32,
    profiled: weft.Constexpr[bool],
):
    """One block, one warpgroup: `steps` steps of the sum of one tile."""
    p = Profiler(enabled=profiled)
    a_ring = weft.shared((STAGES, BM, BK), weft.f16, swizzle=128)
    b_ring = weft.shared((STAGES, BN, BK), weft.f16, swizzle=128)
    full = weft.mbarrier(STAGES, arrivals=1)
    row, column, part = BM * weft.block_idx.y, BN * weft.block_idx.x, weft.block_idx.z
    first = steps * part
    leader = weft.elect_one(weft.warpgroup)
    p.init(0, leader)

    def fetch(step, stage):
        full[stage].arrive(expect_bytes=a_ring[stage].nbytes + b_ring[stage].nbytes)
        weft.tma.load(a, (row, BK * step), a_ring[stage], full[stage])
        weft.tma.load(b, (column, BK * step), b_ring[stage], full[stage])
        p.begin_async("load", stage.index)

    ahead = weft.PipelineState(STAGES)
    for step in range(min(STAGES, steps)):
        if leader:
            fetch(first + step, ahead)
        ahead = ahead.next()

    stage = weft.PipelineState(STAGES)
    acc = weft.wgmma.accumulator((BM, BN), weft.f32)
    for step in range(steps):
        with p.range("wait"):
            full[stage].wait()
        p.end_async("load", stage.index)
        with p.range("multiply"):
            acc = weft.wgmma.mma(a_ring[stage], b_ring[stage].T, acc, accumulate=step > 0)
            acc = weft.wgmma.wait(acc, pending=0)
            weft.sync_warpgroup()  # no warp reads this stage any more
        if leader and step + STAGES < steps:
            fetch(first + step + STAGES, stage)
        stage = stage.next()
    weft.grid_dependency_launch()
    with p.range("store"):
        acc.store(parts[part], (row, column))


@weft.kernel
def sum_kernel(parts: weft.Tensor, c: weft.Tensor):
    """c is the sum of the parts."""
    weft.grid_dependency_wait()
    for i, j in weft.each(c.shape):
        total = 0.0
        for part in range(parts.shape[0]):
            total += parts[part, i, j]
        c[i, j] = total


@weft.jit
def gemm(a, b, c, profiled: weft.Constexpr[bool] = False):
    """c = a · bᵀ, for any m, n and k."""
    m_tiles, n_tiles = weft.ceil_div(a.shape[0], BM), weft.ceil_div(b.shape[0], BN)
    all_steps = max(weft.ceil_div(a.shape[1], BK), 1)
    blocks = max(weft.multiprocessors() // (m_tiles * n_tiles), 1)  # for each tile
    steps = weft.ceil_div(all_steps, blocks)
    count = weft.ceil_div(all_steps, steps)
    parts = weft.scratch((count, *c.shape), weft.f32)
    part_kernel(
        weft.tensor_map(a, box=(BM, BK), swizzle=128),
        weft.tensor_map(b, box=(BN, BK), swizzle=128),
        parts,
        steps,
        profiled,
    ).launch(grid=(n_tiles, m_tiles, count), block=128)
    sum_kernel(parts, c).launch(over=c.shape, programmatic=True)


def make_arguments(size: int) -> Arguments:
    """Matrices of 100 and 200 rows of about that size."""
    random = np.random.default_rng(37)
    k = size // 8 * 8 + 8
    a = random.standard_normal((100, k), dtype=np.float32).astype(np.float16)
    b = random.standard_normal((200, k), dtype=np.float32).astype(np.float16)
    return {"a": a, "b": b, "c": np.empty((100, 200), np.float16)}


def fake_arguments():
    """Matrices whose rows are multiples of 16 bytes."""
    m, n, k = weft.sym("m"), weft.sym("n"), weft.sym("k", divisibility=8)
    shapes = (m, k), (n, k), (m, n)
    return tuple(weft.fake_tensor(weft.f16, shape, alignment_bytes=16) for shape in shapes)


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """What NumPy says, in float32."""
    return {"c": (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)}


EXAMPLE = Example(
    name="split_k_gemm",
    function=gemm,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"100x200x{size // 8 * 8 + 8} f16",
    size=16384,
    test_size=1500,
    tolerance=2e-3,
    instructions=("wgmma.mma_async", "griddepcontrol.launch_dependents", "griddepcontrol.wait"),
)

if __name__ == "__main__":
    show(EXAMPLE)
