# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.softmax_backward``, ``log_softmax_backward``: a warp, a block or a cluster per row, as `spreads` says.

In: the gradient of the result, and the result. Out: the derivative. A row that fits into registers is read once, a
longer one twice.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.activations import check_alike
from weft.kernels.arrays import Array, Constant, common_width, given, output_like
from weft.kernels.calls import Call, remembered
from weft.kernels.gradients import differentiable, like_second
from weft.kernels.rows import elements, put_elements, row_of, sum_type
from weft.kernels.spreads import (
    block_of,
    cluster_of,
    folded,
    grid_of,
    is_beyond,
    load_row,
    meetings,
    over_row,
    part_of,
    rounds,
    row_number,
    spread_for,
    store_row,
)
from weft.language.numbers.math import exp

_MOST_ITEMS: Final = 16  # of a thread, and as many of the gradient


@differentiable(like_second)
@remembered
def softmax_backward(gradient: Any, y: Any, out: Any = None) -> Any:
    """The derivative of `softmax`: y · (gradient − Σ gradient · y) over the last dimension.

    Args:
        gradient: of the result, an array of y's shape and type.
        y: what `softmax` gave.
        out: an array of y's shape and type, which may be `gradient` or `y` itself; None: a new one of y's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays of floats of one type.
        ValueError: for arrays of different shapes or devices.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.softmax_backward(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])).tolist()
        [[0.25, -0.25]]
    """
    return _slopes(gradient, y, out, False)


@differentiable(like_second)
@remembered
def log_softmax_backward(gradient: Any, y: Any, out: Any = None) -> Any:
    """The derivative of `log_softmax`: gradient − exp(y) · Σ gradient over the last dimension.

    Arguments, result and errors as in `softmax_backward`, of what `log_softmax` gave.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.log_softmax_backward(np.array([[1.0, 0.0]]), np.log([[0.5, 0.5]])).tolist()
        [[0.5, -0.5]]
    """
    return _slopes(gradient, y, out, True)


def _slopes(gradient: Any, y: Any, out: Any, is_log: bool) -> Any:
    source = given(y, "y", is_float=True)
    check_alike(source, gradient, "gradient")
    out = output_like(source, out, ("gradient", "y"), gradient=gradient, y=y)
    if source.rows and source.shape[-1]:
        width = common_width(source, given(gradient, "gradient"), given(out, "out"))
        spread = spread_for(source.shape[-1], width, source.device, most_items=_MOST_ITEMS)
        return Call(_softmax_backward, (gradient, y, out, spread, is_log), out)
    return out


@jit
def _softmax_backward(
    gradient: Array, y: Array, out: Array, spread: Constant, is_log: Constant
) -> None:
    softmax_backward_kernel(gradient, y, out, spread, is_log).launch(
        grid=grid_of(y.shape, spread), block=block_of(spread), cluster=cluster_of(spread)
    )


@kernel
def softmax_backward_kernel(
    gradient: Array, y: Array, out: Array, spread: Constant, is_log: Constant
) -> None:
    """A warp, a block or a cluster: a row; in its registers, or in rounds."""
    (meeting,) = meetings(spread, 1)
    number = row_number(spread)
    if is_beyond(number, y.shape, spread):
        return
    source, row, target = (
        part_of(row_of(one, number, spread.width), spread) for one in (gradient, y, out)
    )
    if spread.items:
        slopes, values = (_wide(load_row(one, spread)) for one in (source, row))
        total = over_row("sum", _parts(slopes, values, is_log), spread, meeting)
        store_row(target, _results(slopes, values, total, out.dtype, is_log), spread)
    else:
        total = sum_type(y.dtype)(0.0)
        for i in rounds(row, spread):
            slopes, values = (_wide(elements(one, i, spread.width)) for one in (source, row))
            total += folded("sum", _parts(slopes, values, is_log))
        total = over_row("sum", total, spread, meeting)
        for i in rounds(row, spread):
            slopes, values = (_wide(elements(one, i, spread.width)) for one in (source, row))
            put_elements(target, i, _results(slopes, values, total, out.dtype, is_log))


def _wide(values: Any) -> Any:
    return [sum_type(value.dtype)(value) for value in values]


def _parts(slopes: Any, values: Any, is_log: Any) -> Any:
    """What elements add to the sum of their row."""
    if is_log:
        return slopes
    return [slope * value for slope, value in zip(slopes, values, strict=True)]


def _results(slopes: Any, values: Any, total: Any, dtype: Any, is_log: Any) -> Any:
    """The derivative by neighbors."""
    pairs = zip(slopes, values, strict=True)
    if is_log:
        return [dtype(slope - exp(value) * total) for slope, value in pairs]
    return [dtype(value * (slope - total)) for slope, value in pairs]
