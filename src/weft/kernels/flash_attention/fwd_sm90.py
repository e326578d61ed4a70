# SPDX-License-Identifier: Apache-2.0
"""Attention as FlashAttention-3 computes it on a Hopper GPU: the tensor cores never wait for the softmax.

In: tensor maps of queries, keys and values, float16 or bfloat16, of sequences one after the other or in a batch. Out:
their attention. After the last key of a sequence v is read, and multiplied by 0: it may not be infinite there.

A block takes queries of a head. One warpgroup copies blocks of K and V; the others multiply, 64 queries each: two for
tiles of 128 columns, three for those of 64, which leave more registers; beyond a head's elements copies write zeros.
While the tensor cores compute P·V of one block they are given Q·Kᵀ of the next, and its softmax runs between the two
waits.
"""

from __future__ import annotations

import math
from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.host.arrays import Array, Constant, Float64, Int32
from weft.language.asynchronous import tma
from weft.language.asynchronous.mbarrier import mbarrier
from weft.language.asynchronous.pipeline import PipelineState
from weft.language.asynchronous.tensor_map import tensor_map
from weft.language.control import ceil_div, select
from weft.language.matrix import wgmma
from weft.language.memory.shared import shared
from weft.language.numbers import math as numbers
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.profiling.profiler import Profiler
from weft.language.threads.grid import block_dim, block_idx, grid_dim, thread_idx
from weft.language.threads.registers import setmaxnreg
from weft.language.threads.warp import lane_id, warp_id
from weft.language.threads.warpgroup import elect_one, warpgroup, warpgroup_id
from weft.types.dtype import f32

BN: Final = 128
STAGES: Final = 2
LOG2_E: Final = math.log2(math.e)
HIDDEN: Final = -math.inf


def exp2(x: Any) -> Any:
    """As the machine computes it: results below 2^-126 are 0."""
    return numbers.exp2(x, approx=True)


def masked(
    scores: Any, keys: Any, first_key: Any, first_query: Any, ahead: Any, causal: Any
) -> Any:
    """The scores of one block of keys, with -inf where a query does not look."""

    def visible(score: Any, row: Any, column: Any) -> Any:
        last = first_query + row + ahead if causal else keys - 1
        return select(first_key + column <= lesser(last, keys - 1), score, HIDDEN)

    return scores.map(visible, coordinates=True)


def softmax_step(scores: Any, largest: Any, total: Any, scale: Any, p: Any) -> Any:
    """Weights of one block, the rows' new maximum and sum, and the factor for what was summed before."""

    def base_of(x: Any) -> Any:  # of a row that sees nothing
        return select(x == HIDDEN, 0.0, x * scale)

    def weight_of(x: Any, base: Any) -> Any:
        return exp2(x * scale - base)

    with p.range("softmax"):
        new = scores.row_max().map(greater, largest)
        base = new.map(base_of)
        factor = largest.map(weight_of, base)
        weights = scores.map(weight_of, base)
        total = total.map(added, factor, weights.row_sum(partial=True))
    return weights, new, total, factor


def hidden(_: Any) -> Any:
    """The maximum of no scores."""
    return HIDDEN


def nothing(_: Any) -> Any:
    """The sum of no weights."""
    return 0.0


def added(total: Any, factor: Any, more: Any) -> Any:
    """A sum, scaled, and what comes to it."""
    return total * factor + more


def scaled(x: Any, factor: Any) -> Any:
    """The product."""
    return x * factor


def inverse(total: Any) -> Any:
    """1 / total, or 0 for a row that sees nothing; NaN stays."""
    return select(total == 0, 0.0, 1.0 / total)


def copy_blocks(
    maps: Any, q_tile: Any, rings: Any, full: Any, empty: Any, blocks: Any, places: Any, p: Any
) -> None:
    """What the thread does that starts all copies, of keys and values the last block first; traced in the kernel."""
    (q, *maps), (q_full, *full), (q_place, place) = maps, full, places
    q_full[0].arrive(expect_bytes=q_tile.nbytes)
    tma.load(q, q_place, q_tile, q_full[0])
    stage = PipelineState(STAGES, producer=True)
    for block in range(blocks - 1, -1, -1):
        where = (*place[:-3], place[-3] + BN * block, *place[-2:])
        for source, ring, is_full, is_empty in zip(maps, rings, full, empty, strict=True):
            with p.range("wait"):
                is_empty[stage].wait()
            with p.range("load"):
                is_full[stage].arrive(expect_bytes=ring[stage].nbytes)
                tma.load(source, where, ring[stage], is_full[stage])
        stage = stage.next()


