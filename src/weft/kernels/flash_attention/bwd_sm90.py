# SPDX-License-Identifier: Apache-2.0
"""Attention backward on Hopper, deterministic: warp specialization, dQ in one kernel, dK and dV in another.

With P = exp(scale · Q Kᵀ - lse), dP = dO Vᵀ and delta = rowsum(dO ∘ O) (Shah et al., 2024, arXiv:2407.08608):

    dV = Pᵀ dO,    dS = P ∘ (dP - delta),    dQ = scale · dS K,    dK = scale · dSᵀ Q

Both kernels recompute P, so that no sum is over several blocks and none needs atomics. A producer warpgroup loads by
TMA, which fills columns beyond hdim with zeros; consumer warpgroups have 64 rows of a block each. The tensor cores work
for one while others compute P: issuing the next scores of the same one early was slower. The last rows of a tile may be
another sequence's: P is 0 there, and they may not be infinite.

Sums of dK and dV of heads above 128 need the registers of two warpgroups: one computes P and dV, and hands P, rounded
to 16 bits, to the other, which computes dS and dK.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import weft
from weft.kernels.flash_attention.bwd_preprocess import preprocess
from weft.kernels.flash_attention.fwd_sm90 import columns_for, swizzle_for
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

if TYPE_CHECKING:
    from collections.abc import Callable

WARPGROUP_M: Final = 64  # rows of a consumer


class AttentionConfig(NamedTuple):
    """Warpgroups and stages of a block, known at compile time.

    Attributes:
        hdim, hdim_v: columns of tiles of Q, K and their gradients, and of V and dO.
        consumers: warpgroups that multiply, each for rows of its own.
        tile_n: rows of a stage of the rings.
        stages: of the rings.
        is_split: whether two warpgroups share the rows, one for dV, one for dK.
    """

    hdim: weft.Constexpr[int]
    hdim_v: weft.Constexpr[int]
    consumers: weft.Constexpr[int]
    tile_n: weft.Constexpr[int]
    stages: weft.Constexpr[int]
    is_split: weft.Constexpr[bool] = False

    @property
    def tile_m(self) -> int:
        """Rows per block."""
        return WARPGROUP_M * (1 if self.is_split else self.consumers)


class HeadConfig(NamedTuple):
    """Heads, as both kernels see them.

    Attributes:
        group_size: heads per key head.
        queries, keys: tokens of a batch, or of all packed sequences.
        mask: keys that a query sees.
        softcap: the largest scaled score, by tanh; None: any.
    """

    group_size: weft.i32
    queries: weft.i32
    keys: weft.i32
    mask: Mask
    softcap: weft.f32 | None


def configs_for(hdim: int, hdim_v: int) -> tuple[AttentionConfig, AttentionConfig]:
    """Configurations for dQ, and for dK and dV, of heads up to 256; those of 64 and 128 were fastest."""
    hdim, hdim_v = columns_for(hdim), columns_for(hdim_v)
    largest = max(hdim, hdim_v)
    both = AttentionConfig(hdim, hdim_v, 3 if largest <= 64 else 2, 64, 2)
    if largest <= 128:
        return both, both
    return both._replace(tile_n=64 if largest <= 192 else 48), both._replace(is_split=True)


@weft.device
def load_pair(
    maps: tuple[weft.TensorMap, weft.TensorMap],
    at: tuple[weft.i32, ...],
    tiles: tuple[weft.Tensor, weft.Tensor],
    barrier: weft.Mbarrier,
) -> None:
    """Start to load a tile of two arrays, in one thread."""
    barrier.arrive(expect_bytes=tiles[0].nbytes + tiles[1].nbytes)
    for source, tile in zip(maps, tiles, strict=True):
        weft.tma.load(source, at, tile, barrier)


@weft.device
def zero_tile(target: weft.Tensor, first: weft.i32) -> None:
    """Zero the rows of a warpgroup."""
    for row in range(first, min(first + WARPGROUP_M, target.shape[0])):
        for d in range(weft.thread_idx.x % 128, target.shape[1], 128):
            target[row, d] = target.dtype(0.0)


@weft.device
def store_or_zero(
    acc: weft.Fragment, target: weft.Tensor, first: weft.i32, iterations: weft.i32
) -> None:
    """Store a warpgroup's sums; zeros if there were no iterations."""
    if iterations > 0:
        acc.store(target, (first, 0))
    else:
        zero_tile(target, first)


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
    head, dtype = weft.block_idx.y, dq.dtype
    hdim, hdim_v, consumers, tile_n, stages, _ = config
    k_head = head // heads.group_size
    q_tile = weft.shared((config.tile_m, hdim), dtype, swizzle=q_map.swizzle)
    do_tile = weft.shared((config.tile_m, hdim_v), dtype, swizzle=do_map.swizzle)
    k_ring = weft.shared((stages, tile_n, hdim), dtype, swizzle=k_map.swizzle)
    v_ring = weft.shared((stages, tile_n, hdim_v), dtype, swizzle=v_map.swizzle)
    own_full, full = weft.mbarrier(1, arrivals=1), weft.mbarrier(stages, arrivals=1)
    empty = weft.mbarrier(stages, arrivals=4 * consumers)
    zero_padding(dq, cu_seqlens_q)
    sequence, first = query_tile(
        config.tile_m, cu_seqlens_q, cu_seqlens_k, heads.queries, heads.keys
    )
    batch, q_start, queries, k_start, keys = sequence
    if first >= queries:
        return
    mask, role, leader = heads.mask, weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    begin = key_begin(mask, first, queries, keys) // tile_n  # of the blocks of keys
    blocks = weft.ceil_div(key_end(mask, first + config.tile_m - 1, queries, keys), tile_n)
    if role == 0:  # producer
        weft.setmaxnreg(24 if consumers == 2 else 32)
        if leader:
            at = (*batch, q_start + first, head, 0)
            load_pair((q_map, do_map), at, (q_tile, do_tile), own_full[0])
            stage = weft.PipelineState(stages, producer=True)
            for block in range(begin, blocks):
                empty[stage].wait()
                at = (*batch, k_start + tile_n * block, k_head, 0)
                load_pair((k_map, v_map), at, (k_ring[stage], v_ring[stage]), full[stage])
                stage = stage.next()
    else:  # consumer
        weft.setmaxnreg(240 if consumers == 2 else 160)
        own = first + WARPGROUP_M * (role - 1)
        q_own = q_tile.tile((WARPGROUP_M, hdim), (role - 1, 0))
        do_own = do_tile.tile((WARPGROUP_M, hdim_v), (role - 1, 0))
        own_full[0].wait(0)
        row = own + 16 * (weft.warp_id() % 4) + weft.lane_id() // 4
        lse_of = row_values(lse_log2[*batch, head], q_start, row, queries, math.inf)
        delta_of = row_values(delta[*batch, head], q_start, row, queries, 0.0)
        stage = weft.PipelineState(stages)
        acc = weft.wgmma.accumulator((WARPGROUP_M, hdim), weft.f32)
        factor = score_factor(scale, heads.softcap)
        for block in range(begin, blocks):
            full[stage].wait()
            s = weft.wgmma.mma(q_own, k_ring[stage].T)
            dp = weft.wgmma.mma(do_own, v_ring[stage].T)
            s, dp = weft.wgmma.wait(s, dp, pending=0)
            if heads.softcap is not None:
                s = cap_scores(s, scale / heads.softcap)
            p = s.map(probability, s.rows(lse_of), factor)
            ds = p.map(score_gradient, dp, s.rows(delta_of))
            if heads.softcap is not None:
                ds = ds.map(cap_gradient, s)
            key = tile_n * block
            is_edge = key + tile_n > key_end(mask, own, queries, keys)
            if mask.left is not None:
                is_edge = is_edge or is_masked(mask, own, key, s.shape, queries, keys)
            if is_edge:
                ds = mask_gradients(ds, own, key, queries, keys, mask, transposed=False)
            ds = ds.to(dtype).as_operand_a()
            acc = weft.wgmma.mma(ds, k_ring[stage], acc, accumulate=block > begin)
            acc = weft.wgmma.wait(acc, pending=0)
            empty[stage].release()
            stage = stage.next()
        target = dq[*batch, q_start : q_start + queries, head]
        store_or_zero(acc.map(multiply, scale), target, own, blocks - begin)


