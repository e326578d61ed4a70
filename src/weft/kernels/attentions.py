# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.attention``: of batches, or of sequences that lie one after the other.

In: queries, keys and values of any layout. Out: an array of the queries' shape. On a Hopper GPU heads of 64 and 128
elements of 16 bits go through `hopper_attention`; everything else through a kernel whose blocks take a query each.
"""

from __future__ import annotations

import math
from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels import hopper_attention
from weft.kernels.arrays import (
    Array,
    Constant,
    Float64,
    Given,
    Int32,
    given,
    integer_from,
    number,
    output_like,
)
from weft.kernels.attention_gradients import attention_slopes
from weft.kernels.attention_shapes import check_shapes, check_starts, keys_of
from weft.kernels.calls import Call, remembered
from weft.kernels.factors import capability
from weft.kernels.gradients import differentiable, like_first
from weft.kernels.rows import sum_type
from weft.language.control import static_range
from weft.language.memory.shared import shared
from weft.language.numbers.math import exp
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, grid_dim, thread_idx
from weft.primitives.block.reductions import max as block_max
from weft.primitives.block.reductions import sum as block_sum

_THREADS: Final = 128
_CHUNK: Final = 16  # bytes, of which the copy engine's strides are multiples


def _backward(
    gradient: Any,
    _: Any,
    q: Any,
    k: Any,
    v: Any,
    causal: bool,
    scale: float | None,
    q_starts: Any,
    k_starts: Any,
    __: Any,
) -> Any:
    slopes = attention_slopes(gradient, q, k, v, causal, scale, q_starts, k_starts)
    return *slopes, None, None, None, None, None


@differentiable(like_first, _backward)
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
    tokens, heads, hdim = queries.shape[-3:]
    most = tokens if longest is None else integer_from(longest, "longest", 1, 1 << 31)
    if longest is not None and q_starts is None:
        raise ValueError(f"longest is {longest}, expected None without q_starts and k_starts")
    out = output_like(queries, out, q=q, k=k, v=v, q_starts=q_starts, k_starts=k_starts)
    if 0 in queries.shape:
        return out
    scale = 1 / math.sqrt(hdim) if scale is None else number(scale, "scale")
    arguments = q, k, v, out, q_starts, k_starts
    if keys.shape[-3] and scale > 0 and _suits_copy_engine(queries, keys, values):
        arguments = *arguments, most, scale, bool(causal), hdim
        return Call(hopper_attention.attention, arguments, out)
    group = heads // max(keys.shape[-2], 1)
    return Call(_attention, (*arguments, most, group, scale, bool(causal), hdim), out)


def _suits_copy_engine(*arrays: Given) -> bool:
    return (
        capability(arrays[0].device) == (9, 0)
        and arrays[0].dtype.itemsize == 2
        and arrays[0].shape[-1] in (64, 128)
        and all(
            array.address % _CHUNK == 0
            and array.strides[-1] == 1
            and all(stride > 0 and 2 * stride % _CHUNK == 0 for stride in array.strides[:-1])
            for array in arrays
        )
    )


@jit
def _attention(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    q_starts: Array | None,
    k_starts: Array | None,
    longest: Int32,
    group: Int32,
    scale: Float64,
    causal: Constant,
    hdim: Constant,
) -> None:
    sequences = q.shape[0] if q_starts is None else q_starts.shape[0] - 1
    attention_kernel(q, k, v, out, q_starts, k_starts, group, scale, causal, hdim).launch(
        grid=(longest, q.shape[-2], sequences), block=_THREADS
    )


@kernel
def attention_kernel(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    q_starts: Array | None,
    k_starts: Array | None,
    group: Int32,
    scale: Float64,
    causal: Constant,
    hdim: Constant,
) -> None:
    """A block: a query of a head. Its threads take a key each, then some elements of the result each."""
    wide = sum_type(q.dtype)
    head, batch, thread = block_idx.y, block_idx.z, thread_idx.x
    sizes = q.shape[-3], k.shape[-3]
    own, first, start, queries, keys = hopper_attention.sequence_of(
        batch, (q_starts, k_starts), sizes
    )
    number = block_idx.x
    if q_starts is not None:
        assert 0 <= first <= first + queries <= sizes[0], "q_starts is not a row of bounds"
        assert 0 <= start <= start + keys <= sizes[1], "k_starts is not a row of bounds"
        assert queries <= grid_dim.x, "longest is below a sequence's queries"
    hopper_attention.clear_outside(out, (q_starts, k_starts), first, first + queries)
    if number >= queries:
        return
    query = shared(hdim, wide)
    weights = shared(_THREADS, wide)
    for d in range(thread, hdim, _THREADS):
        query[d] = wide(q[(*own, first + number, head, d)]) * wide(scale)
    last = lesser(keys, number + 1 + keys - queries) if causal else keys
    largest, total = wide(-math.inf), wide(0.0)
    parts = static_range((hdim + _THREADS - 1) // _THREADS)
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
