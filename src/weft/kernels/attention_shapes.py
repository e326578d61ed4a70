# SPDX-License-Identifier: Apache-2.0
"""What fits together in attention: queries, keys, values, and where sequences begin.

In: arrays as users pass them. Out: what they are, or an error that names the argument.
"""

from __future__ import annotations

from typing import Final

from weft.kernels.arrays import Given, given
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


def check_starts(queries: Given, q_starts: object, k_starts: object) -> None:
    """Raises an error unless both are None, or bounds of as many sequences."""
    if (q_starts is None) != (k_starts is None):
        raise ValueError("q_starts and k_starts are given together, or neither")
    if q_starts is None:
        return
    first, second = given(q_starts, "q_starts"), given(k_starts, "k_starts")
    for name, found in (("q_starts", first), ("k_starts", second)):
        if found.dtype is not i32:
            raise TypeError(f"{name} has elements of {found.type_name}, expected int32")
        if found.device != queries.device:
            raise ValueError(f"{name} is on {found.device}, expected {queries.device}")
        if len(found.shape) != 1 or found.shape != first.shape or found.shape[0] < 2:
            raise ValueError(
                f"{name} has shape {found.shape}, expected one bound more than sequences, of which"
                " there is one at least, in both"
            )
