# SPDX-License-Identifier: Apache-2.0
"""Rows that are on their way while a block or a cluster computes others: rings of buffers, which the copy engine fills.

Traced in kernels whose blocks take one row after the other. In: arrays of one shape, and a `Spread` with stages. Out:
the block's parts of their rows, in shared memory. What all rows have in common stays there, too.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.device.row import row_count, row_of, sum_type
from weft.kernels.device.row_mapping import part_of
from weft.language.asynchronous.bulk_copy import bulk_copy
from weft.language.asynchronous.mbarrier import mbarrier
from weft.language.control import static_range
from weft.language.memory.shared import shared
from weft.language.threads.grid import grid_dim, thread_idx


def ring_of(arrays: Any, spread: Any) -> Any:
    """A ring of buffers for each array, and the barriers that tell when one buffer of each is full."""
    shape = spread.stages, spread.threads * spread.items
    return [shared(shape, a.dtype) for a in arrays], mbarrier(spread.stages, arrivals=1)


def step_of(spread: Any) -> Any:
    """How far apart the rows are that a block or a cluster takes."""
    return grid_dim.x // spread.blocks


def begin_all(arrays: Any, ring: Any, number: Any, spread: Any) -> None:
    """Begins to copy the first rows, from that number on."""
    for stage in static_range(spread.stages):
        begin(arrays, ring, number + stage * step_of(spread), stage, spread)


def begin(arrays: Any, ring: Any, number: Any, state: Any, spread: Any) -> None:
    """Begins to copy the row of that number, if there is one, into buffers that no thread reads any more."""
    buffers, full = ring
    if thread_idx.x == 0 and number < row_count(arrays[0].shape):
        parts = [part_of(row_of(a, number, spread.width), spread) for a in arrays]
        full[state].arrive(expect_bytes=sum(len(one) * one.dtype.itemsize for one in parts))
        for part, buffer in zip(parts, buffers, strict=True):
            if len(part) > 0:
                bulk_copy(buffer[state][: len(part)], part, full[state])


def wait(ring: Any, state: Any, count: Any) -> Any:
    """This block's parts of a row of each array, so many elements, when they are there."""
    buffers, full = ring
    full[state].wait()
    return [buffer[state][:count] for buffer in buffers]


def kept(vector: Any, dtype: Any, spread: Any) -> Any:
    """This block's part of a vector, for rows of a type, in shared memory after the next barrier; None for None."""
    if vector is None:
        return None
    part = part_of(vector, spread)
    wide = sum_type(dtype)
    kind = vector.dtype if vector.dtype.itemsize <= wide.itemsize else wide
    board = shared(spread.threads * spread.items, kind)
    for i in range(thread_idx.x, len(part), spread.threads):
        board[i] = kind(part[i])
    return board[: len(part)]
