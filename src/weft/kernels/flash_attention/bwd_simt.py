# SPDX-License-Identifier: Apache-2.0
"""Attention backward of any float type, layout and target, without tensor cores, deterministic.

With P = exp(scale · Q Kᵀ - lse), dP = dO Vᵀ and delta = rowsum(P ∘ dP):

    dV = Pᵀ dO,    dS = P ∘ (dP - delta),    dQ = scale · dS K,    dK = scale · dSᵀ Q

The first kernel has a block per query, which computes lse, delta and its row of dQ; the second one a block per key,
which sums its rows of dK and dV over the queries that see it.
"""

from __future__ import annotations

import math
from typing import Any, Final

import weft
from weft.kernels.device.row import sum_type
from weft.kernels.flash_attention.fwd_simt import cap_score
from weft.kernels.flash_attention.softmax import Mask, key_begin, key_end, query_begin, query_end
from weft.kernels.flash_attention.varlen import sequence_of

THREADS: Final = 128


def dot(row: weft.Tensor, a: weft.Tensor, at: tuple[weft.i32, ...], hdim: weft.i32) -> weft.f32:
    """Dot product of a row in shared memory and one of an array."""
    total = row.dtype(0.0)
    for d in range(hdim):
        total += row[d] * row.dtype(a[*at, d])
    return total


@weft.device
def cap_derivative(score: Any, softcap: weft.f64 | None) -> Any:
    """Derivative of `cap_score`, of its result: 1 - tanh²."""
    if softcap is None:
        return score.dtype(1.0)
    capped = score / score.dtype(softcap)
    return 1 - capped * capped


@weft.device
def load_row(
    row: weft.Tensor, a: weft.Tensor, at: tuple[weft.i32, ...], scale: weft.f64 = 1.0
) -> None:
    """Load a row of an array to shared memory, times `scale`."""
    for d in range(weft.thread_idx.x, a.shape[-1], THREADS):
        row[d] = row.dtype(a[*at, d]) * row.dtype(scale)


@weft.device
def columns_of(padded_hdim: int) -> list[weft.i32]:
    """Elements of hdim that a thread sums, some of them beyond it."""
    return [weft.thread_idx.x + first for first in weft.static_range(0, padded_hdim, THREADS)]


