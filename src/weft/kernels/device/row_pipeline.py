# SPDX-License-Identifier: Apache-2.0
"""Row pipelines: TMA copies the next rows into shared memory while a block or a cluster computes the current one.

For kernels whose blocks loop over rows. In: arrays of one shape, and a `RowMapping` with stages. Out: the block's parts
of their rows, in shared memory, as are vectors that all rows share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft.kernels.annotations import ElementType, Int
from weft.kernels.device.row import row_count, row_of, sum_type
from weft.kernels.device.row_mapping import RowMapping, part_of


class RowBuffers(NamedTuple):
    """Circular buffers in shared memory.

    Attributes:
        parts: of each array, stages x elements.
        full: an mbarrier per stage.
    """

    parts: list[weft.Tensor]
    full: weft.Mbarrier


@weft.device
def row_buffers(arrays: tuple[weft.Tensor, ...], mapping: weft.Constexpr[RowMapping]) -> RowBuffers:
    """Allocates a circular buffer per array, and an mbarrier per stage."""
    shape = mapping.stages, mapping.threads * mapping.items
    parts = [weft.shared(shape, a.dtype) for a in arrays]
    return RowBuffers(parts, weft.mbarrier(mapping.stages, arrivals=1))


@weft.device
def row_step(mapping: weft.Constexpr[RowMapping]) -> Int:
    """Computes the distance between rows of a block or a cluster."""
    return weft.grid_dim.x // mapping.blocks


@weft.device
def prefetch(
    arrays: tuple[weft.Tensor, ...],
    ring: RowBuffers,
    number: Int,
    mapping: weft.Constexpr[RowMapping],
) -> None:
    """Starts copying the first rows, from that number on, into all stages."""
    for stage in weft.static_range(mapping.stages):
        load_async(arrays, ring, number + stage * row_step(mapping), stage, mapping)


@weft.device
def load_async(
    arrays: tuple[weft.Tensor, ...],
    ring: RowBuffers,
    number: Int,
    state: Any,
    mapping: weft.Constexpr[RowMapping],
) -> None:
    """Starts copying the row of that number, if it exists, into the buffers of a stage that is free."""
    buffers, full = ring
    if weft.thread_idx.x == 0 and number < row_count(arrays[0].shape):
        parts = [part_of(row_of(a, number, mapping.width), mapping) for a in arrays]
        full[state].arrive(expect_bytes=sum(len(one) * one.dtype.itemsize for one in parts))
        for part, buffer in zip(parts, buffers, strict=True):
            if len(part) > 0:
                weft.bulk_copy(buffer[state][: len(part)], part, full[state])


@weft.device
def wait(ring: RowBuffers, state: Any, count: Int) -> list[weft.Tensor]:
    """Waits for this block's parts of a row of each array, `count` elements each."""
    buffers, full = ring
    full[state].wait()
    return [buffer[state][:count] for buffer in buffers]


@weft.device
def shared_vector(
    vector: weft.Tensor | None, dtype: ElementType, mapping: weft.Constexpr[RowMapping]
) -> weft.Tensor | None:
    """Loads this block's part of a vector into shared memory, visible after the next barrier; None for None."""
    if vector is None:
        return None
    part = part_of(vector, mapping)
    wide = sum_type(dtype)
    kind = vector.dtype if vector.dtype.itemsize <= wide.itemsize else wide
    smem = weft.shared(mapping.threads * mapping.items, kind)
    for i in range(weft.thread_idx.x, len(part), mapping.threads):
        smem[i] = kind(part[i])
    return smem[: len(part)]
