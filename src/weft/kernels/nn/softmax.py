# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.softmax`` and ``log_softmax``: a warp, a block or a cluster per row, as `spreads` says.

In: an array of floats of any rank and layout. Out: one of its shape. A row that fits into registers is read once; a
longer one twice, with a running maximum. Each warp takes the exponentials relative to its own maximum, so that the
warps of a row meet once.
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
    of_lane,
    of_warps,
    over_lanes,
    part_of,
    rounds,
    row_number,
    spread_for,
    store_row,
)
from weft.kernels.device.row_pipeline import begin, begin_all, ring_of, step_of, wait
from weft.kernels.host.arrays import Array, Constant, common_width, describe, output_like
from weft.kernels.host.autograd import WIDE_ON_GPUS, differentiable, like_first
from weft.kernels.host.dispatch_cache import Call, cached_dispatch
from weft.kernels.nn.softmax_backward import log_softmax_backward, softmax_backward
from weft.language.asynchronous.pipeline import PipelineState
from weft.language.control import unroll
from weft.language.numbers.math import exp, log
from weft.language.numbers.math import min as lesser
from weft.primitives.warp import reductions as of_warp
from weft.types.dtype import i32
from weft.types.launch_limits import WARP_SIZE

_LIMITS: Final = Limits(items=32, threads=1024, streams_from=32768, arrays=1)


def _softmax_backward(gradient: Any, y: Any, _: Any) -> Any:
    return (softmax_backward(gradient, y),)


def _log_softmax_backward(gradient: Any, y: Any, _: Any) -> Any:
    return (log_softmax_backward(gradient, y),)


@differentiable(like_first, _softmax_backward, autocast=WIDE_ON_GPUS, rows={"x": 1})
@cached_dispatch
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


@differentiable(like_first, _log_softmax_backward, autocast=WIDE_ON_GPUS, rows={"x": 1})
@cached_dispatch
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
    source = describe(x, "x", is_float=True)
    out = output_like(source, out, ("x",), x=x)
    if source.shape[-1] and source.rows:
        width = common_width(source, describe(out, "out"))
        spread = spread_for(source.shape[-1], width, source.dtype, source.device, _LIMITS)
        return Call(_softmax, (x, out, spread, is_log), out)
    return out


@jit
def _softmax(x: Array, out: Array, spread: Constant, is_log: Constant) -> None:
    block, cluster = block_of(spread), cluster_of(spread)
    if spread.stages:
        groups = lesser(row_count(x.shape), softmax_stream_kernel.max_clusters(spread.blocks))
        softmax_stream_kernel(x, out, spread, is_log).launch(
            grid=groups * spread.blocks, block=block, cluster=cluster
        )
    else:
        call = narrow_softmax_kernel if x.dtype.itemsize == 2 else softmax_kernel
        call(x, out, spread, is_log).launch(
            grid=grid_of(x.shape, spread), block=block, cluster=cluster
        )


@kernel
def softmax_stream_kernel(x: Array, out: Array, spread: Constant, is_log: Constant) -> None:
    """A block or a cluster: row after row, in its registers, while the next ones are on their way."""
    (meeting,) = meetings(spread, 1)
    ring, first, step = ring_of((x,), spread), row_number(spread), step_of(spread)
    begin_all((x,), ring, first, spread)
    state, turn = PipelineState(spread.stages), i32(0)
    for number in range(first, row_count(x.shape), step):
        target = part_of(row_of(out, number, spread.width), spread)
        (part,) = wait(ring, state, len(target))
        row = _kept_results(part, spread, is_log, meeting, turn)
        begin((x,), ring, number + spread.stages * step, state, spread)
        store_row(target, row, spread)
        state, turn = state.next(), turn + 1


