# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.softmax_backward``, ``log_softmax_backward``: a warp, a block or a cluster per row, as `spreads` says.

In: the gradient of the result, and the result. Out: the derivative. A row that fits into registers is read once, a
longer one twice.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.device.row import elements, put_elements, row_count, row_of, sum_type
from weft.kernels.device.row_mapping import (
    Limits,
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
from weft.kernels.device.row_pipeline import begin, begin_all, ring_of, step_of, wait
from weft.kernels.host.arrays import Array, Constant, common_width, describe, output_like
from weft.kernels.host.autograd import composite_backward, differentiable, like_second, upcast
from weft.kernels.host.dispatch_cache import Call, cached_dispatch
from weft.kernels.nn.activation import check_alike
from weft.language.asynchronous.pipeline import PipelineState
from weft.language.control import unroll
from weft.language.numbers.math import exp
from weft.language.numbers.math import min as lesser
from weft.types.dtype import i32

_LIMITS: Final = Limits(items=16, threads=1024, streams_from=16384, arrays=2)


def _by_torch(gradient: Any, y: Any) -> Any:
    slope, wide = upcast(gradient), upcast(y)
    return (wide * (slope - (slope * wide).sum(-1, keepdim=True))).to(y.dtype)


def _of_logarithms(gradient: Any, y: Any) -> Any:
    slope = upcast(gradient)
    return (slope - upcast(y).exp() * slope.sum(-1, keepdim=True)).to(y.dtype)


@differentiable(like_second, composite_backward(_by_torch), rows={"gradient": 1, "y": 1})
@cached_dispatch
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


@differentiable(like_second, composite_backward(_of_logarithms), rows={"gradient": 1, "y": 1})
@cached_dispatch
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
    source = describe(y, "y", is_float=True)
    check_alike(source, gradient, "gradient")
    out = output_like(source, out, ("gradient", "y"), gradient=gradient, y=y)
    if source.rows and source.shape[-1]:
        width = common_width(source, describe(gradient, "gradient"), describe(out, "out"))
        spread = spread_for(source.shape[-1], width, source.dtype, source.device, _LIMITS)
        return Call(_softmax_backward, (gradient, y, out, spread, is_log), out)
    return out


@jit
def _softmax_backward(
    gradient: Array, y: Array, out: Array, spread: Constant, is_log: Constant
) -> None:
    arguments, block, cluster = (
        (gradient, y, out, spread, is_log),
        block_of(spread),
        cluster_of(spread),
    )
    if spread.stages:
        groups = lesser(
            row_count(y.shape), softmax_backward_stream_kernel.max_clusters(spread.blocks)
        )
        softmax_backward_stream_kernel(*arguments).launch(
            grid=groups * spread.blocks, block=block, cluster=cluster
        )
    else:
        softmax_backward_kernel(*arguments).launch(
            grid=grid_of(y.shape, spread), block=block, cluster=cluster
        )


@kernel
def softmax_backward_stream_kernel(
    gradient: Array, y: Array, out: Array, spread: Constant, is_log: Constant
) -> None:
    """A block or a cluster: row after row, in its registers, while the next ones are on their way."""
    (meeting,) = meetings(spread, 1)
    ring, first, step = ring_of((gradient, y), spread), row_number(spread), step_of(spread)
    begin_all((gradient, y), ring, first, spread)
    state, turn = PipelineState(spread.stages), i32(0)
    for line in range(first, row_count(y.shape), step):
        target = part_of(row_of(out, line, spread.width), spread)
        source, row = wait(ring, state, len(target))
        results = _kept_results(source, row, spread, is_log, meeting, turn)
        begin((gradient, y), ring, line + spread.stages * step, state, spread)
        store_row(target, results, spread)
        state, turn = state.next(), turn + 1


@kernel
def softmax_backward_kernel(
    gradient: Array, y: Array, out: Array, spread: Constant, is_log: Constant
) -> None:
    """A warp, a block or a cluster: a row; in its registers, or in rounds."""
    (meeting,) = meetings(spread, 1)
    line = row_number(spread)
    if is_beyond(line, y.shape, spread):
        return
    source, row, target = (
        part_of(row_of(one, line, spread.width), spread) for one in (gradient, y, out)
    )
    if spread.items:
        store_row(target, _kept_results(source, row, spread, is_log, meeting), spread)
    else:
        total = sum_type(y.dtype)(0.0)
        for i in unroll(rounds(row, spread), 4):
            slopes, values = (_wide(elements(one, i, spread.width)) for one in (source, row))
            total += folded("sum", _parts(slopes, values, is_log))
        total = over_row("sum", total, spread, meeting)
        for i in rounds(row, spread):
            slopes, values = (_wide(elements(one, i, spread.width)) for one in (source, row))
            put_elements(target, i, _results(slopes, values, total, out.dtype, is_log))


def _kept_results(
    source: Any, row: Any, spread: Any, is_log: Any, meeting: Any, turn: Any = 0
) -> Any:
    """A thread's results of a row, of which it keeps its elements."""
    slopes, values = (_wide(load_row(one, spread)) for one in (source, row))
    total = over_row("sum", _parts(slopes, values, is_log), spread, meeting, turn)
    return _results(slopes, values, total, row.dtype, is_log)


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
