# SPDX-License-Identifier: Apache-2.0
"""Attention backward from sm_80 on (FlashAttention-2), deterministic: dQ in one kernel, dK and dV in another.

With P = exp(scale · Q Kᵀ - lse), dP = dO Vᵀ and delta = rowsum(dO ∘ O) (Dao, 2023, arXiv:2307.08691):

    dV = Pᵀ dO,    dS = P ∘ (dP - delta),    dQ = scale · dS K,    dK = scale · dSᵀ Q

Both kernels recompute P. One has queries of a block in registers and walks through the keys, the other has keys and
values and walks through the queries: no sum is over several blocks, so none needs atomics, at the price of seven
matmuls instead of five. cp.async loads rings of tiles ahead; a block's own rows come through them first.
"""

from __future__ import annotations

import math
from typing import Final

import weft
from weft.kernels.flash_attention.bwd_preprocess import preprocess
from weft.kernels.flash_attention.fwd_sm80 import (
    AttentionConfig,
    HeadConfig,
    load_block,
    load_operand_a,
    load_tile,
    matmul_add,
    matmul_transposed,
    ring,
)
from weft.kernels.flash_attention.softmax import (
    LOG2_E,
    mask_gradients,
    multiply,
    probability,
    score_gradient,
)
from weft.kernels.flash_attention.varlen import num_tiles, query_tile, tile_at, zero_padding

MAX_HDIM: Final = 128


def configs_for(hdim: int) -> tuple[AttentionConfig, AttentionConfig]:
    """Tile sizes that were fastest, for dQ, and for dK and dV."""
    if hdim <= 64:
        return AttentionConfig(4, 32, 64, 32, 2), AttentionConfig(8, 32, 128, 16, 2)
    return AttentionConfig(8, 16, 64, 64, 2), AttentionConfig(8, 16, 32, 16, 4)


@weft.device
def load_operands_a(
    rings: tuple[weft.Tensor, weft.Tensor],
    sources: tuple[weft.Tensor, weft.Tensor],
    batch: tuple[weft.i32, ...],
    first: weft.i32,
    end: weft.i32,
    head: weft.i32,
    heads: HeadConfig,
    config: AttentionConfig,
) -> list[weft.Fragment]:
    """This warp's rows of two arrays, through the rings, which are free afterwards."""
    for stages, source in zip(rings, sources, strict=True):
        load_block(stages, source, batch, first, end, head, heads, config)
    weft.cp_async.commit()
    weft.cp_async.wait(pending=0)
    weft.sync_threads()
    operands = [load_operand_a(stages, config) for stages in rings]
    weft.sync_threads()
    return operands


