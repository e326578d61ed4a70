# SPDX-License-Identifier: Apache-2.0
"""Preprocessing for attention's backward kernels on tensor cores: delta = rowsum(dO ∘ O), and lse to base 2.

One warp per query and head, before the kernels for dQ and for dK and dV (Dao, 2023, arXiv:2307.08691, algorithm 2).
"""

from __future__ import annotations

import math
from typing import Final

import weft
from weft.kernels.flash_attention.softmax import LOG2_E

WARPS: Final = 8


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
