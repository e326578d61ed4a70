# SPDX-License-Identifier: Apache-2.0
"""Attention of any float type and layout, on any target: a block takes a query.

In: queries, keys and values. Out: their attention, and maybe the logarithms of its sums of weights.
"""

from __future__ import annotations

import math
from typing import Final

from weft.api import jit, kernel
from weft.kernels.device.row import sum_type
from weft.kernels.flash_attention import fwd_sm90 as hopper_attention
from weft.kernels.host.arrays import Array, Constant, Float64, Int32
from weft.language.control import static_range
from weft.language.memory.shared import shared
from weft.language.numbers.math import exp, log
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, grid_dim, thread_idx
from weft.primitives.block.reductions import max as block_max
from weft.primitives.block.reductions import sum as block_sum

_THREADS: Final = 128


def width_for(hdim: int) -> int:
    """The elements of shared memory for a head of so many, a multiple of a block's threads."""
    return -(-hdim // _THREADS) * _THREADS


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
    group: Int32,
    scale: Float64,
    causal: Constant,
    width: Constant,
) -> None:
    """``out = softmax(scale · q · kᵀ) · v``, by head and sequence; `max_seqlen_q` is the most queries of one."""
    sequences = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    attention_kernel(
        q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, group, scale, causal, width
    ).launch(grid=(max_seqlen_q, q.shape[-2], sequences), block=_THREADS)


@kernel
def attention_kernel(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array | None,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    group: Int32,
    scale: Float64,
    causal: Constant,
    width: Constant,
) -> None:
    """A block: a query of a head. Its threads take a key each, then some elements of the result each."""
    wide, hdim = sum_type(q.dtype), q.shape[-1]
    head, batch, thread = block_idx.y, block_idx.z, thread_idx.x
    sizes = q.shape[-3], k.shape[-3]
    own, first, start, queries, keys = hopper_attention.sequence_of(
        batch, (cu_seqlens_q, cu_seqlens_k), sizes
    )
    number = block_idx.x
    if cu_seqlens_q is not None:
        assert 0 <= first <= first + queries <= sizes[0], (
            "cu_seqlens_q decreases or is outside of q"
        )
        assert 0 <= start <= start + keys <= sizes[1], "cu_seqlens_k decreases or is outside of k"
        assert queries <= grid_dim.x, "max_seqlen_q is smaller than the longest sequence of q"
    hopper_attention.clear_outside(out, (cu_seqlens_q, cu_seqlens_k), first, first + queries)
    if number >= queries:
        return
    query = shared(width, wide)
    weights = shared(_THREADS, wide)
    for d in range(thread, hdim, _THREADS):
        query[d] = wide(q[(*own, first + number, head, d)]) * wide(scale)
    last = lesser(keys, number + 1 + keys - queries) if causal else keys
    largest, total = wide(-math.inf), wide(0.0)
    parts = static_range(width // _THREADS)
    sums = [wide(0.0) for _ in parts]
    for begin in range(0, last, _THREADS):
        sync_threads()
        key, score = begin + thread, wide(-math.inf)
        if key < last:
            score = wide(0.0)
            for d in range(hdim):
                score += query[d] * wide(k[(*own, start + key, head // group, d)])
        new = greater(largest, block_max(score))
        base = wide(0.0) if new == -math.inf else new
        weight, factor = exp(score - base), exp(largest - base)
        weights[thread] = weight
        total = total * factor + block_sum(weight)
        largest = new
        sync_threads()
        for part in parts:
            sums[part] *= factor
        for step in range(lesser(_THREADS, last - begin)):
            for part in parts:
                d = thread + _THREADS * part
                if d < hdim:
                    at = (*own, start + begin + step, head // group, d)
                    sums[part] += weights[step] * wide(v[at])
    for part in parts:
        d = thread + _THREADS * part
        if d < hdim:
            result = sums[part] / total if total != 0 else wide(0.0)
            out[(*own, first + number, head, d)] = q.dtype(result)
    if lse is not None and thread == 0:
        lse[(*own, head, first + number)] = log(total) + largest if total != 0 else wide(-math.inf)
