# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.softmax`` and ``log_softmax``: a block per row.

In: an array of floats of any rank and layout. Out: one of its shape. A row that fits into the block's registers is
read once; a longer one twice, with a running maximum.
"""

from __future__ import annotations

from typing import Any

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, given, output
from weft.kernels.rows import geometry, row_count, row_of, sum_type
from weft.language.numbers.math import exp, log
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.reductions import max as block_max
from weft.primitives.block.reductions import reduce
from weft.primitives.block.reductions import sum as block_sum
from weft.primitives.block.transfers import load, store


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
    out = output(source, source.shape, source.dtype, source.type_name, out)
    if source.shape[-1] and source.rows:
        threads, items = geometry(source.shape[-1])
        _softmax(x, out, threads, items, is_log)
    return out


@jit
def _softmax(x: Array, out: Array, threads: Constant, items: Constant, is_log: Constant) -> None:
    rows = row_count(x.shape)
    if items:
        short_row_kernel(x, out, items, is_log).launch(grid=rows, block=threads)
    else:
        long_row_kernel(x, out, threads, is_log).launch(grid=rows, block=threads)


@kernel
def short_row_kernel(x: Array, out: Array, items: Constant, is_log: Constant) -> None:
    """A block: a row, in its registers."""
    wide = sum_type(x.dtype)
    row = load(row_of(x, block_idx.x), 0, items, fill=-float("inf"), order="striped")
    row = [wide(value) for value in row]
    largest = block_max(row)
    weights = [exp(value - largest) for value in row]
    total = block_sum(weights)
    if is_log:
        results = [value - largest - log(total) for value in row]
    else:
        scale = 1.0 / total
        results = [weight * scale for weight in weights]
    results = [x.dtype(result) for result in results]
    store(row_of(out, block_idx.x), 0, results, order="striped")


def joined(one: Any, other: Any) -> Any:
    """Two maxima with the sums of exponentials relative to them, as one such pair."""
    (one_max, one_sum), (other_max, other_sum) = one, other
    largest = max(one_max, other_max)
    return largest, scaled(one_sum, one_max, largest) + scaled(other_sum, other_max, largest)


def scaled(total: Any, largest: Any, new: Any) -> Any:
    """A sum of exponentials relative to another maximum; what was −∞ counts nothing."""
    return total * exp(largest - new) if largest > -float("inf") else total * 0.0


@kernel
def long_row_kernel(x: Array, out: Array, threads: Constant, is_log: Constant) -> None:
    """A block: a row, in rounds; once for the sum and once for the results."""
    wide = sum_type(x.dtype)
    source, target = row_of(x, block_idx.x), row_of(out, block_idx.x)
    largest, total = wide(-float("inf")), wide(0.0)
    for i in range(thread_idx.x, len(source), threads):
        value = wide(source[i])
        new = max(largest, value)
        total = scaled(total, largest, new) + (0.0 if value == -float("inf") else exp(value - new))
        largest = new
    largest, total = reduce((largest, total), joined)
    shift = largest + log(total) if is_log else largest
    scale = 1.0 / total
    for i in range(thread_idx.x, len(source), threads):
        value = wide(source[i]) - shift
        target[i] = x.dtype(value if is_log else exp(value) * scale)
