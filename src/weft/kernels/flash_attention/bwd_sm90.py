# SPDX-License-Identifier: Apache-2.0
"""The derivative of attention on a Hopper GPU: warpgroups multiply what one more of them copies.

In: tensor maps of the gradient of the result, queries, keys and values, float16 or bfloat16; the result and the
logarithms of its sums of weights. Out: the derivatives, as `warp_attention_gradients` divides the work: a block of
queries goes through the keys, a block of keys through the queries. The last rows of a block may be another sequence's:
these have weights of 0, and may not be infinite.

A warpgroup has 64 rows of a block, of 64 or 128 columns; beyond a head's elements copies write zeros. The
tensor cores multiply for one while others compute weights: to start the next scores of the same one early was slower.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.kernels.flash_attention.bwd_sm80 import (
    launch_means,
    shown,
    slope_of,
    weight_of,
)
from weft.kernels.flash_attention.fwd_sm90 import LOG2_E, scaled
from weft.kernels.flash_attention.shapes import clear_outside, tile_of, tiles_of
from weft.kernels.host.arrays import Array, Constant, Float64, Int32
from weft.language.asynchronous import tma
from weft.language.asynchronous.mbarrier import mbarrier
from weft.language.asynchronous.pipeline import PipelineState
from weft.language.asynchronous.tensor_map import tensor_map
from weft.language.control import ceil_div, select
from weft.language.matrix import wgmma
from weft.language.memory.shared import shared
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.threads.grid import block_idx, grid_dim, thread_idx
from weft.language.threads.registers import setmaxnreg
from weft.language.threads.warp import lane_id, warp_id
from weft.language.threads.warpgroup import elect_one, warpgroup, warpgroup_id
from weft.types.dtype import f32

ROWS: Final = 64  # of a warpgroup
TILE: Final = 64  # rows that a block goes through at a time


class Plan(NamedTuple):
    """How a block works; known when the kernel is compiled.

    Attributes:
        multiply: warpgroups that do.
        stages: tiles in a ring.
    """

    multiply: Constant
    stages: Constant


def plans_for(hdim: int) -> tuple[Plan, Plan]:
    """How blocks of queries, and how blocks of keys, of so many elements work."""
    plan = Plan(3 if hdim == 64 else 2, 2)
    return plan, plan


class Heads(NamedTuple):
    """What both kernels know of heads.

    Attributes:
        group: how many heads share a head of keys.
        queries, keys: how many tokens there are, of a batch or of all sequences.
        hdim: columns of a tile, 64 or 128.
        causal: whether a query sees the keys up to its own alone.
    """

    group: Int32
    queries: Int32
    keys: Int32
    hdim: Constant
    causal: Constant


def registers(plan: Any, multiplies: Any) -> None:
    """The registers of a warpgroup that multiplies, or copies; traced in kernels."""
    if multiplies:
        setmaxnreg(240 if plan.multiply == 2 else 160)
    else:
        setmaxnreg(24 if plan.multiply == 2 else 32)


def tiles_for(dtype: Any, plan: Any, heads: Any) -> Any:
    """The block's rows, two arrays of them, and two rings; traced in kernels."""
    rows = ROWS * plan.multiply, heads.hdim
    ring = plan.stages, TILE, heads.hdim
    own = shared(rows, dtype, swizzle=128), shared(rows, dtype, swizzle=128)
    return own, (shared(ring, dtype, swizzle=128), shared(ring, dtype, swizzle=128))


def copy_tile(maps: Any, place: Any, tiles: Any, barrier: Any) -> None:
    """Begins to copy a tile of two arrays; traced in the kernel, for one thread."""
    barrier.arrive(expect_bytes=2 * tiles[0].nbytes)
    for source, tile in zip(maps, tiles, strict=True):
        tma.load(source, place, tile, barrier)


def products_of(rows: Any, rings: Any, stage: Any) -> Any:
    """Starts the scores of the block's rows with a tile's, and the products with gradients; traced in kernels."""
    return tuple(wgmma.mma(own, ring[stage].T) for own, ring in zip(rows, rings, strict=True))


