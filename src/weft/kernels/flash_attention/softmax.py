# SPDX-License-Identifier: Apache-2.0
"""Masks, and softmax on fragments of scores: online in the forward pass, recomputed from lse in the backward pass.

Forward, for each block of keys (Milakov and Gimelshein, 2018), with scores S, row maximum m and row sum l:

    m' = max(m, rowmax S),  P = exp(S - m'),  l' = l · exp(m - m') + rowsum P,  O' = O · exp(m - m') + P · V

With `softcap` S is tanh(cap · S) before, and the scale is that of its result.

Backward, with delta = rowsum(dO ∘ O):  P = exp(S - lse),  dS = P ∘ (dO · Vᵀ - delta).

Exponentials are to base 2, with log2 e in the scale: an element of P takes one FMA and one ex2.approx.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import weft

LOG2_E: Final = math.log2(math.e)
HIDDEN: Final = -math.inf


@weft.device
def exp2(x: weft.f32) -> weft.f32:
    """ex2.approx.ftz: 0 below 2^-126."""
    return weft.math.exp2(x, approx=True)


class Mask(NamedTuple):
    """Keys that a query sees: from `left` before its own to `right` after it, of those that there are.

    Attributes:
        causal: whether it sees none after its own.
        top_left: whether the first query's own key is the first one; else the last query's is the last one.
        left: None: all before its own.
        right: None: all after its own, unless `causal`.
    """

    causal: weft.Constexpr[bool]
    top_left: weft.Constexpr[bool] = False
    left: weft.i32 | None = None
    right: weft.i32 | None = None


@weft.device
def keys_ahead(mask: Mask, queries: weft.i32, keys: weft.i32) -> weft.i32:
    """A query's own key, minus the query."""
    return weft.i32(0) if mask.top_left else keys - queries


@weft.device
def key_end(mask: Mask, query: weft.i32, queries: weft.i32, keys: weft.i32) -> weft.i32:
    """End of the keys that queries up to this one see."""
    if mask.causal:
        return min(keys, query + 1 + keys_ahead(mask, queries, keys))
    if mask.right is not None:
        return min(keys, query + 1 + keys_ahead(mask, queries, keys) + mask.right)
    return keys


@weft.device
def key_begin(mask: Mask, query: weft.i32, queries: weft.i32, keys: weft.i32) -> weft.i32:
    """First of the keys that queries from this one on see; at least 0."""
    if mask.left is None:
        return weft.i32(0)
    return max(query + keys_ahead(mask, queries, keys) - mask.left, 0)


@weft.device
def query_begin(mask: Mask, key: weft.i32, queries: weft.i32, keys: weft.i32) -> weft.i32:
    """First of the queries that see this key or later ones."""
    if mask.causal:
        return max(key - keys_ahead(mask, queries, keys), 0)
    if mask.right is not None:
        return max(key - keys_ahead(mask, queries, keys) - mask.right, 0)
    return weft.i32(0)


@weft.device
def query_end(mask: Mask, key: weft.i32, queries: weft.i32, keys: weft.i32) -> weft.i32:
    """End of the queries that see keys up to this one."""
    if mask.left is None:
        return queries
    return min(queries, key + 1 + mask.left - keys_ahead(mask, queries, keys))


@weft.device
def mask_scores(
    scores: weft.Fragment,
    first_query: weft.i32,
    first_key: weft.i32,
    queries: weft.i32,
    keys: weft.i32,
    mask: Mask,
) -> weft.Fragment:
    """Scores, -inf for keys that a query does not see.

    Args:
        scores: fragment whose first element is of `first_query` and `first_key`.
        first_query: in the sequence.
        first_key: in the sequence.
        queries: length of the sequence.
        keys: their number.
        mask: of the keys that there are.
    """

    def masked(score: weft.f32, row: weft.i32, column: weft.i32) -> weft.f32:
        query, key = first_query + row, first_key + column
        seen = key < key_end(mask, query, queries, keys)
        if mask.left is not None:
            seen = seen & (key >= key_begin(mask, query, queries, keys))
        return weft.where(seen, score, HIDDEN)

    return scores.map(masked, coordinates=True)


@weft.device
def cap_scores(scores: weft.Fragment, cap: weft.f32 | None) -> weft.Fragment:
    """tanh(cap · S), by which `softcap` limits scores, 2⁻²² off; None: S."""
    if cap is None:
        return scores

    def capped(score: weft.f32) -> weft.f32:
        return 1.0 - weft.math.divide(2.0, 1.0 + exp2(score * (2 * LOG2_E * cap)), approx=True)

    return scores.map(capped)


@weft.device
def base_of(largest: weft.f32, scale: weft.f32) -> weft.f32:
    """Largest scaled score, to subtract from the others; 0 for a row without keys, which gets P = exp2(-inf)."""
    return weft.where(largest == HIDDEN, 0.0, largest * scale)


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

    def weight(x: weft.f32, base: weft.f32) -> weft.f32:
        return exp2(x * scale - base)

    def update(total: weft.f32, alpha: weft.f32, more: weft.f32) -> weft.f32:
        return total * alpha + more

    with profiler.range("softmax"):
        new_max = scores.row_max().map(max, row_max)
        base = new_max.map(base_of, scale)
        alpha = row_max.map(weight, base)
        weights = scores.map(weight, base)
        row_sum = row_sum.map(update, alpha, weights.row_sum(partial=True))
    return weights, new_max, row_sum, alpha


