# SPDX-License-Identifier: Apache-2.0
"""Attention forward from sm_80 on (FlashAttention-2): warps multiply by mma, cp.async loads ahead.

Computes O = softmax(scale · Q Kᵀ) V and lse = logsumexp(scale · Q Kᵀ) of 16-bit floats in any layout, for each
sequence and head, by online softmax over blocks of keys (Dao, 2023, arXiv:2307.08691).

A block has queries of a head, in registers as operands A, and walks through K and V, which are loaded into rings of
tiles. Q comes through the same rings first; for heads above 192, whose sums need the registers, it stays in shared
memory.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.flash_attention.fwd_sm90 import swizzle_for
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
from weft.kernels.flash_attention.varlen import num_tiles, query_tile, zero_padding

CHUNK: Final = 8  # elements per cp.async: 16 bytes
MAX_HDIM: Final = 256


class AttentionConfig(NamedTuple):
    """Tile sizes of a block, known at compile time; the backward kernels have them too.

    Attributes:
        warps: per block.
        warp_m: rows per warp: queries, or keys for dK and dV.
        tile_n: rows of a stage of the ring.
        step_n: columns of a fragment of scores, which divide `tile_n`.
        stages: of the ring; together they have as many rows as a block, warps · warp_m, unless `keeps_rows`.
        keeps_rows: whether a block's own rows stay in shared memory, and come to registers 16 columns at a time.
        is_split: whether two warps share rows, one for dV, one for dK.
    """

    warps: weft.Constexpr[int]
    warp_m: weft.Constexpr[int]
    tile_n: weft.Constexpr[int]
    step_n: weft.Constexpr[int]
    stages: weft.Constexpr[int]
    keeps_rows: weft.Constexpr[bool] = False
    is_split: weft.Constexpr[bool] = False

    @property
    def tile_m(self) -> int:
        """Rows per block."""
        return self.warps * self.warp_m // (2 if self.is_split else 1)


class HeadConfig(NamedTuple):
    """Heads, as the forward and backward kernels see them.

    Attributes:
        group_size: heads per key head.
        hdim, hdim_v: columns of tiles of Q and K, and of V: rounded up to 16.
        is_padded: whether that adds columns, which are zeros.
        mask: keys that a query sees.
        aligned: whether rows are whole chunks of 16 bytes, for cp.async.
    """

    group_size: weft.i32
    hdim: weft.Constexpr[int]
    hdim_v: weft.Constexpr[int]
    is_padded: weft.Constexpr[bool]
    mask: Mask
    aligned: weft.Constexpr[bool]


def config_for(hdim: int) -> AttentionConfig:
    """Tile sizes that were fastest up to 128; above, those that fit into registers and 99 KiB of shared memory."""
    if hdim <= 64:
        return AttentionConfig(4, 32, 64, 32, 2)
    if hdim <= 192:
        return AttentionConfig(8, 16, 64, 64, 2)
    return AttentionConfig(4, 16, 32, 32, 2, keeps_rows=True)


def padded(hdim: int, hdim_v: int) -> tuple[int, int, bool]:
    """`HeadConfig.hdim`, `HeadConfig.hdim_v` and `HeadConfig.is_padded`."""
    return -(-hdim // 16) * 16, -(-hdim_v // 16) * 16, hdim % 16 != 0 or hdim_v % 16 != 0


@weft.device
def ring(dtype: weft.DType, config: AttentionConfig, columns: int) -> weft.Tensor:
    """Shared memory of (stages, tile_n, columns), in the widest swizzle that rows are a multiple of."""
    return _tiles((config.stages, config.tile_n, columns), dtype)


@weft.device
def _tiles(shape: tuple[int, ...], dtype: weft.DType) -> weft.Tensor:
    return weft.shared(shape, dtype, swizzle=swizzle_for(shape[-1]))


@weft.device
def load_tile(
    tile: weft.Tensor,
    source: weft.Tensor,
    batch: tuple[weft.i32, ...],
    first: weft.i32,
    end: weft.i32,
    head: weft.i32,
    heads: HeadConfig,
    warps: int,
) -> None:
    """Start to load a tile of a head, rows from `first` on; zeros from `end` on and beyond hdim."""
    rows, columns = tile.shape
    width, threads = CHUNK if heads.aligned else 1, 32 * warps
    source, chunks = weft.assume_aligned(source, width * source.dtype.itemsize), columns // width
    for i in weft.static_range(weft.ceil_div(rows * chunks, threads)):
        chunk = weft.thread_idx.x + threads * i
        r, c = divmod(chunk, chunks)
        if threads * (i + 1) <= rows * chunks or chunk < rows * chunks:
            inside = first + r < end
            if heads.is_padded:
                inside = inside & (width * c < source.shape[-1])
            index = (*batch, first + r, head, width * c)
            if heads.aligned:
                weft.cp_async.copy(tile, (r, width * c), source, index, width, pred=inside)
            else:
                tile[r, c] = source[index] if inside else source.dtype(0.0)


@weft.device
def load_own_rows(
    rings: tuple[weft.Tensor, ...],
    sources: tuple[weft.Tensor, ...],
    batch: tuple[weft.i32, ...],
    first: weft.i32,
    end: weft.i32,
    head: weft.i32,
    heads: HeadConfig,
    config: AttentionConfig,
) -> list[Any]:
    """This warp's rows of arrays, for `matmul_transposed`: through the rings, which are free afterwards, or kept."""
    if config.keeps_rows:
        return [
            keep_rows(source, stages.shape[2], batch, first, end, head, heads, config)
            for stages, source in zip(rings, sources, strict=True)
        ]
    for stages, source in zip(rings, sources, strict=True):
        load_block(stages, source, batch, first, end, head, heads, config)
    weft.cp_async.commit()
    weft.cp_async.wait(pending=0)
    weft.sync_threads()
    operands = [load_operand_a(stages, config) for stages in rings]
    weft.sync_threads()  # the rings are free
    return operands


