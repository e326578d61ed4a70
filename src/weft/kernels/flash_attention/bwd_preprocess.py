# SPDX-License-Identifier: Apache-2.0
"""Preprocessing for attention's backward kernels: delta = rowsum(dO ∘ O), and lse to base 2; gradients of sinks.

One warp per query and head, before the kernels for dQ and for dK and dV (Dao, 2023, arXiv:2307.08691, algorithm 2).
"""

from __future__ import annotations

import math
from typing import Final

import weft
from weft.kernels.device.row import sum_type
from weft.kernels.flash_attention.softmax import LOG2_E

WARPS: Final = 8
SINK_TOKENS: Final = 256  # of a block, per partial sum


@weft.kernel(max_threads=32 * WARPS)
def preprocess_kernel(
    grad_out: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor,
    lse_log2: weft.Tensor,
    delta: weft.Tensor,
) -> None:
    """A warp: a query of a head."""
    batch = (weft.block_idx.z,) if grad_out.ndim == 4 else ()
    token, head = WARPS * weft.block_idx.x + weft.warp_id(), weft.block_idx.y
    if token < grad_out.shape[-3]:
        total = weft.f32(0.0)
        for d in range(weft.lane_id(), grad_out.shape[-1], 32):
            at = (*batch, token, head, d)
            total += weft.f32(grad_out[at]) * weft.f32(out[at])
        total = weft.warp.sum(total)
        if weft.lane_id() == 0:
            at = (*batch, head, token)
            delta[at] = total
            # A query that sees no key has P = 0.
            lse_log2[at] = math.inf if lse[at] == -math.inf else lse[at] * LOG2_E


def preprocess(
    grad_out: weft.Tensor, out: weft.Tensor, lse: weft.Tensor
) -> tuple[weft.Tensor, weft.Tensor]:
    """lse to base 2 and delta, both (*batch, heads, tokens); in host functions."""
    *batch, tokens, heads, _ = grad_out.shape
    lse_log2 = weft.scratch((*batch, heads, tokens), weft.f32)
    delta = weft.scratch((*batch, heads, tokens), weft.f32)
    preprocess_kernel(grad_out, out, lse, lse_log2, delta).launch(
        grid=(max(weft.ceil_div(tokens, WARPS), 1), heads, batch[0] if batch else 1),
        block=32 * WARPS,
    )
    return lse_log2, delta


@weft.kernel(max_threads=32 * WARPS)
def sink_parts_kernel(
    grad_out: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor,
    sinks: weft.Tensor,
    parts: weft.Tensor,
    cu_seqlens_q: weft.Tensor | None,
) -> None:
    """A block: -sum(exp(sink - lse) · delta) of `SINK_TOKENS` queries of a head, a warp for each in turn."""
    batch = (weft.block_idx.z,) if grad_out.ndim == 4 else ()
    block, head, acc_type = weft.block_idx.x, weft.block_idx.y, parts.dtype
    first, end = SINK_TOKENS * block, min(SINK_TOKENS * (block + 1), grad_out.shape[-3])
    if cu_seqlens_q is not None:  # lse of other tokens is not written
        first, end = max(first, cu_seqlens_q[0]), min(end, cu_seqlens_q[cu_seqlens_q.shape[0] - 1])
    total, sink = acc_type(0.0), acc_type(sinks[head])
    for token in range(first + weft.warp_id(), end, WARPS):
        delta = acc_type(0.0)
        for d in range(weft.lane_id(), grad_out.shape[-1], 32):
            at = (*batch, token, head, d)
            delta += acc_type(grad_out[at]) * acc_type(out[at])
        largest = lse[*batch, head, token]
        weight = weft.math.exp(sink - largest) if largest != -math.inf else acc_type(0.0)
        total -= weight * delta
    total = weft.block.sum(total)
    if weft.thread_idx.x == 0:
        parts[weft.block_idx.z * weft.grid_dim.x + block, head] = total


@weft.kernel(max_threads=32 * WARPS)
def sink_sum_kernel(parts: weft.Tensor, dsinks: weft.Tensor) -> None:
    """A block: the sum of a head's parts."""
    total = parts.dtype(0.0)
    for i in range(weft.thread_idx.x, parts.shape[0], 32 * WARPS):
        total += parts[i, weft.block_idx.x]
    total = weft.block.sum(total)
    if weft.thread_idx.x == 0:
        dsinks[weft.block_idx.x] = dsinks.dtype(total)


@weft.jit
def sinks_backward(
    grad_out: weft.Tensor,
    out: weft.Tensor,
    lse: weft.Tensor,
    sinks: weft.Tensor,
    dsinks: weft.Tensor,
    cu_seqlens_q: weft.Tensor | None,
) -> None:
    """Gradients of sinks, in one order of sums."""
    *batch, tokens, heads, _ = grad_out.shape
    blocks, batches = weft.ceil_div(tokens, SINK_TOKENS), batch[0] if batch else 1
    parts = weft.scratch((batches * blocks, heads), sum_type(grad_out.dtype))
    sink_parts_kernel(grad_out, out, lse, sinks, parts, cu_seqlens_q).launch(
        grid=(blocks, heads, batches), block=32 * WARPS
    )
    sink_sum_kernel(parts, dsinks).launch(grid=heads, block=32 * WARPS)
