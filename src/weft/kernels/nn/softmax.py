# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.softmax``, ``log_softmax`` and their derivatives: a warp, a block or a cluster per row.

Computes y = exp(x − max x) / Σ exp(x − max x) and log y over the last dimension, and dx = y · (dy − Σ dy · y). A row
that fits into registers is read once; a longer one twice, by online softmax (Milakov and Gimelshein, 2018). Each warp
takes the exponentials relative to its own maximum, so that a row needs one synchronization.
"""

from __future__ import annotations

from typing import Any, Final

import weft
from weft.kernels.annotations import Array, Bool, Constant, ElementType, Int, Number, Numbers
from weft.kernels.device.cluster_reduce import (
    cluster_barriers,
    fold,
    lane_partials,
    reduce_lanes,
    reduce_row,
    warp_partials,
)
from weft.kernels.device.row import elements, put_elements, row_count, row_of, sum_type
from weft.kernels.device.row_mapping import (
    RowLimits,
    RowMapping,
    is_past_end,
    iterations,
    launch_rows,
    load_row,
    part_of,
    row_mapping_for,
    row_number,
    store_row,
)
from weft.kernels.device.row_pipeline import load_async, prefetch, row_buffers, row_step, wait
from weft.kernels.host.arrays import common_width, describe, describe_alike, output_like
from weft.kernels.host.autograd import (
    WIDE_ON_GPUS,
    composite_backward,
    differentiable,
    like_first,
    like_second,
    upcast,
)
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

_LIMITS: Final = RowLimits(items=32, threads=1024, streams_from=32768, arrays=1)


_BACKWARD_LIMITS: Final = RowLimits(items=16, threads=1024, streams_from=16384, arrays=2)


@weft.kernel
def softmax_stream_kernel(x: Array, out: Array, mapping: Constant, is_log: Constant) -> None:
    """A block or a cluster: row after row, in its registers, while the next rows are in flight."""
    (barrier,) = cluster_barriers(mapping, 1)
    ring, first, step = row_buffers((x,), mapping), row_number(mapping), row_step(mapping)
    prefetch((x,), ring, first, mapping)
    state, phase = weft.PipelineState(mapping.stages), weft.i32(0)
    for number in range(first, row_count(x.shape), step):
        target = part_of(row_of(out, number, mapping.width), mapping)
        (part,) = wait(ring, state, len(target))
        row = _results_in_registers(part, mapping, is_log, barrier, phase)
        load_async((x,), ring, number + mapping.stages * step, state, mapping)
        store_row(target, row, mapping)
        state, phase = state.next(), phase + 1


@weft.device
def _results_in_registers(
    part: weft.Tensor, mapping: RowMapping, is_log: Bool, barrier: Any, phase: Int = 0
) -> Numbers:
    """Computes a thread's part of a row in registers."""
    row = load_wide(part, mapping)
    own, weights = exponentials(row, part.dtype)
    total = weft.warp.sum(fold("sum", weights))
    largest, total = reduce_max_sum(own, total, mapping, barrier, phase)
    if is_log:
        results = _logarithms(row, largest, weft.math.log(total))
    else:
        scale = weft.math.exp(own - largest) / total
        results = [weight * scale for weight in weights]
    return [part.dtype(result) for result in results]


@weft.device
def _logarithms(row: Numbers, largest: Number, shift: Int) -> Numbers:
    return [value - largest - shift for value in row]


# Device functions for kernels of rows.


@weft.device
def load_wide(row: weft.Tensor, mapping: RowMapping) -> Numbers:
    """Loads a thread's elements of a row in the accumulator type; −∞ past its end."""
    wide = sum_type(row.dtype)
    return [wide(value) for value in load_row(row, mapping, -float("inf"))]


@weft.device
def exponentials(row: Numbers, dtype: ElementType) -> Numbers:
    """Computes a warp's maximum, and a thread's exponentials relative to it."""
    own = weft.warp.max(fold("max", row))
    shift = _finite(own)
    return own, [exponential(value - shift, dtype) for value in row]


@weft.device
def online_max_sum(source: weft.Tensor, mapping: RowMapping, barrier: Any) -> Any:
    """Reduces a row that does not fit into registers to its maximum and Σ exp(x − maximum), in one pass."""
    wide, dtype = sum_type(source.dtype), source.dtype
    largest, total = wide(-float("inf")), wide(0.0)
    for i in weft.unroll(iterations(source, mapping), 4):
        row = [wide(value) for value in elements(source, i, mapping.width)]
        new = max(largest, fold("max", row))
        shift = _finite(new)
        weights = [exponential(value - shift, dtype) for value in row]
        total = total * weft.math.exp(largest - shift) + fold("sum", weights)
        largest = new
    own = weft.warp.max(largest)
    total = weft.warp.sum(total * weft.math.exp(largest - _finite(own)))
    return reduce_max_sum(own, total, mapping, barrier)