@weft.device
def keep_rows(
    source: weft.Tensor,
    columns: int,
    batch: tuple[weft.i32, ...],
    first: weft.i32,
    end: weft.i32,
    head: weft.i32,
    heads: HeadConfig,
    config: AttentionConfig,
) -> weft.Tensor:
    """Start to load a block's own rows into a tile of their own; this warp's."""
    tile = _tiles((config.tile_m, columns), source.dtype)
    load_tile(tile, source, batch, first, end, head, heads, config.warps)
    warp = weft.warp_id() % (config.tile_m // config.warp_m)
    return tile.tile((config.warp_m, columns), (warp, 0))


@weft.device
def load_operand_a(stages: weft.Tensor, config: AttentionConfig) -> weft.Fragment:
    """This warp's rows of those that a ring holds, as operand A."""
    warps_per_stage = config.tile_n // config.warp_m
    tile = stages[weft.warp_id() // warps_per_stage]
    own = tile.tile((config.warp_m, tile.shape[1]), (weft.warp_id() % warps_per_stage, 0))
    return weft.mma.load_a(own)


@weft.device
def load_block(
    stages: weft.Tensor,
    source: weft.Tensor,
    batch: tuple[weft.i32, ...],
    first: weft.i32,
    end: weft.i32,
    head: weft.i32,
    heads: HeadConfig,
    config: AttentionConfig,
) -> None:
    """Start to load a block's own rows into a ring."""
    for stage in weft.static_range(config.stages):
        row = first + config.tile_n * stage
        load_tile(stages[stage], source, batch, row, end, head, heads, config.warps)


@weft.device
def matmul_transposed(
    a: Any, tile: weft.Tensor, step: int, config: AttentionConfig
) -> weft.Fragment:
    """A · Bᵀ, B `step_n` rows of a tile; A in shared memory if `keeps_rows`."""
    acc = weft.mma.zeros((config.warp_m, config.step_n), weft.f32)
    b = tile.tile((config.step_n, tile.shape[1]), (step, 0)).T
    for k in weft.static_range(tile.shape[1] // 16):
        operand = weft.mma.load_b(b.tile((16, config.step_n), (k, 0)))
        if config.keeps_rows:
            part = weft.mma.load_a(a.tile((config.warp_m, 16), (0, k)))
        else:
            part = a[:, 16 * k : 16 * k + 16]
        acc = weft.mma.mma(part, operand, acc)
    return acc


@weft.device
def matmul_add(
    acc: weft.Fragment, p: weft.Fragment, tile: weft.Tensor, step: int, config: AttentionConfig
) -> weft.Fragment:
    """acc + P · B, B `step_n` rows of a tile, P rounded to its type."""
    b, a = tile.tile((config.step_n, tile.shape[1]), (step, 0)), p.to(tile.dtype).as_operand_a()
    for k in weft.static_range(config.step_n // 16):
        operand = weft.mma.load_b(b.tile((16, tile.shape[1]), (k, 0)))
        acc = weft.mma.mma(a[:, 16 * k : 16 * k + 16], operand, acc)
    return acc


@weft.kernel
def attention_kernel(
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    scale: weft.f32,
    cap: weft.f32 | None,
    sinks: weft.Tensor | None,
    heads: HeadConfig,
    config: AttentionConfig,
    profiled: weft.Constexpr[bool] = False,
) -> None:
    """A block: `tile_m` queries of a head."""
    p = weft.profiler.Profiler(groups=[f"warp {i}" for i in range(config.warps)], enabled=profiled)
    p.init(weft.warp_id(), weft.lane_id() == 0)
    head, tile_n, stages = weft.block_idx.y, config.tile_n, config.stages
    zero_padding(out, cu_seqlens_q)
    sequence, first = query_tile(
        config.tile_m, cu_seqlens_q, cu_seqlens_k, q.shape[-3], k.shape[-3]
    )
    batch, q_start, queries, k_start, keys = sequence
    if first >= queries:
        return
    k_ring, v_ring = ring(q.dtype, config, heads.hdim), ring(q.dtype, config, heads.hdim_v)
    mask, own = heads.mask, first + config.warp_m * weft.warp_id()
    (q_own,) = load_own_rows(
        (k_ring,), (q,), batch, q_start + first, q_start + queries, head, heads, config
    )

    def load_keys(block: weft.i32) -> None:
        row, end, k_head = k_start + tile_n * block, k_start + keys, head // heads.group_size
        load_tile(k_ring[block % stages], k, batch, row, end, k_head, heads, config.warps)
        load_tile(v_ring[block % stages], v, batch, row, end, k_head, heads, config.warps)
        weft.cp_async.commit()

    begin = key_begin(mask, first, queries, keys) // tile_n  # of the blocks of keys
    visible = key_end(mask, first + config.tile_m - 1, queries, keys)
    for block in weft.static_range(stages - 1):
        load_keys(begin + block)
    acc = weft.mma.zeros((config.warp_m, heads.hdim_v), weft.f32)
    sink = None if sinks is None else weft.f32(sinks[head]) * LOG2_E / scale
    row_max, row_sum = acc.rows(HIDDEN if sink is None else sink), acc.rows(0.0)
    for block in range(begin, weft.ceil_div(visible, tile_n)):
        weft.cp_async.wait(pending=stages - 2)
        weft.sync_threads()  # this tile is there for all, and the one before it is free
        load_keys(block + stages - 1)
        k_tile, v_tile = k_ring[block % stages], v_ring[block % stages]
        for step in weft.static_range(tile_n // config.step_n):
            key = tile_n * block + config.step_n * step
            s = matmul_transposed(q_own, k_tile, step, config)
            s = cap_scores(s, cap)
            is_edge = key + config.step_n > key_end(mask, own, queries, keys)
            if mask.left is not None:
                last = own + config.warp_m - 1
                is_edge = is_edge or key < key_begin(mask, last, queries, keys)
            if is_edge:
                s = mask_scores(s, own, key, queries, keys, mask)
            weights, row_max, row_sum, alpha = online_softmax(s, row_max, row_sum, scale, p)
            acc = matmul_add(acc.map(multiply, alpha), weights, v_tile, step, config)
    of_head = None if lse is None else lse[*batch, head, q_start : q_start + queries]
    rows = out[*batch, q_start : q_start + queries, head]
    store_result(acc, row_sum, row_max, sink, scale, rows, of_head, own)


@weft.jit
def attention(
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    scale: weft.f64,
    softcap: weft.f64 | None,
    left: weft.i32 | None,
    right: weft.i32 | None,
    sinks: weft.Tensor | None,
    causal: weft.Constexpr[bool],
    top_left: weft.Constexpr[bool],
    hdims: weft.Constexpr[tuple[int, int, bool]],
    config: weft.Constexpr[AttentionConfig],
    aligned: weft.Constexpr[bool],
) -> None:
    """O and, unless None, lse, of arrays with any strides; `hdims` as `padded` says, `aligned` as `HeadConfig`."""
    mask = Mask(causal, top_left, left, right)
    heads = HeadConfig(q.shape[-2] // k.shape[-2], *hdims, mask, aligned)
    scores = *factor_and_cap(scale, softcap), sinks
    attention_kernel(q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, *scores, heads, config).launch(
        grid=(
            num_tiles(q.shape[-3], config.tile_m, cu_seqlens_q),
            q.shape[-2],
            q.shape[0] if q.ndim == 4 else 1,
        ),
        block=32 * config.warps,
    )
