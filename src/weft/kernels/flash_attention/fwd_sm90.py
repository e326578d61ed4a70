# SPDX-License-Identifier: Apache-2.0
"""Attention forward on Hopper (FlashAttention-3): warp specialization, softmax while the tensor cores run.

Computes O = softmax(scale · Q Kᵀ) V and lse = logsumexp(scale · Q Kᵀ), for each sequence and head, by online softmax
over blocks of keys, last to first (Shah et al., 2024, arXiv:2407.08608).

A producer warpgroup loads Q, and K and V into double buffers, by TMA. Consumer warpgroups compute 64 queries each:
three up to heads of 96, which need fewer registers, else two. Q·Kᵀ of the next block is issued together with P·V of
this one, and its softmax runs between the two waits. Where that was faster, the consumers issue in turn (ping-pong), so
that softmax of one overlaps with MMAs of another. TMA fills columns beyond a head with zeros. Rows of V after the last
key of a sequence are read and multiplied by 0: they may not be infinite.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import weft
from weft.kernels.flash_attention.softmax import (
    HIDDEN,
    LOG2_E,
    Mask,
    cap_scores,
    factor_and_cap,
    key_begin,
    key_end,
    mask_scores,
    multiply,
    online_softmax,
    store_result,
)
from weft.kernels.flash_attention.varlen import sequence_at, zero_padding_around

HDIMS: Final = (32, 64, 96, 128, 192, 256)
"""Columns of tiles; other heads have the next larger ones."""
STAGES: Final = 2


class AttentionConfig(NamedTuple):
    """Tiles and warpgroups of a block, known at compile time.

    Attributes:
        hdim, hdim_v: columns of tiles of Q and K, and of V.
        consumers: warpgroups that multiply, 64 queries each.
        tile_n: keys of a stage.
        in_turn: whether consumers issue their MMAs one after the other.
    """

    hdim: weft.Constexpr[int]
    hdim_v: weft.Constexpr[int]
    consumers: weft.Constexpr[int]
    tile_n: weft.Constexpr[int]
    in_turn: weft.Constexpr[bool]

    @property
    def tile_m(self) -> int:
        """Queries per block."""
        return 64 * self.consumers


def config_for(hdim: int, hdim_v: int, causal: bool) -> AttentionConfig:
    """Tiles that fit into registers and shared memory, of heads up to 256; those that were fastest."""
    hdim, hdim_v = columns_for(hdim), columns_for(hdim_v)
    largest = max(hdim, hdim_v)
    if largest <= 96:
        is_small = largest <= 64
        return AttentionConfig(hdim, hdim_v, 3, 128 if is_small else 112, not is_small)
    if largest <= 128:
        return AttentionConfig(hdim, hdim_v, 2, 128, True)
    tile_n = 80 if largest > 192 else 128 if hdim_v <= 128 else 112
    return AttentionConfig(hdim, hdim_v, 2, tile_n, not causal)


def columns_for(hdim: int) -> int:
    """Columns of a tile for heads of that size."""
    return next(columns for columns in HDIMS if hdim <= columns)


def swizzle_for(columns: int) -> int:
    """The widest swizzle that rows of 16-bit elements are a multiple of."""
    return 128 if columns % 64 == 0 else 64 if columns % 32 == 0 else 32


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
    cap: weft.f32 | None,
    sinks: weft.Tensor | None,
    mask: Mask,
    config: AttentionConfig,
    profiled: weft.Constexpr[bool] = False,
) -> None:
    """A block: a head's next 64 queries for each consumer; `keys` counts where `cu_seqlens` are None."""
    hdim, hdim_v, consumers, tile_n, in_turn = config
    block_m, dtype, head = config.tile_m, out.dtype, weft.block_idx.y
    groups = ("copy", *(f"multiply {i}" for i in range(consumers)))
    p = weft.profiler.Profiler(groups=groups, enabled=profiled)
    q_tile = weft.shared((block_m, hdim), dtype, swizzle=q.swizzle)
    k_ring = weft.shared((STAGES, tile_n, hdim), dtype, swizzle=k.swizzle)
    v_ring = weft.shared((STAGES, tile_n, hdim_v), dtype, swizzle=v.swizzle)
    q_full = weft.mbarrier(1, arrivals=1)
    k_full, v_full = weft.mbarrier(STAGES, arrivals=1), weft.mbarrier(STAGES, arrivals=1)
    k_empty = weft.mbarrier(STAGES, arrivals=4 * consumers)
    v_empty = weft.mbarrier(STAGES, arrivals=4 * consumers)
    turn = weft.named_barrier(consumers, threads=256) if in_turn else None
    batch, q_start, queries, k_start, keys = sequence_at(
        weft.block_idx.z, cu_seqlens_q, cu_seqlens_k, out.shape[-3], keys
    )
    first = block_m * (weft.grid_dim.x - 1 - weft.block_idx.x)  # causal: most keys first
    role, leader = weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    p.init(role, leader)
    zero_padding_around(out, cu_seqlens_q, q_start, q_start + queries)
    if first >= queries:
        return
    begin = key_begin(mask, first, queries, keys) // tile_n  # of the blocks of keys
    visible = key_end(mask, first + block_m - 1, queries, keys)
    blocks = max(weft.ceil_div(visible, tile_n), begin + 1)
    if role == 0:  # producer
        weft.setmaxnreg(24 if consumers == 2 else 32)
        if leader:
            q_full[0].arrive(expect_bytes=q_tile.nbytes)
            weft.tma.load(q, (*batch, q_start + first, head, 0), q_tile, q_full[0])
            stage = weft.PipelineState(STAGES, producer=True)
            for block in range(blocks - 1, begin - 1, -1):
                at = (*batch, k_start + tile_n * block, head // group_size, 0)
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
        # Blocks between these are seen by all queries of the warpgroup.
        full_end = key_end(mask, first_query, queries, keys) // tile_n
        full_begin = weft.ceil_div(key_begin(mask, first_query + 63, queries, keys), tile_n)
        q_own, stage = q_tile.tile((64, hdim), (consumer, 0)), weft.PipelineState(STAGES)
        following_turn = weft.where(consumer == consumers - 1, 0, consumer + 1)
        if turn is not None and consumer == consumers - 1:
            turn[0].arrive()
        q_full[0].wait(0)
        k_full[stage].wait()
        if turn is not None:
            turn[consumer].sync()
        s = weft.wgmma.mma(q_own, k_ring[stage].T)
        if turn is not None:
            turn[following_turn].arrive()
        s = weft.wgmma.wait(s, pending=0)
        k_empty[stage].release()
        s = cap_scores(s, cap)
        s = mask_scores(s, first_query, tile_n * (blocks - 1), queries, keys, mask)
        sink = None if sinks is None else weft.f32(sinks[head]) * LOG2_E / scale
        row_max, row_sum = s.rows(HIDDEN if sink is None else sink), s.rows(0.0)
        weights, row_max, row_sum, _ = online_softmax(s, row_max, row_sum, scale, p)
        weights = weights.to(dtype).as_operand_a()
        o = weft.wgmma.accumulator((64, hdim_v), weft.f32)
        for block in range(blocks - 2, begin - 1, -1):
            following = stage.next()
            k_full[following].wait()
            if turn is not None:
                turn[consumer].sync()
            s = weft.wgmma.mma(q_own, k_ring[following].T)
            v_full[stage].wait()
            p.begin_async("P·V", consumer)
            o = weft.wgmma.mma(weights, v_ring[stage], o, accumulate=block < blocks - 2)
            if turn is not None:
                turn[following_turn].arrive()
            s = weft.wgmma.wait(s, pending=1)  # P·V still runs
            k_empty[following].release()
            s = cap_scores(s, cap)
            if block >= full_end or (mask.left is not None and block < full_begin):
                s = mask_scores(s, first_query, tile_n * block, queries, keys, mask)
            weights, row_max, row_sum, alpha = online_softmax(s, row_max, row_sum, scale, p)
            o = weft.wgmma.wait(o, pending=0)
            p.end_async("P·V", consumer)
            v_empty[stage].release()
            o = o.map(multiply, alpha)
            weights = weights.to(dtype).as_operand_a()
            stage = following
        v_full[stage].wait()
        o = weft.wgmma.mma(weights, v_ring[stage], o, accumulate=blocks > begin + 1)
        o = weft.wgmma.wait(o, pending=0)
        if turn is not None and consumer == 0:
            turn[0].sync()  # the last arrival
        with p.range("store"):
            own, end = q_start + first, q_start + queries
            of_head = None if lse is None else lse[*batch, head, own:end]
            rows = out[*batch, own:end, head]
            store_result(o, row_sum, row_max, sink, scale, rows, of_head, 64 * consumer)


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
    softcap: weft.f64 | None,
    left: weft.i32 | None,
    right: weft.i32 | None,
    sinks: weft.Tensor | None,
    causal: weft.Constexpr[bool],
    top_left: weft.Constexpr[bool],
    config: weft.Constexpr[AttentionConfig],
) -> None:
    """O and, unless None, lse."""
    batch, hdim, hdim_v = (1,) * (q.ndim - 3), config.hdim, config.hdim_v
    swizzle, swizzle_v = swizzle_for(hdim), swizzle_for(hdim_v)
    attention_kernel(
        weft.tensor_map(q, box=(*batch, config.tile_m, 1, hdim), swizzle=swizzle),
        weft.tensor_map(k, box=(*batch, config.tile_n, 1, hdim), swizzle=swizzle),
        weft.tensor_map(v, box=(*batch, config.tile_n, 1, hdim_v), swizzle=swizzle_v),
        out,
        lse,
        cu_seqlens_q,
        cu_seqlens_k,
        k.shape[-3],
        q.shape[-2] // k.shape[-2],
        *factor_and_cap(scale, softcap),
        sinks,
        Mask(causal, top_left, left, right),
        config,
    ).launch(
        grid=(
            weft.ceil_div(max_seqlen_q, config.tile_m),
            q.shape[-2],
            q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1,
        ),
        block=128 * (config.consumers + 1),
    )