def blocks_of(keys: Any) -> Any:
    """Blocks of so many keys, at least one; traced in kernels."""
    return greater(ceil_div(keys, BN), 1)


def sequence_of(batch: Any, starts: Any, sizes: Any) -> Any:
    """Indices of a batch, where the queries and keys of a sequence begin, and how many there are; traced in kernels."""
    cu_seqlens_q, cu_seqlens_k = starts
    if cu_seqlens_q is None:
        return (batch,), 0, 0, *sizes
    q_start, k_start = cu_seqlens_q[batch], cu_seqlens_k[batch]
    return (
        (),
        q_start,
        k_start,
        cu_seqlens_q[batch + 1] - q_start,
        cu_seqlens_k[batch + 1] - k_start,
    )


def clear_outside(out: Any, starts: Any, first: Any, end: Any) -> None:
    """Writes zeros before the first sequence and after the last one, in the blocks of the two; traced in kernels."""
    if starts[0] is None:
        return
    before = select(block_idx.z == 0, first, 0)
    after = select(block_idx.z == grid_dim.z - 1, end, out.shape[-3])
    for begin, stop in ((0, before), (after, out.shape[-3])):
        for token in range(begin + block_idx.x, stop, grid_dim.x):
            for d in range(thread_idx.x, out.shape[-1], block_dim.x):
                out[token, block_idx.y, d] = out.dtype(0.0)


def write(sums: Any, scale: Any, results: Any, place: Any, first: Any, p: Any) -> None:
    """Divides the sums by those of the weights and writes them, up to the end of the sequence; traced in the kernel.

    Args:
        sums: of values and of weights, and the largest scores.
        scale: of the scores, to the base of 2.
        results: where they go, and the logarithms of the sums of weights, or None.
        place: the batches' indices, the head and the queries of this block.
        first: the first of these queries.
        p: the profiler.
    """
    (o, total, largest), (out, lse), (batches, head, queries) = sums, results, place
    with p.range("store"):
        total = total.sum_threads()
        rows = out[(*batches, queries, head)]
        o.map(scaled, total.map(inverse)).to(rows.dtype).store(rows, (first, 0))
        if lse is not None:
            of_head, own = lse[(*batches, head, queries)], 16 * (warp_id() % 4) + lane_id() // 4
            write_sums(total, largest, scale, of_head, first + own)


def write_sums(total: Any, largest: Any, scale: Any, lse: Any, first: Any) -> None:
    """Writes the logarithms of sums of weights, up to the end of the sequence; traced in kernels.

    Args:
        total: the sums of a fragment's rows, divided by the largest weights.
        largest: scores.
        scale: of the scores, to the base of 2.
        lse: where they go, of a sequence.
        first: the thread's first row there.
    """
    found = total.map(logarithm, largest, scale)
    for (row, _), value in zip(found.layout.coordinates(0), found.values, strict=True):
        if lane_id() % 4 == 0 and first + row < lse.shape[0]:
            lse[first + row] = value


def logarithm(total: Any, largest: Any, scale: Any) -> Any:
    """Of a sum of weights to the base of e, from that of weights divided by the largest."""
    return (numbers.log2(total) + select(largest == HIDDEN, 0.0, largest * scale)) / LOG2_E


