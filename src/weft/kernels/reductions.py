# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.sum``, ``max`` and ``min``: over the last dimension, or over all.

In: an array of any rank and layout. Out: an array without the last dimension, or of no dimension. A long row is cut
into parts, one per block, and what they gave is combined by a second launch, always in the same order.
"""

from __future__ import annotations

import math
from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, Given, Int32, given, output
from weft.kernels.rows import index_of, result_name, row_count, row_of, sum_type, threads_for
from weft.language.control import ceil_div, unroll
from weft.language.memory.scratch import scratch
from weft.language.numbers.math import min as lesser
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.reductions import reduce
from weft.primitives.block.reductions import sum as block_sum

_ITEMS: Final = 16  # that a thread has at least before a row is cut
_BLOCKS: Final = 1024  # that are enough for any device


def sum(x: Any, axis: int | None = None, out: Any = None) -> Any:
    """The sum of all elements, or of each row.

    Floats are added as f32, or f64 for f64, and rounded to their type at the end; integers and bools give 64-bit
    integers. The order of additions depends on the shape alone, so that equal calls give equal bits.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        axis: -1 for the rows of the last dimension; None for all.
        out: an array of the result's shape and type; None: a new one of x's library.

    Returns:
        `out`, or the new array; of no dimension for ``axis=None``.

    Raises:
        TypeError: for something else than an array of numbers.
        ValueError: for another axis; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.sum(np.arange(6).reshape(2, 3), axis=-1).tolist()
        [3, 12]
        >>> float(weft.kernels.sum(np.ones(1000, np.float16)))
        1000.0
    """
    return _reduced(x, axis, out, "sum")


def max(x: Any, axis: int | None = None, out: Any = None) -> Any:
    """The largest of all elements, or of each row; NaN if there is one.

    Arguments, result and errors as in `sum`; an array without elements is a `ValueError`, and the result has x's
    type.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.max(np.array([[1, 5], [7, 2]]), axis=-1).tolist()
        [5, 7]
    """
    return _reduced(x, axis, out, "max")


def min(x: Any, axis: int | None = None, out: Any = None) -> Any:
    """The smallest of all elements, or of each row; NaN if there is one.

    Arguments, result and errors as in `sum`; an array without elements is a `ValueError`, and the result has x's
    type.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.min(np.array([[1, 5], [7, 2]]), axis=-1).tolist()
        [1, 2]
    """
    return _reduced(x, axis, out, "min")


def _reduced(x: Any, axis: int | None, out: Any, kind: str) -> Any:
    if axis not in (None, -1):
        raise ValueError(f"axis is {axis!r}, expected -1 or None")
    source = given(x, "x")
    dtype, name = source.dtype, source.type_name
    if kind == "sum":
        dtype, name = result_name(dtype, name)
    elif not source.shape[-1] or (axis is None and not source.rows):
        raise ValueError(f"x has shape {source.shape}: an array without elements has no {kind}")
    shape = source.shape[:-1] if axis == -1 else ()
    out = output(source, shape, dtype, name, out)
    if axis == -1 or len(source.shape) == 1:
        if source.rows:
            _call(source, x, out, kind)
        return out
    # Rows first, then what they gave, in the type of the sum.
    wide = sum_type(source.dtype) if kind == "sum" else source.dtype
    wide_name = _NAMES.get(wide.name, source.type_name)
    while len(source.shape) > 1:
        part = output(source, source.shape[:-1], wide, wide_name)
        if source.rows:
            _call(source, x, part, kind)
        x = part
        source = given(x, "x")
    _call(source, x, out, kind)
    return out


_NAMES: Final = {"f32": "float32", "f64": "float64", "i64": "int64", "u64": "uint64"}


def _call(source: Given, x: Any, out: Any, kind: str) -> None:
    columns = source.shape[-1]
    threads = threads_for(columns, 8)
    wanted = -(-_BLOCKS // source.rows)
    parts = columns // (threads * _ITEMS)
    parts = 1 if parts < 2 else parts if parts < wanted else wanted
    _reduce(x, out, parts, threads, kind, parts > 1)


@jit
def _reduce(
    x: Array,
    out: Array,
    parts: Int32,
    threads: Constant,
    kind: Constant,
    is_cut: Constant,
) -> None:
    rows = row_count(x.shape)
    if is_cut:
        of_parts = scratch((rows, parts), sum_type(x.dtype) if kind == "sum" else x.dtype)
        reduce_kernel(x, of_parts, threads, kind, True).launch(grid=(rows, parts), block=threads)
        reduce_kernel(of_parts, out, threads, kind, False).launch(grid=rows, block=threads)
    else:
        reduce_kernel(x, out, threads, kind, False).launch(grid=rows, block=threads)


@kernel
def reduce_kernel(
    x: Array, out: Array, threads: Constant, kind: Constant, is_part: Constant
) -> None:
    """A block: a row, or a part of one."""
    row = row_of(x, block_idx.x)
    first, end = 0, len(row)
    if is_part:
        size = ceil_div(end, out.shape[1])
        first = size * block_idx.y
        end = lesser(first + size, end)
    wide, combine = (sum_type(x.dtype), added) if kind == "sum" else (x.dtype, _EXTREMES[kind])
    total = wide(neutral(wide, kind))
    for i in unroll(range(first + thread_idx.x, end, threads), 4):
        total = combine(total, wide(row[i]))
    total = block_sum(total) if kind == "sum" else reduce(total, combine)
    if thread_idx.x == 0:
        if is_part:
            out[block_idx.x, block_idx.y] = total
        else:
            out[index_of(block_idx.x, out.shape)] = out.dtype(total)


def added(one: Any, other: Any) -> Any:
    """The sum of two values."""
    return one + other


def larger(one: Any, other: Any) -> Any:
    """The larger value, or NaN."""
    return one if one > other or one != one else other


def smaller(one: Any, other: Any) -> Any:
    """The smaller value, or NaN."""
    return one if one < other or one != one else other


_EXTREMES: Final = {"max": larger, "min": smaller}


def neutral(dtype: Any, kind: str) -> float:
    """What changes no result; computed when compiling."""
    if kind == "sum":
        return 0
    if dtype.is_float:
        return -math.inf if kind == "max" else math.inf
    return dtype.minimum if kind == "max" else dtype.maximum
