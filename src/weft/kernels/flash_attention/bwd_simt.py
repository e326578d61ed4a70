# SPDX-License-Identifier: Apache-2.0
"""The derivative of attention of any float type and layout, on any target, without tensor cores.

In: the gradient of the result, queries, keys and values. Out: the derivatives by the three. A block takes a query: it
finds the sum of its weights and its mean slope, then the query's derivative. Then a block takes a key: it adds what
each query that sees it gives to the key and to its value.
"""

from __future__ import annotations

import math
from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.device.row import sum_type
from weft.kernels.host.arrays import Array, Constant, Float64, Int32
from weft.language.control import static_range
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.numbers.math import exp, log
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.reductions import max as block_max
from weft.primitives.block.reductions import sum as block_sum

_THREADS: Final = 128
LSE, MEAN = range(2)  # of a query: the logarithm of its weights' sum, and the mean of its slopes


@jit
def differentiate(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    by_q: Array,
    by_k: Array,
    by_v: Array,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    scale: Float64,
    causal: Constant,
    width: Constant,
) -> None:
    """Writes the derivatives of attention."""
    batches = q.shape[0] if cu_seqlens_q is None else 1
    found = scratch((*q.shape[:-1], 2), sum_type(q.dtype))
    group = q.shape[-2] // k.shape[-2]
    inputs, options = (gradient, q, k, v), (cu_seqlens_q, cu_seqlens_k, group, scale, causal, width)
    query_kernel(*inputs, by_q, found, *options).launch(
        grid=(greater(q.shape[-3], 1), greater(q.shape[-2], 1), batches), block=_THREADS
    )
    key_kernel(*inputs, by_k, by_v, found, *options).launch(
        grid=(greater(k.shape[-3], 1), k.shape[-2], batches), block=_THREADS
    )


def sequence_of(token: Any, starts: Any, others: Any, sizes: Any) -> Any:
    """Where the sequence of a token begins and ends, and that of the others it meets; traced in kernels.

    Nothing for a token of no sequence. `sizes` are how many tokens and others there are where starts are None.
    """
    if starts is None:
        return 0, sizes[0], 0, sizes[1]
    number, last = 0, starts.shape[0] - 1
    for one in range(1, last):
        if starts[one] <= token:
            number = one
    first, end, other, other_end = (
        starts[number],
        starts[number + 1],
        others[number],
        others[number + 1],
    )
    assert 0 <= first <= end <= sizes[0] and 0 <= other <= other_end <= sizes[1], (
        "cu_seqlens_q or cu_seqlens_k decreases or is outside of the tokens"
    )
    if token < first or token >= end:
        other_end = other
    return first, end, other, other_end


def dot(row: Any, a: Any, at: Any, hdim: Any) -> Any:
    """The product of a row in shared memory and one of an array; traced in kernels."""
    total = row.dtype(0.0)
    for d in range(hdim):
        total += row[d] * row.dtype(a[(*at, d)])
    return total


def keep(row: Any, a: Any, at: Any, scale: Any) -> None:
    """Copies a row to shared memory, scaled; traced in kernels."""
    for d in range(thread_idx.x, a.shape[-1], _THREADS):
        row[d] = row.dtype(a[(*at, d)]) * row.dtype(scale)


def elements_of(width: Any) -> Any:
    """The elements of a row that a thread adds up, some beyond its end; traced in kernels."""
    return [thread_idx.x + first for first in static_range(0, width, _THREADS)]


