# SPDX-License-Identifier: Apache-2.0
"""Reductions along a dimension other than the last: lanes take adjacent columns, rows of threads their elements.

In: an array and an operator. Out: an array without that dimension. A lane loads 16 bytes at a time where the layout
allows, else single elements. The grid fills the device once; where there are too few columns for that, blocks split
them, and a second launch combines the partial results.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.algorithms.operators import (
    INDEX_KINDS,
    Reduction,
    acc_bytes,
    accumulate,
    combine_function,
    finalize,
    identity_acc,
    partials_scratch,
)
from weft.kernels.annotations import Int, Number, Numbers
from weft.kernels.device.row import aligned, elements, index_of
from weft.kernels.device.values import map_numbers, put, shared_values, take
from weft.kernels.host.arrays import ArrayInfo
from weft.kernels.host.devices import capabilities, multiprocessors_of

_THREADS: Final = (1024, 512, 256)
"""Sizes of a block; the smallest where the grid takes more than one wave."""
_RESIDENT: Final = 2048  # threads of a multiprocessor, with 32 registers each
_ON_CPU: Final = 16  # a CPU counts as that many multiprocessors
_ACC_BYTES: Final = 32  # of a thread's accumulators: eight registers
_IN_FLIGHT: Final = 8  # vector loads of a thread in flight
_SCALARS_IN_FLIGHT: Final = 16  # loads of single elements
_FULL: Final = 0.85  # of a full wave is enough
_SEGMENT: Final = 8  # lanes of 16 bytes read a 128-byte line
_LONG: Final = 1024  # elements of a column that pay for more threads
_MOST_LENGTH: Final = 1 << 30  # of a part: indices within it are i32
_LAST_THREADS: Final = 8  # for each column of partial results


class ColumnReduceConfig(NamedTuple):
    """Launch configuration for reductions of columns; constants.

    Attributes:
        lanes: blockDim.x, a power of two: threads on adjacent columns.
        lines: blockDim.y: threads that share a column.
        width: columns of a thread, loaded at once.
        is_split: whether columns are split over blocks.
        overlaps: whether the second launch is a programmatic dependent launch.
    """

    lanes: int
    lines: int
    width: int
    is_split: bool
    overlaps: bool

    @property
    def in_flight(self) -> int:
        """Loads of a thread in flight."""
        return _IN_FLIGHT if self.width > 1 else _SCALARS_IN_FLIGHT


@weft.kernel(max_threads=_THREADS[0], min_blocks=_RESIDENT // _THREADS[0])
def columns_kernel(
    x: weft.Tensor,
    indices: weft.Tensor | None,
    out: weft.Tensor,
    out_indices: weft.Tensor | None,
    count: weft.i64,
    axis: weft.Constexpr[int],
    config: weft.Constexpr[ColumnReduceConfig],
    op: Reduction,
) -> None:
    """A block reduces `lanes * width` columns, or a part of them.

    Args:
        x: an array.
        indices: of x's elements in the user's array; None: their own.
        out: the results, or the accumulators of parts, parts x columns.
        out_indices: of the accumulators of parts, or None.
        count: the number of elements of a result.
        axis: the dimension that is reduced.
        config: the launch configuration.
        op: the operator.
    """
    lanes, lines, width, in_flight = config.lanes, config.lines, config.width, config.in_flight
    lane, line = weft.thread_idx.x, weft.thread_idx.y
    sizes = (*x.shape[:axis], *x.shape[axis + 1 :])
    columns, corner = weft.i64(1), weft.i64(weft.block_idx.x) * (lanes * width)
    for size in sizes:
        columns *= size
    first, end, number = 0, x.shape[axis], corner + lane * width
    if config.is_split:
        unit = lines * in_flight
        size = weft.ceil_div(weft.ceil_div(end, out.shape[0]), unit) * unit
        first = min(size * weft.block_idx.y, end)
        end = min(first + size, end)
    if config.overlaps and not config.is_split:
        weft.grid_dependency_wait()
    acc = tuple([identity_acc(op, x.dtype, line, end - first) for _ in weft.static_range(width)])
    if number < columns:
        *others, inner = index_of(number, sizes)
        plane = x[(*others[:axis], slice(None), *others[axis:])] if others else x
        whole = first + (end - first) // (lines * in_flight) * (lines * in_flight)
        for i in weft.unroll(range(first + line, whole, lines * in_flight), 1):
            found = ()
            for k in weft.static_range(in_flight):
                found = (*found, elements(aligned(plane[i + k * lines], width), inner, width))
            for k, several in enumerate(found):
                acc = _followed(op, acc, several, i + k * lines - first)
        for i in weft.unroll(range(whole + line, end, lines), 4):
            several = elements(aligned(plane[i], width), inner, width)
            acc = _followed(op, acc, several, i - first)
    if config.overlaps and config.is_split:
        weft.grid_dependency_launch()
    total, own = _reduce_lines(acc, config, op)
    number = corner + own
    if (own < lanes * width) & (number < columns):
        if op.kind in INDEX_KINDS:
            value, found = total
            index = weft.i64(first) + found
            total = value, index if indices is None else indices[found, number]
        if not config.is_split:
            out[index_of(number, out.shape)] = finalize(op, total, count, out.dtype)
        elif out_indices is None:
            out[weft.block_idx.y, number] = total
        else:
            out[weft.block_idx.y, number], out_indices[weft.block_idx.y, number] = total


@weft.device
def _followed(op: Reduction, acc: Number, several: Numbers, index: Int) -> Any:
    """Accumulates an element of each of a thread's columns."""
    pairs = zip(acc, several, strict=True)
    return tuple([accumulate(op, one, value, weft.i32(index)) for one, value in pairs])


