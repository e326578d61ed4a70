# SPDX-License-Identifier: Apache-2.0
"""Attention forward on Hopper (FlashAttention-3): warp specialization, softmax while the tensor cores run.

Computes O = softmax(scale · Q Kᵀ) V and lse = logsumexp(scale · Q Kᵀ), for each sequence and head, by online softmax
over blocks of keys, last to first (Shah et al., 2024, arXiv:2407.08608).

A producer warpgroup loads Q, and K and V into double buffers, by TMA. Consumer warpgroups compute 64 queries each: two
for hdim 128, three for hdim 64, which needs fewer registers. Q·Kᵀ of the next block is issued together with P·V of this
one, and its softmax runs between the two waits. TMA fills columns beyond hdim with zeros. Rows of V after the last key
of a sequence are read and multiplied by 0: they may not be infinite.
"""

from __future__ import annotations

from typing import Final

import weft
from weft.kernels.flash_attention.softmax import (
    HIDDEN,
    LOG2_E,
    mask_scores,
    multiply,
    online_softmax,
    reciprocal,
    write_lse,
)
from weft.kernels.flash_attention.varlen import sequence_at, zero_padding_around

BLOCK_N: Final = 128
STAGES: Final = 2


@weft.kernel
def attention_kernel(
    q: weft.TensorMap,
    k: weft.TensorMap,
    v: weft.TensorMap,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    keys: weft.i32,
    group_size: weft.i32,
    scale: weft.f32,
    hdim: weft.Constexpr[int],
    causal: weft.Constexpr[bool],
    consumers: weft.Constexpr[int],
    profiled: weft.Constexpr[bool] = False,
) -> None:
    """A block: a head's next 64 queries for each consumer; `keys` counts where `cu_seqlens` are None."""
    block_m, dtype, head = 64 * consumers, out.dtype, weft.block_idx.y
    groups = ("copy", *(f"multiply {i}" for i in range(consumers)))
    p = weft.profiler.Profiler(groups=groups, enabled=profiled)
    q_tile = weft.shared((block_m, hdim), dtype, swizzle=128)
    k_ring = weft.shared((STAGES, BLOCK_N, hdim), dtype, swizzle=128)
    v_ring = weft.shared((STAGES, BLOCK_N, hdim), dtype, swizzle=128)
    q_full = weft.mbarrier(1, arrivals=1)
    k_full, v_full = weft.mbarrier(STAGES, arrivals=1), weft.mbarrier(STAGES, arrivals=1)
    k_empty = weft.mbarrier(STAGES, arrivals=4 * consumers)
    v_empty = weft.mbarrier(STAGES, arrivals=4 * consumers)
    batch, q_start, queries, k_start, keys = sequence_at(
        weft.block_idx.z, cu_seqlens_q, cu_seqlens_k, out.shape[-3], keys
    )
    # Of a causal grid the blocks with the most keys start first.
    first = block_m * (weft.grid_dim.x - 1 - weft.block_idx.x)
    ahead, role, leader = keys - queries, weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    p.init(role, leader)
    zero_padding_around(out, cu_seqlens_q, q_start, q_start + queries)
    if first >= queries:
        return
    visible = min(keys, first + block_m + ahead) if causal else keys
    blocks = max(weft.ceil_div(visible, BLOCK_N), 1)
    if role == 0:  # producer
        weft.setmaxnreg(24 if consumers == 2 else 32)
        if leader:
            k_head = head // group_size
            q_full[0].arrive(expect_bytes=q_tile.nbytes)
            weft.tma.load(q, (*batch, q_start + first, head, 0), q_tile, q_full[0])
            stage = weft.PipelineState(STAGES, producer=True)
            for block in range(blocks - 1, -1, -1):
                at = (*batch, k_start + BLOCK_N * block, k_head, 0)
                with p.range("wait"):
                    k_empty[stage].wait()
                with p.range("load"):
                    k_full[stage].arrive(expect_bytes=k_ring[stage].nbytes)
                    weft.tma.load(k, at, k_ring[stage], k_full[stage])
                with p.range("wait"):
                    v_empty[stage].wait()
                with p.range("load"):
                    v_full[stage].arrive(expect_bytes=v_ring[stage].nbytes)
                    weft.tma.load(v, at, v_ring[stage], v_full[stage])
                stage = stage.next()
    else:  # consumer
        weft.setmaxnreg(240 if consumers == 2 else 160)
        consumer, first_query = role - 1, first + 64 * (role - 1)
        full_blocks = (first_query + ahead) // BLOCK_N if causal else keys // BLOCK_N  # unmasked
        q_own, stage = q_tile.tile((64, hdim), (consumer, 0)), weft.PipelineState(STAGES)
        q_full[0].wait(0)
        k_full[stage].wait()
        s = weft.wgmma.wait(weft.wgmma.mma(q_own, k_ring[stage].T), pending=0)
        k_empty[stage].release()
        s = mask_scores(s, first_query, BLOCK_N * (blocks - 1), queries, keys, causal)
        row_max, row_sum = s.rows(HIDDEN), s.rows(0.0)
        weights, row_max, row_sum, _ = online_softmax(s, row_max, row_sum, scale, p)
        weights = weights.to(dtype).as_operand_a()
        o = weft.wgmma.accumulator((64, hdim), weft.f32)
        for block in range(blocks - 2, -1, -1):
            following = stage.next()
            k_full[following].wait()
            s = weft.wgmma.mma(q_own, k_ring[following].T)
            v_full[stage].wait()
            p.begin_async("P·V", consumer)
            o = weft.wgmma.mma(weights, v_ring[stage], o, accumulate=block < blocks - 2)
            s = weft.wgmma.wait(s, pending=1)  # P·V still runs
            k_empty[following].release()
            if block >= full_blocks:
                s = mask_scores(s, first_query, BLOCK_N * block, queries, keys, causal)
            weights, row_max, row_sum, alpha = online_softmax(s, row_max, row_sum, scale, p)
            o = weft.wgmma.wait(o, pending=0)
            p.end_async("P·V", consumer)
            v_empty[stage].release()
            o = o.map(multiply, alpha)
            weights = weights.to(dtype).as_operand_a()
            stage = following
        v_full[stage].wait()
        o = weft.wgmma.mma(weights, v_ring[stage], o, accumulate=blocks > 1)
        o = weft.wgmma.wait(o, pending=0)
        with p.range("store"):
            row_sum = row_sum.quad_sum()
            rows = out[*batch, q_start + first : q_start + queries, head]
            o.map(multiply, row_sum.map(reciprocal)).to(dtype).store(rows, (64 * consumer, 0))
            if lse is not None:
                of_head = lse[*batch, head, q_start + first : q_start + queries]
                write_lse(of_head, 64 * consumer, row_sum, row_max, scale)


@weft.jit
def attention(
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    max_seqlen_q: weft.i32,
    scale: weft.f64,
    causal: weft.Constexpr[bool],
    hdim: weft.Constexpr[int],
) -> None:
    """O and, unless None, lse; `hdim`: 64 or 128 columns of a tile."""
    consumers = 2 if hdim == 128 else 3
    batch = (1,) * (q.ndim - 3)
    attention_kernel(
        weft.tensor_map(q, box=(*batch, 64 * consumers, 1, hdim), swizzle=128),
        weft.tensor_map(k, box=(*batch, BLOCK_N, 1, hdim), swizzle=128),
        weft.tensor_map(v, box=(*batch, BLOCK_N, 1, hdim), swizzle=128),
        out,
        lse,
        cu_seqlens_q,
        cu_seqlens_k,
        k.shape[-3],
        q.shape[-2] // k.shape[-2],
        weft.f32(scale * LOG2_E),
        hdim,
        causal,
        consumers,
    ).launch(
        grid=(
            weft.ceil_div(max_seqlen_q, 64 * consumers),
            q.shape[-2],
            q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1,
        ),
        block=128 * (consumers + 1),
    )
