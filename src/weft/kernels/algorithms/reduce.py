# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.sum``, ``mean``, ``max``, ``min``, ``argmax``, ``argmin``, ``reduce``: along a dimension, or of all.

In: an array of any rank and layout. Out: an array without that dimension, or of no dimension. Long rows are split,
a part per block, and a second launch combines the partial results, always in the same order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import weft
from weft.kernels.algorithms.operators import (
    INDEX_KINDS,
    Reduction,
    accumulate,
    combine_function,
    finalize,
    identity_acc,
    partials_scratch,
)
from weft.kernels.algorithms.reduce_columns import column_config, reduce_columns
from weft.kernels.annotations import Arguments, Array, Function, Int, Number
from weft.kernels.device.row import (
    SHORT,
    aligned,
    block_of,
    elements,
    grid_of,
    index_of,
    reduced_row,
    result_name,
    row_count,
    row_number,
    row_of,
    threads_for,
)
from weft.kernels.host.arrays import ArrayInfo, describe, integer, number_of, output, unexpected
from weft.kernels.host.autograd import (
    WIDE_ON_GPUS,
    differentiable,
    function_of,
    like_total,
    name_of_function,
)
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

if TYPE_CHECKING:
    from collections.abc import Callable


_PART_BYTES: Final = 32 << 10  # bytes of a row for a block of its own
_MOST_PARTS: Final = 2112  # enough blocks for any device
_ENOUGH_ROWS: Final = 512  # with that many rows, a second launch does not pay
_MOST_THREADS: Final = 512
_LAST_THREADS: Final = 256
_LONG: Final = 1 << 15  # partial results beyond which a third launch pays
_IN_FLIGHT: Final = 4  # loads of single elements of a thread in flight; two of vectors


class RowReduceConfig(NamedTuple):
    """Launch configuration for reductions of rows; constants.

    Attributes:
        threads: of a row.
        width: elements per load.
        is_flat: whether all elements are one row.
        is_split: whether rows are split.
        is_total: whether all rows are reduced to one result.
        is_long: whether the partial results are split again.
    """

    threads: int
    width: int
    is_flat: bool
    is_split: bool
    is_total: bool
    is_long: bool


_OF_SOME: Final = frozenset(("max", "min", "argmax", "argmin"))


@weft.kernel
def rows_kernel(
    x: weft.Tensor,
    indices: weft.Tensor | None,
    out: weft.Tensor,
    out_indices: weft.Tensor | None,
    count: weft.i64,
    threads: weft.Constexpr[int],
    width: weft.Constexpr[int],
    is_total: weft.Constexpr[bool],
    op: Reduction,
) -> None:
    """A warp or a block reduces a part of a row to `out` and `out_indices`, rows x parts.

    Args:
        x: an array.
        indices: of x's elements in the user's array, of x's shape; None: their own.
        out: accumulators' values.
        out_indices: of the results, or None.
        count: unused here; the number of elements of a result.
        threads: of a row.
        width: elements per load.
        is_total: whether indices run through all rows.
        op: the operator.
    """
    number, part = row_number(threads), weft.block_idx.y
    if number < out.shape[0]:
        row = row_of(x, number, width)
        unit = threads * width
        size = weft.ceil_div(weft.ceil_div(len(row), out.shape[1]), unit) * unit
        first = weft.math.min(size * part, len(row))
        acc = _row(aligned(row[first : first + size], width), threads, width, op)
        first = weft.i64(number) * len(row) + first if is_total else weft.i64(first)
        acc = _with_index(acc, indices, number, first, op)
        if weft.thread_idx.x == 0:
            if out_indices is None:
                out[number, part] = acc
            else:
                out[number, part], out_indices[number, part] = acc


@weft.kernel
def last_rows_kernel(
    x: weft.Tensor,
    indices: weft.Tensor | None,
    out: weft.Tensor,
    count: weft.i64,
    threads: weft.Constexpr[int],
    width: weft.Constexpr[int],
    op: Reduction,
) -> None:
    """A warp or a block reduces a row to its result; arguments as of `rows_kernel`."""
    number = row_number(threads)
    if number < row_count(x.shape):
        acc = _row(row_of(x, number, width), threads, width, op)
        acc = _with_index(acc, indices, number, weft.i64(0), op)
        if weft.thread_idx.x == 0:
            out[index_of(number, out.shape)] = finalize(op, acc, count, out.dtype)