class Rings(NamedTuple):
    """Stages that a block of keys walks through: tiles of queries, with their lse and delta.

    Attributes:
        q, do, lse, delta: (stages, tile_n, columns), or (stages, tile_n).
        full, empty: barriers of the stages.
    """

    q: weft.Tensor
    do: weft.Tensor
    lse: weft.Tensor
    delta: weft.Tensor
    full: weft.Mbarrier
    empty: weft.Mbarrier


class Walk(NamedTuple):
    """Iterations of a block of keys over queries of each head of its group.

    Attributes:
        keys, queries: lengths of the sequence.
        first_query: the first one that sees a key of the block.
        blocks: tiles of queries per head.
        iterations: of all heads.
    """

    keys: weft.i32
    queries: weft.i32
    first_query: weft.i32
    blocks: weft.i32
    iterations: weft.i32


@weft.device
def probabilities(
    s: weft.Fragment,
    lse: weft.Tensor,
    i: weft.i32,
    own: weft.i32,
    walk: Walk,
    factor: weft.f32,
    mask: Mask,
) -> weft.Fragment:
    """Pᵀ of iteration `i`, of scores of the keys from `own` on, times `factor` to base 2."""
    p = s.map(probability, s.cols(column_values(lse)), factor)
    query = walk.first_query + s.shape[1] * (i % max(walk.blocks, 1))
    return mask_columns(p, query, own, walk.queries, walk.keys, mask)


