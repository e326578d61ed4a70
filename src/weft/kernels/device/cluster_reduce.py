# SPDX-License-Identifier: Apache-2.0
"""Reductions over the threads of a row: those of a warp, of a block, or of a cluster through distributed shared memory.

In: a value per thread and a `RowMapping`. Out: the sum or the maximum, in every thread, after one synchronization.
"""

from __future__ import annotations

from typing import Any

import weft
from weft.kernels.annotations import Function, Int, Number, Numbers
from weft.kernels.device.row_mapping import RowMapping


@weft.device
def cluster_barriers(mapping: weft.Constexpr[RowMapping], count: Int) -> Any:
    """Makes mbarriers for `count` cluster reductions per row; None without a cluster.

    Called at the beginning of a kernel, where the cluster synchronizes once.
    """
    return [weft.mbarrier(2, arrivals=1) if mapping.blocks > 1 else None for _ in range(count)]


@weft.device
def reduce_row(
    kind: weft.Constexpr[str],
    value: Number,
    mapping: weft.Constexpr[RowMapping],
    barrier: Any = None,
    phase: Int = 0,
) -> Number:
    """Reduces a number, a tuple of them, or a list over all threads of a row by ``"sum"`` or ``"max"``.

    Args:
        kind: ``"sum"`` or ``"max"``.
        value: of this thread.
        mapping: of the row.
        barrier: one of `cluster_barriers`, for this reduction alone.
        phase: the number of the row in the block's loop, from 0.
    """
    value = _over_warp(kind)(fold(kind, value))
    if mapping.threads == weft.WARP_SIZE:
        return value
    if isinstance(value, tuple):
        partials = warp_partials(value, mapping, barrier, phase)
        return tuple(reduce_lanes(kind, lane_partials(partial), mapping) for partial in partials)
    (partial,) = warp_partials((value,), mapping, barrier, phase)
    return reduce_lanes(kind, lane_partials(partial), mapping)


@weft.device
def _over_warp(kind: str) -> Function:
    return weft.warp.sum if kind == "sum" else weft.warp.max


@weft.device
def fold(kind: weft.Constexpr[str], value: Number) -> Number:
    """Reduces a thread's list as a tree; another value stays as it is."""
    values: Any = value
    if not isinstance(values, list):
        return values
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = values[len(values) & ~1 :]
        values = [one + other if kind == "sum" else max(one, other) for one, other in pairs] + rest
    return values[0]


@weft.device
def warp_partials(
    values: Numbers, mapping: weft.Constexpr[RowMapping], barrier: Any = None, phase: Int = 0
) -> Numbers:
    """Gathers each warp's values in shared memory, through DSMEM in a cluster: per value an array, an element per warp.

    Double-buffered: a buffer is written again two phases later, when all have given the next phase's values.
    """
    warps, side = mapping.threads // weft.WARP_SIZE, phase & 1
    partials = [weft.shared((2, warps * mapping.blocks), value.dtype) for value in values]
    lane, warp = weft.lane_id(), weft.warp_id()
    if mapping.blocks > 1:
        if weft.thread_idx.x == 0:
            barrier[side].arrive(expect_bytes=sum(partial.nbytes for partial in partials) // 2)
        if lane < mapping.blocks:
            for partial, value in zip(partials, values, strict=True):
                place = side, weft.cluster_rank() * warps + warp
                weft.st_async(partial, place, value, barrier[side], lane)
        barrier[side].wait(phase >> 1 & 1)
    else:
        if lane == 0:
            for partial, value in zip(partials, values, strict=True):
                partial[side, warp] = value
        weft.sync_threads()
    return [partial[side] for partial in partials]


@weft.device
def lane_partials(partial: Number) -> Numbers:
    """Loads the partials of this lane's number, of 32 more and so on; several lanes share those of few warps."""
    warps = len(partial)
    if warps < weft.WARP_SIZE:
        return [partial[weft.lane_id() & (warps - 1)]]
    return [partial[weft.lane_id() + k] for k in range(0, warps, weft.WARP_SIZE)]


@weft.device
def reduce_lanes(
    kind: weft.Constexpr[str], values: Numbers, mapping: weft.Constexpr[RowMapping]
) -> Any:
    """Reduces the lanes' values, as `lane_partials` gives them, by ``"sum"`` or ``"max"``."""
    warps = mapping.blocks * mapping.threads // weft.WARP_SIZE
    return _over_warp(kind)(fold(kind, values), width=min(warps, weft.WARP_SIZE))