@weft.device
def add_sink(
    row_sum: weft.Fragment, row_max: weft.Fragment, sink: weft.f32, scale: weft.f32
) -> weft.Fragment:
    """Complete row sums, with the weight of a score that has no value; `sink` is of the size of unscaled scores."""

    def update(total: weft.f32, largest: weft.f32) -> weft.f32:
        base = base_of(largest, scale)
        return total + exp2(sink * scale - base)

    return row_sum.map(update, row_max)


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
        base = base_of(largest, scale)
        return (weft.math.log2(total) + base) / LOG2_E

    row_sum.map(logsumexp, row_max).store(lse, first)


@weft.device
def score_factor(scale: weft.f32, softcap: weft.f32 | None) -> weft.f32:
    """Factor of S, or of its tanh, to base 2."""
    return (scale if softcap is None else softcap) * LOG2_E


def factor_and_cap(scale: weft.f64, softcap: weft.f64 | None) -> tuple[weft.f32, weft.f32 | None]:
    """Factor of S, or of its tanh, to base 2, and the `cap` of `cap_scores`; in host functions."""
    if softcap is None:
        return weft.f32(scale * LOG2_E), None
    return weft.f32(softcap * LOG2_E), weft.f32(scale / softcap)


@weft.device
def store_result(
    o: weft.Fragment,
    row_sum: weft.Fragment,
    row_max: weft.Fragment,
    sink: weft.f32 | None,
    scale: weft.f32,
    out: weft.Tensor,
    lse: weft.Tensor | None,
    first: weft.i32,
) -> None:
    """Divide O by the row sums, and write it and lse, up to the end of the sequence.

    Args:
        o: sums of P · V.
        row_sum: partial.
        row_max: of the unscaled scores.
        sink: as in `add_sink`, or None.
        scale: of the scores, to base 2.
        out: of a sequence and head.
        lse: of the same, or None.
        first: the fragment's first row in them.
    """
    row_sum = row_sum.quad_sum()
    if sink is not None:
        row_sum = add_sink(row_sum, row_max, sink, scale)
    o.map(multiply, row_sum.map(reciprocal)).to(out.dtype).store(out, (first, 0))
    if lse is not None:
        write_lse(lse, first, row_sum, row_max, scale)


@weft.device
def probability(score: weft.f32, lse: weft.f32, scale: weft.f32) -> weft.f32:
    """P = exp2(scale · S - lse), both to base 2."""
    return exp2(score * scale - lse)


@weft.device
def score_gradient(p: weft.f32, dp: weft.f32, delta: weft.f32) -> weft.f32:
    """dS = P · (dP - delta)."""
    return p * (dp - delta)


@weft.device
def is_masked(
    mask: Mask,
    first_query: weft.i32,
    first_key: weft.i32,
    shape: tuple[int, int],
    queries: weft.i32,
    keys: weft.i32,
) -> weft.bool_:
    """Whether the mask, not the number of keys, hides a key of a tile of (queries, keys) from a query of it."""
    rows, columns = shape
    ahead, found = keys_ahead(mask, queries, keys), weft.bool_(False)
    if mask.causal:
        found = first_query + ahead < first_key + columns - 1
    if mask.right is not None:
        found = first_query + ahead + mask.right < first_key + columns - 1
    if mask.left is not None:
        found = found | (first_query + rows - 1 + ahead - mask.left > first_key)
    return found


@weft.device
def cap_gradient(ds: weft.f32, capped: weft.f32) -> weft.f32:
    """dS before tanh, of that after it: times 1 - tanh²."""
    return ds * (1.0 - capped * capped)


@weft.device
def mask_gradients(
    x: weft.Fragment,
    first_query: weft.i32,
    first_key: weft.i32,
    queries: weft.i32,
    keys: weft.i32,
    mask: Mask,
    transposed: bool,
) -> weft.Fragment:
    """P or dS, 0 beyond the last column and for keys that a query does not see.

    Args:
        x: fragment whose first element is of `first_query` and `first_key`.
        first_query: in the sequence.
        first_key: in the sequence.
        queries: length of the sequence.
        keys: their number.
        mask: of the keys that there are.
        transposed: rows are keys, columns queries.
    """

    def masked(value: weft.f32, row: weft.i32, column: weft.i32) -> weft.f32:
        query, key = (column, row) if transposed else (row, column)
        query, key = first_query + query, first_key + key
        inside = query < queries if transposed else key < keys
        if mask.causal or mask.right is not None:
            inside = inside & (key < key_end(mask, query, queries, keys))
        if mask.left is not None:
            inside = inside & (key >= key_begin(mask, query, queries, keys))
        return weft.where(inside, value, 0.0)

    return x.map(masked, coordinates=True)


@weft.device
def mask_columns(
    p: weft.Fragment,
    query: weft.i32,
    key: weft.i32,
    queries: weft.i32,
    keys: weft.i32,
    mask: Mask,
) -> weft.Fragment:
    """Pᵀ, 0 for queries beyond the last and for keys that a query does not see; `query` and `key` are its first."""
    rows, columns = p.shape
    is_edge = query + columns > queries
    if mask.causal or mask.left is not None or mask.right is not None:
        is_edge = is_edge or is_masked(mask, query, key, (columns, rows), queries, keys)
    if is_edge:
        p = mask_gradients(p, query, key, queries, keys, mask, transposed=True)
    return p
