# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.softmax`` and ``log_softmax``: a block per row.

In: an array of floats of any rank and layout. Out: one of its shape. A row that fits into the block's registers is
read once; a longer one twice, with a running maximum.
"""

from __future__ import annotations

from typing import Any

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, common_width, given, output_like
from weft.kernels.calls import Call, remembered
from weft.kernels.gradients import differentiable, like_first
from weft.kernels.rows import (
    block_of,
    elements,
    geometry,
    grid_of,
    load_row,
    over_row,
    put_elements,
    row_count,
    row_number,
    row_of,
    store_row,
    sum_type,
)
from weft.kernels.softmax_gradients import softmax_backward
from weft.language.numbers.math import exp, log
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.reductions import reduce


def _softmax_backward(gradient: Any, y: Any, _: Any) -> Any:
    return (softmax_backward(gradient, y),)


def _log_softmax_backward(gradient: Any, y: Any, _: Any) -> Any:
    return (gradient - y.exp() * gradient.sum(-1, keepdim=True),)


@differentiable(like_first, _softmax_backward)
@remembered
def softmax(x: Any, out: Any = None) -> Any:
    """The softmax of each row: exp(x) / Σ exp(x) over the last dimension.

    Args:
        x: an array of 16, 32 or 64-bit floats of any rank from 1 on and any layout. Computed in f32, or f64 for f64.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays of floats.
        ValueError: for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.softmax(np.zeros((2, 4), np.float32)).tolist()
        [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    """
    return _of_rows(x, out, False)


@differentiable(like_first, _log_softmax_backward)
@remembered
def log_softmax(x: Any, out: Any = None) -> Any:
    """The logarithm of the softmax of each row: x − log Σ exp(x) over the last dimension.

    Arguments, result and errors as in `softmax`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.log_softmax(np.array([[0, -np.inf]])).tolist()
        [[0.0, -inf]]
    """
    return _of_rows(x, out, True)


def _of_rows(x: Any, out: Any, is_log: bool) -> Any:
    source = given(x, "x", is_float=True)
    out = output_like(source, out, ("x",), x=x)
    if source.shape[-1] and source.rows:
        width = common_width(source, given(out, "out"))
        threads, items = geometry(source.shape[-1], width)
        return Call(_softmax, (x, out, threads, items, width, is_log), out)
    return out


@jit
def _softmax(
    x: Array,
    out: Array,
    threads: Constant,
    items: Constant,
    width: Constant,
    is_log: Constant,
) -> None:
    grid, block = grid_of(x.shape, threads), block_of(threads)
    if items:
        short_row_kernel(x, out, threads, items, width, is_log).launch(grid=grid, block=block)
    else:
        long_row_kernel(x, out, threads, width, is_log).launch(grid=grid, block=block)


@kernel
def short_row_kernel(
    x: Array, out: Array, threads: Constant, items: Constant, width: Constant, is_log: Constant
) -> None:
    """A warp or a block: a row, in its registers."""
    number = row_number(threads)
    if number < row_count(x.shape):
        wide = sum_type(x.dtype)
        row = load_row(row_of(x, number, width), items, threads, width, -float("inf"))
        row = [wide(value) for value in row]
        largest = over_row("max", row, threads)
        weights = [exp(value - largest) for value in row]
        total = over_row("sum", weights, threads)
        if is_log:
            shift = log(total)
            results = [value - largest - shift for value in row]
        else:
            scale = 1.0 / total
            results = [weight * scale for weight in weights]
        results = [x.dtype(result) for result in results]
        store_row(row_of(out, number, width), results, threads, width)


def joined(one: Any, other: Any) -> Any:
    """Two maxima with the sums of exponentials relative to them, as one such pair."""
    (one_max, one_sum), (other_max, other_sum) = one, other
    largest = max(one_max, other_max)
    return largest, scaled(one_sum, one_max, largest) + scaled(other_sum, other_max, largest)


def scaled(total: Any, largest: Any, new: Any) -> Any:
    """A sum of exponentials relative to another maximum; what was −∞ counts nothing."""
    return total * exp(largest - new) if largest > -float("inf") else total * 0.0


@kernel
def long_row_kernel(
    x: Array, out: Array, threads: Constant, width: Constant, is_log: Constant
) -> None:
    """A block: a row, in rounds; once for the sum and once for the results."""
    wide = sum_type(x.dtype)
    source, target = row_of(x, block_idx.x, width), row_of(out, block_idx.x, width)
    largest, total = wide(-float("inf")), wide(0.0)
    step = threads * width
    for i in range(thread_idx.x * width, len(source), step):
        values = [wide(value) for value in elements(source, i, width)]
        new = largest
        for value in values:
            new = max(new, value)
        total = scaled(total, largest, new)
        for value in values:
            total += 0.0 if value == -float("inf") else exp(value - new)
        largest = new
    largest, total = reduce((largest, total), joined)
    shift = largest + log(total) if is_log else largest
    scale = 1.0 / total
    for i in range(thread_idx.x * width, len(source), step):
        values = [wide(value) - shift for value in elements(source, i, width)]
        put_elements(
            target, i, [x.dtype(value if is_log else exp(value) * scale) for value in values]
        )
