# SPDX-License-Identifier: Apache-2.0
"""Softmax on fragments of scores: online in the forward pass, recomputed from lse in the backward pass.

Forward, for each block of keys (Milakov and Gimelshein, 2018), with scores S, row maximum m and row sum l:

    m' = max(m, rowmax S),  P = exp(S - m'),  l' = l · exp(m - m') + rowsum P,  O' = O · exp(m - m') + P · V

Backward, with delta = rowsum(dO ∘ O):  P = exp(S - lse),  dS = P ∘ (dO · Vᵀ - delta).

Exponentials are to base 2, with log2 e in the scale: an element of P takes one FMA and one ex2.approx.
"""

from __future__ import annotations

import math
from typing import Any, Final

import weft

LOG2_E: Final = math.log2(math.e)
HIDDEN: Final = -math.inf


@weft.device
def exp2(x: weft.f32) -> weft.f32:
    """ex2.approx.ftz: 0 below 2^-126."""
    return weft.math.exp2(x, approx=True)


@weft.device
def mask_scores(
    scores: weft.Fragment,
    first_query: weft.i32,
    first_key: weft.i32,
    queries: weft.i32,
    keys: weft.i32,
    causal: bool,
) -> weft.Fragment:
    """Scores, -inf from `keys` on, and with `causal` for keys after the query's own.

    Args:
        scores: fragment whose first element is of `first_query` and `first_key`.
        first_query: in the sequence.
        first_key: in the sequence.
        queries: length of the sequence.
        keys: number of keys; the last query sees all.
        causal: whether a query sees the keys up to its own alone.
    """
    ahead = keys - queries

    def mask(score: weft.f32, row: weft.i32, column: weft.i32) -> weft.f32:
        last = first_query + row + ahead if causal else keys - 1
        return weft.where(first_key + column <= min(last, keys - 1), score, HIDDEN)

    return scores.map(mask, coordinates=True)


@weft.device
def online_softmax(
    scores: weft.Fragment,
    row_max: weft.Fragment,
    row_sum: weft.Fragment,
    scale: weft.f32,
    profiler: Any,
) -> tuple[weft.Fragment, weft.Fragment, weft.Fragment, weft.Fragment]:
    """One block of keys: P, the new row maximum and row sum, and the factor that rescales earlier sums.

    `row_sum` stays partial, each thread's own columns, until `quad_sum`.
    """

    def scaled(x: weft.f32) -> weft.f32:
        return weft.where(x == HIDDEN, 0.0, x * scale)  # a row without keys gets P = exp2(-inf)

    def weight(x: weft.f32, base: weft.f32) -> weft.f32:
        return exp2(x * scale - base)

    def update(total: weft.f32, alpha: weft.f32, more: weft.f32) -> weft.f32:
        return total * alpha + more

    with profiler.range("softmax"):
        new_max = scores.row_max().map(max, row_max)
        base = new_max.map(scaled)
        alpha = row_max.map(weight, base)
        weights = scores.map(weight, base)
        row_sum = row_sum.map(update, alpha, weights.row_sum(partial=True))
    return weights, new_max, row_sum, alpha


@weft.device
def multiply(x: weft.f32, y: weft.f32) -> weft.f32:
    """x · y, for `Fragment.map`."""
    return x * y


@weft.device
def reciprocal(total: weft.f32) -> weft.f32:
    """1 / total; 0 for a row that sees no key; NaN stays."""
    return weft.where(total == 0, 0.0, 1.0 / total)


@weft.device
def write_lse(
    lse: weft.Tensor,
    first: weft.i32,
    row_sum: weft.Fragment,
    row_max: weft.Fragment,
    scale: weft.f32,
) -> None:
    """Write logsumexp of the scaled scores, to base e, up to the end of the sequence.

    Args:
        lse: of a sequence and head.
        first: the fragment's first row in it.
        row_sum: of a fragment's rows, complete.
        row_max: of the unscaled scores.
        scale: of the scores, to base 2.
    """

    def logsumexp(total: weft.f32, largest: weft.f32) -> weft.f32:
        base = weft.where(largest == HIDDEN, 0.0, largest * scale)
        return (weft.math.log2(total) + base) / LOG2_E

    row_sum.map(logsumexp, row_max).store(lse, first)


@weft.device
def probability(score: weft.f32, lse: weft.f32, scale: weft.f32) -> weft.f32:
    """P = exp2(scale · S - lse), lse to base 2."""
    return exp2(score * scale - lse)


@weft.device
def score_gradient(p: weft.f32, dp: weft.f32, delta: weft.f32) -> weft.f32:
    """dS = P · (dP - delta)."""
    return p * (dp - delta)


@weft.device
def mask_gradients(
    x: weft.Fragment,
    first_query: weft.i32,
    first_key: weft.i32,
    queries: weft.i32,
    keys: weft.i32,
    causal: bool,
    transposed: bool,
) -> weft.Fragment:
    """P or dS, 0 beyond the last column and with `causal` for keys after the query's own.

    Args:
        x: fragment whose first element is of `first_query` and `first_key`.
        first_query: in the sequence.
        first_key: in the sequence.
        queries: length of the sequence.
        keys: number of keys; the last query sees all.
        causal: whether a query sees the keys up to its own alone.
        transposed: rows are keys, columns queries.
    """

    def mask(value: weft.f32, row: weft.i32, column: weft.i32) -> weft.f32:
        query, key = (column, row) if transposed else (row, column)
        query, key = first_query + query, first_key + key
        inside = query < queries if transposed else key < keys
        if causal:
            inside = inside & (key <= query + keys - queries)
        return weft.where(inside, value, 0.0)

    return x.map(mask, coordinates=True)