@weft.device
def exponential(value: Number, dtype: ElementType) -> Number:
    """Computes exp(value ≤ 0) as exactly as elements of the type are: 16 bits take one GPU instruction, not six."""
    return weft.math.exp(value, approx=dtype.bits == 16)


@weft.device
def _finite(largest: Number) -> Number:
    """Replaces −∞ by 0, since −∞ − (−∞) is NaN."""
    return largest if largest != -float("inf") else largest.dtype(0.0)


@weft.device
def reduce_max_sum(
    largest: Number, total: Number, mapping: RowMapping, barrier: Any, phase: Int = 0
) -> Any:
    """Combines the warps' maxima and sums of exponentials into those of the row."""
    if mapping.threads == weft.WARP_SIZE:
        return largest, total
    maxima, totals = (
        lane_partials(partial)
        for partial in warp_partials((largest, total), mapping, barrier, phase)
    )
    largest = reduce_lanes("max", maxima, mapping)
    parts = [t * weft.math.exp(m - largest) for m, t in zip(maxima, totals, strict=True)]
    return largest, reduce_lanes("sum", parts, mapping)


@weft.kernel
def softmax_backward_stream_kernel(
    gradient: Array, y: Array, out: Array, mapping: Constant, is_log: Constant
) -> None:
    """A block or a cluster: row after row, in its registers, while the next rows are in flight."""
    (barrier,) = cluster_barriers(mapping, 1)
    ring, first, step = row_buffers((gradient, y), mapping), row_number(mapping), row_step(mapping)
    prefetch((gradient, y), ring, first, mapping)
    state, phase = weft.PipelineState(mapping.stages), weft.i32(0)
    for line in range(first, row_count(y.shape), step):
        target = part_of(row_of(out, line, mapping.width), mapping)
        source, row = wait(ring, state, len(target))
        results = _gradients_in_registers(source, row, mapping, is_log, barrier, phase)
        load_async((gradient, y), ring, line + mapping.stages * step, state, mapping)
        store_row(target, results, mapping)
        state, phase = state.next(), phase + 1


@weft.kernel
def softmax_backward_kernel(
    gradient: Array, y: Array, out: Array, mapping: Constant, is_log: Constant
) -> None:
    """A warp, a block or a cluster: a row; in registers, or read twice."""
    (barrier,) = cluster_barriers(mapping, 1)
    line = row_number(mapping)
    if is_past_end(line, y.shape, mapping):
        return
    source, row, target = (
        part_of(row_of(one, line, mapping.width), mapping) for one in (gradient, y, out)
    )
    if mapping.items:
        store_row(target, _gradients_in_registers(source, row, mapping, is_log, barrier), mapping)
    else:
        total = sum_type(y.dtype)(0.0)
        for i in weft.unroll(iterations(row, mapping), 4):
            grads, values = (_wide(elements(one, i, mapping.width)) for one in (source, row))
            total += fold("sum", _sum_terms(grads, values, is_log))
        total = reduce_row("sum", total, mapping, barrier)
        for i in iterations(row, mapping):
            grads, values = (_wide(elements(one, i, mapping.width)) for one in (source, row))
            put_elements(target, i, _gradients(grads, values, total, out.dtype, is_log))


@weft.device
def _gradients_in_registers(
    source: weft.Tensor,
    row: weft.Tensor,
    mapping: RowMapping,
    is_log: Bool,
    barrier: Any,
    phase: Int = 0,
) -> Numbers:
    """Computes a thread's gradients of a row in registers."""
    grads, values = (_wide(load_row(one, mapping)) for one in (source, row))
    total = reduce_row("sum", _sum_terms(grads, values, is_log), mapping, barrier, phase)
    return _gradients(grads, values, total, row.dtype, is_log)


@weft.device
def _wide(values: Numbers) -> Numbers:
    return [sum_type(value.dtype)(value) for value in values]


@weft.device
def _sum_terms(grads: Numbers, values: Numbers, is_log: Bool) -> Number:
    """Computes the terms of the row's sum."""
    if is_log:
        return grads
    return [grad * value for grad, value in zip(grads, values, strict=True)]


@weft.device
def _gradients(
    grads: Numbers, values: Numbers, total: Number, dtype: ElementType, is_log: Bool
) -> Numbers:
    """Computes dx of adjacent elements."""
    pairs = zip(grads, values, strict=True)
    if is_log:
        return [dtype(grad - weft.math.exp(value) * total) for grad, value in pairs]
    return [dtype(value * (grad - total)) for grad, value in pairs]


@weft.jit
def _softmax(x: Array, out: Array, mapping: Constant, is_log: Constant) -> None:
    kernel = narrow_softmax_kernel if x.dtype.itemsize == 2 else softmax_kernel
    launch_rows(kernel, softmax_stream_kernel, x.shape, mapping, (x, out, mapping, is_log))


