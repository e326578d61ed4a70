# SPDX-License-Identifier: Apache-2.0
"""What fits together in attention: queries, keys, values, and where sequences begin.

In: arrays as users pass them. Out: what they are, or an error that names the argument.
"""

from __future__ import annotations

import math
from typing import Any, Final

from weft.kernels.host.arrays import Given, given
from weft.language.control import ceil_div
from weft.language.numbers.math import max as greater
from weft.language.threads.grid import block_dim, block_idx, grid_dim, thread_idx
from weft.types.dtype import i32

MOST_HDIM: Final = 1024


def keys_of(queries: Given, array: object, name: str, rank: int) -> Given:
    """What keys or values are, of the queries' type, device and rank."""
    found = given(array, name)
    if found.dtype is not queries.dtype:
        raise TypeError(f"{name} has elements of {found.type_name}, expected {queries.type_name}")
    if found.device != queries.device:
        raise ValueError(f"{name} is on {found.device}, expected {queries.device}")
    if len(found.shape) != rank:
        raise ValueError(f"{name} has shape {found.shape}, expected {rank} dimensions")
    return found


def check_shapes(queries: Given, keys: Given, values: Given, rank: int) -> None:
    """Raises an error unless queries, keys and values fit each other."""
    if len(queries.shape) != rank:
        raise ValueError(f"q has shape {queries.shape}, expected {rank} dimensions")
    if values.shape != keys.shape:
        raise ValueError(f"v has shape {values.shape}, expected {keys.shape} as k")
    same = slice(0, rank - 3), slice(rank - 1, rank)
    if any(queries.shape[part] != keys.shape[part] for part in same):
        raise ValueError(
            f"k has shape {keys.shape}, expected the batches and the hdim of q, {queries.shape}"
        )
    heads, key_heads = queries.shape[-2], keys.shape[-2]
    if key_heads == 0 or heads % key_heads:
        raise ValueError(f"k has {key_heads} heads, expected a divisor of q's {heads}")
    if not 0 < queries.shape[-1] <= MOST_HDIM:
        raise ValueError(f"hdim is {queries.shape[-1]}, expected 1 to {MOST_HDIM}")


def check_starts(queries: Given, cu_seqlens_q: object, cu_seqlens_k: object) -> None:
    """Raises an error unless both are None, or bounds of as many sequences."""
    if (cu_seqlens_q is None) != (cu_seqlens_k is None):
        raise ValueError("cu_seqlens_q and cu_seqlens_k: expected both or neither")
    if cu_seqlens_q is None:
        return
    first, second = given(cu_seqlens_q, "cu_seqlens_q"), given(cu_seqlens_k, "cu_seqlens_k")
    for name, found in (("cu_seqlens_q", first), ("cu_seqlens_k", second)):
        if found.dtype is not i32:
            raise TypeError(f"{name} has elements of {found.type_name}, expected int32")
        if found.device != queries.device:
            raise ValueError(f"{name} is on {found.device}, expected {queries.device}")
        if len(found.shape) != 1 or found.shape != first.shape or found.shape[0] < 2:
            raise ValueError(
                f"{name} has shape {found.shape}, expected shape (batch + 1,), batch ≥ 1, equal for q and k"
            )


def tiles_of(tokens: Any, rows: Any, starts: Any) -> Any:
    """The most tiles of so many rows that tokens have, at least one; traced in host functions."""
    tiles = ceil_div(tokens, rows)
    return greater(tiles if starts[0] is None else tiles + starts[0].shape[0] - 1, 1)


def tile_of(number: Any, rows: Any, starts: Any, sizes: Any) -> Any:
    """Where a tile of so many rows is, in a sequence or in the batch of the block; traced in kernels.

    Args:
        number: of the tile.
        rows: of a tile.
        starts: of the tokens that it has, and of the others that these meet.
        sizes: how many tokens and others there are where starts are None.

    Returns:
        The indices of the batch; the tile's first token in its sequence, from the sequence's end on for no tile; the
        token where the sequence begins, and how many it has; the same two of the others.
    """
    own, other = starts
    if own is None:
        return (block_idx.z,), rows * number, 0, sizes[0], 0, sizes[1]
    sequence, last, first = 0, own.shape[0] - 1, rows * number
    while sequence < last - 1 and first >= own[sequence + 1] - own[sequence]:
        first -= rows * ceil_div(own[sequence + 1] - own[sequence], rows)
        sequence += 1
    start, end, others, others_end = (
        own[sequence],
        own[sequence + 1],
        other[sequence],
        other[sequence + 1],
    )
    assert 0 <= start <= end <= sizes[0] and 0 <= others <= others_end <= sizes[1], (
        "cu_seqlens_q or cu_seqlens_k decreases or is outside of the tokens"
    )
    return (), first, start, end - start, others, others_end - others


def clear_outside(out: Any, starts: Any) -> None:
    """Writes zeros before the first sequence and after the last one, of the block's head; traced in kernels."""
    if starts is None:
        return
    for begin, stop in ((0, starts[0]), (starts[starts.shape[0] - 1], out.shape[-3])):
        for token in range(begin + block_idx.x, stop, grid_dim.x):
            for d in range(thread_idx.x, out.shape[-1], block_dim.x):
                out[token, block_idx.y, d] = out.dtype(0.0)


def attention_flops(out: Any, q: Any, k: Any, _: Any, cu_seqlens_q: Any, cu_seqlens_k: Any) -> int:
    """The operations of both products of an attention without its mask, as torch counts them; of tensors of torch."""
    *batches, tokens, heads, hdim = out.shape
    if cu_seqlens_q is None:
        return 4 * math.prod(batches) * heads * hdim * tokens * k.shape[-3]
    lengths = cu_seqlens_q.diff() * (cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k).diff()
    return 4 * heads * hdim * int(lengths.sum())