@kernel
def query_kernel(
    own_maps: Any,
    maps: Any,
    by_q: Array,
    stats: Any,
    starts: Any,
    scale: Any,
    heads: Heads,
    plan: Plan,
) -> None:
    """A block: queries of a head."""
    head, of_keys, dtype = block_idx.y, block_idx.y // heads.group, by_q.dtype
    own_tiles, rings = tiles_for(dtype, plan, heads)
    own_full, full = mbarrier(1, arrivals=1), mbarrier(plan.stages, arrivals=1)
    empty = mbarrier(plan.stages, arrivals=4 * plan.multiply)
    clear_outside(by_q, starts[0])
    count = ROWS * plan.multiply
    # Of a causal grid the blocks with the most keys start first.
    own, first, start, queries, other, keys = tile_of(
        grid_dim.x - 1 - block_idx.x, count, starts, (heads.queries, heads.keys)
    )
    if first >= queries:
        return
    ahead, role, leader = keys - queries, warpgroup_id(), elect_one(warpgroup)
    steps = ceil_div(lesser(keys, first + count + ahead) if heads.causal else keys, TILE)
    if role == 0:
        registers(plan, False)
        if leader:
            copy_tile(own_maps, (*own, start + first, head, 0), own_tiles, own_full[0])
            stage = PipelineState(plan.stages, producer=True)
            for step in range(steps):
                empty[stage].wait()
                tiles = tuple(ring[stage] for ring in rings)
                copy_tile(maps, (*own, other + TILE * step, of_keys, 0), tiles, full[stage])
                stage = stage.next()
    else:
        registers(plan, True)
        mine = first + ROWS * (role - 1)
        rows = tuple(tile.tile((ROWS, heads.hdim), (role - 1, 0)) for tile in own_tiles)
        own_full[0].wait(0)

        row = mine + 16 * (warp_id() % 4) + lane_id() // 4
        total, mean = (
            found_in(source[(*own, head)], start, row, queries, beyond)
            for source, beyond in zip(stats, (math.inf, 0.0), strict=True)
        )
        loop = steps, (mine, 0), (queries, keys)
        acc = add_keys(rows, rings, (total, mean), (full, empty), loop, scale, heads, plan)
        target = by_q[(*own, slice(start, start + queries), head)]
        if steps > 0:
            acc.map(scaled, scale).store(target, (mine, 0))
        else:
            clear(target, mine)


def add_keys(
    rows: Any,
    rings: Any,
    stats: Any,
    barriers: Any,
    loop: Any,
    scale: Any,
    heads: Any,
    plan: Any,
) -> Any:
    """The derivatives by a warpgroup's queries, to be scaled; traced in the kernel."""
    (steps, (query, key), sizes), (full, empty) = loop, barriers
    stage, acc = PipelineState(plan.stages), wgmma.accumulator((ROWS, heads.hdim), f32)
    for step in range(steps):
        full[stage].wait()
        products = wgmma.wait(*products_of(rows, rings, stage), pending=0)
        left = slopes_of(products, stats, (query, key + TILE * step), sizes, scale, heads)
        left = left.to(rings[0].dtype).as_a()
        acc = wgmma.wait(wgmma.mma(left, rings[0][stage], acc, accumulate=step > 0), pending=0)
        empty[stage].release()
        stage = stage.next()
    return acc


def slopes_of(products: Any, stats: Any, places: Any, sizes: Any, scale: Any, heads: Any) -> Any:
    """The derivatives by the scores of a warpgroup's queries and a tile's keys; traced in kernels."""
    (scores, products), (total, mean), (query, key) = products, stats, places
    weights = scores.map(weight_of, scores.rows(total), scale * LOG2_E)
    by_score = weights.map(slope_of, products, scores.rows(mean))
    last = sizes[1]
    if heads.causal:
        last = lesser(last, query + sizes[1] - sizes[0] + 1)
    if key + TILE > last:
        by_score = shown(by_score, places, sizes, heads.causal, False)
    return by_score


def found_in(source: Any, start: Any, row: Any, rows: Any, beyond: Any) -> Any:
    """A function of a row of this thread, of which one is 8 below the other: what is known of it; traced in kernels.

    Args:
        source: what is known of tokens.
        start: the sequence's first token.
        row: the first of the thread's rows in the sequence.
        rows: of the sequence.
        beyond: for other rows.
    """
    upper = source[start + row] if row < rows else f32(beyond)
    lower = source[start + row + 8] if row + 8 < rows else f32(beyond)

    def of_row(row: Any) -> Any:
        return select(row % 16 < 8, upper, lower)

    return of_row


def clear(target: Any, first: Any) -> None:
    """Writes zeros to the rows of a warpgroup; traced in the kernel."""
    for row in range(first, lesser(first + ROWS, target.shape[0])):
        for d in range(thread_idx.x % 128, target.shape[1], 128):
            target[row, d] = target.dtype(0.0)