@weft.device
def sum_dk_and_dv(
    k_own: weft.Tensor,
    v_own: weft.Tensor,
    own: weft.i32,
    rings: Rings,
    walk: Walk,
    scale: weft.f32,
    heads: HeadConfig,
) -> tuple[weft.Fragment, weft.Fragment]:
    """dK and dV of the keys from `own` on, by one warpgroup."""
    dtype, stage = k_own.dtype, weft.PipelineState(rings.q.shape[0])
    factor = score_factor(scale, heads.softcap)
    dk = weft.wgmma.accumulator(k_own.shape, weft.f32)
    dv = weft.wgmma.accumulator(v_own.shape, weft.f32)
    for i in range(walk.iterations):
        rings.full[stage].wait()
        s = weft.wgmma.mma(k_own, rings.q[stage].T)
        dp = weft.wgmma.mma(v_own, rings.do[stage].T)
        s = weft.wgmma.wait(s, pending=1)
        if heads.softcap is not None:
            s = cap_scores(s, scale / heads.softcap)
        p = probabilities(s, rings.lse[stage], i, own, walk, factor, heads.mask)
        a = p.to(dtype).as_operand_a()
        dv = weft.wgmma.mma(a, rings.do[stage], dv, accumulate=i > 0)
        dp = weft.wgmma.wait(dp, pending=1)
        ds = p.map(score_gradient, dp, p.cols(column_values(rings.delta[stage])))
        if heads.softcap is not None:
            ds = ds.map(cap_gradient, s)
        a = ds.to(dtype).as_operand_a()
        dk = weft.wgmma.mma(a, rings.q[stage], dk, accumulate=i > 0)
        dv, dk = weft.wgmma.wait(dv, dk, pending=0)
        rings.empty[stage].release()
        stage = stage.next()
    return dk, dv


class Exchange(NamedTuple):
    """Pᵀ in shared memory, from the warpgroup of dV to the one of dK: the registers of each thread.

    With `softcap` it is P · (1 - tanh²).

    Attributes:
        registers: (buffers, registers of a thread, threads), u32.
        full, empty: barriers of the buffers.
    """

    registers: weft.Tensor
    full: weft.Mbarrier
    empty: weft.Mbarrier


