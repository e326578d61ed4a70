# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.layer_norm``, ``rms_norm`` and their derivatives: a warp, a block or a cluster per row.

Computes y = (x − mean) · rstd · weight + bias, where rstd = 1 / √(variance + eps) (Ba et al., 2016), and without mean
and bias for RMSNorm (Zhang and Sennrich, 2019). With x̂ = (x − mean) · rstd and g = dy · weight, the derivatives are dx
= rstd · (g − mean(g) − x̂ · mean(g · x̂)), dweight = Σ dy · x̂ and dbias = Σ dy over rows. A row that fits into
registers is read once; each sum reads a longer one again. Partial sums of columns are added in a fixed order.
"""

from __future__ import annotations

from typing import Any, Final

import weft
from weft.kernels.annotations import Array, Bool, Constant, Float64, Int, Number, Numbers
from weft.kernels.device.cluster_reduce import cluster_barriers, fold, reduce_row
from weft.kernels.device.row import (
    ROWS,
    SHORT,
    aligned,
    elements,
    put_elements,
    row_count,
    row_of,
    sum_type,
)
from weft.kernels.device.row_mapping import (
    RowLimits,
    RowMapping,
    block_of,
    cluster_of,
    first_column,
    in_bounds,
    is_past_end,
    iterations,
    launch_rows,
    load_row,
    part_of,
    places,
    row_mapping_for,
    row_number,
    store_row,
)
from weft.kernels.device.row_pipeline import (
    load_async,
    prefetch,
    row_buffers,
    row_step,
    shared_vector,
    wait,
)
from weft.kernels.host.arrays import (
    common_width,
    describe,
    describe_alike,
    describe_vector,
    number,
    output,
    output_like,
)
from weft.kernels.host.autograd import (
    WIDE_ON_GPUS,
    composite_backward,
    differentiable,
    like_first,
    upcast,
    vjp,
)
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

_LIMITS: Final = RowLimits(items=32, threads=1024, streams_from=32768, arrays=1)


_MOST_THREADS: Final = 512  # whose registers hold a row, its gradient and the sums of its columns
_BACKWARD_LIMITS: Final = RowLimits(items=16, threads=_MOST_THREADS, streams_from=SHORT, arrays=2)
_COLUMNS: Final = 32  # of a block that sums them
_LINES: Final = 16
_IN_FLIGHT: Final = 16  # blocks per multiprocessor that sum columns


@weft.kernel
def normalize_stream_kernel(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    mapping: Constant,
    is_centered: Constant,
) -> None:
    """A block or a cluster: row after row, in its registers, while the next rows are in flight."""
    barrier = cluster_barriers(mapping, 2)
    ring, first, step = row_buffers((x,), mapping), row_number(mapping), row_step(mapping)
    prefetch((x,), ring, first, mapping)
    weights, biases = (shared_vector(one, x.dtype, mapping) for one in (weight, bias))
    weft.sync_threads()
    state, phase = weft.PipelineState(mapping.stages), weft.i32(0)
    for line in range(first, row_count(x.shape), step):
        target = part_of(row_of(out, line, mapping.width), mapping)
        (part,) = wait(ring, state, len(target))
        row = _standardized(part, x.shape[-1], eps, mapping, is_centered, barrier, phase)
        load_async((x,), ring, line + mapping.stages * step, state, mapping)
        _put(target, row, weights, biases, mapping)
        state, phase = state.next(), phase + 1


@weft.kernel
def normalize_kernel(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    mapping: Constant,
    is_centered: Constant,
) -> None:
    """A warp, a block or a cluster: a row; in registers, or read again for each sum."""
    barrier = cluster_barriers(mapping, 2)
    line, n, width = row_number(mapping), x.shape[-1], mapping.width
    if is_past_end(line, x.shape, mapping):
        return
    source, target = (part_of(row_of(one, line, width), mapping) for one in (x, out))
    weight = None if weight is None else part_of(_aligned(weight, width), mapping)
    bias = None if bias is None else part_of(_aligned(bias, width), mapping)
    if mapping.items:
        row = _standardized(source, n, eps, mapping, is_centered, barrier)
        _put(target, row, weight, bias, mapping)
    else:
        _normalize_read(source, weight, bias, n, eps, target, mapping, is_centered, barrier)


@weft.device
def _aligned(vector: weft.Tensor, width: Int) -> weft.Tensor:
    """Views a vector as aligned to loads of `width` elements, of at most 16 bytes."""
    return aligned(vector, min(width, weft.VECTOR_BYTES // vector.dtype.itemsize))


@weft.device
def _standardized(
    part: Numbers,
    n: Int,
    eps: Number,
    mapping: RowMapping,
    is_centered: Bool,
    barrier: Any,
    phase: Int = 0,
) -> Numbers:
    """Computes a thread's x̂ of a row of n elements in registers."""
    wide, width, at = sum_type(part.dtype), mapping.width, places(mapping)
    row = [wide(value) for value in load_row(part, mapping)]
    if is_centered:
        mean = reduce_row("sum", row, mapping, barrier[0], phase) * (1.0 / wide(n))
        row = [
            value - mean if in_bounds(part, at[k // width], mapping) else wide(0.0)
            for k, value in enumerate(row)
        ]
    squares = reduce_row("sum", [value * value for value in row], mapping, barrier[1], phase)
    scale = _scale(squares, n, eps)
    return [value * scale for value in row]


@weft.device
def _put(
    target: weft.Tensor,
    row: Numbers,
    weight: weft.Tensor | None,
    bias: weft.Tensor | None,
    mapping: RowMapping,
) -> None:
    """Stores a thread's elements, scaled and shifted."""
    for k, place in enumerate(places(mapping)):
        if in_bounds(target, place, mapping):
            values = row[k * mapping.width : (k + 1) * mapping.width]
            _store(target, place, values, weight, bias)


@weft.device
def _normalize_read(
    source: weft.Tensor,
    weight: weft.Tensor | None,
    bias: weft.Tensor | None,
    n: Int,
    eps: Number,
    target: weft.Tensor,
    mapping: RowMapping,
    is_centered: Bool,
    barrier: Any,
) -> None:
    """Normalizes a row that is read again for each sum."""
    wide, width = sum_type(source.dtype), mapping.width
    mean, squares = wide(0.0), wide(0.0)
    if is_centered:
        total = wide(0.0)
        for i in weft.unroll(iterations(source, mapping), 4):
            total += fold("sum", [wide(value) for value in elements(source, i, width)])
        mean = reduce_row("sum", total, mapping, barrier[0]) * (1.0 / wide(n))
    for i in weft.unroll(iterations(source, mapping), 4):
        row = [wide(value) - mean for value in elements(source, i, width)]
        squares += fold("sum", [value * value for value in row])
    scale = _scale(reduce_row("sum", squares, mapping, barrier[1]), n, eps)
    for i in iterations(source, mapping):
        row = [(wide(value) - mean) * scale for value in elements(source, i, width)]
        _store(target, i, row, weight, bias)


@weft.device
def _scale(squares: Number, n: Int, eps: Number) -> Number:
    wide = squares.dtype
    return weft.math.rsqrt(squares * (1.0 / wide(n)) + wide(eps))


@weft.device
def _store(
    target: weft.Tensor,
    i: Int,
    values: Numbers,
    weight: weft.Tensor | None,
    bias: weft.Tensor | None,
) -> None:
    """Stores adjacent elements from index i on, scaled and shifted."""
    if weight is not None:
        weights = elements(weight, i, len(values))
        values = [value * value.dtype(f) for value, f in zip(values, weights, strict=True)]
    if bias is not None:
        biases = elements(bias, i, len(values))
        values = [value + value.dtype(term) for value, term in zip(values, biases, strict=True)]
    put_elements(target, i, [target.dtype(value) for value in values])


@weft.kernel(max_threads=_MOST_THREADS)
def norm_backward_registers_kernel(
    gradient: Array,
    x: Array,
    weight: Array | None,
    eps: Float64,
    dx: Array,
    sums: Array,
    mapping: Constant,
    is_centered: Constant,
) -> None:
    """A warp, a block or a cluster: row after row, in registers, with partial sums of its columns."""
    wide, n, width, items = sum_type(x.dtype), x.shape[-1], mapping.width, mapping.items
    for_means, for_moments = cluster_barriers(mapping, 2)
    at, first, step = places(mapping), row_number(mapping), sums.shape[1]
    ring: Any = row_buffers((x, gradient), mapping) if mapping.stages else None
    if mapping.stages:
        prefetch((x, gradient), ring, first, mapping)
    weights = [wide(1.0)] * items
    if weight is not None:
        own = part_of(weight, mapping)
        weights = [
            wide(own[place + k]) if in_bounds(own, place, mapping) else wide(0.0)
            for place in at
            for k in range(width)
        ]
    dweight, dbias = [wide(0.0)] * items, [wide(0.0)] * items
    state, phase = weft.PipelineState(max(mapping.stages, 1)), weft.i32(0)
    for line in range(first, row_count(x.shape), step):
        target = part_of(row_of(dx, line, width), mapping)
        if mapping.stages:
            parts = wait(ring, state, len(target))
        else:
            parts = [part_of(row_of(one, line, width), mapping) for one in (x, gradient)]
        row, grads = ([wide(value) for value in load_row(part, mapping)] for part in parts)
        weighted = [grad * factor for grad, factor in zip(grads, weights, strict=True)]
        mean = grad_mean = wide(0.0)
        if is_centered:
            mean, grad_mean = _means(row, weighted, n, mapping, for_means, phase)
            row = [
                v - mean if in_bounds(target, at[k // width], mapping) else wide(0.0)
                for k, v in enumerate(row)
            ]
        squares = [value * value for value in row]
        dots = [value * grad for value, grad in zip(row, weighted, strict=True)]
        squares, dots = _means(squares, dots, n, mapping, for_moments, phase)
        if mapping.stages:
            load_async((x, gradient), ring, line + mapping.stages * step, state, mapping)
        scale = weft.math.rsqrt(squares + wide(eps))
        row = [value * scale for value in row]
        share = dots * scale
        results = [
            x.dtype(scale * (grad - grad_mean - value * share))
            for grad, value in zip(weighted, row, strict=True)
        ]
        store_row(target, results, mapping)
        dweight = [t + s * v for t, s, v in zip(dweight, grads, row, strict=True)]
        dbias = [t + s for t, s in zip(dbias, grads, strict=True)]
        state, phase = state.next(), phase + 1
    begin_column, own = first_column(n, mapping), part_of(row_of(sums[0], first), mapping)
    for k in weft.static_range(items):
        place = at[k // width] + k % width
        if in_bounds(own, place, mapping):
            put_sums(sums, first, begin_column + place, dweight[k], dbias[k], is_centered)


@weft.device
def put_sums(
    sums: weft.Tensor, line: Int, column: Int, dweight: Numbers, dbias: Numbers, is_centered: Bool
) -> None:
    """Stores partial sums of a column."""
    sums[0, line, column] = dweight
    if is_centered:
        sums[1, line, column] = dbias


@weft.device
def _means(
    one: Number, other: Number, n: Int, mapping: RowMapping, barrier: Any, phase: Int = 0
) -> Numbers:
    """Computes two means over a row of n elements, from sums or lists of its threads."""
    pair = fold("sum", one), fold("sum", other)
    one, other = reduce_row("sum", pair, mapping, barrier, phase)
    share = 1.0 / one.dtype(n)
    return one * share, other * share


@weft.kernel(max_threads=_MOST_THREADS)
def norm_backward_memory_kernel(
    gradient: Array,
    x: Array,
    weight: Array | None,
    eps: Float64,
    dx: Array,
    of_rows: Array,
    mapping: Constant,
    is_centered: Constant,
) -> None:
    """A block or a cluster: a row, read again for each sum; mean and rstd are stored for the columns."""
    for_means, for_moments = cluster_barriers(mapping, 2)
    wide, n, width, number = sum_type(x.dtype), x.shape[-1], mapping.width, row_number(mapping)
    if number >= row_count(x.shape):
        return
    source, grads, target = (
        part_of(row_of(one, number, width), mapping) for one in (x, gradient, dx)
    )
    weight = None if weight is None else part_of(weight, mapping)

    def read(place: Int, mean: Number) -> Numbers:
        """Loads adjacent elements of x, centered, and of dy · weight."""
        values = [wide(value) - mean for value in elements(source, place, width)]
        weighted = [wide(value) for value in elements(grads, place, width)]
        if weight is not None:
            weighted = [w * wide(weight[place + k]) for k, w in enumerate(weighted)]
        return values, weighted

    mean = grad_mean = one = other = wide(0.0)
    if is_centered:
        for place in iterations(source, mapping):
            values, weighted = read(place, mean)
            one, other = one + fold("sum", values), other + fold("sum", weighted)
        mean, grad_mean = _means(one, other, n, mapping, for_means)
    one = other = wide(0.0)
    for place in iterations(source, mapping):
        values, weighted = read(place, mean)
        one += fold("sum", [value * value for value in values])
        other += fold("sum", [v * w for v, w in zip(values, weighted, strict=True)])
    squares, dots = _means(one, other, n, mapping, for_moments)
    scale = weft.math.rsqrt(squares + wide(eps))
    share = dots * scale * scale
    for place in iterations(source, mapping):
        values, weighted = read(place, mean)
        results = [
            scale * (w - grad_mean - v * share) for v, w in zip(values, weighted, strict=True)
        ]
        put_elements(target, place, [x.dtype(result) for result in results])
    if weft.thread_idx.x == 0 and weft.cluster_rank() == 0:
        of_rows[number, 0], of_rows[number, 1] = mean, scale


@weft.kernel
def column_kernel(
    gradient: Array, x: Array, of_rows: Array, sums: Array, is_centered: Constant
) -> None:
    """A block: some columns, over every n-th row, where n is the number of slabs."""
    wide, slabs = sum_type(x.dtype), sums.shape[1]
    column, slab = weft.block_idx.x * _COLUMNS + weft.thread_idx.x, weft.block_idx.y
    dweight = dbias = wide(0.0)
    if column < x.shape[-1]:
        lines = range(slab + slabs * weft.thread_idx.y, row_count(x.shape), slabs * _LINES)
        for line in weft.unroll(lines, 4):
            grad = wide(row_of(gradient, line)[column])
            value = wide(row_of(x, line)[column]) - of_rows[line, 0]
            dweight += grad * value * of_rows[line, 1]
            dbias += grad
    dweight, dbias = reduce_lines(dweight, dbias)
    if column < x.shape[-1] and weft.thread_idx.y == 0:
        put_sums(sums, slab, column, dweight, dbias, is_centered)


@weft.device
def reduce_lines(one: Number, other: Number) -> Number:
    """Reduces two sums over the lines of a block, for the threads of the first line."""
    smem = weft.shared((2, _LINES, _COLUMNS), one.dtype)
    smem[0, weft.thread_idx.y, weft.thread_idx.x] = one
    smem[1, weft.thread_idx.y, weft.thread_idx.x] = other
    weft.sync_threads()
    if weft.thread_idx.y == 0:
        for line in weft.static_range(1, _LINES):
            one += smem[0, line, weft.thread_idx.x]
            other += smem[1, line, weft.thread_idx.x]
    return one, other


@weft.kernel
def add_kernel(sums: Array, dweight: Array, dbias: Any, is_centered: Constant) -> None:
    """A block: reduces the partial sums of some columns."""
    column = weft.block_idx.x * _COLUMNS + weft.thread_idx.x
    one = other = sums.dtype(0.0)
    if column < dweight.shape[0]:
        for line in weft.unroll(range(weft.thread_idx.y, sums.shape[1], _LINES), 4):
            one += sums[0, line, column]
            if is_centered:
                other += sums[1, line, column]
    one, other = reduce_lines(one, other)
    if column < dweight.shape[0] and weft.thread_idx.y == 0:
        dweight[column] = dweight.dtype(one)
        if is_centered:
            dbias[column] = dbias.dtype(other)


@weft.jit
def _normalize(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    mapping: Constant,
    is_centered: Constant,
) -> None:
    arguments = x, weight, bias, eps, out, mapping, is_centered
    launch_rows(normalize_kernel, normalize_stream_kernel, x.shape, mapping, arguments)


@weft.jit
def _backward_in_registers(
    gradient: Array,
    x: Array,
    weight: Array | None,
    eps: Float64,
    dx: Array,
    dweight: Array,
    dbias: Array | None,
    mapping: Constant,
    is_centered: Constant,
) -> None:
    lines = ROWS if mapping.threads == weft.WARP_SIZE else 1
    at_once = (
        weft.multiprocessors() * (_MOST_THREADS // (mapping.threads * lines)) // mapping.blocks
    )
    at_once = min(at_once, norm_backward_registers_kernel.max_clusters(mapping.blocks))
    groups = max(min(weft.ceil_div(row_count(x.shape), lines), at_once), 1)
    wide, columns = sum_type(x.dtype), x.shape[-1]
    sums = weft.scratch((2, groups * lines, columns), wide)
    norm_backward_registers_kernel(gradient, x, weight, eps, dx, sums, mapping, is_centered).launch(
        grid=groups * mapping.blocks, block=block_of(mapping), cluster=cluster_of(mapping)
    )
    add_kernel(sums, dweight, dbias, is_centered).launch(
        grid=weft.ceil_div(columns, _COLUMNS), block=(_COLUMNS, _LINES)
    )


@weft.jit
def _backward_from_memory(
    gradient: Array,
    x: Array,
    weight: Array | None,
    eps: Float64,
    dx: Array,
    dweight: Array,
    dbias: Array | None,
    mapping: Constant,
    is_centered: Constant,
) -> None:
    rows, columns, wide = row_count(x.shape), x.shape[-1], sum_type(x.dtype)
    blocks, block = weft.ceil_div(columns, _COLUMNS), (_COLUMNS, _LINES)
    at_once = weft.ceil_div(_IN_FLIGHT * weft.multiprocessors(), blocks)
    slabs = max(min(weft.ceil_div(rows, 4 * _LINES), at_once), 1)
    of_rows = weft.scratch((rows, 2), wide)
    sums = weft.scratch((2, slabs, columns), wide)
    norm_backward_memory_kernel(gradient, x, weight, eps, dx, of_rows, mapping, is_centered).launch(
        grid=max(rows, 1) * mapping.blocks, block=block_of(mapping), cluster=cluster_of(mapping)
    )
    column_kernel(gradient, x, of_rows, sums, is_centered).launch(grid=(blocks, slabs), block=block)
    add_kernel(sums, dweight, dbias, is_centered).launch(grid=blocks, block=block)


def _layer_norm_derivative(
    gradient: Array, _: object, x: Array, weight: Array, bias: Array, eps: float
) -> Array:
    return *norm_backward(gradient, x, weight, bias, eps, True), None


def _rms_norm_derivative(gradient: Array, _: object, x: Array, weight: Array, eps: float) -> Array:
    dx, dweight, _ = norm_backward(gradient, x, weight, None, eps, False)
    return dx, dweight, None


def _of_rows(
    x: Array, weight: Array, bias: Array, eps: float, out: Array, is_centered: bool
) -> Array:
    source, eps = describe(x, "x", is_float=True), number(eps, "eps")
    vectors = [
        describe_vector(source, name, vector)
        for name, vector in (("weight", weight), ("bias", bias))
        if vector is not None
    ]
    out = output_like(source, out, ("x",), x=x, weight=weight, bias=bias)
    if source.shape[-1] and source.rows:
        width = common_width(
            source, describe(out, "out"), *(v for v in vectors if not v.has_chunks)
        )
        mapping = row_mapping_for(source.shape[-1], width, source.dtype, source.device, _LIMITS)
        return Call(_normalize, (x, weight, bias, eps, out, mapping, is_centered), out)
    return out


def _like_gradients(
    gradient: Array, x: Array, weight: Array = None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    vector = x.new_empty(x.shape[-1:], dtype=(x if weight is None else weight).dtype)
    return x.new_empty(x.shape), vector, vector.new_empty(x.shape[-1:])


def _like_rms_gradients(*arguments: Any) -> tuple[Array, Array]:
    return _like_gradients(*arguments)[:2]


def _layer_norm_backward_by_torch(gradient: Array, x: Array, weight: Array, eps: float) -> Array:
    def norm(x: Array, weight: Array, bias: Array) -> Array:
        wide = upcast(x)
        wide = wide - wide.mean(-1, keepdim=True)
        return _scaled(wide, eps) * weight + bias

    factor = x.new_ones(x.shape[-1:]) if weight is None else weight
    return vjp(norm, gradient, x, factor, factor.new_zeros(factor.shape))


def _rms_norm_backward_by_torch(gradient: Array, x: Array, weight: Array, eps: float) -> Array:
    factor = x.new_ones(x.shape[-1:]) if weight is None else weight

    def norm(x: Array, weight: Array) -> Array:
        return _scaled(upcast(x), eps) * weight

    return vjp(norm, gradient, x, factor)


def _scaled(x: Array, eps: float) -> Array:
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


def norm_backward(
    gradient: Array, x: Array, weight: Array, bias: Array, eps: float, is_centered: bool
) -> tuple[Array, Array, Array]:
    """Computes the derivatives by arguments that are not None, with the vectors in their own types."""
    own = layer_norm_backward if is_centered else rms_norm_backward
    dx, dweight, *dbias = own(gradient, x, weight, eps)
    return (
        dx,
        None if weight is None else dweight,
        None if bias is None else dbias[0].to(bias.dtype),
    )


def _norm_gradients(
    gradient: Array, x: Array, weight: Array, eps: float, is_centered: bool
) -> Array:
    """The call that computes the derivatives by x, weight and, if rows are centered, bias; or empty ones."""
    source, eps = describe(x, "x", is_float=True), number(eps, "eps")
    upstream = describe_alike(source, gradient, "gradient")
    of_vectors = source if weight is None else describe_vector(source, "weight", weight)
    dx = output_like(source)
    columns = source.shape[-1:]
    dweight, *dbias = (
        output(source, columns, of_vectors.dtype, of_vectors.type_name)
        for _ in range(1 + is_centered)
    )
    results = dx, dweight, *dbias
    if not columns[0]:
        return results
    width = common_width(source, upstream, describe(dx, "x"))
    mapping = row_mapping_for(columns[0], width, source.dtype, source.device, _BACKWARD_LIMITS)
    function = _backward_in_registers if mapping.items else _backward_from_memory
    written = dx, dweight, dbias[0] if dbias else None
    return Call(function, (gradient, x, weight, eps, *written, mapping, is_centered), results)


@differentiable(
    like_first,
    _layer_norm_derivative,
    autocast=WIDE_ON_GPUS,
    rows={"x": 1},
    saves=frozenset({"x", "weight"}),
)
@cached_dispatch
def layer_norm(
    x: Array, weight: Array = None, bias: Array = None, eps: float = 1e-5, out: Array = None
) -> Array:
    """Each row with mean 0 and variance 1: (x − mean) / √(variance + eps) · weight + bias over the last dimension.

    Args:
        x: an array of 16, 32 or 64-bit floats of any rank from 1 on and any layout. Computed in f32, or f64 for f64.
        weight: a vector of floats, one per column; None: 1.
        bias: a vector of floats, one per column; None: 0.
        eps: added to the variance.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays of floats.
        ValueError: for vectors that are not as long as the rows; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.layer_norm(np.array([[1.0, 3.0]]), eps=0.0).tolist()
        [[-1.0, 1.0]]
    """
    return _of_rows(x, weight, bias, eps, out, True)


@differentiable(like_first, _rms_norm_derivative, rows={"x": 1}, saves=frozenset({"x", "weight"}))
@cached_dispatch
def rms_norm(x: Array, weight: Array = None, eps: float = 1e-6, out: Array = None) -> Array:
    """Each row divided by its root mean square: x / √(mean of x² + eps) · weight over the last dimension.

    Other arguments, result and errors as in `layer_norm`.

    Args:
        x: as in `layer_norm`.
        weight: as in `layer_norm`.
        eps: added to the mean of the squares.
        out: as in `layer_norm`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.rms_norm(np.array([[1.0, -1.0]]), eps=0.0).tolist()
        [[1.0, -1.0]]
    """
    return _of_rows(x, weight, None, eps, out, False)


@differentiable(_like_gradients, composite_backward(_layer_norm_backward_by_torch))
@cached_dispatch
def layer_norm_backward(
    gradient: Array, x: Array, weight: Array = None, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """The derivatives of `layer_norm` by `x`, `weight` and `bias`.

    Means and variances are computed once more. The order of additions depends on shapes, layout, alignment and device
    alone: equal calls give equal bits.

    Args:
        gradient: of the result, an array of x's shape and type.
        x: as in `layer_norm`.
        weight: as in `layer_norm`.
        eps: as in `layer_norm`.

    Returns:
        Three new arrays of x's library: of x's shape and type, and two vectors of weight's type, or x's.

    Raises:
        TypeError: as `layer_norm`; for a gradient of another type.
        ValueError: as `layer_norm`; for a gradient of another shape.

    Example:
        >>> import numpy as np, weft
        >>> x, gradient = np.array([[-1.0, 1.0]]), np.array([[1.0, 0.0]])
        >>> dx, dweight, dbias = weft.kernels.layer_norm_backward(gradient, x, eps=0.0)
        >>> dx.tolist(), dweight.tolist(), dbias.tolist()
        ([[0.0, 0.0]], [-1.0, 0.0], [1.0, 0.0])
    """
    return _norm_gradients(gradient, x, weight, eps, True)


@differentiable(_like_rms_gradients, composite_backward(_rms_norm_backward_by_torch))
@cached_dispatch
def rms_norm_backward(
    gradient: Array, x: Array, weight: Array = None, eps: float = 1e-6
) -> tuple[Array, Array]:
    """The derivatives of `rms_norm` by `x` and by `weight`; otherwise as `layer_norm_backward`.

    Args:
        gradient: as in `layer_norm_backward`.
        x: as in `rms_norm`.
        weight: as in `rms_norm`.
        eps: as in `rms_norm`.

    Example:
        >>> import numpy as np, weft
        >>> x, gradient = np.array([[-1.0, 1.0]]), np.array([[1.0, 0.0]])
        >>> dx, dweight = weft.kernels.rms_norm_backward(gradient, x, eps=0.0)
        >>> dx.tolist(), dweight.tolist()
        ([[0.5, 0.5]], [-1.0, 0.0])
    """
    return _norm_gradients(gradient, x, weight, eps, False)
