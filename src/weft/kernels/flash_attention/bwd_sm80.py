# SPDX-License-Identifier: Apache-2.0
"""Attention backward from sm_80 on (FlashAttention-2), deterministic: dQ in one kernel, dK and dV in another.

With P = exp(scale · Q Kᵀ - lse), dP = dO Vᵀ and delta = rowsum(dO ∘ O) (Dao, 2023, arXiv:2307.08691):

    dV = Pᵀ dO,    dS = P ∘ (dP - delta),    dQ = scale · dS K,    dK = scale · dSᵀ Q

Both kernels recompute P. One has queries of a block in registers and walks through the keys, the other has keys and
values and walks through the queries: no sum is over several blocks, so none needs atomics, at the price of seven
matmuls instead of five. cp.async loads rings of tiles ahead; a block's own rows come through them first. For heads
above 128 these stay in shared memory, and two warps share keys: one computes P and dV, the other dS and dK.
"""

from __future__ import annotations

import math
from typing import Final

import weft
from weft.kernels.flash_attention.bwd_preprocess import preprocess
from weft.kernels.flash_attention.fwd_sm80 import (
    AttentionConfig,
    HeadConfig,
    load_own_rows,
    load_tile,
    matmul_add,
    matmul_transposed,
    ring,
)
from weft.kernels.flash_attention.softmax import (
    Mask,
    cap_gradient,
    cap_scores,
    is_masked,
    key_begin,
    key_end,
    mask_columns,
    mask_gradients,
    multiply,
    probability,
    query_begin,
    query_end,
    score_factor,
    score_gradient,
)
from weft.kernels.flash_attention.varlen import num_tiles, query_tile, tile_at, zero_padding

_SMALL_SHARED_BYTES: Final = 99 << 10  # of a block of sm_86 and sm_89


