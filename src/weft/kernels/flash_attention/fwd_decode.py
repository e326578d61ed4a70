# SPDX-License-Identifier: Apache-2.0
"""Attention forward for few queries, from sm_80 on (Flash-Decoding): keys are split among blocks, heads are packed.

Computes O = softmax(scale · Q Kᵀ) V and lse = logsumexp(scale · Q Kᵀ) of 16-bit floats, as decoding does: K and V are
read once for all queries of a key head (GQA), and a grid of (splits, key heads, batch) fills the GPU even for one
sequence. Splits are joined by their logsumexp (Dao et al., 2023, https://crfm.stanford.edu/2023/10/12/flashdecoding.html):

    lse = log Σ exp(lse_i),  O = Σ exp(lse_i - lse) · O_i

The packed queries, token by token the heads that share a key head, are the N dimension of the MMAs, so that one needs
8 columns, not 64 rows: Sᵀ = K Qᵀ and Oᵀ = Vᵀ Pᵀ. Each warp walks through tiles of 16 keys of its own, which cp.async
loads ahead, and meets the others at the end.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.flash_attention.fwd_sm90 import columns_for, swizzle_for
from weft.kernels.flash_attention.softmax import (
    HIDDEN,
    LOG2_E,
    Mask,
    base_of,
    cap_scores,
    exp2,
    factor_and_cap,
    key_begin,
    key_end,
    reciprocal,
)

TILE: Final = 16  # keys per step of a warp
STAGES: Final = 3  # tiles that a warp loads and computes at once
CHUNK: Final = 8  # elements per cp.async: 16 bytes
MAX_QUERIES: Final = 64  # packed per key head; above, `fwd_sm80` and `fwd_sm90` are faster
MIN_KEYS: Final = 256  # of a split, to be worth a pass through memory
MAX_SPLITS: Final = 128


class DecodeConfig(NamedTuple):
    """Shape of a block's work, known at compile time.

    Attributes:
        warps: per block.
        columns: packed queries of a block, rounded up to 8.
        hdim, hdim_v: columns of tiles of K and V.
        is_padded: whether they have more than the heads, which are zeros.
    """

    warps: weft.Constexpr[int]
    columns: weft.Constexpr[int]
    hdim: weft.Constexpr[int]
    hdim_v: weft.Constexpr[int]
    is_padded: weft.Constexpr[bool]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: the rings, and the logsumexp of each warp."""
        ring = 2 * STAGES * TILE * (self.hdim + self.hdim_v)
        return self.warps * (ring + 4 * self.columns)


