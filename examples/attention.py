# SPDX-License-Identifier: Apache-2.0
"""Attention forward on Hopper (FlashAttention-3): warp specialization, softmax while the tensor cores run.

O = softmax(scale · Q Kᵀ) V, by online softmax over blocks of keys, last to first. With scores S, row maximum m and row
sum l, a block gives m' = max(m, rowmax S), P = exp(S - m'), l' = l · exp(m - m') + rowsum P and
O' = O · exp(m - m') + P V; in the end O is divided by l (Shah et al., 2024, arXiv:2407.08608).

`q` and `out` are (batch, queries, heads, hdim), `k` and `v` (batch, keys, key heads, hdim), float16 or bfloat16; key
heads are shared by heads (GQA). With `causal` a query sees the keys up to its own, the last query all. A producer
warpgroup loads by TMA; two or three consumer warpgroups multiply, 64 queries each.
"""

from __future__ import annotations

import math

import weft

BLOCK_N, STAGES = 128, 2  # keys of a block; blocks of K and V in shared memory
LOG2_E = math.log2(math.e)


def mask(s, first_query, first_key, queries, keys, causal):
    """Scores, -inf beyond the last key and, with `causal`, after the query's own."""

    def hide(x, row, column):
        last = first_query + row + keys - queries if causal else keys - 1
        return weft.where(first_key + column <= min(last, keys - 1), x, -math.inf)

    return s.map(hide, coordinates=True)


def online_softmax(s, row_max, row_sum, scale, profiler):
    """P of a block, the new row maximum and sum, and the factor of the earlier sums."""
    with profiler.range("softmax"):
        new_max = s.row_max().map(max, row_max)
        base = new_max.map(lambda m: weft.where(m == -math.inf, 0.0, m * scale))
        alpha = row_max.map(lambda m, b: weft.math.exp2(m * scale - b, approx=True), base)
        p = s.map(lambda x, b: weft.math.exp2(x * scale - b, approx=True), base)
        row_sum = row_sum.map(lambda y, a, more: y * a + more, alpha, p.row_sum(partial=True))
    return p, new_max, row_sum, alpha


