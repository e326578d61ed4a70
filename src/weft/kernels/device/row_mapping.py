# SPDX-License-Identifier: Apache-2.0
"""Row mappings: a row of an array to a warp, to a block, or to the blocks of a cluster.

In: the length of rows, their alignment and the device. Out: a `RowMapping`, the rule for all kernels that keep rows in
registers; in kernels, a thread's elements of its row.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Arguments, Bool, Function, Int, Number, Numbers, Shape
from weft.kernels.device import row as rows
from weft.kernels.device.row import SHORT, elements, put_elements, row_count, threads_for
from weft.kernels.host.devices import capabilities, multiprocessors_of

_WHOLE: Final = 64  # multiprocessors; parts of a GPU have fewer
_BLOCK: Final = 256  # threads of a block whose rows stream
_LARGE: Final = (
    32768  # bytes of the largest part of a row that streams: two of it, and three of smaller ones
)


class RowLimits(NamedTuple):
    """Limits of a kernel's row mappings.

    Attributes:
        items: elements that a thread keeps of each array; half as many of 64 bits.
        threads: of a block, at most.
        streams_from: elements of rows that stream, more than these.
        arrays: that come through rings then; 0: rows never stream.
    """

    items: int
    threads: int
    streams_from: int = 0
    arrays: int = 0


class RowMapping(NamedTuple):
    """Mapping of a row to threads; a constant of kernels.

    Attributes:
        blocks: that take it, a cluster; 1: a block or a warp.
        threads: of each block that take it.
        items: elements that a thread keeps in registers; 0: it reads them again for each sum.
        width: consecutive elements per access.
        is_whole: whether rows are as long as this holds, so that no thread has less.
        stages: of `row_pipeline`, for blocks and clusters that take row after row; 0: they take one.
    """

    blocks: int
    threads: int
    items: int
    width: int
    is_whole: bool = False
    stages: int = 0


def row_mapping_for(
    columns: int, width: int, dtype: weft.DType, device: weft.ffi.Device, limits: RowLimits
) -> RowMapping:
    """Chooses a warp, a block, or a cluster per row, the last for long rows on devices with clusters.

    The rule was found by measurement on an H200: threads keep as much as they can, so that more loads are in flight;
    long rows stream through clusters with blocks of 256 threads. GPUs from sm_120 on have too little shared memory for
    that.

    Args:
        columns: elements of a row.
        width: consecutive elements per access.
        dtype: of the elements.
        device: that the rows are on.
        limits: of the kernel.
    """

    def mapping(blocks: int, threads: int, items: int, stages: int = 0) -> RowMapping:
        held = blocks * threads * items
        return RowMapping(
            blocks, threads, items if held >= columns else 0, width, held == columns, stages
        )

    most = most_blocks(device)
    items = limits.items * 4 // max(dtype.itemsize, 4)
    if columns <= SHORT:
        return mapping(1, weft.WARP_SIZE, SHORT // weft.WARP_SIZE)
    is_streamed = limits.arrays and most > 1 and capabilities(device).clusters_16
    if (
        is_streamed
        and columns > limits.streams_from
        and width * dtype.itemsize == weft.VECTOR_BYTES
    ):
        if columns <= _BLOCK * items:
            items = max(items // 2, width)
            return mapping(1, threads_for(columns, items), items, 2)
        for threads in (_BLOCK, 2 * _BLOCK):
            part = threads * items
            size = part * dtype.itemsize
            if columns <= most * part and size <= _LARGE:
                return mapping(_power(columns, part), threads, items, 2 if size == _LARGE else 3)
    if columns <= limits.threads * items or most == 1:
        return mapping(1, min(threads_for(columns, items), limits.threads), items)
    threads = min(
        2 * _BLOCK if columns <= most * 2 * _BLOCK * items else weft.MAX_THREADS, limits.threads
    )
    return mapping(min(_power(columns, threads * items), most), threads, items)


def most_blocks(device: weft.ffi.Device) -> int:
    """Most blocks of a cluster: 16 on GPUs with whole groups of multiprocessors, 8 from sm_90 on, 1 elsewhere."""
    machine = capabilities(device)
    if not machine.clusters:
        return 1
    return 16 if machine.clusters_16 and multiprocessors_of(device) >= _WHOLE else 8


def _power(columns: int, part: int) -> int:
    """The smallest power of two of parts that hold that many."""
    return 1 << (-(-columns // part) - 1).bit_length()


def grid_of(shape: Shape, mapping: RowMapping) -> Shape:
    """Blocks for the rows of an array; traced in host functions."""
    return rows.grid_of(shape, mapping.threads) * mapping.blocks


def block_of(mapping: RowMapping) -> Shape:
    """The shape of a block."""
    return rows.block_of(mapping.threads)


def cluster_of(mapping: RowMapping) -> Int:
    """The blocks of a cluster; None without one."""
    return mapping.blocks if mapping.blocks > 1 else None


def launch_rows(
    kernel: Function,
    stream_kernel: Function,
    shape: Shape,
    mapping: RowMapping,
    arguments: Arguments,
) -> None:
    """Launches a kernel for the rows of an array, that of rows that stream where they do; traced in host functions."""
    block, cluster = block_of(mapping), cluster_of(mapping)
    if mapping.stages:
        groups = min(row_count(shape), stream_kernel.max_clusters(mapping.blocks))
        stream_kernel(*arguments).launch(grid=groups * mapping.blocks, block=block, cluster=cluster)
    else:
        kernel(*arguments).launch(grid=grid_of(shape, mapping), block=block, cluster=cluster)


@weft.device
def row_number(mapping: weft.Constexpr[RowMapping]) -> Int:
    """The number of this thread's row; traced in kernels."""
    return rows.row_number(mapping.threads) // mapping.blocks


