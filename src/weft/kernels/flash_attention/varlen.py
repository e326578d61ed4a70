# SPDX-License-Identifier: Apache-2.0
"""Packed sequences (varlen): the sequence of a block, and its tiles.

`cu_seqlens` are cumulative lengths, shape (batch + 1,): sequence i has the tokens from `cu_seqlens[i]` to
`cu_seqlens[i + 1]`. None stands for arrays with a batch dimension, whose sequences have equal lengths.
"""

from __future__ import annotations

from typing import NamedTuple

import weft


class Sequence(NamedTuple):
    """Tokens of a sequence, and the tokens it attends to (or that attend to it).

    Attributes:
        batch: leading indices of the arrays: (batch,), or () for packed ones.
        start, length: first token and number of tokens.
        other_start, other_length: the same of the other side.
    """

    batch: tuple[weft.i32, ...]
    start: weft.i32
    length: weft.i32
    other_start: weft.i32
    other_length: weft.i32


@weft.device
def sequence_at(
    batch: weft.i32,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    queries: weft.i32,
    keys: weft.i32,
) -> Sequence:
    """Sequence number `batch`; without `cu_seqlens`, each has `queries` and `keys`."""
    if cu_seqlens_q is None or cu_seqlens_k is None:
        return Sequence((batch,), 0, queries, 0, keys)
    q_start, k_start = cu_seqlens_q[batch], cu_seqlens_k[batch]
    q_end, k_end = cu_seqlens_q[batch + 1], cu_seqlens_k[batch + 1]
    return Sequence((), q_start, q_end - q_start, k_start, k_end - k_start)


def num_tiles(tokens: weft.i32, tile_m: int, cu_seqlens: weft.Tensor | None) -> weft.i32:
    """Upper bound, at least 1, for tiles of `tile_m` tokens that never span two sequences; for host functions."""
    tiles = weft.ceil_div(tokens, tile_m)
    return max(tiles if cu_seqlens is None else tiles + cu_seqlens.shape[0] - 1, 1)


@weft.device
def bounds_of(
    batch: weft.i32,
    cu_seqlens: weft.Tensor,
    other_cu_seqlens: weft.Tensor,
    tokens: weft.i32,
    other_tokens: weft.i32,
) -> tuple[weft.i32, weft.i32, weft.i32, weft.i32]:
    """First token and end of a packed sequence, and of the other side."""
    start, end = cu_seqlens[batch], cu_seqlens[batch + 1]
    other, other_end = other_cu_seqlens[batch], other_cu_seqlens[batch + 1]
    assert 0 <= start <= end <= tokens and 0 <= other <= other_end <= other_tokens, (
        "cu_seqlens_q or cu_seqlens_k decreases or is outside of the tokens"
    )
    return start, end, other, other_end


@weft.device
def tile_at(
    tile: weft.i32,
    tile_m: int,
    cu_seqlens: weft.Tensor | None,
    other_cu_seqlens: weft.Tensor | None,
    tokens: weft.i32,
    other_tokens: weft.i32,
) -> tuple[Sequence, weft.i32]:
    """Sequence of a tile of `tile_m` tokens, and the tile's first token in it: at or beyond its length for no tile."""
    if cu_seqlens is None or other_cu_seqlens is None:
        return Sequence((weft.block_idx.z,), 0, tokens, 0, other_tokens), tile_m * tile
    batch, last, first = 0, cu_seqlens.shape[0] - 1, tile_m * tile
    while batch < last - 1 and first >= cu_seqlens[batch + 1] - cu_seqlens[batch]:
        first -= tile_m * weft.ceil_div(cu_seqlens[batch + 1] - cu_seqlens[batch], tile_m)
        batch += 1
    start, end, other, other_end = bounds_of(
        batch, cu_seqlens, other_cu_seqlens, tokens, other_tokens
    )
    return Sequence((), start, end - start, other, other_end - other), first


@weft.device
def query_tile(
    tile_m: int,
    cu_seqlens_q: weft.Tensor | None,
    cu_seqlens_k: weft.Tensor | None,
    queries: weft.i32,
    keys: weft.i32,
) -> tuple[Sequence, weft.i32]:
    """`tile_at` for a block of queries: the last tiles start first, which see the most keys of a causal grid."""
    tile = weft.grid_dim.x - 1 - weft.block_idx.x
    return tile_at(tile, tile_m, cu_seqlens_q, cu_seqlens_k, queries, keys)


@weft.device
def sequence_of(
    token: weft.i32,
    cu_seqlens: weft.Tensor | None,
    other_cu_seqlens: weft.Tensor | None,
    tokens: weft.i32,
    other_tokens: weft.i32,
) -> tuple[weft.i32, weft.i32, weft.i32, weft.i32]:
    """First token and end of a token's sequence, and of the other side: empty for a token outside of all sequences."""
    if cu_seqlens is None or other_cu_seqlens is None:
        return 0, tokens, 0, other_tokens
    batch, last = 0, cu_seqlens.shape[0] - 1
    for i in range(1, last):
        if cu_seqlens[i] <= token:
            batch = i
    start, end, other, other_end = bounds_of(
        batch, cu_seqlens, other_cu_seqlens, tokens, other_tokens
    )
    if token < start or token >= end:
        other_end = other
    return start, end, other, other_end


@weft.device
def zero_rows(out: weft.Tensor, first: weft.i32, end: weft.i32) -> None:
    """Zero rows of the block's head, distributed over the grid's x dimension."""
    for token in range(first + weft.block_idx.x, end, weft.grid_dim.x):
        for d in range(weft.thread_idx.x, out.shape[-1], weft.block_dim.x):
            out[token, weft.block_idx.y, d] = out.dtype(0.0)


@weft.device
def zero_padding(out: weft.Tensor, cu_seqlens: weft.Tensor | None) -> None:
    """Zero the rows before the first sequence and after the last one."""
    if cu_seqlens is not None:
        zero_rows(out, 0, cu_seqlens[0])
        zero_rows(out, cu_seqlens[cu_seqlens.shape[0] - 1], out.shape[-3])


@weft.device
def zero_padding_around(
    out: weft.Tensor, cu_seqlens: weft.Tensor | None, first: weft.i32, end: weft.i32
) -> None:
    """`zero_padding`, where block_idx.z is a sequence with tokens from `first` to `end`: by the first and the last."""
    if cu_seqlens is not None:
        tokens = out.shape[-3]
        is_last = weft.block_idx.z == weft.grid_dim.z - 1
        before, after = (
            weft.where(weft.block_idx.z == 0, first, 0),
            weft.where(is_last, end, tokens),
        )
        zero_rows(out, 0, before)
        zero_rows(out, after, tokens)
