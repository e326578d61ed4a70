# SPDX-License-Identifier: Apache-2.0
"""The derivative of attention on any GPU from sm_80 on, as FlashAttention-2 computes it, by tensor cores.

In: the gradient of the result, queries, keys and values of 16-bit floats, the result and the logarithms of its weights'
sums. Out: the derivatives by queries, keys and values, always added in the same order.

Each of the two kernels computes the weights once more from the scores: one has the queries of a block in registers and
goes through the keys, the other has keys and values and goes through the queries. So no sum is of several blocks, and
none needs atomics; the price is seven products instead of five. What a block goes through is copied ahead of time into
a ring of tiles, in which its own rows lie before, on their way to registers.
"""

from __future__ import annotations

import math
from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.device.vector import Aligned
from weft.kernels.flash_attention.fwd_sm80 import (
    Heads,
    Plan,
    add_rows,
    fetch,
    held,
    rings_of,
    scores_of,
)
from weft.kernels.flash_attention.fwd_sm90 import LOG2_E, scaled
from weft.kernels.flash_attention.shapes import clear_outside, tile_of, tiles_of
from weft.kernels.host.arrays import Array, Constant, Float64
from weft.language.asynchronous import cp_async
from weft.language.control import ceil_div, select, static_range
from weft.language.matrix import mma
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.numbers.math import exp2
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, grid_dim, thread_idx
from weft.language.threads.warp import lane_id, warp_id
from weft.primitives.warp.reductions import sum as warp_sum
from weft.types.dtype import f32

_MEANS_WARPS: Final = 8


def plans_for(hdim: int) -> tuple[Plan, Plan]:
    """How blocks of queries, and how blocks of keys, of so many elements work."""
    if hdim <= 64:
        return Plan(4, 32, 64, 32, 2), Plan(8, 32, 128, 16, 2)
    return Plan(8, 16, 64, 64, 2), Plan(8, 16, 32, 16, 4)


def of_columns(scores: Any, row: Any, first: Any, plan: Any) -> Any:
    """What a row in shared memory has for the columns of a piece; traced in kernels."""

    def at(column: Any) -> Any:
        return row[plan.piece * first + column]

    return scores.cols(at)


def shown(weights: Any, places: Any, sizes: Any, causal: Any, rows_are_keys: Any) -> Any:
    """Weights, 0 where a query does not see a key and from the last column on; traced in kernels.

    Args:
        weights: a fragment.
        places: the query and the key of its first element.
        sizes: how many queries and keys there are.
        causal: whether a query sees the keys up to its own alone.
        rows_are_keys: or queries.
    """
    (first_query, first_key), (queries, keys) = places, sizes

    def one(x: Any, row: Any, column: Any) -> Any:
        query, key = (column, row) if rows_are_keys else (row, column)
        query, key = first_query + query, first_key + key
        inside = query < queries if rows_are_keys else key < keys
        if causal:
            inside = inside & (key <= query + keys - queries)
        return select(inside, x, 0.0)

    return weights.map(one, coordinates=True)


def weight_of(score: Any, total: Any, scale: Any) -> Any:
    """exp(scale · score) / the sum of such; scale and the sum's logarithm are to the base of 2."""
    return exp2(score * scale - total, approx=True)


def slope_of(weight: Any, product: Any, mean: Any) -> Any:
    """The derivative by a score."""
    return weight * (product - mean)


@kernel(max_threads=32 * _MEANS_WARPS)
def means_kernel(gradient: Array, result: Array, lse: Array, sums: Array, means: Array) -> None:
    """A warp: of a query of a head the mean of its slopes, and the logarithm of its sum of weights to the base of 2."""
    own = (block_idx.z,) if gradient.ndim == 4 else ()
    token, head = _MEANS_WARPS * block_idx.x + warp_id(), block_idx.y
    if token < gradient.shape[-3]:
        total = f32(0.0)
        for d in range(lane_id(), gradient.shape[-1], 32):
            at = (*own, token, head, d)
            total += f32(gradient[at]) * f32(result[at])
        total = warp_sum(total)
        if lane_id() == 0:
            at = (*own, head, token)
            means[at] = total
            # With a sum of no weights there are none.
            sums[at] = math.inf if lse[at] == -math.inf else lse[at] * LOG2_E