@weft.device
def is_past_end(number: Int, shape: Shape, mapping: weft.Constexpr[RowMapping]) -> Bool:
    """Whether there is no row of that number, where the last block may have more warps than there are rows."""
    return number >= row_count(shape) if mapping.threads == weft.WARP_SIZE else False


@weft.device
def part_of(row: weft.Tensor, mapping: weft.Constexpr[RowMapping]) -> weft.Tensor:
    """View of this block's part of a row."""
    if mapping.blocks == 1:
        return row
    first, end = _part(len(row), mapping)
    return row[mapping.width * first : mapping.width * end]


@weft.device
def first_column(columns: Int, mapping: weft.Constexpr[RowMapping]) -> Int:
    """The index of the first element of a row that this block takes."""
    return mapping.width * _part(columns, mapping)[0]


@weft.device
def _part(columns: Int, mapping: weft.Constexpr[RowMapping]) -> Numbers:
    """Accesses of a row by this block."""
    accesses = columns // mapping.width
    share = weft.ceil_div(accesses, mapping.blocks)
    first = min(weft.cluster_rank() * share, accesses)
    return first, min(first + share, accesses)


@weft.device
def places(mapping: weft.Constexpr[RowMapping]) -> Numbers:
    """Offsets of a thread's accesses to its part of a row that it keeps in registers."""
    return rows.places(mapping.items, mapping.threads, mapping.width)


@weft.device
def in_bounds(part: weft.Tensor, place: Int, mapping: weft.Constexpr[RowMapping]) -> Bool:
    """Tells whether an access at a thread's offset lies in the block's part of a row."""
    return True if mapping.is_whole else place < len(part)


@weft.device
def iterations(part: weft.Tensor, mapping: weft.Constexpr[RowMapping]) -> Numbers:
    """Offsets of a thread's accesses to its block's part of a row, one per iteration."""
    return range(weft.thread_idx.x * mapping.width, len(part), mapping.threads * mapping.width)


@weft.device
def load_row(row: weft.Tensor, mapping: weft.Constexpr[RowMapping], fill: Number = 0) -> Numbers:
    """A thread's elements of its block's part of a row; `fill` beyond the end."""
    found: Any = []
    for place in places(mapping):
        if in_bounds(row, place, mapping):
            part = tuple(elements(row, place, mapping.width))
        else:
            part = tuple(row.dtype(fill) for _ in weft.static_range(mapping.width))
        found += part
    return found


@weft.device
def store_row(row: weft.Tensor, values: Numbers, mapping: weft.Constexpr[RowMapping]) -> None:
    """Writes a thread's elements of a row, those that are within it."""
    width = mapping.width
    for k, place in enumerate(places(mapping)):
        if in_bounds(row, place, mapping):
            put_elements(row, place, values[k * width : (k + 1) * width])