@weft.device
def new_exchange(config: AttentionConfig) -> Exchange | None:
    """Double-buffered, if `is_split`."""
    if not config.is_split:
        return None
    registers = weft.shared((2, config.tile_n // 4, 128), weft.u32)
    return Exchange(registers, weft.mbarrier(2, arrivals=4), weft.mbarrier(2, arrivals=4))


@weft.device
def sum_dv(
    k_tile: weft.Tensor,
    own: weft.i32,
    exchange: Exchange,
    rings: Rings,
    walk: Walk,
    scale: weft.f32,
    heads: HeadConfig,
) -> weft.Fragment:
    """dV of the keys from `own` on; hands on P."""
    dtype, stage = k_tile.dtype, weft.PipelineState(rings.q.shape[0])
    buffer = weft.PipelineState(exchange.registers.shape[0], producer=True)
    factor = score_factor(scale, heads.softcap)
    dv = weft.wgmma.accumulator((WARPGROUP_M, rings.do.shape[2]), weft.f32)
    for i in range(walk.iterations):
        rings.full[stage].wait()
        s = weft.wgmma.wait(weft.wgmma.mma(k_tile, rings.q[stage].T), pending=0)
        if heads.softcap is not None:
            s = cap_scores(s, scale / heads.softcap)
        p = probabilities(s, rings.lse[stage], i, own, walk, factor, heads.mask)
        handed = (p if heads.softcap is None else p.map(cap_gradient, s)).to(dtype)
        p = p.to(dtype)
        exchange.empty[buffer].wait()
        for r, register in enumerate(handed.registers):
            exchange.registers[buffer, r, weft.thread_idx.x % 128] = register
        exchange.full[buffer].release()
        dv = weft.wgmma.mma(p.as_operand_a(), rings.do[stage], dv, accumulate=i > 0)
        dv = weft.wgmma.wait(dv, pending=0)
        rings.empty[stage].release()
        stage, buffer = stage.next(), buffer.next()
    return dv


@weft.device
def sum_dk(
    v_tile: weft.Tensor,
    exchange: Exchange,
    rings: Rings,
    walk: Walk,
) -> weft.Fragment:
    """dK of the same keys, from the P of `sum_dv`."""
    dtype, stage = v_tile.dtype, weft.PipelineState(rings.q.shape[0])
    buffers, count, _ = exchange.registers.shape
    buffer = weft.PipelineState(buffers)
    dk = weft.wgmma.accumulator((WARPGROUP_M, rings.q.shape[2]), weft.f32)
    for i in range(walk.iterations):
        rings.full[stage].wait()
        dp = weft.wgmma.wait(weft.wgmma.mma(v_tile, rings.do[stage].T), pending=0)
        exchange.full[buffer].wait()
        thread = weft.thread_idx.x % 128
        registers = tuple(exchange.registers[buffer, r, thread] for r in weft.static_range(count))
        exchange.empty[buffer].release()
        p = weft.wgmma.from_values(dp.shape, registers, dtype, "c").to(weft.f32)
        ds = p.map(score_gradient, dp, p.cols(column_values(rings.delta[stage])))
        a = ds.to(dtype).as_operand_a()
        dk = weft.wgmma.mma(a, rings.q[stage], dk, accumulate=i > 0)
        dk = weft.wgmma.wait(dk, pending=0)
        rings.empty[stage].release()
        stage, buffer = stage.next(), buffer.next()
    return dk


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
    k_head, dtype = weft.block_idx.y, dk.dtype
    hdim, hdim_v, consumers, tile_n, stages, _ = config
    k_tile = weft.shared((config.tile_m, hdim), dtype, swizzle=k_map.swizzle)
    v_tile = weft.shared((config.tile_m, hdim_v), dtype, swizzle=v_map.swizzle)
    rings = Rings(
        weft.shared((stages, tile_n, hdim), dtype, swizzle=q_map.swizzle),
        weft.shared((stages, tile_n, hdim_v), dtype, swizzle=do_map.swizzle),
        weft.shared((stages, tile_n), weft.f32),
        weft.shared((stages, tile_n), weft.f32),
        weft.mbarrier(stages, arrivals=2),
        weft.mbarrier(stages, arrivals=4 * consumers),
    )
    own_full, exchange = weft.mbarrier(1, arrivals=1), new_exchange(config)
    zero_padding(dk, cu_seqlens_k)
    zero_padding(dv, cu_seqlens_k)
    sequence, first = tile_at(
        weft.block_idx.x, config.tile_m, cu_seqlens_k, cu_seqlens_q, heads.keys, heads.queries
    )
    batch, k_start, keys, q_start, queries = sequence
    if first >= keys:
        return
    role, leader = weft.warpgroup_id(), weft.elect_one(weft.warpgroup)
    # Queries that see a key of this block.
    first_query = query_begin(heads.mask, first, queries, keys)
    end_query = query_end(heads.mask, first + config.tile_m - 1, queries, keys)
    blocks = weft.ceil_div(max(end_query - first_query, 0), tile_n)  # per head
    iterations, divisor = heads.group_size * blocks, max(blocks, 1)
    walk = Walk(keys, queries, first_query, blocks, iterations)
    if role == 0:  # producer: a thread loads tiles, a warp lse and delta
        weft.setmaxnreg(40 if consumers == 2 else 32)
        stage = weft.PipelineState(stages, producer=True)
        if leader:
            at = (*batch, k_start + first, k_head, 0)
            load_pair((k_map, v_map), at, (k_tile, v_tile), own_full[0])
            for i in range(iterations):
                head = heads.group_size * k_head + i // divisor
                query = first_query + tile_n * (i % divisor)
                rings.empty[stage].wait()
                at = (*batch, q_start + query, head, 0)
                tiles = rings.q[stage], rings.do[stage]
                load_pair((q_map, do_map), at, tiles, rings.full[stage])
                stage = stage.next()
        elif weft.warp_id() == 1:
            for i in range(iterations):
                head = heads.group_size * k_head + i // divisor
                query = first_query + tile_n * (i % divisor)
                rings.empty[stage].wait()
                for row in range(weft.lane_id(), tile_n, 32):
                    at = (*batch, head, q_start + query + row)
                    inside = query + row < queries
                    rings.lse[stage, row] = lse_log2[at] if inside else weft.f32(math.inf)
                    rings.delta[stage, row] = delta[at] if inside else weft.f32(0.0)
                rings.full[stage].release()
                stage = stage.next()
    else:  # consumer
        weft.setmaxnreg(232 if consumers == 2 else 160)

        def rows_of(target: weft.Tensor) -> weft.Tensor:
            return target[*batch, k_start : k_start + keys, k_head]

        own_full[0].wait(0)
        if exchange is not None:
            if role == 1:
                dv_acc = sum_dv(k_tile, first, exchange, rings, walk, scale, heads)
                store_or_zero(dv_acc, rows_of(dv), first, iterations)
            else:
                dk_acc = sum_dk(v_tile, exchange, rings, walk)
                store_or_zero(dk_acc.map(multiply, scale), rows_of(dk), first, iterations)
        else:
            own = first + WARPGROUP_M * (role - 1)
            k_own = k_tile.tile((WARPGROUP_M, hdim), (role - 1, 0))
            v_own = v_tile.tile((WARPGROUP_M, hdim_v), (role - 1, 0))
            dk_acc, dv_acc = sum_dk_and_dv(k_own, v_own, own, rings, walk, scale, heads)
            store_or_zero(dk_acc.map(multiply, scale), rows_of(dk), own, iterations)
            store_or_zero(dv_acc, rows_of(dv), own, iterations)


def _maps(
    arrays: tuple[weft.Tensor, weft.Tensor], rows: int, config: AttentionConfig
) -> list[weft.TensorMap]:
    """Maps of a pair of arrays with the columns of Q and of V, whose boxes are `rows` of a head."""
    return [
        weft.tensor_map(
            array, box=(*(1,) * (array.ndim - 3), rows, 1, columns), swizzle=swizzle_for(columns)
        )
        for array, columns in zip(arrays, (config.hdim, config.hdim_v), strict=True)
    ]


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
    configs: weft.Constexpr[tuple[AttentionConfig, AttentionConfig]],
) -> None:
    """dQ, dK and dV."""
    lse_log2, delta = preprocess(grad_out, out, lse)
    cap = None if softcap is None else weft.f32(softcap)
    mask = Mask(causal, top_left, left, right)
    heads = HeadConfig(q.shape[-2] // k.shape[-2], q.shape[-3], k.shape[-3], mask, cap)
    batch, scale = q.shape[0] if cu_seqlens_q is None else 1, weft.f32(scale)
    dq_config, dkdv_config = configs
    dq_kernel(
        *_maps((q, grad_out), dq_config.tile_m, dq_config),
        *_maps((k, v), dq_config.tile_n, dq_config),
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
    dkdv_kernel(
        *_maps((k, v), dkdv_config.tile_m, dkdv_config),
        *_maps((q, grad_out), dkdv_config.tile_n, dkdv_config),
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
