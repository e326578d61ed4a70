# SPDX-License-Identifier: Apache-2.0
"""Further arguments of TMA copies: a barrier, blocks of the cluster, the L2 cache's part.

In: users' arguments. Out: what the operations of the IR take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.async_copy import CACHES
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.cluster import checked_rank
from weft.language.asynchronous.mbarrier import Mbarrier
from weft.language.values import describe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


def barrier_words(name: str, barrier: object) -> tuple[SSAValue, SSAValue]:
    """The array of a barrier and its index.

    Raises:
        TypeMismatchError: for what is not one of `mbarrier`.
    """
    if not isinstance(barrier, Mbarrier):
        raise TypeMismatchError(
            "TMA_BARRIER",
            f"{name}: the barrier is {describe(barrier)}; expected one of weft.mbarrier, such as full[0]",
        )
    return barrier.words.ssa, barrier.index.ssa


def multicast_ranks(builder: Builder, name: str, multicast: object) -> list[SSAValue]:
    """The blocks that a load goes to; none if it is its own alone.

    Raises:
        TypeMismatchError: without clusters, or for a rank that is not an integer.
        ValueRangeError: for a rank that no block has, the same one twice, or none at all.
    """
    if multicast is None:
        return []
    several = isinstance(multicast, tuple | list | range)
    listed = cast("Iterable[object]", multicast) if several else (multicast,)
    ranks = [checked_rank(builder, rank, f"{name}: multicast") for rank in listed]
    known = [constant_integer(rank) for rank in ranks]
    if not ranks or any(known.count(rank) > 1 for rank in known if rank is not None):
        raise ValueRangeError(
            "CLUSTER_RANK",
            f"{name}: multicast is {describe(multicast)}; expected different ranks, one at least",
        )
    return ranks


def cache_policy(name: str, cache: object) -> str | None:
    """A name of `CACHES`, or None.

    Raises:
        ValueRangeError: for anything else.
    """
    if cache is None or (isinstance(cache, str) and cache in CACHES):
        return cache
    listed = ", ".join(map(repr, CACHES[:-1]))
    raise ValueRangeError(
        "TMA_CACHE",
        f"{name}: cache is {describe(cache)}; expected None, {listed} or {CACHES[-1]!r}",
    )
