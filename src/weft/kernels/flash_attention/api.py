# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.attention``: of batches, or of sequences that lie one after the other.

In: queries, keys and values of any layout. Out: an array of the queries' shape.
"""

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
    q_starts: Any,
    k_starts: Any,
    __: Any,
) -> Any:
    slopes = attention_backward(gradient, q, k, v, causal, scale, q_starts, k_starts, *found)
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
    q_starts: Any = None,
    k_starts: Any = None,
    longest: int | None = None,
    out: Any = None,
    lse: Any = None,
) -> Any:
    """Attention of each head: softmax(scale · q · kᵀ) · v, computed without the matrix of scores.

    Args:
        q: an array of 16, 32 or 64-bit floats, (batch, tokens, heads, hdim), or with starts (tokens, heads, hdim); any
            layout: of (batch, heads, tokens, hdim) pass a view with the two exchanged. Computed in f32, or f64 for
            f64; the weights of 16-bit floats are rounded to their type.
        k: an array of q's type, (batch, keys, key heads, hdim), or with starts (keys, key heads, hdim). Each key head
            serves as many heads.
        v: an array of k's shape.
        causal: whether a query sees the keys up to its own alone; the last query of a sequence sees all.
        scale: of the scores; None: 1 / √hdim.
        q_starts: sequences that lie one after the other: where each begins, and where the last one ends, an array of
            32-bit integers; None: batches.
        k_starts: the same of the keys.
        longest: with starts alone, the most queries of a sequence; None: of all together, which costs empty blocks.
        out: an array of q's shape and type that does not overlap q, k or v; None: a new one of q's library.
        lse: an array of f32, of f64 for f64, (batch, heads, tokens), or with starts (heads, tokens), which gets the
            logarithms of the sums of exp(scale · q · kᵀ), for `attention_backward`; None: they are not written.

    Returns:
        `out`, or the new array; zeros for a query that sees no key, and for one of no sequence.

    Raises:
        TypeError: for something else than arrays of floats of one type; for starts that are not of 32-bit integers.
        ValueError: for shapes that do not fit, more than 1024 elements of a head, arrays on different devices,
            `longest` without starts, `out` that overlaps another array.
        AssertionError: on the CPU, for starts beyond `q` or `k` or that decrease, and for a sequence of more queries
            than `longest`. A GPU does not check them.

    Example:
        >>> import numpy as np, weft
        >>> q, v = np.zeros((1, 2, 1, 2)), np.array([[[[1.0, 3.0]], [[3.0, 5.0]]]])
        >>> weft.kernels.attention(q, q, v)[0, :, 0].tolist()
        [[2.0, 4.0], [2.0, 4.0]]
        >>> weft.kernels.attention(q, q, v, causal=True)[0, :, 0].tolist()
        [[1.0, 3.0], [2.0, 4.0]]
    """
    rank = 3 if q_starts is not None else 4
    queries = given(q, "q", is_float=True)
    check_starts(queries, q_starts, k_starts)
    keys, values = keys_of(queries, k, "k", rank), keys_of(queries, v, "v", rank)
    check_shapes(queries, keys, values, rank)
    tokens, _, hdim = queries.shape[-3:]
    most = tokens if longest is None else integer_from(longest, "longest", 1, 1 << 31)
    if longest is not None and q_starts is None:
        raise ValueError(f"longest is {longest}, expected None without q_starts and k_starts")
    out = output_like(queries, out, q=q, k=k, v=v, q_starts=q_starts, k_starts=k_starts)
    if lse is not None:
        sums = checked_output(queries, *sums_of(queries), lse, "lse")
        for name, one in {"q": q, "k": k, "v": v, "out": out}.items():
            other = given(one, name)
            refuse_overlap(other, sums, may_be_same=False, name=name, target_name="lse")
    if 0 in queries.shape:
        return out
    scale = 1 / math.sqrt(hdim) if scale is None else number(scale, "scale")
    options = Options(bool(causal), scale, q_starts, k_starts)
    return forward(queries, keys, values, out, lse, most, options)
