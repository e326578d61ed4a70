# SPDX-License-Identifier: Apache-2.0
"""Attention backward on Hopper, deterministic: warp specialization, dQ in one kernel, dK and dV in another.

With P = exp(scale · Q Kᵀ - lse), dP = dO Vᵀ and delta = rowsum(dO ∘ O) (Shah et al., 2024, arXiv:2407.08608):

    dV = Pᵀ dO,    dS = P ∘ (dP - delta),    dQ = scale · dS K,    dK = scale · dSᵀ Q

Both kernels recompute P, so that no sum is over several blocks and none needs atomics. A producer warpgroup loads by
TMA, which fills columns beyond hdim with zeros; consumer warpgroups have 64 rows of a block each. The tensor cores work
for one while others compute P: issuing the next scores of the same one early was slower. The last rows of a tile may be
another sequence's: P is 0 there, and they may not be infinite.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import weft
from weft.kernels.flash_attention.bwd_preprocess import preprocess
from weft.kernels.flash_attention.softmax import (
    LOG2_E,
    mask_gradients,
    multiply,
    probability,
    score_gradient,
)
from weft.kernels.flash_attention.varlen import num_tiles, query_tile, tile_at, zero_padding

if TYPE_CHECKING:
    from collections.abc import Callable

WARPGROUP_M: Final = 64  # rows of a consumer
TILE_N: Final = 64  # rows of a stage of the rings


class AttentionConfig(NamedTuple):
    """Warpgroups and stages of a block, known at compile time.

    Attributes:
        consumers: warpgroups that multiply.
        stages: of the rings.
    """

    consumers: weft.Constexpr[int]
    stages: weft.Constexpr[int]

    @property
    def tile_m(self) -> int:
        """Rows per block."""
        return WARPGROUP_M * self.consumers


class HeadConfig(NamedTuple):
    """Heads, as both kernels see them.

    Attributes:
        group_size: heads per key head.
        queries, keys: tokens of a batch, or of all packed sequences.
        hdim: columns of a tile, 64 or 128.
        causal: whether a query sees the keys up to its own alone.
    """

    group_size: weft.i32
    queries: weft.i32
    keys: weft.i32
    hdim: weft.Constexpr[int]
    causal: weft.Constexpr[bool]


def columns_for(hdim: int) -> int:
    """Columns of a tile for heads of that size."""
    return 64 if hdim <= 64 else 128


def configs_for(hdim: int) -> tuple[AttentionConfig, AttentionConfig]:
    """Configurations that were fastest, for dQ, and for dK and dV."""
    config = AttentionConfig(3 if hdim == 64 else 2, 2)
    return config, config


@weft.device
def load_pair(
    maps: tuple[weft.TensorMap, weft.TensorMap],
    at: tuple[weft.i32, ...],
    tiles: tuple[weft.Tensor, weft.Tensor],
    barrier: weft.Mbarrier,
) -> None:
    """Start to load a tile of two arrays, in one thread."""
    barrier.arrive(expect_bytes=2 * tiles[0].nbytes)
    for source, tile in zip(maps, tiles, strict=True):
        weft.tma.load(source, at, tile, barrier)


@weft.device
def zero_tile(target: weft.Tensor, first: weft.i32) -> None:
    """Zero the rows of a warpgroup."""
    for row in range(first, min(first + WARPGROUP_M, target.shape[0])):
        for d in range(weft.thread_idx.x % 128, target.shape[1], 128):
            target[row, d] = target.dtype(0.0)


@weft.device
def row_values(
    source: weft.Tensor, start: weft.i32, row: weft.i32, rows: weft.i32, beyond: float
) -> Callable[[weft.i32], weft.f32]:
    """Values for `Fragment.rows`, loaded once: a thread has two rows of a fragment, 8 apart.

    Args:
        source: a value for each token.
        start: first token of the sequence.
        row: the thread's first row in the sequence.
        rows: length of the sequence.
        beyond: value of further rows.
    """
    upper = source[start + row] if row < rows else weft.f32(beyond)
    lower = source[start + row + 8] if row + 8 < rows else weft.f32(beyond)

    def value_of(row: weft.i32) -> weft.f32:
        return weft.where(row % 16 < 8, upper, lower)

    return value_of


@weft.device
def column_values(values: weft.Tensor) -> Callable[[weft.i32], weft.f32]:
    """Values for `Fragment.cols`, from shared memory."""

    def value_of(column: weft.i32) -> weft.f32:
        return values[column]

    return value_of


@weft.kernel
def dq_kernel(
    q_map: weft.TensorMap,
    do_map: weft.TensorMap,
    k_map: weft.TensorMap,
    v_map: weft.TensorMap,
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
    head, dtype, stages, hdim = weft.block_idx.y, dq.dtype, config.stages, heads.hdim
    k_head = head // heads.group_size
    q_tile = weft.shared((config.tile_m, hdim), dtype, swizzle=128)
    do_tile = weft.shared((config.tile_m, hdim), dtype, swizzle=128)
    k_ring = weft.shared((stages, TILE_N, hdim), dtype, swizzle=128)
    v_ring = weft.shared((stages, TILE_N, hdim), dtype, swizzle=128)
    own_full, full = weft.mbarrier(1, arrivals=1), weft.mbarrier(stages, arrivals=1)
    empty = weft.mbarrier(stages, arrivals=4 * config.consumers)
    zero_padding(dq, cu_seqlens_q)
    sequence, first = query_tile(
        config.tile_m, cu_seqlens_q, cu_seqlens_k, heads.queries, heads.keys
    )
    batch, q_start, queries, k_start, keys = sequence
    if first >= queries:
        return
    ahead, role, leader = keys - queries, weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    visible = min(keys, first + config.tile_m + ahead) if heads.causal else keys
    blocks = weft.ceil_div(visible, TILE_N)
    if role == 0:  # producer
        weft.setmaxnreg(24 if config.consumers == 2 else 32)
        if leader:
            at = (*batch, q_start + first, head, 0)
            load_pair((q_map, do_map), at, (q_tile, do_tile), own_full[0])
            stage = weft.PipelineState(stages, producer=True)
            for block in range(blocks):
                empty[stage].wait()
                at = (*batch, k_start + TILE_N * block, k_head, 0)
                load_pair((k_map, v_map), at, (k_ring[stage], v_ring[stage]), full[stage])
                stage = stage.next()
    else:  # consumer
        weft.setmaxnreg(240 if config.consumers == 2 else 160)
        own = first + WARPGROUP_M * (role - 1)
        q_own = q_tile.tile((WARPGROUP_M, hdim), (role - 1, 0))
        do_own = do_tile.tile((WARPGROUP_M, hdim), (role - 1, 0))
        own_full[0].wait(0)
        row = own + 16 * (weft.warp_id() % 4) + weft.lane_id() // 4
        lse_of = row_values(lse_log2[*batch, head], q_start, row, queries, math.inf)
        delta_of = row_values(delta[*batch, head], q_start, row, queries, 0.0)
        stage = weft.PipelineState(stages)
        acc = weft.wgmma.accumulator((WARPGROUP_M, hdim), weft.f32)
        for block in range(blocks):
            full[stage].wait()
            s = weft.wgmma.mma(q_own, k_ring[stage].T)
            dp = weft.wgmma.mma(do_own, v_ring[stage].T)
            s, dp = weft.wgmma.wait(s, dp, pending=0)
            p = s.map(probability, s.rows(lse_of), scale * LOG2_E)
            ds = p.map(score_gradient, dp, s.rows(delta_of))
            key, last = TILE_N * block, keys
            if heads.causal:
                last = min(last, own + keys - queries + 1)
            if key + TILE_N > last:
                ds = mask_gradients(ds, own, key, queries, keys, heads.causal, transposed=False)
            ds = ds.to(dtype).as_operand_a()
            acc = weft.wgmma.mma(ds, k_ring[stage], acc, accumulate=block > 0)
            acc = weft.wgmma.wait(acc, pending=0)
            empty[stage].release()
            stage = stage.next()
        target = dq[*batch, q_start : q_start + queries, head]
        if blocks > 0:
            acc.map(multiply, scale).store(target, (own, 0))
        else:
            zero_tile(target, own)


@weft.kernel
def dkdv_kernel(
    k_map: weft.TensorMap,
    v_map: weft.TensorMap,
    q_map: weft.TensorMap,
    do_map: weft.TensorMap,
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
    k_head, dtype, stages, hdim = weft.block_idx.y, dk.dtype, config.stages, heads.hdim
    k_tile = weft.shared((config.tile_m, hdim), dtype, swizzle=128)
    v_tile = weft.shared((config.tile_m, hdim), dtype, swizzle=128)
    q_ring = weft.shared((stages, TILE_N, hdim), dtype, swizzle=128)
    do_ring = weft.shared((stages, TILE_N, hdim), dtype, swizzle=128)
    lse_ring = weft.shared((stages, TILE_N), weft.f32)
    delta_ring = weft.shared((stages, TILE_N), weft.f32)
    own_full, full = weft.mbarrier(1, arrivals=1), weft.mbarrier(stages, arrivals=2)
    empty = weft.mbarrier(stages, arrivals=4 * config.consumers)
    zero_padding(dk, cu_seqlens_k)
    zero_padding(dv, cu_seqlens_k)
    sequence, first = tile_at(
        weft.block_idx.x, config.tile_m, cu_seqlens_k, cu_seqlens_q, heads.keys, heads.queries
    )
    batch, k_start, keys, q_start, queries = sequence
    if first >= keys:
        return
    ahead, role, leader = keys - queries, weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    first_query = max(first - ahead, 0) if heads.causal else 0  # that sees a key of this block
    blocks = weft.ceil_div(max(queries - first_query, 0), TILE_N)  # per head
    iterations, divisor = heads.group_size * blocks, max(blocks, 1)
    if role == 0:  # producer: a thread loads tiles, a warp lse and delta
        weft.setmaxnreg(24 if config.consumers == 2 else 32)
        stage = weft.PipelineState(stages, producer=True)
        if leader:
            at = (*batch, k_start + first, k_head, 0)
            load_pair((k_map, v_map), at, (k_tile, v_tile), own_full[0])
            for i in range(iterations):
                head = heads.group_size * k_head + i // divisor
                query = first_query + TILE_N * (i % divisor)
                empty[stage].wait()
                at = (*batch, q_start + query, head, 0)
                load_pair((q_map, do_map), at, (q_ring[stage], do_ring[stage]), full[stage])
                stage = stage.next()
        elif weft.warp_id() == 1:
            for i in range(iterations):
                head = heads.group_size * k_head + i // divisor
                query = first_query + TILE_N * (i % divisor)
                empty[stage].wait()
                for row in range(weft.lane_id(), TILE_N, 32):
                    at = (*batch, head, q_start + query + row)
                    inside = query + row < queries
                    lse_ring[stage, row] = lse_log2[at] if inside else weft.f32(math.inf)
                    delta_ring[stage, row] = delta[at] if inside else weft.f32(0.0)
                full[stage].release()
                stage = stage.next()
    else:  # consumer
        weft.setmaxnreg(240 if config.consumers == 2 else 160)
        own = first + WARPGROUP_M * (role - 1)
        k_own = k_tile.tile((WARPGROUP_M, hdim), (role - 1, 0))
        v_own = v_tile.tile((WARPGROUP_M, hdim), (role - 1, 0))
        own_full[0].wait(0)
        stage = weft.PipelineState(stages)
        dk_acc = weft.wgmma.accumulator((WARPGROUP_M, hdim), weft.f32)
        dv_acc = weft.wgmma.accumulator((WARPGROUP_M, hdim), weft.f32)
        for i in range(iterations):
            full[stage].wait()
            s = weft.wgmma.mma(k_own, q_ring[stage].T)
            dp = weft.wgmma.mma(v_own, do_ring[stage].T)
            s = weft.wgmma.wait(s, pending=1)
            lse_columns = s.cols(column_values(lse_ring[stage]))
            p = s.map(probability, lse_columns, scale * LOG2_E)
            query = first_query + TILE_N * (i % divisor)
            is_edge = query + TILE_N > queries
            if heads.causal:
                is_edge = is_edge or query + keys - queries < own + WARPGROUP_M - 1
            if is_edge:
                p = mask_gradients(p, query, own, queries, keys, heads.causal, transposed=True)
            a = p.to(dtype).as_operand_a()
            dv_acc = weft.wgmma.mma(a, do_ring[stage], dv_acc, accumulate=i > 0)
            dp = weft.wgmma.wait(dp, pending=1)
            ds = p.map(score_gradient, dp, p.cols(column_values(delta_ring[stage])))
            a = ds.to(dtype).as_operand_a()
            dk_acc = weft.wgmma.mma(a, q_ring[stage], dk_acc, accumulate=i > 0)
            dv_acc, dk_acc = weft.wgmma.wait(dv_acc, dk_acc, pending=0)
            empty[stage].release()
            stage = stage.next()
        dk_rows = dk[*batch, k_start : k_start + keys, k_head]
        dv_rows = dv[*batch, k_start : k_start + keys, k_head]
        if iterations > 0:
            dk_acc.map(multiply, scale).store(dk_rows, (own, 0))
            dv_acc.store(dv_rows, (own, 0))
        else:
            zero_tile(dk_rows, own)
            zero_tile(dv_rows, own)


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
    hdim: weft.Constexpr[int],
    configs: weft.Constexpr[tuple[AttentionConfig, AttentionConfig]],
) -> None:
    """dQ, dK and dV; `hdim`: 64 or 128 columns of a tile."""
    lse_log2, delta = preprocess(grad_out, out, lse)
    heads = HeadConfig(q.shape[-2] // k.shape[-2], q.shape[-3], k.shape[-3], hdim, causal)
    batch, scale = q.shape[0] if cu_seqlens_q is None else 1, weft.f32(scale)
    dq_config, dkdv_config = configs
    own = (*(1,) * (q.ndim - 3), dq_config.tile_m, 1, hdim)
    other = (*(1,) * (q.ndim - 3), TILE_N, 1, hdim)
    dq_kernel(
        weft.tensor_map(q, box=own, swizzle=128),
        weft.tensor_map(grad_out, box=own, swizzle=128),
        weft.tensor_map(k, box=other, swizzle=128),
        weft.tensor_map(v, box=other, swizzle=128),
        dq,
        lse_log2,
        delta,
        cu_seqlens_q,
        cu_seqlens_k,
        scale,
        heads,
        dq_config,
    ).launch(
        grid=(num_tiles(q.shape[-3], dq_config.tile_m, cu_seqlens_q), q.shape[-2], batch),
        block=128 * (dq_config.consumers + 1),
    )
    own = (*(1,) * (q.ndim - 3), dkdv_config.tile_m, 1, hdim)
    dkdv_kernel(
        weft.tensor_map(k, box=own, swizzle=128),
        weft.tensor_map(v, box=own, swizzle=128),
        weft.tensor_map(q, box=other, swizzle=128),
        weft.tensor_map(grad_out, box=other, swizzle=128),
        dk,
        dv,
        lse_log2,
        delta,
        cu_seqlens_q,
        cu_seqlens_k,
        scale,
        heads,
        dkdv_config,
    ).launch(
        grid=(num_tiles(k.shape[-3], dkdv_config.tile_m, cu_seqlens_k), k.shape[-2], batch),
        block=128 * (dkdv_config.consumers + 1),
    )