@kernel
def attention_kernel(
    maps: Any,
    out: Array,
    lse: Any,
    starts: Any,
    group: Int32,
    scale: Any,
    hdim: Constant,
    causal: Constant,
    multiply: Constant,
    keys: Int32 = 0,
    profiled: Constant = False,
) -> None:
    """One block: queries of a head, 64 for each of `multiply` warpgroups; without starts, of batches of `keys` keys."""
    bm, dtype, head, batch = 64 * multiply, out.dtype, block_idx.y, block_idx.z
    names = ("copy", *(f"multiply {i}" for i in range(multiply)))
    p = Profiler(groups=names, enabled=profiled)
    q_tile = shared((bm, hdim), dtype, swizzle=128)
    k_ring, v_ring = (shared((STAGES, BN, hdim), dtype, swizzle=128) for _ in "kv")
    q_full, k_full, v_full = (mbarrier(count, arrivals=1) for count in (1, STAGES, STAGES))
    empty = k_empty, v_empty = tuple(mbarrier(STAGES, arrivals=4 * multiply) for _ in "kv")
    batches, q_start, k_start, queries, keys = sequence_of(batch, starts, (out.shape[-3], keys))
    first = bm * (
        grid_dim.x - 1 - block_idx.x
    )  # of a causal grid the blocks with the most keys start first
    ahead, role, leader = keys - queries, warpgroup_id(), elect_one(warpgroup)
    p.init(role, leader)
    clear_outside(out, starts, q_start, q_start + queries)
    if first >= queries:
        return
    blocks = blocks_of(lesser(keys, first + bm + ahead) if causal else keys)
    if role == 0:  # copies
        setmaxnreg(24 if multiply == 2 else 32)
        if leader:
            rings, full = (k_ring, v_ring), (q_full, k_full, v_full)
            places = (*batches, q_start + first, head, 0), (*batches, k_start, head // group, 0)
            copy_blocks(maps, q_tile, rings, full, empty, blocks, places, p)
    else:  # multiplies
        setmaxnreg(240 if multiply == 2 else 160)
        mine, first_query = role - 1, first + 64 * (role - 1)
        unmasked = (first_query + ahead) // BN if causal else keys // BN  # below, every key is seen
        queries_tile, stage = q_tile.tile((64, hdim), (mine, 0)), PipelineState(STAGES)
        q_full[0].wait(0)
        k_full[stage].wait()
        s = wgmma.wait(wgmma.mma(queries_tile, k_ring[stage].T), pending=0)
        k_empty[stage].release()
        s = masked(s, keys, BN * (blocks - 1), first_query, ahead, causal)
        weights, largest, total, _ = softmax_step(s, s.rows(hidden), s.rows(nothing), scale, p)
        packed = weights.to(dtype).as_a()
        o = wgmma.accumulator((64, hdim), f32)
        for block in range(blocks - 2, -1, -1):
            following = stage.next()
            k_full[following].wait()
            s = wgmma.mma(queries_tile, k_ring[following].T)
            v_full[stage].wait()
            p.begin_async("P·V", mine)
            o = wgmma.mma(packed, v_ring[stage], o, accumulate=block < blocks - 2)
            s = wgmma.wait(s, pending=1)  # P·V still runs
            k_empty[following].release()
            if block >= unmasked:
                s = masked(s, keys, BN * block, first_query, ahead, causal)
            weights, largest, total, factor = softmax_step(s, largest, total, scale, p)
            o = wgmma.wait(o, pending=0)
            p.end_async("P·V", mine)
            v_empty[stage].release()
            o = o.map(scaled, factor)
            packed = weights.to(dtype).as_a()
            stage = following
        v_full[stage].wait()
        o = wgmma.wait(wgmma.mma(packed, v_ring[stage], o, accumulate=blocks > 1), pending=0)
        place = batches, head, slice(q_start + first, q_start + queries)
        write((o, total, largest), scale, (out, lse), place, 64 * mine, p)


def maps_of(q: Any, k: Any, v: Any, rows: Any, hdim: Any) -> Any:
    """The tensor maps of a kernel whose blocks have so many queries; traced in host functions."""
    batches = (1,) * (q.ndim - 3)
    return (
        tensor_map(q, box=(*batches, rows, 1, hdim), swizzle=128),
        tensor_map(k, box=(*batches, BN, 1, hdim), swizzle=128),
        tensor_map(v, box=(*batches, BN, 1, hdim), swizzle=128),
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
    max_seqlen_q: Int32,
    scale: Float64,
    causal: Constant,
    hdim: Constant,
) -> None:
    """``out = softmax(scale · q · kᵀ) · v``, by head and sequence; `max_seqlen_q` is the most queries of one.

    `lse` has the tokens of a head together, the logarithms of its sums of weights; `hdim` are the columns of tiles.
    """
    multiply = 2 if hdim == 128 else 3  # warpgroups
    rows = 64 * multiply
    sequences = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    attention_kernel(
        maps_of(q, k, v, rows, hdim),
        *(out, lse, (cu_seqlens_q, cu_seqlens_k), q.shape[-2] // k.shape[-2], f32(scale * LOG2_E)),
        *(hdim, causal, multiply, k.shape[-3]),
    ).launch(
        grid=(ceil_div(max_seqlen_q, rows), q.shape[-2], sequences), block=128 * (multiply + 1)
    )