@weft.device
def _row(row: weft.Tensor, threads: Int, width: Int, op: Reduction) -> Any:
    """Reduces a row, in each of its threads; the index is that in the row."""
    n, first, step = weft.i32(len(row)), weft.thread_idx.x * width, threads * width
    acc = identity_acc(op, row.dtype, first, n)
    in_flight = 2 if width > 1 else _IN_FLIGHT
    whole = n // (step * in_flight) * (step * in_flight)
    for i in weft.unroll(range(first, whole, step * in_flight), 1):
        found = ()
        for k in weft.static_range(in_flight):
            found = (*found, *elements(row, i + k * step, width))
        for k, value in enumerate(found):
            acc = accumulate(op, acc, value, i + (k // width * step + k % width))
    for i in weft.unroll(range(whole + first, n, step), 1):
        for k, value in enumerate(elements(row, i, width)):
            acc = accumulate(op, acc, value, i + k)
    return reduced_row(acc, combine_function(op), threads)


@weft.device
def _with_index(
    acc: Number, indices: weft.Tensor | None, number: Int, first: Int, op: Reduction
) -> Any:
    """The accumulator with its index in the user's array, an i64."""
    if op.kind not in INDEX_KINDS:
        return acc
    value, index = acc
    index = first + index
    return value, index if indices is None else indices[index] if indices.ndim == 1 else indices[
        number, index
    ]


@weft.jit
def _reduce(
    x: weft.Tensor,
    out: weft.Tensor,
    parts: weft.i32,
    again: weft.i32,
    count: weft.i64,
    config: weft.Constexpr[RowReduceConfig],
    op: Reduction,
) -> None:
    threads, width = config.threads, config.width
    x, indices = x.reshape(x.size) if config.is_flat else x, None
    if config.is_split or config.is_total:
        values, out_indices = partials_scratch(op, x.dtype, (row_count(x.shape), parts))
        rows_kernel(
            x, None, values, out_indices, count, threads, width, config.is_total, op
        ).launch(grid=(grid_of(x.shape, threads), parts), block=block_of(threads))
        x, indices, threads, width = values, out_indices, _LAST_THREADS, 1
        if config.is_total:
            x, indices = (
                x.reshape(x.size),
                None if indices is None else indices.reshape(indices.size),
            )
    if config.is_long:
        values, out_indices = partials_scratch(op, x.dtype, (1, again))
        rows_kernel(x, indices, values, out_indices, count, threads, width, False, op).launch(
            grid=(1, again), block=threads
        )
        x, indices = values, out_indices
    last_rows_kernel(x, indices, out, count, threads, width, op).launch(
        grid=grid_of(x.shape, threads), block=block_of(threads)
    )


def _like_one(x: Array, axis: int | None = None) -> Array:
    rank = x.ndim
    if axis is None:
        return x.new_empty(())
    if not -rank <= axis < rank:
        raise ValueError(unexpected("axis", axis, f"None or an integer from {-rank} to {rank - 1}"))
    return x.new_empty((*x.shape[: axis % rank], *x.shape[axis % rank + 1 :]))


def _like_sum(x: Array, axis: int | None = None) -> Array:
    return like_total(x, _like_one(x, axis))


def _like_mean(x: Array, axis: int | None = None) -> Array:
    like = _like_one(x, axis)
    return like if x.is_floating_point() else like.double()


def _like_place(x: Array, axis: int | None = None) -> Array:
    return _like_one(x, axis).long()


def _spread(gradient: Array, x: Array, axis: int | None) -> Array:
    """Broadcasts a result's value to the elements of x that went into it."""
    return (gradient if axis is None else gradient.unsqueeze(axis)).expand(x.shape)


def _sum_backward(gradient: Array, _: object, x: Array, axis: int | None) -> Array:
    return _spread(gradient, x, axis), None


def _mean_backward(gradient: Array, _: object, x: Array, axis: int | None) -> Array:
    count = x.numel() if axis is None else x.shape[axis]
    return _spread(gradient, x, axis) / count if count else x.new_zeros(x.shape), None


def _extreme_backward(gradient: Array, found: Array, x: Array, axis: int | None) -> Array:
    """Equal elements share the gradient, as those of torch's `amax`; NaN counts as equal to NaN."""
    found = _spread(found.detach(), x, axis)
    is_found = (x == found) | (x.isnan() & found.isnan())
    count = is_found.sum() if axis is None else is_found.sum(axis)
    return _spread(gradient / count, x, axis).masked_fill(~is_found, 0), None


def _reduce_by_name(
    x: Array, function: Function, identity: Number, axis: int | None = None
) -> Array:
    return reduce(x, function_of(function), identity, axis)


def _like_reduced(x: Array, function: str, identity: float, axis: int | None = None) -> Array:
    return _like_one(x, axis)


def _named(x: Array, function: Function, identity: float, axis: int | None = None) -> Arguments:
    return x, name_of_function(function), identity, axis


def _reduced(
    x: Array, axis: Any, out: Array, kind: str, function: Function = None, identity: Number = None
) -> Array:
    source = describe(x, "x")
    rank, shape = len(source.shape), source.shape
    place = integer(axis)
    if axis is not None and (place is None or not -rank <= place < rank):
        raise ValueError(unexpected("axis", axis, f"None or an integer from {-rank} to {rank - 1}"))
    along = None if place is None else place % rank
    dtype, name = _result(source, kind)
    count = source.size if along is None else shape[along]
    if not count and kind in _OF_SOME:
        raise ValueError(f"x has shape {shape}: an array without elements has no {kind}")
    left = () if along is None else shape[:along] + shape[along + 1 :]
    out = output(source, left, dtype, name, out, x=x)
    others = math.prod(left)
    if not others:
        return out
    op = Reduction(kind, function, identity)
    if along is not None and along != rank - 1:
        config, parts = column_config(source, along, others, op)
        return Call(reduce_columns, (x, out, parts, count, along, config, op), out)
    return _of_rows(source, out, count, along is None, op)


def _of_rows(source: ArrayInfo, out: Array, count: int, is_whole: bool, op: Reduction) -> Call:
    is_flat = is_whole and (source.is_contiguous or not count)
    rows, columns = (1, count) if is_flat else (source.rows, source.shape[-1])
    width = source.flat_width if is_flat else source.width
    threads = weft.WARP_SIZE
    if columns > SHORT:
        threads = threads_for(columns, 2 * width if width > 1 else _IN_FLIGHT)
        threads = threads if threads < _MOST_THREADS else _MOST_THREADS
    most = _MOST_PARTS // rows if rows < _ENOUGH_ROWS else 1
    parts = _parts(columns, _PART_BYTES // source.dtype.itemsize, most)
    is_total = is_whole and rows > 1
    again = _parts(rows * parts, _LONG, _MOST_PARTS) if is_total else 1
    config = RowReduceConfig(threads, width, is_flat, parts > 1, is_total, again > 1)
    return Call(_reduce, (source.array, out, parts, again, count, config, op), out)


def _result(source: ArrayInfo, kind: str) -> tuple[weft.DType, str]:
    """The type of a result and its name."""
    if kind in INDEX_KINDS:
        return weft.i64, "int64"
    if kind == "mean" and not source.dtype.is_float:
        return weft.f64, "float64"
    if kind in ("sum", "mean"):
        return result_name(source.dtype, source.type_name)
    return source.dtype, source.type_name


def _parts(length: int, size: int, most: int) -> int:
    """The number of parts of about that size."""
    parts = -(-length // size) if length >= 2 * size else 1
    return parts if parts < most else most if most > 1 else 1


@differentiable(_like_sum, _sum_backward, autocast=WIDE_ON_GPUS, saves=frozenset())
@cached_dispatch
def sum(x: Array, axis: int | None = None, out: Array = None) -> Array:
    """The sum of all elements, or along a dimension.

    Floats are added as f32, or f64 for f64, and rounded to their type at the end; integers and bools give 64-bit
    integers. The order of additions depends on shape, layout, alignment and device alone, so that equal calls
    give equal bits.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        axis: the dimension, counted from the end if negative: -1 for rows; None for all elements.
        out: an array of the result's shape and type; None: a new one of x's library.

    Returns:
        `out`, or the new array; of no dimension for ``axis=None``.

    Raises:
        TypeError: for something else than an array of numbers.
        ValueError: for a dimension that `x` does not have; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.sum(np.arange(6).reshape(2, 3), axis=-1).tolist()
        [3, 12]
        >>> float(weft.kernels.sum(np.ones(1000, np.float16)))
        1000.0
    """
    return _reduced(x, axis, out, "sum")


@differentiable(_like_mean, _mean_backward)
@cached_dispatch
def mean(x: Array, axis: int | None = None, out: Array = None) -> Array:
    """The mean of all elements, or along a dimension: of floats in their type, of integers and bools as f64.

    An array without elements gives NaN. Arguments, result and errors as in `sum`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.mean(np.arange(6).reshape(2, 3), axis=0).tolist()
        [1.5, 2.5, 3.5]
    """
    return _reduced(x, axis, out, "mean")


@differentiable(_like_one, _extreme_backward)
@cached_dispatch
def max(x: Array, axis: int | None = None, out: Array = None) -> Array:
    """The largest of all elements, or along a dimension; NaN if there is one.

    Arguments, result and errors as in `sum`; an array without elements is a `ValueError`, and the result has x's
    type.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.max(np.array([[1, 5], [7, 2]]), axis=-1).tolist()
        [5, 7]
    """
    return _reduced(x, axis, out, "max")


@differentiable(_like_one, _extreme_backward)
@cached_dispatch
def min(x: Array, axis: int | None = None, out: Array = None) -> Array:
    """The smallest of all elements, or along a dimension; NaN if there is one.

    Arguments, result and errors as in `sum`; an array without elements is a `ValueError`, and the result has x's
    type.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.min(np.array([[1, 5], [7, 2]]), axis=-1).tolist()
        [1, 2]
    """
    return _reduced(x, axis, out, "min")


@differentiable(_like_place)
@cached_dispatch
def argmax(x: Array, axis: int | None = None, out: Array = None) -> Array:
    """The index of the largest element, along a dimension or in flat order; an i64.

    Of equal elements it is the first one; NaN counts as the largest, as in NumPy and torch.
    Arguments, result and errors as in `sum`; an array without elements is a `ValueError`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.argmax(np.array([[1, 5], [7, 2]]), axis=-1).tolist()
        [1, 0]
    """
    return _reduced(x, axis, out, "argmax")


@differentiable(_like_place)
@cached_dispatch
def argmin(x: Array, axis: int | None = None, out: Array = None) -> Array:
    """The index of the smallest element, along a dimension or in flat order; an i64.

    Of equal elements it is the first one; NaN counts as the smallest. Arguments, result and errors as in `argmax`.

    Example:
        >>> import numpy as np, weft
        >>> int(weft.kernels.argmin(np.array([[1, 5], [7, -2]])))
        3
    """
    return _reduced(x, axis, out, "argmin")


@differentiable(_like_reduced, None, _named, run=_reduce_by_name)
@cached_dispatch
def reduce(
    x: Array,
    function: Callable[[Any, Any], Any],
    identity: float,
    axis: int | None = None,
    out: Array = None,
) -> Array:
    """Reduces all elements, or those along a dimension, with a function of two elements.

    The function is compiled into the kernel, once for each function object: name a lambda outside of loops. Elements
    are combined in an order that depends on shape, layout, alignment and device alone.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        function: takes two numbers of x's type and returns one; associative and commutative.
        identity: the identity element of `function`, such as 1 for multiplication; the result without elements.
        axis: as in `sum`.
        out: an array of the result's shape and x's type; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array of numbers, a function and a number.
        CompileError: for a function that gives another type.
        ValueError: as in `sum`.

    Example:
        >>> import operator
        >>> import numpy as np, weft
        >>> weft.kernels.reduce(np.array([[2, 3], [4, 5]]), operator.mul, 1, axis=-1).tolist()
        [6, 20]
    """
    if not callable(function):
        raise TypeError(unexpected("function", function, "a function of two numbers"))
    unchanged = number_of(identity, "identity", describe(x, "x").dtype)
    return _reduced(x, axis, out, "function", function, unchanged)
