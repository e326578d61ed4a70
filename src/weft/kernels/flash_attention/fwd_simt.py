# SPDX-License-Identifier: Apache-2.0
"""Attention forward of any float type, layout and target, without tensor cores: a block per query.

Computes O = softmax(scale · q Kᵀ) V and lse = logsumexp(scale · q Kᵀ) by online softmax (Milakov and Gimelshein, 2018),
in f32, or f64 for f64.
"""

from __future__ import annotations

import math
from typing import Any, Final

import weft
from weft.kernels.device.row import sum_type
from weft.kernels.flash_attention.softmax import Mask, key_begin, key_end
from weft.kernels.flash_attention.varlen import sequence_at, zero_padding_around

THREADS: Final = 128


def padded(hdim: int, hdim_v: int) -> tuple[int, int]:
    """Elements per head of q and k, and of v, rounded up to a multiple of a block's threads."""
    return -(-hdim // THREADS) * THREADS, -(-hdim_v // THREADS) * THREADS


@weft.device
def cap_score(score: Any, softcap: weft.f64 | None) -> Any:
    """softcap · tanh(score / softcap), of the score's type."""
    if softcap is None:
        return score
    dtype = score.dtype
    return dtype(softcap) * weft.math.tanh(score / dtype(softcap))


@weft.kernel
def attention_kernel(
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    group_size: weft.i32,
    scale: weft.f64,
    softcap: weft.f64 | None,
    sinks: weft.Tensor | None,
    mask: Mask,
    padded_hdims: weft.Constexpr[tuple[int, int]],
) -> None:
    """A block: a query of a head. Each thread takes a key for the scores, then elements of hdim for O."""
    acc_type, (padded_hdim, padded_hdim_v) = sum_type(q.dtype), padded_hdims
    hdim, hdim_v = q.shape[-1], v.shape[-1]
    query, head, thread = weft.block_idx.x, weft.block_idx.y, weft.thread_idx.x
    batch, q_start, queries, k_start, keys = sequence_at(
        weft.block_idx.z, cu_seqlens_q, cu_seqlens_k, q.shape[-3], k.shape[-3]
    )
    if cu_seqlens_q is not None:
        assert 0 <= q_start <= q_start + queries <= q.shape[-3], (
            "cu_seqlens_q decreases or is outside of q"
        )
        assert 0 <= k_start <= k_start + keys <= k.shape[-3], (
            "cu_seqlens_k decreases or is outside of k"
        )
        assert queries <= weft.grid_dim.x, "max_seqlen_q is smaller than the longest sequence of q"
    zero_padding_around(out, cu_seqlens_q, q_start, q_start + queries)
    if query >= queries:
        return
    q_row = weft.shared(padded_hdim, acc_type)
    weights = weft.shared(THREADS, acc_type)
    for d in range(thread, hdim, THREADS):
        q_row[d] = acc_type(q[*batch, q_start + query, head, d]) * acc_type(scale)
    begin = key_begin(mask, query, queries, keys)
    visible = key_end(mask, query, queries, keys)
    row_max, row_sum = acc_type(-math.inf), acc_type(0.0)
    if sinks is not None:
        row_max, row_sum = acc_type(sinks[head]), acc_type(1.0)
    columns = weft.static_range(padded_hdim_v // THREADS)
    o = [acc_type(0.0) for _ in columns]
    for first in range(begin, visible, THREADS):
        weft.sync_threads()
        key, score = first + thread, acc_type(-math.inf)
        if key < visible:
            score = acc_type(0.0)
            for d in range(hdim):
                score += q_row[d] * acc_type(k[*batch, k_start + key, head // group_size, d])
            score = cap_score(score, softcap)
        new_max = max(row_max, weft.block.max(score))
        base = acc_type(0.0) if new_max == -math.inf else new_max
        weight, alpha = weft.math.exp(score - base), weft.math.exp(row_max - base)
        weights[thread] = weight
        row_sum = row_sum * alpha + weft.block.sum(weight)
        row_max = new_max
        weft.sync_threads()
        for i in columns:
            o[i] *= alpha
        for j in range(min(THREADS, visible - first)):
            for i in columns:
                d = thread + THREADS * i
                if d < hdim_v:
                    at = (*batch, k_start + first + j, head // group_size, d)
                    o[i] += weights[j] * acc_type(v[at])
    for i in columns:
        d = thread + THREADS * i
        if d < hdim_v:
            result = o[i] / row_sum if row_sum != 0 else acc_type(0.0)
            out[*batch, q_start + query, head, d] = q.dtype(result)
    if lse is not None and thread == 0:
        logsumexp = weft.math.log(row_sum) + row_max if row_sum != 0 else acc_type(-math.inf)
        lse[*batch, head, q_start + query] = logsumexp


@weft.jit
def attention(
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    max_seqlen_q: weft.i32,
    group_size: weft.i32,
    scale: weft.f64,
    softcap: weft.f64 | None,
    left: weft.i32 | None,
    right: weft.i32 | None,
    sinks: weft.Tensor | None,
    causal: weft.Constexpr[bool],
    top_left: weft.Constexpr[bool],
    padded_hdims: weft.Constexpr[tuple[int, int]],
) -> None:
    """O and, unless None, lse."""
    mask = Mask(causal, top_left, left, right)
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    attention_kernel(
        q,
        k,
        v,
        out,
        lse,
        cu_seqlens_q,
        cu_seqlens_k,
        group_size,
        scale,
        softcap,
        sinks,
        mask,
        padded_hdims,
    ).launch(grid=(max_seqlen_q, q.shape[-2], batch), block=THREADS)
