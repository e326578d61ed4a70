# SPDX-License-Identifier: Apache-2.0
"""Attention on any GPU from sm_80 on: warps multiply what threads copy ahead of time.

In: queries, keys and values of 16-bit floats in any layout. Out: their attention, and maybe the logarithms of its sums
of weights. A block has queries of a head in registers and goes through the keys and values, which lie in rings of
tiles; its own rows lie there before, on their way to registers.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.kernels.device.vector import Aligned
from weft.kernels.flash_attention.fwd_sm90 import (
    LOG2_E,
    hidden,
    inverse,
    masked,
    nothing,
    scaled,
    softmax_step,
    write_sums,
)
from weft.kernels.flash_attention.shapes import clear_outside, tile_of, tiles_of
from weft.kernels.host.arrays import Array, Constant, Float64, Int32
from weft.language.asynchronous import cp_async
from weft.language.control import ceil_div, static_range
from weft.language.matrix import mma
from weft.language.memory.shared import shared
from weft.language.numbers.math import min as lesser
from weft.language.profiling.profiler import Profiler
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, grid_dim, thread_idx
from weft.language.threads.warp import lane_id, warp_id
from weft.types.dtype import f32

CHUNK: Final = 8  # elements of a copy: 16 bytes
MOST_HDIM: Final = 128


class Plan(NamedTuple):
    """How a block works; known when the kernel is compiled.

    Attributes:
        warps: of a block.
        rows: that a warp has: keys, or queries.
        tile: rows of a tile of the ring.
        piece: of these, how many a warp has scores with at a time.
        stages: tiles in a ring; together they hold as many rows as the block has.
    """

    warps: Constant
    rows: Constant
    tile: Constant
    piece: Constant
    stages: Constant


def plan_for(hdim: int) -> Plan:
    """How blocks of queries of so many elements work."""
    return Plan(4, 32, 64, 32, 2) if hdim <= 64 else Plan(8, 16, 64, 64, 2)


def columns_for(hdim: int) -> tuple[int, bool]:
    """Columns of tiles for heads of so many elements, and whether heads fill them: `Heads.width` and `is_full`."""
    return -(-hdim // 16) * 16, hdim % 16 == 0


class Heads(NamedTuple):
    """What both kernels know of heads.

    Attributes:
        group: how many heads share a head of keys.
        width: columns of tiles, the elements of a head and zeros: a multiple of 16.
        is_full: whether there are no such zeros.
        causal: whether a query sees the keys up to its own alone.
        by_copies: whether rows are whole chunks of 16 bytes.
    """

    group: Int32
    width: Constant
    is_full: Constant
    causal: Constant
    by_copies: Constant


def rings_of(dtype: Any, plan: Any, heads: Any) -> Any:
    """Two rings of tiles, whose rows are multiples of 16 elements; traced in kernels."""
    swizzle = 128 if heads.width % 64 == 0 else 64 if heads.width % 32 == 0 else 32
    shape = plan.stages, plan.tile, heads.width
    return shared(shape, dtype, swizzle=swizzle), shared(shape, dtype, swizzle=swizzle)


def fetch(tile: Any, source: Any, place: Any, end: Any, heads: Any, warps: Any) -> None:
    """This thread's part of a tile; zeros from a row's end and from the last row on. Traced in kernels.

    Args:
        tile: where it goes.
        source: tokens of heads.
        place: its index in `source`, of a token and a head.
        end: of tokens.
        heads: what is known of them.
        warps: of the block.
    """
    (*own, first, head), (rows, columns) = place, tile.shape
    chunk, threads = CHUNK if heads.by_copies else 1, 32 * warps
    chunks = columns // chunk
    for part in static_range(ceil_div(rows * chunks, threads)):
        number = thread_idx.x + threads * part
        r, c = divmod(number, chunks)
        if threads * (part + 1) <= rows * chunks or number < rows * chunks:
            inside = first + r < end
            if not heads.is_full:
                inside = inside & (chunk * c < source.shape[-1])
            index = (*own, first + r, head, chunk * c)
            if heads.by_copies:
                cp_async.copy(tile, (r, chunk * c), source, index, chunk, when=inside)
            else:
                tile[r, c] = source[index] if inside else source.dtype(0.0)


def own_rows(ring: Any, plan: Any) -> Any:
    """The rows of this warp as a left operand, from a ring that holds those of the block; traced in kernels."""
    each = plan.tile // plan.rows
    tile = ring[warp_id() // each]
    return mma.load_a(tile.tile((plan.rows, ring.shape[-1]), (warp_id() % each, 0)))


def held(rings: Any, sources: Any, place: Any, end: Any, heads: Any, plan: Any) -> Any:
    """The rows of this warp, of a block's in each source; traced in kernels."""
    *own, first, head = place
    for ring, source in zip(rings, sources, strict=True):
        for stage in static_range(plan.stages):
            at = (*own, first + plan.tile * stage, head)
            fetch(ring[stage], source, at, end, heads, plan.warps)
    cp_async.commit()
    cp_async.wait(pending=0)
    sync_threads()
    found = [own_rows(ring, plan) for ring in rings]
    sync_threads()  # the ring is free
    return found