@kernel
def key_kernel(
    own_maps: Any,
    maps: Any,
    by: Any,
    stats: Any,
    starts: Any,
    scale: Any,
    heads: Heads,
    plan: Plan,
) -> None:
    """A block: keys of a head of keys."""
    of_keys, dtype = block_idx.y, by[0].dtype
    own_tiles, rings = tiles_for(dtype, plan, heads)
    stat_rings = tuple(shared((plan.stages, TILE), f32) for _ in stats)
    own_full, full = mbarrier(1, arrivals=1), mbarrier(plan.stages, arrivals=2)
    empty = mbarrier(plan.stages, arrivals=4 * plan.multiply)
    for one in by:
        clear_outside(one, starts[1])
    own, first, start, keys, other, queries = tile_of(
        block_idx.x, ROWS * plan.multiply, starts[::-1], (heads.keys, heads.queries)
    )
    if first >= keys:
        return
    ahead, role, leader = keys - queries, warpgroup_id(), elect_one(warpgroup)
    begin = greater(first - ahead, 0) if heads.causal else 0  # the first query that sees a key
    steps = ceil_div(greater(queries - begin, 0), TILE)  # for each head
    count, each = heads.group * steps, greater(steps, 1)
    if role == 0:
        registers(plan, False)
        stage = PipelineState(plan.stages, producer=True)
        if leader:
            copy_tile(own_maps, (*own, start + first, of_keys, 0), own_tiles, own_full[0])
            for step in range(count):
                head, query = heads.group * of_keys + step // each, begin + TILE * (step % each)
                empty[stage].wait()
                tiles = tuple(ring[stage] for ring in rings)
                copy_tile(maps, (*own, other + query, head, 0), tiles, full[stage])
                stage = stage.next()
        elif warp_id() == 1:
            for step in range(count):
                head, query = heads.group * of_keys + step // each, begin + TILE * (step % each)
                empty[stage].wait()
                for row in range(lane_id(), TILE, 32):
                    for ring, source, beyond in zip(
                        stat_rings, stats, (math.inf, 0.0), strict=True
                    ):
                        at = (*own, head, other + query + row)
                        ring[stage, row] = source[at] if query + row < queries else f32(beyond)
                full[stage].release()
                stage = stage.next()
    else:
        registers(plan, True)
        rows = tuple(tile.tile((ROWS, heads.hdim), (role - 1, 0)) for tile in own_tiles)
        own_full[0].wait(0)
        places = begin, first + ROWS * (role - 1)
        barriers, sizes = (full, empty), (queries, keys)
        loop = count, each, places, sizes
        sums = add_queries(rows, rings, stat_rings, barriers, loop, scale, heads, plan)
        for found, one in zip(sums, by, strict=True):
            target = one[(*own, slice(start, start + keys), of_keys)]
            if count > 0:
                found.store(target, (places[1], 0))
            else:
                clear(target, places[1])


def add_queries(
    rows: Any,
    rings: Any,
    stat_rings: Any,
    barriers: Any,
    loop: Any,
    scale: Any,
    heads: Any,
    plan: Any,
) -> Any:
    """The derivatives by a warpgroup's keys and values; traced in the kernel."""
    (count, each, (begin, key), sizes), (full, empty) = loop, barriers
    stage, dtype, shape = PipelineState(plan.stages), rings[0].dtype, (ROWS, heads.hdim)
    of_key, of_value = wgmma.accumulator(shape, f32), wgmma.accumulator(shape, f32)
    for step in range(count):
        full[stage].wait()
        scores, products = products_of(rows, rings, stage)
        scores = wgmma.wait(scores, pending=1)
        total, mean = (reader(ring[stage]) for ring in stat_rings)
        weights = scores.map(weight_of, scores.cols(total), scale * LOG2_E)
        query = begin + TILE * (step % each)
        is_edge = query + TILE > sizes[0]
        if heads.causal:
            is_edge = is_edge or query + sizes[1] - sizes[0] < key + ROWS - 1
        if is_edge:
            weights = shown(weights, (query, key), sizes, heads.causal, True)
        left = weights.to(dtype).as_a()
        of_value = wgmma.mma(left, rings[1][stage], of_value, accumulate=step > 0)
        products = wgmma.wait(products, pending=1)
        by_score = weights.map(slope_of, products, weights.cols(mean))
        left = by_score.to(dtype).as_a()
        of_key = wgmma.mma(left, rings[0][stage], of_key, accumulate=step > 0)
        of_value, of_key = wgmma.wait(of_value, of_key, pending=0)
        empty[stage].release()
        stage = stage.next()
    return of_key.map(scaled, scale), of_value


def reader(row: Any) -> Any:
    """A function of a column, an element of a row in shared memory; traced in kernels."""

    def at(column: Any) -> Any:
        return row[column]

    return at


def maps_of(arrays: Any, rows: Any, hdim: Any) -> Any:
    """Tensor maps of so many rows of a head; traced in host functions."""
    found = [
        tensor_map(one, box=(*(1,) * (one.ndim - 3), rows, 1, hdim), swizzle=128) for one in arrays
    ]
    return tuple(found)


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
    hdim: Constant,
    plans: Constant,
) -> None:
    """Writes the derivatives of attention."""
    batches = q.shape[0] if cu_seqlens_q is None else 1
    stats, starts = launch_means(gradient, result, lse), (cu_seqlens_q, cu_seqlens_k)
    group = q.shape[-2] // k.shape[-2]
    options = stats, starts, f32(scale), Heads(group, q.shape[-3], k.shape[-3], hdim, causal)
    of_queries, of_keys = plans
    rows = ROWS * of_queries.multiply
    own, others = maps_of((q, gradient), rows, hdim), maps_of((k, v), TILE, hdim)
    query_kernel(own, others, by_q, *options, of_queries).launch(
        grid=(tiles_of(q.shape[-3], rows, starts), q.shape[-2], batches),
        block=128 * (of_queries.multiply + 1),
    )
    rows = ROWS * of_keys.multiply
    own, others = maps_of((k, v), rows, hdim), maps_of((q, gradient), TILE, hdim)
    key_kernel(own, others, (by_k, by_v), *options, of_keys).launch(
        grid=(tiles_of(k.shape[-3], rows, starts), k.shape[-2], batches),
        block=128 * (of_keys.multiply + 1),
    )