@kernel
def query_kernel(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    by_q: Array,
    stats: Any,
    starts: Any,
    scale: Any,
    heads: Heads,
    plan: Plan,
) -> None:
    """A block: queries of a head."""
    head = block_idx.y
    of_keys = head // heads.group
    clear_outside(by_q, starts[0])
    # Of a causal grid the blocks with the most keys start first.
    own, first, start, queries, other, keys = tile_of(
        grid_dim.x - 1 - block_idx.x, plan.warps * plan.rows, starts, (q.shape[-3], k.shape[-3])
    )
    if first >= queries:
        return
    k_ring, v_ring = rings = rings_of(q.dtype, plan, heads)
    ahead, mine = keys - queries, first + plan.rows * warp_id()
    place, end = (*own, start + first, head), start + queries
    rows, slopes = held(rings, (q, gradient), place, end, heads, plan)

    def fetch_both(step: Any) -> None:
        at = (*own, other + plan.tile * step, of_keys)
        for ring, source in ((k_ring, k), (v_ring, v)):
            fetch(ring[step % plan.stages], source, at, other + keys, heads, plan.warps)
        cp_async.commit()

    def found_in(source: Any, beyond: Any) -> Any:
        at = source[(*own, head)]

        def of_row(row: Any) -> Any:
            return at[start + mine + row] if mine + row < queries else f32(beyond)

        return mma.zeros((plan.rows, plan.piece), f32).rows(of_row)

    total, mean = found_in(stats[0], math.inf), found_in(stats[1], 0.0)
    base = scale * LOG2_E
    last = lesser(keys, first + plan.warps * plan.rows + ahead) if heads.causal else keys
    for step in static_range(plan.stages - 1):
        fetch_both(step)
    acc = mma.zeros((plan.rows, k_ring.shape[-1]), f32)
    for step in range(ceil_div(last, plan.tile)):
        cp_async.wait(pending=plan.stages - 2)
        sync_threads()  # this tile is there for all, and the one before it is free
        fetch_both(step + plan.stages - 1)
        k_tile, v_tile = k_ring[step % plan.stages], v_ring[step % plan.stages]
        for piece in static_range(plan.tile // plan.piece):
            key = plan.tile * step + plan.piece * piece
            weights = scores_of(rows, k_tile, piece, plan).map(weight_of, total, base)
            by_score = weights.map(slope_of, scores_of(slopes, v_tile, piece, plan), mean)
            if key + plan.piece > (lesser(keys, mine + ahead + 1) if heads.causal else keys):
                by_score = shown(by_score, (mine, key), (queries, keys), heads.causal, False)
            acc = add_rows(acc, by_score, k_tile, piece, plan)
    target = by_q[(*own, slice(start, end), head)]
    acc.map(scaled, scale).store(target, (mine, 0))


@kernel
def key_kernel(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    by: Any,
    stats: Any,
    starts: Any,
    scale: Any,
    heads: Heads,
    plan: Plan,
) -> None:
    """A block: keys of a head of keys."""
    of_keys, dtype = block_idx.y, q.dtype
    for one in by:
        clear_outside(one, starts[1])
    own, first, start, keys, other, queries = tile_of(
        block_idx.x, plan.warps * plan.rows, starts[::-1], (k.shape[-3], q.shape[-3])
    )
    if first >= keys:
        return
    q_ring, g_ring = rings = rings_of(dtype, plan, heads)
    stat_rings = tuple(shared((plan.stages, plan.tile), f32) for _ in stats)
    ahead, mine = keys - queries, first + plan.rows * warp_id()
    place, end = (*own, start + first, of_keys), start + keys
    rows, values = held(rings, (k, v), place, end, heads, plan)
    begin = greater(first - ahead, 0) if heads.causal else 0  # the first query that sees a key
    steps = ceil_div(greater(queries - begin, 0), plan.tile)  # for each head
    count = heads.group * steps

    def fetch_all(step: Any) -> None:
        member, number = divmod(step, greater(steps, 1))
        stage, head = step % plan.stages, heads.group * of_keys + member
        query = other + begin + plan.tile * number
        last = select(step < count, other + queries, 0)
        for ring, source in ((q_ring, q), (g_ring, gradient)):
            fetch(ring[stage], source, (*own, query, head), last, heads, plan.warps)
        for ring, source in zip(stat_rings, stats, strict=True):
            if thread_idx.x < plan.tile:
                at, row = (*own, head, query + thread_idx.x), thread_idx.x
                cp_async.copy(ring[stage], row, source, at, 1, when=query + row < last)
        cp_async.commit()

    base = scale * LOG2_E
    for step in static_range(plan.stages - 1):
        fetch_all(step)
    of_key, of_value = (mma.zeros((plan.rows, q_ring.shape[-1]), f32) for _ in "kv")
    for step in range(count):
        cp_async.wait(pending=plan.stages - 2)
        sync_threads()  # this tile is there for all, and the one before it is free
        fetch_all(step + plan.stages - 1)
        stage = step % plan.stages
        for piece in static_range(plan.tile // plan.piece):
            query = begin + plan.tile * (step % greater(steps, 1)) + plan.piece * piece
            total, mean = (ring[stage] for ring in stat_rings)
            scores = scores_of(rows, q_ring[stage], piece, plan)
            weights = scores.map(weight_of, of_columns(scores, total, piece, plan), base)
            products = scores_of(values, g_ring[stage], piece, plan)
            is_edge = query + plan.piece > queries
            if heads.causal:
                is_edge = is_edge or query + ahead < mine + plan.rows - 1
            if is_edge:
                places, sizes = (query, mine), (queries, keys)
                weights = shown(weights, places, sizes, heads.causal, True)
            by_score = weights.map(slope_of, products, of_columns(scores, mean, piece, plan))
            of_value = add_rows(of_value, weights, g_ring[stage], piece, plan)
            of_key = add_rows(of_key, by_score, q_ring[stage], piece, plan)
    for found, one in zip((of_key.map(scaled, scale), of_value), by, strict=True):
        found.store(one[(*own, slice(start, end), of_keys)], (mine, 0))


def launch_means(gradient: Any, result: Any, lse: Any) -> Any:
    """The logarithms of sums and the mean slopes of queries, tokens of a head together; traced in host functions."""
    *batches, tokens, count, _ = gradient.shape
    sums, means = (scratch((*batches, count, tokens), f32) for _ in "sm")
    grid = greater(ceil_div(tokens, _MEANS_WARPS), 1), count, batches[0] if batches else 1
    means_kernel(gradient, result, lse, sums, means).launch(grid=grid, block=32 * _MEANS_WARPS)
    return sums, means


def _launch(
    gradient: Any,
    q: Any,
    k: Any,
    v: Any,
    result: Any,
    lse: Any,
    by: Any,
    starts: Any,
    scale: Any,
    causal: Any,
    columns: Any,
    plans: Any,
    by_copies: Any,
) -> None:
    """Traced in host functions."""
    batches = q.shape[0] if q.ndim == 4 else 1
    tokens, count = q.shape[-3], q.shape[-2]
    stats = launch_means(gradient, result, lse)
    heads, scale = (
        Heads(count // k.shape[-2], columns[0], columns[1], causal, by_copies),
        f32(scale),
    )
    inputs, options = (gradient, q, k, v), (stats, starts, scale, heads)
    of_queries, of_keys = plans
    query_kernel(*inputs, by[0], *options, of_queries).launch(
        grid=(tiles_of(tokens, of_queries.warps * of_queries.rows, starts), count, batches),
        block=32 * of_queries.warps,
    )
    key_kernel(*inputs, by[1:], *options, of_keys).launch(
        grid=(tiles_of(k.shape[-3], of_keys.warps * of_keys.rows, starts), k.shape[-2], batches),
        block=32 * of_keys.warps,
    )


@jit
def differentiate(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    result: Array,
    lse: Array,
    by_q: Array,
    by_k: Array,
    by_v: Array,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    scale: Float64,
    causal: Constant,
    columns: Constant,
    plans: Constant,
) -> None:
    """Writes the derivatives of attention of arrays that lie in any way."""
    by, starts = (by_q, by_k, by_v), (cu_seqlens_q, cu_seqlens_k)
    _launch(gradient, q, k, v, result, lse, by, starts, scale, causal, columns, plans, False)


@jit
def differentiate_chunks(
    gradient: Aligned,
    q: Aligned,
    k: Aligned,
    v: Aligned,
    result: Array,
    lse: Array,
    by_q: Array,
    by_k: Array,
    by_v: Array,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    scale: Float64,
    causal: Constant,
    columns: Constant,
    plans: Constant,
) -> None:
    """The same of arrays whose rows are whole chunks of 16 bytes."""
    by, starts = (by_q, by_k, by_v), (cu_seqlens_q, cu_seqlens_k)
    _launch(gradient, q, k, v, result, lse, by, starts, scale, causal, columns, plans, True)