def configs_for(hdim: int, shared_bytes: int) -> tuple[AttentionConfig, AttentionConfig]:
    """Tile sizes for dQ, and for dK and dV: up to 128 those that were fastest, above those that fit.

    Args:
        hdim: the larger one of Q's and V's.
        shared_bytes: the most of a block.
    """
    if hdim <= 64:
        return AttentionConfig(4, 32, 64, 32, 2), AttentionConfig(8, 32, 128, 16, 2)
    if hdim <= 128:
        return AttentionConfig(8, 16, 64, 64, 2), AttentionConfig(8, 16, 32, 16, 4)
    dq_config = AttentionConfig(4, 16, 16, 16, 2, keeps_rows=True)
    dkdv_config = dq_config._replace(warps=8, is_split=True)
    if shared_bytes > _SMALL_SHARED_BYTES:
        return dq_config._replace(stages=4), dkdv_config._replace(tile_n=32, step_n=32)
    return dq_config, dkdv_config


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
    softcap: weft.f32 | None,
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
    mask, own = heads.mask, first + config.warp_m * weft.warp_id()
    q_own, do_own = load_own_rows(
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
    factor = score_factor(scale, softcap)
    begin = key_begin(mask, first, queries, keys) // tile_n  # of the blocks of keys
    visible = key_end(mask, first + config.tile_m - 1, queries, keys)
    for block in weft.static_range(stages - 1):
        load_keys(begin + block)
    acc = weft.mma.zeros((config.warp_m, heads.hdim), weft.f32)
    for block in range(begin, weft.ceil_div(visible, tile_n)):
        weft.cp_async.wait(pending=stages - 2)
        weft.sync_threads()  # this tile is there for all, and the one before it is free
        load_keys(block + stages - 1)
        k_tile, v_tile = k_ring[block % stages], v_ring[block % stages]
        for step in weft.static_range(tile_n // config.step_n):
            key = tile_n * block + config.step_n * step
            s = matmul_transposed(q_own, k_tile, step, config)
            if softcap is not None:
                s = cap_scores(s, scale / softcap)
            p = s.map(probability, lse_rows, factor)
            dp = matmul_transposed(do_own, v_tile, step, config)
            ds = p.map(score_gradient, dp, delta_rows)
            if softcap is not None:
                ds = ds.map(cap_gradient, s)
            is_edge = key + config.step_n > key_end(mask, own, queries, keys)
            if mask.left is not None:
                is_edge = is_edge or is_masked(mask, own, key, s.shape, queries, keys)
            if is_edge:
                ds = mask_gradients(ds, own, key, queries, keys, mask, transposed=False)
            acc = matmul_add(acc, ds, k_tile, step, config)
    acc.map(multiply, scale).store(dq[*batch, q_start : q_start + queries, head], (own, 0))


@weft.device
def per_column(x: weft.Fragment, values: weft.Tensor, step: int) -> weft.Fragment:
    """Values of a fragment's columns, the `step`-th part of `values`."""

    def value_of(column: weft.i32) -> weft.f32:
        return values[x.shape[1] * step + column]

    return x.cols(value_of)


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
    softcap: weft.f32 | None,
    heads: HeadConfig,
    config: AttentionConfig,
) -> None:
    """A block: dK and dV of `tile_m` keys of a key head."""
    k_head, dtype, tile_n, stages = weft.block_idx.y, q.dtype, config.tile_n, config.stages
    turn = weft.named_barrier(1, threads=32 * config.warps) if config.is_split else None
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
    mask, row_warps = heads.mask, config.tile_m // config.warp_m
    own = first + config.warp_m * (weft.warp_id() % row_warps)
    k_own, v_own = load_own_rows(
        (q_ring, do_ring), (k, v), batch, k_start + first, k_start + keys, k_head, heads, config
    )
    # Queries that see a key of this block.
    first_query = query_begin(mask, first, queries, keys)
    end_query = query_end(mask, first + config.tile_m - 1, queries, keys)
    blocks = weft.ceil_div(max(end_query - first_query, 0), tile_n)  # per head
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

    factor = score_factor(scale, softcap)

    def probabilities(iteration: weft.i32, step: int) -> tuple[weft.Fragment, weft.Fragment]:
        """P, and what of it multiplies dP - delta."""
        stage, block = iteration % stages, iteration % max(blocks, 1)
        query = first_query + tile_n * block + config.step_n * step
        s = matmul_transposed(k_own, q_ring[stage], step, config)
        if softcap is not None:
            s = cap_scores(s, scale / softcap)
        p = s.map(probability, per_column(s, lse_ring[stage], step), factor)
        p = mask_columns(p, query, own, queries, keys, mask)
        return p, p if softcap is None else p.map(cap_gradient, s)

    for iteration in weft.static_range(stages - 1):
        load_queries(iteration)

    def rows_of(target: weft.Tensor) -> weft.Tensor:
        return target[*batch, k_start : k_start + keys, k_head]

    if turn is not None:
        handed = weft.shared((config.step_n // 4, 16 * config.warps), weft.u32)
        thread = weft.thread_idx.x % (16 * config.warps)
        if weft.warp_id() < row_warps:
            dv_acc = weft.mma.zeros((config.warp_m, heads.hdim_v), weft.f32)
            for iteration in range(iterations):
                weft.cp_async.wait(pending=stages - 2)
                turn[0].sync()  # this tile is there for all, and the one before it is free
                load_queries(iteration + stages - 1)
                p, for_ds = probabilities(iteration, 0)
                for i, register in enumerate(for_ds.to(dtype).registers):
                    handed[i, thread] = register
                turn[0].sync()
                dv_acc = matmul_add(dv_acc, p, do_ring[iteration % stages], 0, config)
            dv_acc.store(rows_of(dv), (own, 0))
        else:
            dk_acc = weft.mma.zeros((config.warp_m, heads.hdim), weft.f32)
            for iteration in range(iterations):
                weft.cp_async.wait(pending=stages - 2)
                turn[0].sync()
                load_queries(iteration + stages - 1)
                stage = iteration % stages
                dp = matmul_transposed(v_own, do_ring[stage], 0, config)
                turn[0].sync()
                registers = tuple(handed[i, thread] for i in weft.static_range(handed.shape[0]))
                p = weft.mma.from_values(dp.shape, registers, dtype, "c").to(weft.f32)
                ds = p.map(score_gradient, dp, per_column(p, delta_ring[stage], 0))
                dk_acc = matmul_add(dk_acc, ds, q_ring[stage], 0, config)
            dk_acc.map(multiply, scale).store(rows_of(dk), (own, 0))
    else:
        dk_acc = weft.mma.zeros((config.warp_m, heads.hdim), weft.f32)
        dv_acc = weft.mma.zeros((config.warp_m, heads.hdim_v), weft.f32)
        for iteration in range(iterations):
            weft.cp_async.wait(pending=stages - 2)
            weft.sync_threads()  # this tile is there for all, and the one before it is free
            load_queries(iteration + stages - 1)
            stage = iteration % stages
            for step in weft.static_range(tile_n // config.step_n):
                p, for_ds = probabilities(iteration, step)
                dp = matmul_transposed(v_own, do_ring[stage], step, config)
                ds = for_ds.map(score_gradient, dp, per_column(dp, delta_ring[stage], step))
                dv_acc = matmul_add(dv_acc, p, do_ring[stage], step, config)
                dk_acc = matmul_add(dk_acc, ds, q_ring[stage], step, config)
        dk_acc.map(multiply, scale).store(rows_of(dk), (own, 0))
        dv_acc.store(rows_of(dv), (own, 0))


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
    softcap: weft.f64 | None,
    left: weft.i32 | None,
    right: weft.i32 | None,
    causal: weft.Constexpr[bool],
    top_left: weft.Constexpr[bool],
    hdims: weft.Constexpr[tuple[int, int, bool]],
    configs: weft.Constexpr[tuple[AttentionConfig, AttentionConfig]],
    aligned: weft.Constexpr[bool],
) -> None:
    """dQ, dK and dV of arrays with any strides; `hdims` as `fwd_sm80.padded` says, `aligned` as `HeadConfig`."""
    mask = Mask(causal, top_left, left, right)
    heads = HeadConfig(q.shape[-2] // k.shape[-2], *hdims, mask, aligned)
    scores = weft.f32(scale), None if softcap is None else weft.f32(softcap)
    cu_seqlens, batch = (cu_seqlens_q, cu_seqlens_k), q.shape[0] if q.ndim == 4 else 1
    lse_log2, delta = preprocess(grad_out, out, lse)
    dq_config, dkdv_config = configs
    dq_kernel(
        grad_out, q, k, v, dq, lse_log2, delta, *cu_seqlens, *scores, heads, dq_config
    ).launch(
        grid=(num_tiles(q.shape[-3], dq_config.tile_m, cu_seqlens[0]), q.shape[-2], batch),
        block=32 * dq_config.warps,
    )
    dkdv_kernel(
        grad_out, q, k, v, dk, dv, lse_log2, delta, *cu_seqlens, *scores, heads, dkdv_config
    ).launch(
        grid=(num_tiles(k.shape[-3], dkdv_config.tile_m, cu_seqlens[1]), k.shape[-2], batch),
        block=32 * dkdv_config.warps,
    )
