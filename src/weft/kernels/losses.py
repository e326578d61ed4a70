# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.cross_entropy`` and its derivative.

In: an array of logits and a class for each row. Out: a loss for each row, or the derivative by the logits. A block: a
row, read twice.
"""

from __future__ import annotations

import math
from typing import Any

from weft.api import jit, kernel
from weft.ffi.data_type import DataType
from weft.kernels.arrays import (
    Array,
    Constant,
    Given,
    Int32,
    element_type,
    given,
    integer_from,
    output,
    output_like,
)
from weft.kernels.calls import Call, remembered
from weft.kernels.gradients import differentiable, like_second
from weft.kernels.rows import index_of, row_count, row_of, sum_type, threads_for
from weft.language.control import unroll
from weft.language.numbers.math import exp, log
from weft.language.numbers.math import max as greater
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.reductions import reduce
from weft.types.dtype import f64


def _like_losses(logits: Any, *_: Any) -> Any:
    made = logits.new_empty(logits.shape[:-1])
    return made if logits.dtype.itemsize == 8 else made.float()


def _loss_backward(gradient: Any, _: Any, logits: Any, classes: Any, ignored: int) -> Any:
    return cross_entropy_backward(gradient, logits, classes, ignored), None, None


@differentiable(_like_losses, _loss_backward)
@remembered
def cross_entropy(logits: Any, classes: Any, ignored: int = -100, out: Any = None) -> Any:
    """The loss of each row: log Σ exp(logits) − the logit of its class, over the last dimension.

    Args:
        logits: an array of 16, 32 or 64-bit floats of any rank from 2 on and any layout.
        classes: an array of integers of the shape of the rows, from 0 below their length.
        ignored: the class of rows whose loss is 0.
        out: an array of the shape of `classes`, of f32, or f64 for f64; None: a new one of logits' library.

    Returns:
        `out`, or the new array: a loss per row; their mean is `weft.kernels.mean` of it.

    Raises:
        TypeError: for something else than arrays of these types.
        ValueError: for shapes that do not fit; for arrays on different devices.
        AssertionError: for a class out of range on the CPU. A GPU gives NaN for it.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.cross_entropy(np.zeros((2, 4)), np.array([1, -100])).round(4).tolist()
        [1.3863, 0.0]
    """
    ignored, (source, _) = _ignored(ignored), _given(logits, classes)
    dtype, name = _loss_type(source)
    out = output(source, source.shape[:-1], dtype, name, out, logits=logits, classes=classes)
    if source.rows:
        threads = threads_for(source.shape[-1], 8)
        return Call(_losses, (logits, classes, out, ignored, threads), out)
    return out


@differentiable(like_second)
@remembered
def cross_entropy_backward(
    gradient: Any, logits: Any, classes: Any, ignored: int = -100, out: Any = None
) -> Any:
    """The derivative of `cross_entropy` by the logits: gradient · (softmax − 1 for the class).

    Args:
        gradient: of the losses, an array of their shape and type.
        logits: as in `cross_entropy`.
        classes: as in `cross_entropy`.
        ignored: as in `cross_entropy`; the derivative of such rows is 0.
        out: an array of logits' shape and type, which may be `logits` itself; None: a new one of its library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `cross_entropy`.
        ValueError: as `cross_entropy`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.cross_entropy_backward(np.ones(1), np.zeros((1, 2)), np.array([1])).tolist()
        [[0.5, -0.5]]
    """
    ignored, (source, shape) = _ignored(ignored), _given(logits, classes)
    found = given(gradient, "gradient", is_float=True)
    if found.shape != shape or found.device != source.device:
        raise ValueError(
            f"gradient has shape {found.shape} on {found.device}, expected {shape} on {source.device}"
        )
    inputs = {"gradient": gradient, "logits": logits, "classes": classes}
    out = output_like(source, out, ("logits",), **inputs)
    if source.rows:
        threads = threads_for(source.shape[-1], 8)
        arguments = gradient, logits, classes, out, ignored, threads
        return Call(_losses_backward, arguments, out)
    return out


def _ignored(ignored: object) -> int:
    return integer_from(ignored, "ignored", -(1 << 31), 1 << 31)


def _given(logits: Any, classes: Any) -> tuple[Given, tuple[int, ...]]:
    source, found = given(logits, "logits", is_float=True), given(classes, "classes")
    if len(source.shape) < 2 or not source.shape[-1]:
        raise ValueError(f"logits has shape {source.shape}, expected (..., classes)")
    if not found.dtype.is_integer:
        raise TypeError(f"classes has elements of {found.type_name}, expected integers")
    if found.shape != source.shape[:-1]:
        raise ValueError(f"classes has shape {found.shape}, expected {source.shape[:-1]}")
    if found.device != source.device:
        raise ValueError(f"classes is on {found.device}, expected {source.device}")
    return source, found.shape


def _loss_type(source: Given) -> Any:
    return element_type(DataType("float64" if source.dtype is f64 else "float32"))


@jit
def _losses(logits: Array, classes: Array, out: Array, ignored: Int32, threads: Constant) -> None:
    arguments = logits, classes, out, ignored, threads
    losses_kernel(*arguments).launch(grid=row_count(logits.shape), block=threads)


@jit
def _losses_backward(
    gradient: Array, logits: Array, classes: Array, out: Array, ignored: Int32, threads: Constant
) -> None:
    arguments = gradient, logits, classes, out, ignored, threads
    losses_backward_kernel(*arguments).launch(grid=row_count(logits.shape), block=threads)


def sum_of(row: Any, threads: Any) -> Any:
    """The largest of a row and the sum of exponentials relative to it; traced in kernels."""
    wide = sum_type(row.dtype)
    largest, total = wide(-math.inf), wide(0.0)
    for i in unroll(range(thread_idx.x, len(row), threads), 4):
        value = wide(row[i])
        new = greater(largest, value)
        total = scaled(total, largest, new) + (0.0 if value == -math.inf else exp(value - new))
        largest = new
    return reduce((largest, total), joined)


def joined(one: Any, other: Any) -> Any:
    """Two maxima with the sums of exponentials relative to them, as one such pair."""
    (one_max, one_sum), (other_max, other_sum) = one, other
    largest = greater(one_max, other_max)
    return largest, scaled(one_sum, one_max, largest) + scaled(other_sum, other_max, largest)


def scaled(total: Any, largest: Any, new: Any) -> Any:
    """A sum of exponentials relative to another maximum; what was −∞ counts nothing."""
    return total * exp(largest - new) if largest > -math.inf else total * 0.0


@kernel
def losses_kernel(
    logits: Array, classes: Array, out: Array, ignored: Int32, threads: Constant
) -> None:
    """A block: a row."""
    wide = sum_type(logits.dtype)
    row, place = row_of(logits, block_idx.x), index_of(block_idx.x, classes.shape)
    largest, total = sum_of(row, threads)
    if thread_idx.x == 0:
        number = classes[place]
        inside = 0 <= number < len(row)
        assert inside or number == ignored, "a class of cross_entropy is out of range"
        loss = wide(math.nan)
        if number == ignored:
            loss = wide(0.0)
        elif inside:
            loss = largest - wide(row[number]) + log(total)
        out[place] = loss


@kernel
def losses_backward_kernel(
    gradient: Array, logits: Array, classes: Array, out: Array, ignored: Int32, threads: Constant
) -> None:
    """A block: a row."""
    wide = sum_type(logits.dtype)
    row, place = row_of(logits, block_idx.x), index_of(block_idx.x, classes.shape)
    largest, total = sum_of(row, threads)
    number = classes[place]
    factor = wide(0.0) if number == ignored else wide(gradient[place])
    target, scale = row_of(out, block_idx.x), factor / total
    for i in unroll(range(thread_idx.x, len(row), threads), 4):
        share = exp(wide(row[i]) - largest) * scale
        target[i] = out.dtype(share - factor if i == number else share)