@weft.kernel
def attention_kernel(
    q: weft.TensorMap, k: weft.TensorMap, v: weft.TensorMap, out, keys: weft.i32,
    group_size: weft.i32, scale: weft.f32, consumers: weft.Constexpr[int],
    causal: weft.Constexpr[bool], profiled: weft.Constexpr[bool],
):  # fmt: skip
    """A block: the next 64 queries of a head for each consumer."""
    queries, hdim, dtype = out.shape[1], out.shape[3], out.dtype
    block_m, head, batch = 64 * consumers, weft.block_idx.y, weft.block_idx.z
    profiler = weft.profiler.Profiler(groups=consumers + 1, enabled=profiled)
    q_tile = weft.shared((block_m, hdim), dtype, swizzle=128)
    k_ring = weft.shared((STAGES, BLOCK_N, hdim), dtype, swizzle=128)
    v_ring = weft.shared((STAGES, BLOCK_N, hdim), dtype, swizzle=128)
    q_full = weft.mbarrier(1, arrivals=1)
    k_full, v_full = (weft.mbarrier(STAGES, arrivals=1) for _ in "kv")
    k_empty, v_empty = (weft.mbarrier(STAGES, arrivals=4 * consumers) for _ in "kv")
    first = block_m * (weft.grid_dim.x - 1 - weft.block_idx.x)  # causal: most keys first
    ahead, role, leader = keys - queries, weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    profiler.init(role, leader)
    visible = min(keys, first + block_m + ahead) if causal else keys
    blocks = max(weft.ceil_div(visible, BLOCK_N), 1)
    if role == 0:  # producer
        weft.setmaxnreg(24 if consumers == 2 else 32)
        if leader:
            q_full[0].arrive(expect_bytes=q_tile.nbytes)
            weft.tma.load(q, (batch, first, head, 0), q_tile, q_full[0])
            stage = weft.PipelineState(STAGES, producer=True)
            for block in range(blocks - 1, -1, -1):
                at = (batch, BLOCK_N * block, head // group_size, 0)
                for x, ring, full, empty in (
                    (k, k_ring, k_full, k_empty),
                    (v, v_ring, v_full, v_empty),
                ):
                    empty[stage].wait()
                    with profiler.range("load"):
                        full[stage].arrive(expect_bytes=ring[stage].nbytes)
                        weft.tma.load(x, at, ring[stage], full[stage])
                stage = stage.next()
    else:  # consumer
        weft.setmaxnreg(240 if consumers == 2 else 160)
        first_query, stage = first + 64 * (role - 1), weft.PipelineState(STAGES)
        full_blocks = (first_query + ahead) // BLOCK_N if causal else keys // BLOCK_N  # unmasked
        q_own = q_tile.tile((64, hdim), (role - 1, 0))
        q_full[0].wait(0)
        k_full[stage].wait()
        s = weft.wgmma.wait(weft.wgmma.mma(q_own, k_ring[stage].T))
        k_empty[stage].release()
        s = mask(s, first_query, BLOCK_N * (blocks - 1), queries, keys, causal)
        row_max, row_sum = s.rows(-math.inf), s.rows(0.0)
        p, row_max, row_sum, _ = online_softmax(s, row_max, row_sum, scale, profiler)
        p, o = p.to(dtype).as_operand_a(), weft.wgmma.accumulator((64, hdim), weft.f32)
        for block in range(blocks - 2, -1, -1):
            following = stage.next()
            k_full[following].wait()
            s = weft.wgmma.mma(q_own, k_ring[following].T)
            v_full[stage].wait()
            profiler.begin_async("P·V", role)
            o = weft.wgmma.mma(p, v_ring[stage], o, accumulate=block < blocks - 2)
            s = weft.wgmma.wait(s, pending=1)  # P·V still runs
            k_empty[following].release()
            if block >= full_blocks:
                s = mask(s, first_query, BLOCK_N * block, queries, keys, causal)
            p, row_max, row_sum, alpha = online_softmax(s, row_max, row_sum, scale, profiler)
            o = weft.wgmma.wait(o)
            profiler.end_async("P·V", role)
            v_empty[stage].release()
            o, p = o.map(lambda x, a: x * a, alpha), p.to(dtype).as_operand_a()
            stage = following
        v_full[stage].wait()
        o = weft.wgmma.wait(weft.wgmma.mma(p, v_ring[stage], o, accumulate=blocks > 1))
        with profiler.range("store"):
            inverse = row_sum.quad_sum().map(lambda y: weft.where(y == 0, 0.0, 1.0 / y))
            o = o.map(lambda x, i: x * i, inverse).to(dtype)
            o.store(out[batch, :, head], (first_query, 0))


def attention_for(hdim: int):
    """The host function for heads of 64 or 128 elements; hdim 64 leaves registers for a third consumer."""
    consumers = 2 if hdim == 128 else 3

    @weft.jit
    def attention(
        q: weft.Tensor[None, ("batch", "queries", "heads", hdim)],
        k: weft.Tensor[None, ("batch", "keys", "k_heads", hdim)],
        v: weft.Tensor[None, ("batch", "keys", "k_heads", hdim)],
        out: weft.Tensor[None, ("batch", "queries", "heads", hdim)],
        scale: weft.f32,
        causal: weft.Constexpr[bool] = True,
        profiled: weft.Constexpr[bool] = False,
    ):
        """out = softmax(scale · q · kᵀ) · v, by batch and head."""
        block_m, heads, group_size = 64 * consumers, q.shape[2], q.shape[2] // k.shape[2]
        maps = [
            weft.tensor_map(one, box=(1, rows, 1, hdim), swizzle=128)
            for one, rows in ((q, block_m), (k, BLOCK_N), (v, BLOCK_N))
        ]
        arguments = *maps, out, k.shape[1], group_size, scale * LOG2_E, consumers, causal, profiled
        grid = weft.ceil_div(q.shape[1], block_m), heads, q.shape[0]
        attention_kernel(*arguments).launch(grid=grid, block=128 * (consumers + 1))

    return attention


attention = attention_for(128)

if __name__ == "__main__":
    from examples.checks.attention import EXAMPLE
    from examples.common import show

    show(EXAMPLE)