def softmax_rows(x: Array, out: Array, spread: Constant, is_log: Constant) -> None:
    """A warp, a block or a cluster: a row; in its registers, or in rounds: for the sum, and for the results."""
    (meeting,) = meetings(spread, 1)
    number, width = row_number(spread), spread.width
    if is_beyond(number, x.shape, spread):
        return
    source, target = (part_of(row_of(one, number, width), spread) for one in (x, out))
    if spread.items:
        store_row(target, _kept_results(source, spread, is_log, meeting), spread)
    else:
        largest, total = read_pair(source, spread, meeting)
        shift, scale = log(total), 1.0 / total
        for i in rounds(source, spread):
            row = [largest.dtype(value) for value in elements(source, i, width)]
            if is_log:
                results = _logarithms(row, largest, shift)
            else:
                results = [exponential(value - largest, x.dtype) * scale for value in row]
            put_elements(target, i, [x.dtype(result) for result in results])


softmax_kernel = kernel(softmax_rows)
# With more registers a multiprocessor has one block of 512 threads, as in logarithms of 16-bit floats.
narrow_softmax_kernel = kernel(max_registers=64)(softmax_rows)


def _kept_results(part: Any, spread: Any, is_log: Any, meeting: Any, turn: Any = 0) -> Any:
    """A thread's results of a row, of which it keeps its elements."""
    row = load_wide(part, spread)
    own, weights = weighed(row, part.dtype)
    total = of_warp.sum(folded("sum", weights))
    largest, total = over_pairs(own, total, spread, meeting, turn)
    if is_log:
        results = _logarithms(row, largest, log(total))
    else:
        scale = exp(own - largest) / total
        results = [weight * scale for weight in weights]
    return [part.dtype(result) for result in results]


def _logarithms(row: Any, largest: Any, shift: Any) -> Any:
    return [value - largest - shift for value in row]


# What other functions of rows, such as losses, need of a softmax; traced in kernels.


def pair_of(row: Any, spread: Any, meeting: Any) -> Any:
    """The largest element of a row and the sum of exponentials relative to it, of a row that is not needed again."""
    if not spread.items:
        return read_pair(row, spread, meeting)
    own, weights = weighed(load_wide(row, spread), row.dtype)
    return over_pairs(own, of_warp.sum(folded("sum", weights)), spread, meeting)


def load_wide(row: Any, spread: Any) -> Any:
    """A thread's elements of a row, in the type that is computed in; −∞, which counts nothing, beyond its end."""
    wide = sum_type(row.dtype)
    return [wide(value) for value in load_row(row, spread, -float("inf"))]


def weighed(row: Any, dtype: Any) -> Any:
    """The largest element that a warp has, and a thread's exponentials relative to it."""
    own = of_warp.max(folded("max", row))
    shift = _finite(own)
    return own, [exponential(value - shift, dtype) for value in row]


def read_pair(source: Any, spread: Any, meeting: Any) -> Any:
    """As `pair_of`, of a row that is read in rounds."""
    wide, dtype = sum_type(source.dtype), source.dtype
    largest, total = wide(-float("inf")), wide(0.0)
    for i in unroll(rounds(source, spread), 4):
        row = [wide(value) for value in elements(source, i, spread.width)]
        new = max(largest, folded("max", row))
        shift = _finite(new)
        weights = [exponential(value - shift, dtype) for value in row]
        total = total * exp(largest - shift) + folded("sum", weights)
        largest = new
    own = of_warp.max(largest)
    total = of_warp.sum(total * exp(largest - _finite(own)))
    return over_pairs(own, total, spread, meeting)


def exponential(value: Any, dtype: Any) -> Any:
    """Of a number up to 0, as exact as elements of that type: of 16 bits it takes a GPU one instruction for six."""
    return exp(value, approx=dtype.bits == 16)


def _finite(largest: Any) -> Any:
    """What is subtracted before `exp`: the maximum, or 0 for −∞, from which −∞ would give NaN."""
    return largest if largest != -float("inf") else largest.dtype(0.0)


def over_pairs(largest: Any, total: Any, spread: Any, meeting: Any, turn: Any = 0) -> Any:
    """The largest element of a row and the sum of exponentials relative to it, from such pairs of its warps."""
    if spread.threads == WARP_SIZE:
        return largest, total
    maxima, totals = (of_lane(board) for board in of_warps((largest, total), spread, meeting, turn))
    largest = over_lanes("max", maxima, spread)
    parts = [t * exp(m - largest) for m, t in zip(maxima, totals, strict=True)]
    return largest, over_lanes("sum", parts, spread)
