# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.attention``: of batches or packed sequences (varlen), of any float type and layout."""

from __future__ import annotations

import math
from typing import Any

from weft.kernels.flash_attention.backward import attention_backward
from weft.kernels.flash_attention.dispatch import Options, forward, sums_for, sums_of
from weft.kernels.flash_attention.shapes import attention_flops, check_shapes, check_starts, keys_of
from weft.kernels.host.arrays import (
    checked_output,
    given,
    integer_from,
    number,
    output_like,
    refuse_overlap,
)
from weft.kernels.host.autograd import NARROW, differentiable
from weft.kernels.host.calls import remembered


def _like(q: Any, *_: Any) -> Any:
    *batches, tokens, heads, _ = q.shape
    lse = q.new_empty((*batches, heads, tokens))
    return q.new_empty(q.shape), lse if q.dtype.itemsize == 8 else lse.float()


def _backward(
    gradient: Any,
    found: Any,
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    scale: float | None,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    __: Any,
) -> Any:
    slopes = attention_backward(
        gradient, q, k, v, causal, scale, cu_seqlens_q, cu_seqlens_k, *found
    )
    return *slopes, None, None, None, None, None


def _sums(q: Any, *_: Any) -> Any:
    return sums_for(given(q, "q", is_float=True))


def _flops(out: Any, q: Any, k: Any, v: Any, *options: Any) -> int:
    return attention_flops(out, q, k, v, *options[2:4])


@differentiable(_like, _backward, kept=("lse", _sums), autocast=NARROW, flops=_flops)
@remembered
def attention(
    q: Any,
    k: Any,
    v: Any,
    causal: bool = False,
    scale: float | None = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: int | None = None,
    out: Any = None,
    lse: Any = None,
) -> Any:
    """Attention of each head, softmax(scale · q · kᵀ) · v, by online softmax: no matrix of scores is stored.

    Args:
        q: 16, 32 or 64-bit floats, (batch, tokens, heads, hdim), or with `cu_seqlens_q` (tokens, heads, hdim), of any
            strides: pass (batch, heads, tokens, hdim) as a transposed view. Computed in f32, for f64 in f64; P is
            rounded to q's type if that has 16 bits.
        k: (batch, keys, key heads, hdim), or with `cu_seqlens_k` (keys, key heads, hdim), of q's type. Key heads divide
            heads (GQA, MQA).
        v: same shape and type as k.
        causal: hide keys after a query's own; the last query of a sequence sees all keys.
        scale: multiplies the scores; None: 1 / √hdim.
        cu_seqlens_q: packed sequences: cumulative lengths of q's, int32, shape (batch + 1,); None: a batch dimension.
        cu_seqlens_k: cumulative lengths of k's, int32, shape (batch + 1,).
        max_seqlen_q: longest sequence of q, for `cu_seqlens_q` alone; None: q.shape[0], which launches empty blocks.
        out: written, of q's shape and type, without overlap with q, k or v; None: a new array of q's library.
        lse: written, logsumexp of the scaled scores, f32 (f64 for f64), (batch, heads, tokens), or with `cu_seqlens_q`
            (heads, tokens): an input of `attention_backward`; None: not computed.

    Returns:
        `out`, or the new array; 0 for a query that sees no key, and for a token outside of all sequences.

    Raises:
        TypeError: for anything but arrays of one float type; for `cu_seqlens` of another type than int32.
        ValueError: for shapes that do not fit, hdim above 1024, arrays on different devices, `max_seqlen_q` without
            `cu_seqlens_q`, `out` or `lse` that overlaps another array.
        AssertionError: on the CPU, for `cu_seqlens` that decrease or are outside of q or k, and for sequences of q
            longer than `max_seqlen_q`. A GPU does not check them.

    Example:
        >>> import numpy as np, weft
        >>> q, v = np.zeros((1, 2, 1, 2)), np.array([[[[1.0, 3.0]], [[3.0, 5.0]]]])
        >>> weft.kernels.attention(q, q, v)[0, :, 0].tolist()
        [[2.0, 4.0], [2.0, 4.0]]
        >>> weft.kernels.attention(q, q, v, causal=True)[0, :, 0].tolist()
        [[1.0, 3.0], [2.0, 4.0]]
    """
    rank = 3 if cu_seqlens_q is not None else 4
    queries = given(q, "q", is_float=True)
    check_starts(queries, cu_seqlens_q, cu_seqlens_k)
    keys, values = keys_of(queries, k, "k", rank), keys_of(queries, v, "v", rank)
    check_shapes(queries, keys, values, rank)
    tokens, _, hdim = queries.shape[-3:]
    most = (
        tokens if max_seqlen_q is None else integer_from(max_seqlen_q, "max_seqlen_q", 1, 1 << 31)
    )
    if max_seqlen_q is not None and cu_seqlens_q is None:
        raise ValueError(
            f"max_seqlen_q is {max_seqlen_q}, expected None without cu_seqlens_q and cu_seqlens_k"
        )
    out = output_like(
        queries, out, q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k
    )
    if lse is not None:
        sums = checked_output(queries, *sums_of(queries), lse, "lse")
        for name, one in {"q": q, "k": k, "v": v, "out": out}.items():
            other = given(one, name)
            refuse_overlap(other, sums, may_be_same=False, name=name, target_name="lse")
    if 0 in queries.shape:
        return out
    scale = 1 / math.sqrt(hdim) if scale is None else number(scale, "scale")
    options = Options(bool(causal), scale, cu_seqlens_q, cu_seqlens_k)
    return forward(queries, keys, values, out, lse, most, options)