@kernel(max_threads=_THREADS)
def query_kernel(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    by_q: Array,
    found: Array,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    group: Int32,
    scale: Float64,
    causal: Constant,
    width: Constant,
) -> None:
    """A block: a query of a head. Its threads take a key each, then some elements of the derivative each."""
    if block_idx.x >= q.shape[-3] or block_idx.y >= q.shape[-2]:
        return
    hdim, wide, thread, token, head = (
        q.shape[-1],
        found.dtype,
        thread_idx.x,
        block_idx.x,
        block_idx.y,
    )
    own = (block_idx.z,) if cu_seqlens_q is None else ()
    sizes = q.shape[-3], k.shape[-3]
    first, end, start, stop = sequence_of(token, cu_seqlens_q, cu_seqlens_k, sizes)
    if causal:
        stop = lesser(stop, start + token - first + 1 + (stop - start) - (end - first))
    query, slope, weights = shared(width, wide), shared(width, wide), shared(_THREADS, wide)
    keep(query, q, (*own, token, head), scale)
    keep(slope, gradient, (*own, token, head), 1.0)
    sync_threads()
    largest, total, products = wide(-math.inf), wide(0.0), wide(0.0)
    for key in range(start + thread, stop, _THREADS):
        at = (*own, key, head // group)
        score, product = dot(query, k, at, hdim), dot(slope, v, at, hdim)
        new = greater(largest, score)
        base = wide(0.0) if new == -math.inf else new
        factor, weight = exp(largest - base), exp(score - base)
        total, products = total * factor + weight, products * factor + weight * product
        largest = new
    top = block_max(largest)
    base = wide(0.0) if top == -math.inf else top
    factor = exp(largest - base)
    total, products = block_sum((total * factor, products * factor))
    sees = total != 0
    lse = base + log(total) if sees else wide(math.inf)
    mean = products / total if sees else wide(0.0)
    places = elements_of(width)
    sums = [wide(0.0) for _ in places]
    for begin in range(start, stop, _THREADS):
        key = begin + thread
        sync_threads()
        if key < stop:
            at = (*own, key, head // group)
            score, product = dot(query, k, at, hdim), dot(slope, v, at, hdim)
            weights[thread] = exp(score - lse) * (product - mean)
        sync_threads()
        for step in range(lesser(_THREADS, stop - begin)):
            for i, d in enumerate(places):
                if d < hdim:
                    sums[i] += weights[step] * wide(k[(*own, begin + step, head // group, d)])
    for i, d in enumerate(places):
        if d < hdim:
            by_q[(*own, token, head, d)] = q.dtype(sums[i] * wide(scale))
    if thread == 0:
        found[(*own, token, head, LSE)], found[(*own, token, head, MEAN)] = lse, mean


@kernel(max_threads=_THREADS)
def key_kernel(
    gradient: Array,
    q: Array,
    k: Array,
    v: Array,
    by_k: Array,
    by_v: Array,
    found: Array,
    cu_seqlens_q: Array | None,
    cu_seqlens_k: Array | None,
    group: Int32,
    scale: Float64,
    causal: Constant,
    width: Constant,
) -> None:
    """A block: a key. Its threads take a query each, then some elements of both derivatives each."""
    if block_idx.x >= k.shape[-3]:
        return
    hdim, wide, thread, token = q.shape[-1], found.dtype, thread_idx.x, block_idx.x
    own = (block_idx.z,) if cu_seqlens_q is None else ()
    sizes = k.shape[-3], q.shape[-3]
    first, end, start, stop = sequence_of(token, cu_seqlens_k, cu_seqlens_q, sizes)
    if causal:
        start = greater(start, start + token - first + (stop - start) - (end - first))
    key, value = shared(width, wide), shared(width, wide)
    weights, slopes = shared(_THREADS, wide), shared(_THREADS, wide)
    keep(key, k, (*own, token, block_idx.y), scale)
    keep(value, v, (*own, token, block_idx.y), 1.0)
    places = elements_of(width)
    of_key, of_value = [wide(0.0) for _ in places], [wide(0.0) for _ in places]
    for member in range(group):
        head = block_idx.y * group + member
        for begin in range(start, stop, _THREADS):
            query = begin + thread
            sync_threads()
            if query < stop:
                at = (*own, query, head)
                weight = exp(dot(key, q, at, hdim) - found[(*at, LSE)])
                weights[thread] = weight
                slopes[thread] = weight * (dot(value, gradient, at, hdim) - found[(*at, MEAN)])
            sync_threads()
            for step in range(lesser(_THREADS, stop - begin)):
                for i, d in enumerate(places):
                    if d < hdim:
                        at = (*own, begin + step, head, d)
                        of_key[i] += slopes[step] * wide(q[at])
                        of_value[i] += weights[step] * wide(gradient[at])
    for i, d in enumerate(places):
        if d < hdim:
            at = (*own, token, block_idx.y, d)
            by_k[at] = k.dtype(of_key[i] * wide(scale))
            by_v[at] = v.dtype(of_value[i])