@weft.kernel
def dq_kernel(
    grad_out: weft.Tensor,
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    dq: weft.Tensor,
    lse_log2: weft.Tensor,
    delta: weft.Tensor,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    scale: weft.f32,
    heads: HeadConfig,
    config: AttentionConfig,
) -> None:
    """A block: dQ of `tile_m` queries of a head."""
    head, tile_n, stages = weft.block_idx.y, config.tile_n, config.stages
    k_head = head // heads.group_size
    zero_padding(dq, cu_seqlens_q)
    sequence, first = query_tile(
        config.tile_m, cu_seqlens_q, cu_seqlens_k, q.shape[-3], k.shape[-3]
    )
    batch, q_start, queries, k_start, keys = sequence
    if first >= queries:
        return
    k_ring, v_ring = ring(q.dtype, config, heads.hdim), ring(q.dtype, config, heads.hdim_v)
    ahead, own = keys - queries, first + config.warp_m * weft.warp_id()
    q_own, do_own = load_operands_a(
        (k_ring, v_ring),
        (q, grad_out),
        batch,
        q_start + first,
        q_start + queries,
        head,
        heads,
        config,
    )

    def load_keys(block: weft.i32) -> None:
        row, end = k_start + tile_n * block, k_start + keys
        load_tile(k_ring[block % stages], k, batch, row, end, k_head, heads, config.warps)
        load_tile(v_ring[block % stages], v, batch, row, end, k_head, heads, config.warps)
        weft.cp_async.commit()

    def per_row(source: weft.Tensor, beyond: float) -> weft.Fragment:
        values = source[*batch, head]

        def value_of(row: weft.i32) -> weft.f32:
            return values[q_start + own + row] if own + row < queries else weft.f32(beyond)

        return weft.mma.zeros((config.warp_m, config.step_n), weft.f32).rows(value_of)

    lse_rows, delta_rows = per_row(lse_log2, math.inf), per_row(delta, 0.0)
    scale_log2 = scale * LOG2_E
    visible = min(keys, first + config.tile_m + ahead) if heads.causal else keys
    for block in weft.static_range(stages - 1):
        load_keys(block)
    acc = weft.mma.zeros((config.warp_m, heads.hdim), weft.f32)
    for block in range(weft.ceil_div(visible, tile_n)):
        weft.cp_async.wait(pending=stages - 2)
        weft.sync_threads()  # this tile is there for all, and the one before it is free
        load_keys(block + stages - 1)
        k_tile, v_tile = k_ring[block % stages], v_ring[block % stages]
        for step in weft.static_range(tile_n // config.step_n):
            key = tile_n * block + config.step_n * step
            s = matmul_transposed(q_own, k_tile, step, config)
            p = s.map(probability, lse_rows, scale_log2)
            dp = matmul_transposed(do_own, v_tile, step, config)
            ds = p.map(score_gradient, dp, delta_rows)
            if key + config.step_n > (min(keys, own + ahead + 1) if heads.causal else keys):
                ds = mask_gradients(ds, own, key, queries, keys, heads.causal, transposed=False)
            acc = matmul_add(acc, ds, k_tile, step, config)
    acc.map(multiply, scale).store(dq[*batch, q_start : q_start + queries, head], (own, 0))


@weft.kernel
def dkdv_kernel(
    grad_out: weft.Tensor,
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    dk: weft.Tensor,
    dv: weft.Tensor,
    lse_log2: weft.Tensor,
    delta: weft.Tensor,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    scale: weft.f32,
    heads: HeadConfig,
    config: AttentionConfig,
) -> None:
    """A block: dK and dV of `tile_m` keys of a key head."""
    k_head, dtype, tile_n, stages = weft.block_idx.y, q.dtype, config.tile_n, config.stages
    zero_padding(dk, cu_seqlens_k)
    zero_padding(dv, cu_seqlens_k)
    sequence, first = tile_at(
        weft.block_idx.x, config.tile_m, cu_seqlens_k, cu_seqlens_q, k.shape[-3], q.shape[-3]
    )
    batch, k_start, keys, q_start, queries = sequence
    if first >= keys:
        return
    q_ring, do_ring = ring(dtype, config, heads.hdim), ring(dtype, config, heads.hdim_v)
    lse_ring = weft.shared((stages, tile_n), weft.f32)
    delta_ring = weft.shared((stages, tile_n), weft.f32)
    ahead, own = keys - queries, first + config.warp_m * weft.warp_id()
    k_own, v_own = load_operands_a(
        (q_ring, do_ring),
        (k, v),
        batch,
        k_start + first,
        k_start + keys,
        k_head,
        heads,
        config,
    )
    first_query = max(first - ahead, 0) if heads.causal else 0  # that sees a key of this block
    blocks = weft.ceil_div(max(queries - first_query, 0), tile_n)  # per head
    iterations = heads.group_size * blocks

    def load_queries(iteration: weft.i32) -> None:
        member, block = divmod(iteration, max(blocks, 1))
        stage, head = iteration % stages, heads.group_size * k_head + member
        row = q_start + first_query + tile_n * block
        end = weft.where(iteration < iterations, q_start + queries, 0)
        load_tile(q_ring[stage], q, batch, row, end, head, heads, config.warps)
        load_tile(do_ring[stage], grad_out, batch, row, end, head, heads, config.warps)
        for stat_ring, source in ((lse_ring, lse_log2), (delta_ring, delta)):
            if weft.thread_idx.x < tile_n:
                at, i = (*batch, head, row + weft.thread_idx.x), weft.thread_idx.x
                weft.cp_async.copy(stat_ring[stage], i, source, at, 1, pred=row + i < end)
        weft.cp_async.commit()

    def per_column(x: weft.Fragment, values: weft.Tensor, step: int) -> weft.Fragment:
        def value_of(column: weft.i32) -> weft.f32:
            return values[config.step_n * step + column]

        return x.cols(value_of)

    scale_log2 = scale * LOG2_E
    for iteration in weft.static_range(stages - 1):
        load_queries(iteration)
    dk_acc = weft.mma.zeros((config.warp_m, heads.hdim), weft.f32)
    dv_acc = weft.mma.zeros((config.warp_m, heads.hdim_v), weft.f32)
    for iteration in range(iterations):
        weft.cp_async.wait(pending=stages - 2)
        weft.sync_threads()  # this tile is there for all, and the one before it is free
        load_queries(iteration + stages - 1)
        stage = iteration % stages
        for step in weft.static_range(tile_n // config.step_n):
            block = iteration % max(blocks, 1)
            query = first_query + tile_n * block + config.step_n * step
            s = matmul_transposed(k_own, q_ring[stage], step, config)
            p = s.map(probability, per_column(s, lse_ring[stage], step), scale_log2)
            dp = matmul_transposed(v_own, do_ring[stage], step, config)
            is_edge = query + config.step_n > queries
            if heads.causal:
                is_edge = is_edge or query + ahead < own + config.warp_m - 1
            if is_edge:
                p = mask_gradients(p, query, own, queries, keys, heads.causal, transposed=True)
            ds = p.map(score_gradient, dp, per_column(s, delta_ring[stage], step))
            dv_acc = matmul_add(dv_acc, p, do_ring[stage], step, config)
            dk_acc = matmul_add(dk_acc, ds, q_ring[stage], step, config)
    dk_acc.map(multiply, scale).store(dk[*batch, k_start : k_start + keys, k_head], (own, 0))
    dv_acc.store(dv[*batch, k_start : k_start + keys, k_head], (own, 0))


@weft.jit
def attention_backward(
    grad_out: weft.Tensor,
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor,
    dq: weft.Tensor,
    dk: weft.Tensor,
    dv: weft.Tensor,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    scale: weft.f64,
    causal: weft.Constexpr[bool],
    hdims: weft.Constexpr[tuple[int, int, bool]],
    configs: weft.Constexpr[tuple[AttentionConfig, AttentionConfig]],
    aligned: weft.Constexpr[bool],
) -> None:
    """dQ, dK and dV of arrays with any strides; `hdims` as `fwd_sm80.padded` says, `aligned` as `HeadConfig`."""
    heads = HeadConfig(q.shape[-2] // k.shape[-2], *hdims, causal, aligned)
    cu_seqlens, batch = (cu_seqlens_q, cu_seqlens_k), q.shape[0] if q.ndim == 4 else 1
    scale = weft.f32(scale)
    lse_log2, delta = preprocess(grad_out, out, lse)
    dq_config, dkdv_config = configs
    dq_kernel(grad_out, q, k, v, dq, lse_log2, delta, *cu_seqlens, scale, heads, dq_config).launch(
        grid=(num_tiles(q.shape[-3], dq_config.tile_m, cu_seqlens[0]), q.shape[-2], batch),
        block=32 * dq_config.warps,
    )
    dkdv_kernel(
        grad_out, q, k, v, dk, dv, lse_log2, delta, *cu_seqlens, scale, heads, dkdv_config
    ).launch(
        grid=(num_tiles(k.shape[-3], dkdv_config.tile_m, cu_seqlens[1]), k.shape[-2], batch),
        block=32 * dkdv_config.warps,
    )