@weft.kernel(max_threads=THREADS)
def dq_kernel(
    grad_out: weft.Tensor,
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    dq: weft.Tensor,
    lse: weft.Tensor,
    delta: weft.Tensor,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    group_size: weft.i32,
    scale: weft.f64,
    softcap: weft.f64 | None,
    sinks: weft.Tensor | None,
    mask: Mask,
    padded_hdims: weft.Constexpr[tuple[int, int]],
) -> None:
    """A block: a query of a head. Each thread takes a key for dS, then elements of hdim for dQ."""
    if weft.block_idx.x >= q.shape[-3] or weft.block_idx.y >= q.shape[-2]:
        return
    acc_type, thread, (padded_hdim, padded_hdim_v) = lse.dtype, weft.thread_idx.x, padded_hdims
    hdim, hdim_v = q.shape[-1], v.shape[-1]
    token, head = weft.block_idx.x, weft.block_idx.y
    batch = (weft.block_idx.z,) if cu_seqlens_q is None else ()
    q_start, q_end, k_start, k_end = sequence_of(
        token, cu_seqlens_q, cu_seqlens_k, q.shape[-3], k.shape[-3]
    )
    query, queries, keys = token - q_start, q_end - q_start, k_end - k_start
    k_end = k_start + key_end(mask, query, queries, keys)
    k_start += key_begin(mask, query, queries, keys)
    q_row, do_row = weft.shared(padded_hdim, acc_type), weft.shared(padded_hdim_v, acc_type)
    ds = weft.shared(THREADS, acc_type)
    load_row(q_row, q, (*batch, token, head), scale)
    load_row(do_row, grad_out, (*batch, token, head))
    weft.sync_threads()
    # Online softmax of the thread's keys: their maximum, sum of weights, and sum of weight · dP.
    maximum, total, weighted = acc_type(-math.inf), acc_type(0.0), acc_type(0.0)
    if sinks is not None and thread == 0:
        maximum, total = acc_type(sinks[head]), acc_type(1.0)
    for key in range(k_start + thread, k_end, THREADS):
        at = (*batch, key, head // group_size)
        score = cap_score(dot(q_row, k, at, hdim), softcap)
        dp = dot(do_row, v, at, hdim_v)
        new = max(maximum, score)
        base = acc_type(0.0) if new == -math.inf else new
        alpha, weight = weft.math.exp(maximum - base), weft.math.exp(score - base)
        total, weighted = total * alpha + weight, weighted * alpha + weight * dp
        maximum = new
    row_max = weft.block.max(maximum)
    base = acc_type(0.0) if row_max == -math.inf else row_max
    alpha = weft.math.exp(maximum - base)
    total, weighted = weft.block.sum((total * alpha, weighted * alpha))
    sees_keys = total != 0
    logsumexp = base + weft.math.log(total) if sees_keys else acc_type(math.inf)
    row_delta = weighted / total if sees_keys else acc_type(0.0)
    columns = columns_of(padded_hdim)
    sums = [acc_type(0.0) for _ in columns]
    for first in range(k_start, k_end, THREADS):
        key = first + thread
        weft.sync_threads()
        if key < k_end:
            at = (*batch, key, head // group_size)
            score = cap_score(dot(q_row, k, at, hdim), softcap)
            dp = dot(do_row, v, at, hdim_v)
            weight = weft.math.exp(score - logsumexp) * cap_derivative(score, softcap)
            ds[thread] = weight * (dp - row_delta)
        weft.sync_threads()
        for j in range(min(THREADS, k_end - first)):
            for i, d in enumerate(columns):
                if d < hdim:
                    sums[i] += ds[j] * acc_type(k[*batch, first + j, head // group_size, d])
    for i, d in enumerate(columns):
        if d < hdim:
            dq[*batch, token, head, d] = q.dtype(sums[i] * acc_type(scale))
    if thread == 0:
        lse[*batch, token, head], delta[*batch, token, head] = logsumexp, row_delta


@weft.kernel(max_threads=THREADS)
def dkdv_kernel(
    grad_out: weft.Tensor,
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    dk: weft.Tensor,
    dv: weft.Tensor,
    lse: weft.Tensor,
    delta: weft.Tensor,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    group_size: weft.i32,
    scale: weft.f64,
    softcap: weft.f64 | None,
    mask: Mask,
    padded_hdims: weft.Constexpr[tuple[int, int]],
) -> None:
    """A block: a key of a key head. Each thread takes a query for P and dS, then elements of hdim for dK and dV."""
    if weft.block_idx.x >= k.shape[-3]:
        return
    acc_type, thread, (padded_hdim, padded_hdim_v) = lse.dtype, weft.thread_idx.x, padded_hdims
    hdim, hdim_v = q.shape[-1], v.shape[-1]
    token, k_head = weft.block_idx.x, weft.block_idx.y
    batch = (weft.block_idx.z,) if cu_seqlens_q is None else ()
    k_start, k_end, q_start, q_end = sequence_of(
        token, cu_seqlens_k, cu_seqlens_q, k.shape[-3], q.shape[-3]
    )
    key, queries, keys = token - k_start, q_end - q_start, k_end - k_start
    q_end = q_start + query_end(mask, key, queries, keys)
    q_start += query_begin(mask, key, queries, keys)
    k_row, v_row = weft.shared(padded_hdim, acc_type), weft.shared(padded_hdim_v, acc_type)
    p, ds = weft.shared(THREADS, acc_type), weft.shared(THREADS, acc_type)
    load_row(k_row, k, (*batch, token, k_head), scale)
    load_row(v_row, v, (*batch, token, k_head))
    columns, columns_v = columns_of(padded_hdim), columns_of(padded_hdim_v)
    dk_sums, dv_sums = [acc_type(0.0) for _ in columns], [acc_type(0.0) for _ in columns_v]
    for member in range(group_size):
        head = k_head * group_size + member
        for first in range(q_start, q_end, THREADS):
            query = first + thread
            weft.sync_threads()
            if query < q_end:
                at = (*batch, query, head)
                score = cap_score(dot(k_row, q, at, hdim), softcap)
                weight = weft.math.exp(score - lse[at])
                dp = dot(v_row, grad_out, at, hdim_v)
                p[thread] = weight
                ds[thread] = weight * cap_derivative(score, softcap) * (dp - delta[at])
            weft.sync_threads()
            for j in range(min(THREADS, q_end - first)):
                for i, d in enumerate(columns):
                    if d < hdim:
                        dk_sums[i] += ds[j] * acc_type(q[*batch, first + j, head, d])
                for i, d in enumerate(columns_v):
                    if d < hdim_v:
                        dv_sums[i] += p[j] * acc_type(grad_out[*batch, first + j, head, d])
    for i, d in enumerate(columns):
        if d < hdim:
            dk[*batch, token, k_head, d] = k.dtype(dk_sums[i] * acc_type(scale))
    for i, d in enumerate(columns_v):
        if d < hdim_v:
            dv[*batch, token, k_head, d] = v.dtype(dv_sums[i])


@weft.jit
def attention_backward(
    grad_out: weft.Tensor,
    q: weft.Tensor,
    k: weft.Tensor,
    v: weft.Tensor,
    dq: weft.Tensor,
    dk: weft.Tensor,
    dv: weft.Tensor,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    scale: weft.f64,
    softcap: weft.f64 | None,
    left: weft.i32 | None,
    right: weft.i32 | None,
    sinks: weft.Tensor | None,
    causal: weft.Constexpr[bool],
    top_left: weft.Constexpr[bool],
    padded_hdims: weft.Constexpr[tuple[int, int]],
) -> None:
    """dQ, dK and dV; `padded_hdims` as `fwd_simt.padded` says."""
    batch = q.shape[0] if cu_seqlens_q is None else 1
    acc_type, group_size = sum_type(q.dtype), q.shape[-2] // k.shape[-2]
    lse = weft.scratch(q.shape[:-1], acc_type)
    delta = weft.scratch(q.shape[:-1], acc_type)
    cu_seqlens, mask = (cu_seqlens_q, cu_seqlens_k), Mask(causal, top_left, left, right)
    dq_kernel(
        grad_out,
        q,
        k,
        v,
        dq,
        lse,
        delta,
        *cu_seqlens,
        group_size,
        scale,
        softcap,
        sinks,
        mask,
        padded_hdims,
    ).launch(grid=(max(q.shape[-3], 1), max(q.shape[-2], 1), batch), block=THREADS)
    dkdv_kernel(
        grad_out,
        q,
        k,
        v,
        dk,
        dv,
        lse,
        delta,
        *cu_seqlens,
        group_size,
        scale,
        softcap,
        mask,
        padded_hdims,
    ).launch(grid=(max(k.shape[-3], 1), k.shape[-2], batch), block=THREADS)
