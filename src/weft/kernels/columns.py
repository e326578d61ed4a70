# SPDX-License-Identifier: Apache-2.0
"""Reductions along another dimension than the last: the lanes of a warp take neighboring columns.

In: an array, and what is combined. Out: an array without that dimension. Lanes read 16 bytes of neighbors where the
array lies so, else an element each.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, Int32, Int64
from weft.kernels.combining import (
    PLACES,
    How,
    begin,
    combiner,
    finished,
    followed,
    partial_results,
)
from weft.kernels.rows import elements, index_of
from weft.kernels.views import aligned
from weft.language.control import ceil_div, static_range, unroll
from weft.language.numbers.math import min as lesser
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.values import board, put, take
from weft.types.dtype import i32, i64
from weft.types.launch_limits import WARP_SIZE

LINES: Final = 8
"""Warps of a block."""
_AT_ONCE: Final = 4  # accesses of a thread that are under way


@jit
def reduce_columns(
    x: Array,
    out: Array,
    parts: Int32,
    count: Int64,
    axis: Constant,
    is_cut: Constant,
    width: Constant,
    how: Constant,
) -> None:
    """One launch, or two where columns are cut into parts; arguments as of `columns_kernel`."""
    at, columns, block = None, out.size, (WARP_SIZE, LINES)
    if is_cut:
        values, places = partial_results(how, x.dtype, (parts, columns))
        columns_kernel(x, None, values, places, count, axis, True, width, how).launch(
            grid=(ceil_div(columns, WARP_SIZE * width), parts), block=block
        )
        x, at, axis, width = values, places, 0, 1
    columns_kernel(x, at, out, None, count, axis, False, width, how).launch(
        grid=ceil_div(columns, WARP_SIZE * width), block=block
    )


@kernel
def columns_kernel(
    x: Array,
    at: Array | None,
    out: Array,
    places: Array | None,
    count: Int64,
    axis: Constant,
    is_part: Constant,
    width: Constant,
    how: Constant,
) -> None:
    """A block: `width` columns for each lane of a warp, or a part of them; each warp takes some of their elements.

    Args:
        x: an array.
        at: the places of its elements; None: their indices.
        out: the results; those of parts are parts x columns, of the type that is carried.
        places: those of the results of parts, or None.
        count: elements of a result.
        axis: the dimension that columns run along.
        is_part: whether each block has a part of its columns.
        width: neighbors of an access.
        how: what is combined.
    """
    lane, line = thread_idx.x, thread_idx.y
    sizes = (*x.shape[:axis], *x.shape[axis + 1 :])
    columns, number = i64(1), (i64(block_idx.x) * WARP_SIZE + lane) * width
    for size in sizes:
        columns *= size
    first, end = 0, x.shape[axis]
    if is_part:
        size = ceil_div(end, out.shape[0])
        first = lesser(size * block_idx.y, end)
        end = lesser(first + size, end)
    carried = tuple([begin(how, x.dtype) for _ in static_range(width)])
    if number < columns:
        *others, inner = index_of(number, sizes)
        plane = x[(*others[:axis], slice(None), *others[axis:])] if others else x
        for i in unroll(range(first + line, end, LINES), _AT_ONCE):
            found = elements(aligned(plane[i], width), inner, width)
            pairs = zip(carried, found, strict=True)
            carried = tuple([followed(how, one, value, i32(i)) for one, value in pairs])
    for k, one in enumerate(carried):
        total = _over_lines(one, how)
        if (line == 0) & (number < columns):
            if how.kind in PLACES:
                value, found = total
                total = value, i64(found) if at is None else at[found, number + k]
            if is_part:
                if places is None:
                    out[block_idx.y, number + k] = total
                else:
                    out[block_idx.y, number + k], places[block_idx.y, number + k] = total
            else:
                out[index_of(number + k, out.shape)] = finished(how, total, count, out.dtype)


def _over_lines(carried: Any, how: How) -> Any:
    """What the warps of a block have in the same lanes, combined, in the first warp."""
    lane, line = thread_idx.x, thread_idx.y
    values = board(carried, LINES * WARP_SIZE)
    put(values, line * WARP_SIZE + lane, carried)
    sync_threads()
    for other in static_range(1, LINES):
        if line == 0:
            carried = combiner(how)(carried, take(values, other * WARP_SIZE + lane))
    return carried