@weft.jit
def _softmax_backward_rows(
    gradient: Array, y: Array, out: Array, mapping: Constant, is_log: Constant
) -> None:
    arguments = gradient, y, out, mapping, is_log
    kernel, stream_kernel = softmax_backward_kernel, softmax_backward_stream_kernel
    launch_rows(kernel, stream_kernel, y.shape, mapping, arguments)


def _softmax_derivative(gradient: Array, y: Array, _: object) -> Array:
    return (softmax_backward(gradient, y),)


def _log_softmax_derivative(gradient: Array, y: Array, _: object) -> Array:
    return (log_softmax_backward(gradient, y),)


def _of_rows(x: Array, out: Array, is_log: bool) -> Array:
    source = describe(x, "x", is_float=True)
    out = output_like(source, out, ("x",), x=x)
    if source.shape[-1] and source.rows:
        width = common_width(source, describe(out, "out"))
        mapping = row_mapping_for(source.shape[-1], width, source.dtype, source.device, _LIMITS)
        return Call(_softmax, (x, out, mapping, is_log), out)
    return out


def softmax_rows(x: Array, out: Array, mapping: Constant, is_log: Constant) -> None:
    """A warp, a block or a cluster: a row; in registers, or read twice: for the sum, and for the results."""
    (barrier,) = cluster_barriers(mapping, 1)
    number, width = row_number(mapping), mapping.width
    if is_past_end(number, x.shape, mapping):
        return
    source, target = (part_of(row_of(one, number, width), mapping) for one in (x, out))
    if mapping.items:
        store_row(target, _results_in_registers(source, mapping, is_log, barrier), mapping)
    else:
        largest, total = online_max_sum(source, mapping, barrier)
        shift, scale = weft.math.log(total), 1.0 / total
        for i in iterations(source, mapping):
            row = [largest.dtype(value) for value in elements(source, i, width)]
            if is_log:
                results = _logarithms(row, largest, shift)
            else:
                results = [exponential(value - largest, x.dtype) * scale for value in row]
            put_elements(target, i, [x.dtype(result) for result in results])


softmax_kernel = weft.kernel(softmax_rows)
# With more registers a multiprocessor has one block of 512 threads, as in logarithms of 16-bit floats.
narrow_softmax_kernel = weft.kernel(max_registers=64)(softmax_rows)


def _backward_by_torch(gradient: Array, y: Array) -> Array:
    grad, wide = upcast(gradient), upcast(y)
    return (wide * (grad - (grad * wide).sum(-1, keepdim=True))).to(y.dtype)


def _log_backward_by_torch(gradient: Array, y: Array) -> Array:
    grad = upcast(gradient)
    return (grad - upcast(y).exp() * grad.sum(-1, keepdim=True)).to(y.dtype)


def _softmax_gradient(gradient: Array, y: Array, out: Array, is_log: bool) -> Array:
    source = describe(y, "y", is_float=True)
    upstream = describe_alike(source, gradient, "gradient")
    out = output_like(source, out, ("gradient", "y"), gradient=gradient, y=y)
    if source.rows and source.shape[-1]:
        width = common_width(source, upstream, describe(out, "out"))
        mapping = row_mapping_for(
            source.shape[-1], width, source.dtype, source.device, _BACKWARD_LIMITS
        )
        return Call(_softmax_backward_rows, (gradient, y, out, mapping, is_log), out)
    return out


@differentiable(
    like_first,
    _softmax_derivative,
    autocast=WIDE_ON_GPUS,
    rows={"x": 1},
    saves=frozenset({"result"}),
)
@cached_dispatch
def softmax(x: Array, out: Array = None) -> Array:
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


@differentiable(
    like_first,
    _log_softmax_derivative,
    autocast=WIDE_ON_GPUS,
    rows={"x": 1},
    saves=frozenset({"result"}),
)
@cached_dispatch
def log_softmax(x: Array, out: Array = None) -> Array:
    """The logarithm of the softmax of each row: x − log Σ exp(x) over the last dimension.

    Arguments, result and errors as in `softmax`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.log_softmax(np.array([[0, -np.inf]])).tolist()
        [[0.0, -inf]]
    """
    return _of_rows(x, out, True)


@differentiable(like_second, composite_backward(_backward_by_torch), rows={"gradient": 1, "y": 1})
@cached_dispatch
def softmax_backward(gradient: Array, y: Array, out: Array = None) -> Array:
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
    return _softmax_gradient(gradient, y, out, False)


@differentiable(
    like_second, composite_backward(_log_backward_by_torch), rows={"gradient": 1, "y": 1}
)
@cached_dispatch
def log_softmax_backward(gradient: Array, y: Array, out: Array = None) -> Array:
    """The derivative of `log_softmax`: gradient − exp(y) · Σ gradient over the last dimension.

    Arguments, result and errors as in `softmax_backward`, of what `log_softmax` gave.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.log_softmax_backward(np.array([[1.0, 0.0]]), np.log([[0.5, 0.5]])).tolist()
        [[0.5, -0.5]]
    """
    return _softmax_gradient(gradient, y, out, True)