def config_for(queries: int, hdim: int, hdim_v: int) -> DecodeConfig:
    """Sums of a warp in at most 64 registers of a thread, rings in at most 96 KiB of shared memory."""
    columns_k, columns_v = columns_for(hdim), columns_for(hdim_v)
    most = 16 if max(columns_k, columns_v) <= 128 else 8
    columns = min(8 * -(-queries // 8), most)
    warps = 4 if columns_k + columns_v <= 256 else 2
    is_padded = (columns_k, columns_v) != (hdim, hdim_v)
    return DecodeConfig(warps, columns, columns_k, columns_v, is_padded)


def num_splits_for(blocks: int, keys: int, resident: int) -> int:
    """Splits of the keys: the fewest that keep the GPU within 15 % of the best occupancy of its last wave.

    Args:
        blocks: of one split.
        keys: that a query sees.
        resident: blocks that the GPU runs at once.

    Example:
        >>> num_splits_for(8, 32768, 264), num_splits_for(512, 32768, 264), num_splits_for(8, 100, 264)
        (29, 1, 1)
    """
    most = min(MAX_SPLITS, resident, -(-keys // MIN_KEYS))
    shares = [
        (blocks * splits / resident) / -(-blocks * splits // resident)
        for splits in range(1, most + 1)
    ]
    if not shares:
        return 1
    return next(i for i, share in enumerate(shares, 1) if share >= 0.85 * max(shares))


@weft.device
def load_tile(
    tile: weft.Tensor, source: weft.Tensor, first: weft.i32, end: weft.i32, config: DecodeConfig
) -> None:
    """Start to load a warp's tile of a head's keys or values; zeros from `end` on and beyond hdim."""
    chunks, columns = tile.shape[1] // CHUNK, source.shape[1]
    source = weft.assume_aligned(source, CHUNK * source.dtype.itemsize)
    copies = weft.ceil_div(TILE * chunks, 32)
    for i in weft.unroll(range(copies), min(copies, 8)):  # more at once would take registers
        chunk = weft.lane_id() + 32 * i
        row, c = divmod(chunk, chunks)
        if TILE * chunks % 32 == 0 or chunk < TILE * chunks:
            inside = first + row < end
            if config.is_padded:
                inside = inside & (CHUNK * c < columns)
            index = first + row, CHUNK * c
            weft.cp_async.copy(tile, (row, CHUNK * c), source, index, CHUNK, pred=inside)


@weft.device
def join(parts: list[tuple[weft.f32, weft.f32]]) -> tuple[weft.f32, weft.f32]:
    """The lse, to base 2, and the output of several parts of the keys; -inf and 0 where no key is seen."""
    largest = max(*(lse for lse, _ in parts))
    base = weft.where(largest == HIDDEN, 0.0, largest)
    weights = [exp2(lse - base) for lse, _ in parts]
    total = sum(weights)
    value = sum(weight * one for weight, (_, one) in zip(weights, parts, strict=True))
    return base + weft.math.log2(total), value * reciprocal(total)


@weft.kernel(max_threads=128)
def decode_kernel(
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    partials: weft.Tensor | None,
    group_size: weft.i32,
    scale: weft.f32,
    cap: weft.f32 | None,
    sinks: weft.Tensor | None,
    mask: Mask,
    config: DecodeConfig,
) -> None:
    """A block: some packed queries of a key head, and a split of its keys.

    Args:
        lse: (batch, heads, tokens), or of splits (splits, batch, heads, tokens) to base 2.
        partials: (splits, batch, heads, tokens, hdim of values), or None: write `out`.
        scale: of the scores, to base 2.
        cap: as `cap_scores` has it, or None.
        sinks: (heads,), a score without a value, or None.
    """
    warps, columns, warp = config.warps, config.columns, weft.warp_id()
    k_ring = weft.shared(
        (warps, STAGES, TILE, config.hdim), k.dtype, swizzle=swizzle_for(config.hdim)
    )
    v_ring = weft.shared(
        (warps, STAGES, TILE, config.hdim_v), v.dtype, swizzle=swizzle_for(config.hdim_v)
    )
    tokens, keys, key_heads = weft.i32(q.shape[1]), weft.i32(k.shape[1]), weft.i32(k.shape[2])
    queries = tokens * group_size
    split, batch = weft.block_idx.x, weft.block_idx.z
    tile, k_head = divmod(weft.block_idx.y, key_heads)
    first_query = columns * tile
    seen_from, end = key_begin(mask, 0, tokens, keys), key_end(mask, tokens - 1, tokens, keys)
    step = TILE * warps
    seen = weft.ceil_div(max(end - seen_from, 0), step)
    keys_per_split = step * weft.ceil_div(seen, weft.i32(weft.grid_dim.x))
    begin = seen_from + keys_per_split * split
    end = min(begin + keys_per_split, end)
    own_keys, own_values = k[batch, :, k_head], v[batch, :, k_head]

    def load(number: weft.i32) -> None:
        stage, first = number % STAGES, begin + TILE * (warp + warps * number)
        load_tile(k_ring[warp, stage], own_keys, first, end, config)
        load_tile(v_ring[warp, stage], own_values, first, end, config)
        weft.cp_async.commit()

    for number in weft.static_range(STAGES - 1):
        load(number)

    def element(depth: weft.i32, column: weft.i32) -> Any:
        query = first_query + column
        inside = query < queries
        if config.is_padded:
            inside = inside & (depth < q.shape[3])
        head = k_head * group_size + query % group_size
        return q[batch, query // group_size, head, depth] if inside else 0

    own_queries = weft.mma.from_values((config.hdim, columns), element, q.dtype, "b")
    acc = weft.mma.zeros((config.hdim_v, columns))
    total, largest = weft.mma.zeros((TILE, columns)), acc.cols(HIDDEN)
    steps = weft.ceil_div(max(end - begin - TILE * warp, 0), step)
    for number in range(steps):
        weft.cp_async.wait(pending=STAGES - 2)
        weft.sync_warp()
        stage, first = number % STAGES, begin + TILE * (warp + warps * number)
        scores = weft.mma.zeros((TILE, columns))
        scores = weft.mma.mma(weft.mma.load_a(k_ring[warp, stage]), own_queries, scores)
        scores = cap_scores(scores, cap)

        def masked(score: weft.f32, row: weft.i32, column: weft.i32, first: Any = first) -> Any:
            token, key = (first_query + column) // group_size, first + row
            is_seen = key < min(end, key_end(mask, token, tokens, keys))
            if mask.left is not None:
                is_seen = is_seen & (key >= key_begin(mask, token, tokens, keys))
            return weft.where(is_seen, score, HIDDEN)

        is_edge = first + TILE > min(end, key_end(mask, 0, tokens, keys))
        if mask.left is not None:
            is_edge = is_edge or first < key_begin(mask, tokens - 1, tokens, keys)
        if is_edge:
            scores = scores.map(masked, coordinates=True)
        largest_now = weft.math.max(largest, scores.col_max())
        base = largest_now.map(base_of, scale)
        weights = weft.math.exp2(scores * scale - base, approx=True)
        alpha = weft.math.exp2(largest * scale - base, approx=True)
        largest = largest_now
        total = total * alpha + weights
        right = weights.to(q.dtype).as_operand_b()
        acc = weft.mma.mma(weft.mma.load_a(v_ring[warp, stage].T), right, acc * alpha)
        load(number + STAGES - 1)
    weft.cp_async.wait()
    weft.sync_threads()
    sums = weft.shared((warps, config.hdim_v, columns), weft.f32, reuse=(k_ring, v_ring))
    logs = weft.shared((warps, columns), weft.f32)
    total = total.col_sum()
    base = largest.map(base_of, scale)
    (acc * total.map(reciprocal)).store(sums[warp])
    (base + weft.math.log2(total)).store(logs[warp])
    weft.sync_threads()
    depths = out.shape[3]
    for i in range(weft.thread_idx.x, min(columns, queries - first_query) * depths, 32 * warps):
        column, depth = divmod(i, depths)
        token, group_head = divmod(first_query + column, group_size)
        head = k_head * group_size + group_head
        parts = [(logs[w, column], sums[w, depth, column]) for w in weft.static_range(warps)]
        if sinks is not None and partials is None:
            parts.append(sink_of(sinks, head))
        log, value = join(parts)
        if partials is None:
            out[batch, token, head, depth] = out.dtype(value)
        else:
            partials[split, batch, head, token, depth] = value
        if lse is not None and depth == 0:
            if partials is None:
                lse[batch, head, token] = log / LOG2_E
            else:
                lse[split, batch, head, token] = log


@weft.device
def sink_of(sinks: weft.Tensor, head: weft.i32) -> tuple[weft.f32, weft.f32]:
    """The part of a head's sink, whose value is 0."""
    return weft.f32(sinks[head]) * LOG2_E, weft.f32(0.0)


@weft.kernel
def combine_kernel(
    partials: weft.Tensor,
    logs: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    sinks: weft.Tensor | None,
) -> None:
    """A block: a head of a token, joined from all splits."""
    token, head, batch = weft.block_idx.xyz
    for depth in range(weft.thread_idx.x, out.shape[3], weft.block_dim.x):
        log, value = weft.f32(HIDDEN), weft.f32(0.0)
        if sinks is not None:
            log, value = sink_of(sinks, head)
        for split in range(partials.shape[0]):
            one = logs[split, batch, head, token], partials[split, batch, head, token, depth]
            log, value = join([(log, value), one])
        out[batch, token, head, depth] = out.dtype(value)
        if lse is not None and depth == 0:
            lse[batch, head, token] = log / LOG2_E


@weft.jit
def attention(
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    num_splits: weft.i32,
    is_split: weft.Constexpr[bool],
    scale: weft.f64,
    softcap: weft.f64 | None,
    left: weft.i32 | None,
    right: weft.i32 | None,
    sinks: weft.Tensor | None,
    causal: weft.Constexpr[bool],
    top_left: weft.Constexpr[bool],
    config: weft.Constexpr[DecodeConfig],
) -> None:
    """O and, unless None, lse, of batches; rows of K and V are whole chunks of 16 bytes; masks as `Mask` has them."""
    batch, tokens, heads, depths = out.shape
    group_size = heads // k.shape[2]
    scores = *factor_and_cap(scale, softcap), sinks
    options = group_size, *scores, Mask(causal, top_left, left, right), config
    tiles, threads = weft.ceil_div(tokens * group_size, config.columns), 32 * config.warps
    grid = num_splits, tiles * k.shape[2], batch
    if is_split:
        partials = weft.scratch((num_splits, batch, heads, tokens, depths), weft.f32)
        logs = weft.scratch((num_splits, batch, heads, tokens), weft.f32)
        decode_kernel(q, k, v, out, logs, partials, *options).launch(grid=grid, block=threads)
        combine_kernel(partials, logs, out, lse, sinks).launch(
            grid=(tokens, heads, batch), block=128
        )
    else:
        decode_kernel(q, k, v, out, lse, None, *options).launch(grid=grid, block=threads)