@weft.device
def _reduce_lines(acc: Number, config: ColumnReduceConfig, op: Reduction) -> tuple[Any, Any]:
    """Combines the accumulators of a block's columns through shared memory.

    Returns:
        The accumulator of one column for each thread, adjacent columns in adjacent threads, and that column's index
        in the block.
    """
    lanes, width = config.lanes, config.width
    group = weft.WARP_SIZE // lanes  # threads of a column in a warp
    for step in _distances(lanes):
        others = [map_numbers(lambda one, step=step: weft.shfl_xor(one, step), one) for one in acc]
        pairs = zip(acc, others, strict=True)
        acc = tuple([combine_function(op)(one, other) for one, other in pairs])
    lane, line, lines = weft.thread_idx.x, weft.thread_idx.y, config.lines // group
    # Padded, so that adjacent threads read from different banks.
    pitch = lanes + weft.ceil_div(lanes, width)
    values = shared_values(acc[0], lines * width * pitch)
    for k, one in enumerate(acc):
        if line % group == 0:
            put(values, (line // group * width + k) * pitch + lane, one)
    weft.sync_threads()
    own = line * lanes + lane
    index = own % width * pitch + own // width
    total = acc[0]
    if own < lanes * width:
        total = take(values, index)
        for other in weft.unroll(range(1, lines), 8):
            total = combine_function(op)(total, take(values, other * width * pitch + index))
    return total, own


def _distances(lanes: int) -> list[int]:
    """Lane distances between the threads of a column in one warp; computed when compiling."""
    return [1 << k for k in range(weft.WARP_SIZE.bit_length()) if lanes <= 1 << k < weft.WARP_SIZE]


@weft.jit
def reduce_columns(
    x: weft.Tensor,
    out: weft.Tensor,
    parts: weft.i32,
    count: weft.i64,
    axis: weft.Constexpr[int],
    config: weft.Constexpr[ColumnReduceConfig],
    op: Reduction,
) -> None:
    """One launch, or two where columns are split; arguments as of `columns_kernel`."""
    indices, columns = None, out.size
    if config.is_split:
        values, out_indices = partials_scratch(op, x.dtype, (parts, columns))
        columns_kernel(x, None, values, out_indices, count, axis, config, op).launch(
            grid=(weft.ceil_div(columns, config.lanes * config.width), parts),
            block=(config.lanes, config.lines),
        )
        x, indices, axis = values, out_indices, 0
        config = config._replace(lanes=weft.WARP_SIZE, lines=_LAST_THREADS, width=1, is_split=False)
    columns_kernel(x, indices, out, None, count, axis, config, op).launch(
        grid=weft.ceil_div(columns, config.lanes * config.width),
        block=(config.lanes, config.lines),
        programmatic=config.overlaps,
    )


def column_config(
    source: ArrayInfo, axis: int, columns: int, op: Reduction
) -> tuple[ColumnReduceConfig, int]:
    """The configuration for a reduction along a dimension, and the number of parts of a column."""
    length, width = source.shape[axis], source.width
    while width * acc_bytes(op, source.dtype) > _ACC_BYTES:
        width //= 2
    places = multiprocessors_of(source.device) or _ON_CPU
    lanes = weft.WARP_SIZE
    while lanes > 1 and lanes // 2 * width >= columns:
        lanes //= 2
    blocks, lines, parts, most = -(-columns // (lanes * width)), 1, 1, 1
    for threads in _THREADS:
        lines, most = threads // lanes, places * (_RESIDENT // threads)
        fitting = min(most // blocks, length // (lines * _SCALARS_IN_FLIGHT))
        parts = max(1, fitting)
        if _FULL * most <= parts * blocks <= most:
            break
    if most < blocks < 4 * most and length >= _LONG:
        lines, lanes = lines * (lanes // _SEGMENT), _SEGMENT
    parts = max(parts, -(-length // _MOST_LENGTH))
    overlaps = parts > 1 and capabilities(source.device).griddepcontrol
    return ColumnReduceConfig(lanes, lines, width, parts > 1, overlaps), parts
