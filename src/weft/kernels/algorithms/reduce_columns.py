# SPDX-License-Identifier: Apache-2.0
"""Reductions along another dimension than the last: lanes take neighboring columns, lines of a block their elements.

In: an array, and what is combined. Out: an array without that dimension. Lanes read 16 bytes of neighbors where the
array lies so, else an element each. As many blocks run at once as the device holds; where there are fewer columns than
that, blocks share them, and a second launch combines what they gave.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.kernels.algorithms.operators import (
    PLACES,
    How,
    begin,
    carried_bytes,
    combiner,
    finished,
    followed,
    partial_results,
)
from weft.kernels.device.row import elements, index_of
from weft.kernels.device.views import aligned
from weft.kernels.host.arrays import Array, Constant, Given, Int32, Int64
from weft.kernels.host.devices import capabilities, multiprocessors_of
from weft.language.control import ceil_div, static_range, unroll
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.dependencies import grid_dependency_launch, grid_dependency_wait
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.threads import ALL
from weft.primitives.values import board, moved, put, take
from weft.types.dtype import i32, i64
from weft.types.launch_limits import WARP_SIZE

_THREADS: Final = (1024, 512, 256)
"""Of a block; the fewest take turns where there are more columns than blocks at once."""
_RESIDENT: Final = 2048  # threads of a multiprocessor, of which each has 32 registers
_ON_CPU: Final = 16  # multiprocessors that a CPU counts as
_CARRIED_BYTES: Final = 32  # of a thread's columns: eight registers
_AT_ONCE: Final = 8  # accesses of a thread that are under way
_SINGLES_AT_ONCE: Final = 16  # of an element each
_FULL: Final = 0.85  # of the blocks at once that are enough
_SEGMENT: Final = 8  # lanes that still read 128 bytes of neighbors
_LONG: Final = 1024  # elements of a column that are worth more lines
_MOST_LENGTH: Final = 1 << 30  # of a part: places within it are i32
_LAST_LINES: Final = 8


class Plan(NamedTuple):
    """How columns are reduced; constants.

    Attributes:
        lanes: threads of a block side by side, a power of two.
        lines: threads of a block that share each column.
        width: neighbors of an access.
        is_cut: whether columns are cut into parts.
        overlaps: whether the device begins the second launch before the first one has ended.
    """

    lanes: int
    lines: int
    width: int
    is_cut: bool
    overlaps: bool

    @property
    def at_once(self) -> int:
        """Accesses of a thread that are under way."""
        return _AT_ONCE if self.width > 1 else _SINGLES_AT_ONCE


def plan_for(source: Given, axis: int, columns: int, how: How) -> tuple[Plan, int]:
    """How the columns of an array are reduced along a dimension, and in how many parts."""
    length, width = source.shape[axis], source.width
    while width * carried_bytes(how, source.dtype) > _CARRIED_BYTES:
        width //= 2
    places = multiprocessors_of(source.device) or _ON_CPU
    lanes = WARP_SIZE
    while lanes > 1 and lanes // 2 * width >= columns:
        lanes //= 2
    blocks, lines, parts, most = -(-columns // (lanes * width)), 1, 1, 1
    for threads in _THREADS:
        lines, most = threads // lanes, places * (_RESIDENT // threads)
        fitting = min(most // blocks, length // (lines * _SINGLES_AT_ONCE))
        parts = max(1, fitting)
        if _FULL * most <= parts * blocks <= most:
            break
    if most < blocks < 4 * most and length >= _LONG:
        lines, lanes = lines * (lanes // _SEGMENT), _SEGMENT
    parts = max(parts, -(-length // _MOST_LENGTH))
    overlaps = parts > 1 and capabilities(source.device).griddepcontrol
    return Plan(lanes, lines, width, parts > 1, overlaps), parts


@jit
def reduce_columns(
    x: Array,
    out: Array,
    parts: Int32,
    count: Int64,
    axis: Constant,
    plan: Constant,
    how: How,
) -> None:
    """One launch, or two where columns are cut into parts; arguments as of `columns_kernel`."""
    at, columns = None, out.size
    if plan.is_cut:
        values, places = partial_results(how, x.dtype, (parts, columns))
        columns_kernel(x, None, values, places, count, axis, plan, how).launch(
            grid=(ceil_div(columns, plan.lanes * plan.width), parts), block=(plan.lanes, plan.lines)
        )
        x, at, axis = values, places, 0
        plan = plan._replace(lanes=WARP_SIZE, lines=_LAST_LINES, width=1, is_cut=False)
    columns_kernel(x, at, out, None, count, axis, plan, how).launch(
        grid=ceil_div(columns, plan.lanes * plan.width),
        block=(plan.lanes, plan.lines),
        programmatic=plan.overlaps,
    )


@kernel(max_threads=_THREADS[0], min_blocks=_RESIDENT // _THREADS[0])
def columns_kernel(
    x: Array,
    at: Array | None,
    out: Array,
    places: Array | None,
    count: Int64,
    axis: Constant,
    plan: Constant,
    how: How,
) -> None:
    """A block: `width` columns for each lane, or a part of them; each line takes some of their elements.

    Args:
        x: an array.
        at: the places of its elements; None: their indices.
        out: the results; those of parts are parts x columns, of the type that is carried.
        places: those of the results of parts, or None.
        count: elements of a result.
        axis: the dimension that columns run along.
        plan: how; whether there is more than one part of a column.
        how: what is combined.
    """
    lanes, lines, width, at_once = plan.lanes, plan.lines, plan.width, plan.at_once
    lane, line = thread_idx.x, thread_idx.y
    sizes = (*x.shape[:axis], *x.shape[axis + 1 :])
    columns, corner = i64(1), i64(block_idx.x) * (lanes * width)
    for size in sizes:
        columns *= size
    first, end, number = 0, x.shape[axis], corner + lane * width
    if plan.is_cut:
        unit = lines * at_once
        size = ceil_div(ceil_div(end, out.shape[0]), unit) * unit
        first = lesser(size * block_idx.y, end)
        end = lesser(first + size, end)
    if plan.overlaps and not plan.is_cut:
        grid_dependency_wait()
    carried = tuple([begin(how, x.dtype, line, end - first) for _ in static_range(width)])
    if number < columns:
        *others, inner = index_of(number, sizes)
        plane = x[(*others[:axis], slice(None), *others[axis:])] if others else x
        whole = first + (end - first) // (lines * at_once) * (lines * at_once)
        for i in unroll(range(first + line, whole, lines * at_once), 1):
            found = ()
            for k in static_range(at_once):
                found = (*found, elements(aligned(plane[i + k * lines], width), inner, width))
            for k, several in enumerate(found):
                carried = _followed(how, carried, several, i + k * lines - first)
        for i in unroll(range(whole + line, end, lines), 4):
            several = elements(aligned(plane[i], width), inner, width)
            carried = _followed(how, carried, several, i - first)
    if plan.overlaps and plan.is_cut:
        grid_dependency_launch()
    total, own = _over_lines(carried, plan, how)
    number = corner + own
    if (own < lanes * width) & (number < columns):
        if how.kind in PLACES:
            value, found = total
            place = i64(first) + found
            total = value, place if at is None else at[found, number]
        if not plan.is_cut:
            out[index_of(number, out.shape)] = finished(how, total, count, out.dtype)
        elif places is None:
            out[block_idx.y, number] = total
        else:
            out[block_idx.y, number], places[block_idx.y, number] = total


def _followed(how: How, carried: Any, several: Any, place: Any) -> Any:
    """What a thread has of each of its columns, with one more element of each."""
    pairs = zip(carried, several, strict=True)
    return tuple([followed(how, one, value, i32(place)) for one, value in pairs])


def _over_lines(carried: Any, plan: Plan, how: How) -> tuple[Any, Any]:
    """What the lines of a block have of a column, combined, and which of its columns that is.

    Each thread combines one column, neighbors neighboring ones.
    """
    lanes, width = plan.lanes, plan.width
    group = WARP_SIZE // lanes  # lines of a warp
    for step in _distances(lanes):
        carried = tuple([combiner(how)(one, moved("xor", one, step, ALL)) for one in carried])
    lane, line, lines = thread_idx.x, thread_idx.y, plan.lines // group
    # Neighbors then read from different banks.
    pitch = lanes + ceil_div(lanes, width)
    values = board(carried[0], lines * width * pitch)
    for k, one in enumerate(carried):
        if line % group == 0:
            put(values, (line // group * width + k) * pitch + lane, one)
    sync_threads()
    own = line * lanes + lane
    place = own % width * pitch + own // width
    total = carried[0]
    if own < lanes * width:
        total = take(values, place)
        for other in unroll(range(1, lines), 8):
            total = combiner(how)(total, take(values, other * width * pitch + place))
    return total, own


def _distances(lanes: int) -> list[int]:
    """Between the lines that a warp has, of fewer lanes; computed when compiling."""
    return [1 << k for k in range(WARP_SIZE.bit_length()) if lanes <= 1 << k < WARP_SIZE]