def scores_of(rows: Any, tile: Any, first: Any, plan: Any) -> Any:
    """The products of this warp's rows and a piece of those in a tile; traced in kernels."""
    acc = mma.zeros((plan.rows, plan.piece), f32)
    columns = tile.tile((plan.piece, tile.shape[1]), (first, 0)).T
    for k in static_range(tile.shape[1] // 16):
        right = mma.load_b(columns.tile((16, plan.piece), (k, 0)))
        acc = mma.mma(rows[:, 16 * k : 16 * k + 16], right, acc)
    return acc


def add_rows(acc: Any, weights: Any, tile: Any, first: Any, plan: Any) -> Any:
    """Adds the rows of a tile's piece, weighted; traced in kernels."""
    rows, left = tile.tile((plan.piece, tile.shape[1]), (first, 0)), weights.to(tile.dtype).as_a()
    for k in static_range(plan.piece // 16):
        right = mma.load_b(rows.tile((16, tile.shape[1]), (k, 0)))
        acc = mma.mma(left[:, 16 * k : 16 * k + 16], right, acc)
    return acc


@kernel
def attention_kernel(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Any,
    starts: Any,
    scale: Any,
    heads: Heads,
    plan: Plan,
    profiled: Constant = False,
) -> None:
    """A block: queries of a head."""
    p = Profiler(groups=[f"warp {i}" for i in range(plan.warps)], enabled=profiled)
    p.init(warp_id(), lane_id() == 0)
    head = block_idx.y
    clear_outside(out, starts[0])
    # Of a causal grid the blocks with the most keys start first.
    own, first, start, queries, other, keys = tile_of(
        grid_dim.x - 1 - block_idx.x, plan.warps * plan.rows, starts, (q.shape[-3], k.shape[-3])
    )
    if first >= queries:
        return
    k_ring, v_ring = rings = rings_of(q.dtype, plan, heads)
    ahead, mine = keys - queries, first + plan.rows * warp_id()
    place, end = (*own, start + first, head), start + queries
    (rows,) = held((k_ring,), (q,), place, end, heads, plan)

    def fetch_both(step: Any) -> None:
        at = (*own, other + plan.tile * step, head // heads.group)
        for ring, source in zip(rings, (k, v), strict=True):
            fetch(ring[step % plan.stages], source, at, other + keys, heads, plan.warps)
        cp_async.commit()

    last = lesser(keys, first + plan.warps * plan.rows + ahead) if heads.causal else keys
    for step in static_range(plan.stages - 1):
        fetch_both(step)
    acc = mma.zeros((plan.rows, k_ring.shape[-1]), f32)
    largest, total = acc.rows(hidden), acc.rows(nothing)
    for step in range(ceil_div(last, plan.tile)):
        cp_async.wait(pending=plan.stages - 2)
        sync_threads()  # this tile is there for all, and the one before it is free
        fetch_both(step + plan.stages - 1)
        k_tile, v_tile = k_ring[step % plan.stages], v_ring[step % plan.stages]
        for piece in static_range(plan.tile // plan.piece):
            key = plan.tile * step + plan.piece * piece
            scores = scores_of(rows, k_tile, piece, plan)
            if key + plan.piece > (lesser(keys, mine + ahead + 1) if heads.causal else keys):
                scores = masked(scores, keys, key, mine, ahead, heads.causal)
            weights, largest, total, factor = softmax_step(scores, largest, total, scale, p)
            acc = add_rows(acc.map(scaled, factor), weights, v_tile, piece, plan)
    total = total.sum_threads()
    acc.map(scaled, total.map(inverse)).store(out[(*own, slice(start, end), head)], (mine, 0))
    if lse is not None:
        of_head = lse[(*own, head, slice(start, end))]
        write_sums(total, largest, scale, of_head, mine + lane_id() // 4)


def _launch(
    q: Any, k: Any, v: Any, out: Any, lse: Any, starts: Any, scale: Any, heads: Any, plan: Any
) -> None:
    """Traced in host functions."""
    count, tokens = q.shape[-2], q.shape[-3]
    grid = tiles_of(tokens, plan.warps * plan.rows, starts), count, q.shape[0] if q.ndim == 4 else 1
    attention_kernel(q, k, v, out, lse, starts, f32(scale * LOG2_E), heads, plan).launch(
        grid=grid, block=32 * plan.warps
    )


@jit
def attention(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array | None,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    scale: Float64,
    causal: Constant,
    columns: Constant,
    plan: Constant,
) -> None:
    """``out = softmax(scale · q · kᵀ) · v`` of arrays that lie in any way, by head and sequence."""
    heads = Heads(q.shape[-2] // k.shape[-2], columns[0], columns[1], causal, False)
    _launch(q, k, v, out, lse, (cu_seqlens_q, cu_seqlens_k), scale, heads, plan)


@jit
def attention_of_chunks(
    q: Aligned,
    k: Aligned,
    v: Aligned,
    out: Array,
    lse: Array | None,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    scale: Float64,
    causal: Constant,
    columns: Constant,
    plan: Constant,
) -> None:
    """The same of arrays whose rows are whole chunks of 16 bytes."""
    heads = Heads(q.shape[-2] // k.shape[-2], columns[0], columns[1], causal, True)
    _launch(q, k, v, out, lse, (cu_seqlens_q, cu_seqlens_k), scale, heads, plan)
