# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.sum``, ``mean``, ``max``, ``min``, ``argmax``, ``argmin``, ``reduce``: along a dimension, or of all.

In: an array of any rank and layout. Out: an array without that dimension, or of no dimension. What is long is cut into
parts, one per block, and what they gave is combined by a second launch, always in the same order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.api import jit, kernel
from weft.errors import brief
from weft.kernels.algorithms.operators import (
    PLACES,
    How,
    begin,
    combiner,
    finished,
    followed,
    partial_results,
)
from weft.kernels.algorithms.reduce_columns import plan_for, reduce_columns
from weft.kernels.device.row import (
    SHORT,
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
from weft.kernels.device.views import aligned, flat
from weft.kernels.host.arrays import (
    Array,
    Constant,
    Given,
    Int32,
    Int64,
    given,
    integer,
    number_of,
    output,
)
from weft.kernels.host.autograd import (
    WIDE_ON_GPUS,
    Function,
    Number,
    differentiable,
    function_of,
    like_total,
    name_of_function,
)
from weft.kernels.host.calls import Call, remembered
from weft.language.control import ceil_div, static_range, unroll
from weft.language.numbers.math import min as lesser
from weft.language.threads.grid import block_idx, thread_idx
from weft.types.dtype import f64, i32, i64
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.types.dtype import DType

_PART_BYTES: Final = 32 << 10  # of a row, that are worth a block
_MOST_PARTS: Final = 2112  # that are enough for any device
_ENOUGH_ROWS: Final = 512  # that are worth more as they are than a second launch
_MOST_THREADS: Final = 512
_LAST_THREADS: Final = 256
_LONG: Final = 1 << 15  # results of parts that are cut once more
_AT_ONCE: Final = 4  # elements of a thread that are under way, at least, and two accesses


def _like_one(x: Any, axis: int | None = None) -> Any:
    rank = x.ndim
    if axis is None:
        return x.new_empty(())
    if not -rank <= axis < rank:
        raise ValueError(
            f"axis is {brief(axis)}, expected None or an integer from {-rank} to {rank - 1}"
        )
    return x.new_empty((*x.shape[: axis % rank], *x.shape[axis % rank + 1 :]))


def _like_sum(x: Any, axis: int | None = None) -> Any:
    return like_total(x, _like_one(x, axis))


def _like_mean(x: Any, axis: int | None = None) -> Any:
    like = _like_one(x, axis)
    return like if x.is_floating_point() else like.double()


def _like_place(x: Any, axis: int | None = None) -> Any:
    return _like_one(x, axis).long()


def _spread(gradient: Any, x: Any, axis: int | None) -> Any:
    """What belongs to a result, for each element of x that went into it."""
    return (gradient if axis is None else gradient.unsqueeze(axis)).expand(x.shape)


def _sum_backward(gradient: Any, _: Any, x: Any, axis: int | None) -> Any:
    return _spread(gradient, x, axis), None


def _mean_backward(gradient: Any, _: Any, x: Any, axis: int | None) -> Any:
    count = x.numel() if axis is None else x.shape[axis]
    return _spread(gradient, x, axis) / count if count else x.new_zeros(x.shape), None


def _extreme_backward(gradient: Any, found: Any, x: Any, axis: int | None) -> Any:
    """Equal elements share the gradient, as those of torch's `amax`; NaN counts as equal to NaN."""
    found = _spread(found.detach(), x, axis)
    is_found = (x == found) | (x.isnan() & found.isnan())
    count = is_found.sum() if axis is None else is_found.sum(axis)
    return _spread(gradient / count, x, axis).masked_fill(~is_found, 0), None


@differentiable(_like_sum, _sum_backward, autocast=WIDE_ON_GPUS)
@remembered
def sum(x: Any, axis: int | None = None, out: Any = None) -> Any:
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
@remembered
def mean(x: Any, axis: int | None = None, out: Any = None) -> Any:
    """The mean of all elements, or along a dimension: of floats in their type, of integers and bools as f64.

    An array without elements gives NaN. Arguments, result and errors as in `sum`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.mean(np.arange(6).reshape(2, 3), axis=0).tolist()
        [1.5, 2.5, 3.5]
    """
    return _reduced(x, axis, out, "mean")


@differentiable(_like_one, _extreme_backward)
@remembered
def max(x: Any, axis: int | None = None, out: Any = None) -> Any:
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
@remembered
def min(x: Any, axis: int | None = None, out: Any = None) -> Any:
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
@remembered
def argmax(x: Any, axis: int | None = None, out: Any = None) -> Any:
    """Where the largest element is: its index along a dimension, or in the order of all elements; an i64.

    Of equal elements it is the first one; NaN counts as the largest, as in NumPy and torch.
    Arguments, result and errors as in `sum`; an array without elements is a `ValueError`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.argmax(np.array([[1, 5], [7, 2]]), axis=-1).tolist()
        [1, 0]
    """
    return _reduced(x, axis, out, "argmax")


@differentiable(_like_place)
@remembered
def argmin(x: Any, axis: int | None = None, out: Any = None) -> Any:
    """Where the smallest element is: its index along a dimension, or in the order of all elements; an i64.

    Of equal elements it is the first one; NaN counts as the smallest. Arguments, result and errors as in `argmax`.

    Example:
        >>> import numpy as np, weft
        >>> int(weft.kernels.argmin(np.array([[1, 5], [7, -2]])))
        3
    """
    return _reduced(x, axis, out, "argmin")


def _reduce_by_name(x: Any, function: Function, neutral: Number, axis: int | None = None) -> Any:
    return reduce(x, function_of(function), neutral, axis)


def _like_reduced(x: Any, function: str, neutral: float, axis: int | None = None) -> Any:
    return _like_one(x, axis)


def _named(x: Any, function: Any, neutral: float, axis: int | None = None) -> tuple[Any, ...]:
    return x, name_of_function(function), neutral, axis


@differentiable(_like_reduced, None, _named, run=_reduce_by_name)
@remembered
def reduce(
    x: Any,
    function: Callable[[Any, Any], Any],
    neutral: float,
    axis: int | None = None,
    out: Any = None,
) -> Any:
    """All elements, or those along a dimension, combined by a function of two of them.

    The function is compiled into the kernel, once for each function object: name a lambda outside of loops. Elements
    are combined in an order that depends on shape, layout, alignment and device alone.

    Args:
        x: an array of numbers of any rank from 1 on and any layout.
        function: takes two numbers of x's type and returns one; associative and commutative.
        neutral: a number that changes nothing: 1 for products. It is the result where there are no elements.
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
        raise TypeError(f"function is {brief(function)}, expected a function of two numbers")
    unchanged = number_of(neutral, "neutral", given(x, "x").dtype)
    return _reduced(x, axis, out, "function", function, unchanged)


def _reduced(
    x: Any, axis: Any, out: Any, kind: str, function: Any = None, neutral: Any = None
) -> Any:
    source = given(x, "x")
    rank, shape = len(source.shape), source.shape
    place = integer(axis)
    if axis is not None and (place is None or not -rank <= place < rank):
        raise ValueError(
            f"axis is {brief(axis)}, expected None or an integer from {-rank} to {rank - 1}"
        )
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
    how = How(kind, function, neutral)
    if along is not None and along != rank - 1:
        plan, parts = plan_for(source, along, others, how)
        return Call(reduce_columns, (x, out, parts, count, along, plan, how), out)
    return _of_rows(source, out, count, along is None, how)


class Plan(NamedTuple):
    """How rows are reduced; constants.

    Attributes:
        threads: of a row.
        width: neighbors of an access.
        is_flat: whether all elements are one row.
        is_cut: whether rows are cut into parts.
        is_joined: whether the results of all rows are reduced to one.
        is_long: whether these are cut again.
    """

    threads: int
    width: int
    is_flat: bool
    is_cut: bool
    is_joined: bool
    is_long: bool


def _of_rows(source: Given, out: Any, count: int, is_whole: bool, how: How) -> Call:
    is_flat = is_whole and (source.is_contiguous or not count)
    rows, columns = (1, count) if is_flat else (source.rows, source.shape[-1])
    width = source.flat_width if is_flat else source.width
    threads = WARP_SIZE
    if columns > SHORT:
        threads = threads_for(columns, 2 * width if width > 1 else _AT_ONCE)
        threads = threads if threads < _MOST_THREADS else _MOST_THREADS
    most = _MOST_PARTS // rows if rows < _ENOUGH_ROWS else 1
    parts = _parts(columns, _PART_BYTES // source.dtype.itemsize, most)
    is_joined = is_whole and rows > 1
    again = _parts(rows * parts, _LONG, _MOST_PARTS) if is_joined else 1
    plan = Plan(threads, width, is_flat, parts > 1, is_joined, again > 1)
    return Call(_reduce, (source.array, out, parts, again, count, plan, how), out)


_OF_SOME: Final = frozenset(("max", "min", "argmax", "argmin"))


def _result(source: Given, kind: str) -> tuple[DType, str]:
    """The type of a result and its name."""
    if kind in PLACES:
        return i64, "int64"
    if kind == "mean" and not source.dtype.is_float:
        return f64, "float64"
    if kind in ("sum", "mean"):
        return result_name(source.dtype, source.type_name)
    return source.dtype, source.type_name


def _parts(length: int, size: int, most: int) -> int:
    """How many parts of about that size something is cut into."""
    parts = -(-length // size) if length >= 2 * size else 1
    return parts if parts < most else most if most > 1 else 1


@jit
def _reduce(
    x: Array, out: Array, parts: Int32, again: Int32, count: Int64, plan: Constant, how: How
) -> None:
    threads, width = plan.threads, plan.width
    x, at = flat(x) if plan.is_flat else x, None
    if plan.is_cut or plan.is_joined:
        values, places = partial_results(how, x.dtype, (row_count(x.shape), parts))
        rows_kernel(x, None, values, places, count, threads, width, plan.is_joined, how).launch(
            grid=(grid_of(x.shape, threads), parts), block=block_of(threads)
        )
        x, at, threads, width = values, places, _LAST_THREADS, 1
        if plan.is_joined:
            x, at = flat(x), None if at is None else flat(at)
    if plan.is_long:
        values, places = partial_results(how, x.dtype, (1, again))
        rows_kernel(x, at, values, places, count, threads, width, False, how).launch(
            grid=(1, again), block=threads
        )
        x, at = values, places
    last_rows_kernel(x, at, out, count, threads, width, how).launch(
        grid=grid_of(x.shape, threads), block=block_of(threads)
    )


@kernel
def rows_kernel(
    x: Array,
    at: Array | None,
    out: Array,
    places: Array | None,
    count: Int64,
    threads: Constant,
    width: Constant,
    is_joined: Constant,
    how: How,
) -> None:
    """A warp or a block: a part of a row, whose results go to `out` and `places`, rows x parts.

    Args:
        x: an array.
        at: the places of its elements, of x's shape; None: their indices.
        out: values of the type that is carried.
        places: those of the results, or None.
        count: unused here; elements of a result.
        threads: of a row.
        width: neighbors of an access.
        is_joined: whether places count on from row to row.
        how: what is combined.
    """
    number, part = row_number(threads), block_idx.y
    if number < out.shape[0]:
        row = row_of(x, number, width)
        unit = threads * width
        size = ceil_div(ceil_div(len(row), out.shape[1]), unit) * unit
        first = lesser(size * part, len(row))
        carried = _row(aligned(row[first : first + size], width), threads, width, how)
        first = i64(number) * len(row) + first if is_joined else i64(first)
        carried = _placed(carried, at, number, first, how)
        if thread_idx.x == 0:
            if places is None:
                out[number, part] = carried
            else:
                out[number, part], places[number, part] = carried


@kernel
def last_rows_kernel(
    x: Array,
    at: Array | None,
    out: Array,
    count: Int64,
    threads: Constant,
    width: Constant,
    how: How,
) -> None:
    """A warp or a block: a row, and its result; arguments as of `rows_kernel`."""
    number = row_number(threads)
    if number < row_count(x.shape):
        carried = _row(row_of(x, number, width), threads, width, how)
        carried = _placed(carried, at, number, i64(0), how)
        if thread_idx.x == 0:
            out[index_of(number, out.shape)] = finished(how, carried, count, out.dtype)


def _row(row: Any, threads: Any, width: Any, how: How) -> Any:
    """What the elements of a row combine to, in each of its threads; with an index of the row."""
    n, first, step = i32(len(row)), thread_idx.x * width, threads * width
    carried = begin(how, row.dtype, first, n)
    at_once = 2 if width > 1 else _AT_ONCE
    whole = n // (step * at_once) * (step * at_once)
    for i in unroll(range(first, whole, step * at_once), 1):
        found = ()
        for k in static_range(at_once):
            found = (*found, *elements(row, i + k * step, width))
        for k, value in enumerate(found):
            carried = followed(how, carried, value, i + (k // width * step + k % width))
    for i in unroll(range(whole + first, n, step), 1):
        for k, value in enumerate(elements(row, i, width)):
            carried = followed(how, carried, value, i + k)
    return reduced_row(carried, combiner(how), threads)


def _placed(carried: Any, at: Any, number: Any, first: Any, how: How) -> Any:
    """With the place as an i64: counted from `first`, or looked up."""
    if how.kind not in PLACES:
        return carried
    value, place = carried
    place = first + place
    return value, place if at is None else at[place] if at.ndim == 1 else at[number, place]
