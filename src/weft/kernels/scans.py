# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.cumsum``: running totals of each row, in three launches.

In: an array of any rank and layout. Out: one of its shape. The first launch adds each part of a row, the second one
makes of these what is before each part, the third one scans the parts. A row of one part takes the third one alone.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, Int32, given, output
from weft.kernels.rows import result_name, row_count, row_of, sum_type, threads_for
from weft.language.control import ceil_div
from weft.language.memory.scratch import scratch
from weft.language.threads.grid import block_dim, block_idx, thread_idx
from weft.primitives.block.exchanges import to_blocked, to_striped
from weft.primitives.block.reductions import sum as block_sum
from weft.primitives.block.scans import exclusive_scan, scan
from weft.primitives.block.transfers import load, store

_ITEMS: Final = 8
_MOST_THREADS: Final = 256


def cumsum(x: Any, out: Any = None) -> Any:
    """The running totals of each row: element i is the sum of the elements up to i of the last dimension.

    Floats are added as f32, or f64 for f64, and rounded to their type at the end; integers and bools give 64-bit
    integers. Equal calls give equal bits.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        out: an array of the result's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array of numbers.
        ValueError: for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.cumsum(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
        [[1, 3, 6], [4, 9, 15]]
    """
    source = given(x, "x")
    dtype, name = result_name(source.dtype, source.type_name)
    out = output(source, source.shape, dtype, name, out)
    columns = source.shape[-1]
    if columns and source.rows:
        threads = threads_for(columns, _ITEMS)
        threads = threads if threads < _MOST_THREADS else _MOST_THREADS
        _cumsum(x, out, threads, columns > threads * _ITEMS)
    return out


@jit
def _cumsum(x: Array, out: Array, threads: Constant, is_cut: Constant) -> None:
    rows, parts = row_count(x.shape), ceil_div(x.shape[-1], threads * _ITEMS)
    if is_cut:
        before = scratch((rows, parts), sum_type(x.dtype))
        sum_parts_kernel(x, before).launch(grid=rows * parts, block=threads)
        scan_parts_kernel(before, threads).launch(grid=rows, block=threads)
        scan_kernel(x, out, before, parts).launch(grid=rows * parts, block=threads)
    else:
        scan_kernel(x, out, None, 1).launch(grid=rows, block=threads)


def part_of(x: Any, row: Any, first: Any) -> Any:
    """A thread's striped items of a part of a row."""
    wide = sum_type(x.dtype)
    return [wide(value) for value in load(row_of(x, row), first, _ITEMS, order="striped")]


@kernel
def sum_parts_kernel(x: Array, sums: Array) -> None:
    """A block: the sum of a part."""
    row, part = divmod(block_idx.x, sums.shape[1])
    total = block_sum(part_of(x, row, part * _ITEMS * block_dim.x))
    if thread_idx.x == 0:
        sums[row, part] = total


@kernel
def scan_parts_kernel(sums: Array, threads: Constant) -> None:
    """A block: the sums of a row's parts become what is before each."""
    row = sums[block_idx.x]
    total = sums.dtype(0)
    for first in range(0, len(row), threads):
        i = first + thread_idx.x
        own = row[i] if i < len(row) else sums.dtype(0)
        before, of_round = exclusive_scan(own, with_total=True)
        if i < len(row):
            row[i] = total + before
        total += of_round


@kernel
def scan_kernel(x: Array, out: Array, before: Array | None, parts: Int32) -> None:
    """A block: the running totals of a part."""
    row, part = divmod(block_idx.x, parts)
    first = part * _ITEMS * block_dim.x
    totals = scan(to_blocked(part_of(x, row, first)))
    if before is not None:
        totals = [total + before[row, part] for total in totals]
    totals = to_striped([out.dtype(total) for total in totals])
    store(row_of(out, row), first, totals, order="striped")
