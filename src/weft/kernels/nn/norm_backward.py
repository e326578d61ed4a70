# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.layer_norm_backward`` and ``rms_norm_backward``.

In: the gradient of the result, the input and the weight. Out: the derivatives by the input, the weight and the bias.
A row that fits into registers is read once, by a warp, a block or a cluster, as `spreads` says, whose threads keep the
sums of their columns over all rows that they take. Of longer ones a second kernel sums the columns. Partial sums are
added last, always in the same order.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.device.row import ROWS, SHORT, elements, put_elements, row_count, row_of, sum_type
from weft.kernels.device.row_mapping import (
    Limits,
    block_of,
    cluster_of,
    first_of,
    folded,
    has,
    load_row,
    meetings,
    over_row,
    part_of,
    places,
    rounds,
    row_number,
    spread_for,
    store_row,
)
from weft.kernels.device.row_pipeline import begin, begin_all, ring_of, wait
from weft.kernels.host.arrays import (
    Array,
    Constant,
    Float64,
    common_width,
    describe,
    describe_vector,
    number,
    output,
    output_like,
)
from weft.kernels.host.autograd import composite_backward, differentiable, upcast, vjp
from weft.kernels.nn.activation import check_alike
from weft.language.asynchronous.cluster import cluster_rank
from weft.language.asynchronous.pipeline import PipelineState
from weft.language.control import ceil_div, static_range, unroll
from weft.language.memory.scratch import scratch
from weft.language.memory.shared import shared
from weft.language.numbers.math import max as greater
from weft.language.numbers.math import min as lesser
from weft.language.numbers.math import rsqrt
from weft.language.threads.barrier import sync_threads
from weft.language.threads.grid import block_idx, multiprocessors, thread_idx
from weft.types.dtype import i32
from weft.types.launch_limits import WARP_SIZE

_MOST_THREADS: Final = 512  # whose registers hold a row, its gradient and the sums of its columns
_LIMITS: Final = Limits(items=16, threads=_MOST_THREADS, streams_from=SHORT, arrays=2)
_COLUMNS: Final = 32  # of a block that sums them
_LINES: Final = 16
_AT_ONCE: Final = 16  # blocks for each multiprocessor, that sum columns


def _like_slopes(
    gradient: Any, x: Any, weight: Any = None, eps: float = 1e-5
) -> tuple[Any, Any, Any]:
    vector = x.new_empty(x.shape[-1:], dtype=(x if weight is None else weight).dtype)
    return x.new_empty(x.shape), vector, vector.new_empty(x.shape[-1:])


def _like_two_slopes(*arguments: Any) -> tuple[Any, Any]:
    return _like_slopes(*arguments)[:2]


def _slopes_by_torch(gradient: Any, x: Any, weight: Any, eps: float) -> Any:
    def norm(x: Any, weight: Any, bias: Any) -> Any:
        wide = upcast(x)
        wide = wide - wide.mean(-1, keepdim=True)
        return _scaled(wide, eps) * weight + bias

    factor = x.new_ones(x.shape[-1:]) if weight is None else weight
    return vjp(norm, gradient, x, factor, factor.new_zeros(factor.shape))


def _two_slopes_by_torch(gradient: Any, x: Any, weight: Any, eps: float) -> Any:
    factor = x.new_ones(x.shape[-1:]) if weight is None else weight

    def norm(x: Any, weight: Any) -> Any:
        return _scaled(upcast(x), eps) * weight

    return vjp(norm, gradient, x, factor)


def _scaled(x: Any, eps: float) -> Any:
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


@differentiable(_like_slopes, composite_backward(_slopes_by_torch))
def layer_norm_backward(
    gradient: Any, x: Any, weight: Any = None, eps: float = 1e-5
) -> tuple[Any, Any, Any]:
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
        >>> by_x, by_weight, by_bias = weft.kernels.layer_norm_backward(gradient, x, eps=0.0)
        >>> by_x.tolist(), by_weight.tolist(), by_bias.tolist()
        ([[0.0, 0.0]], [-1.0, 0.0], [1.0, 0.0])
    """
    return _slopes(gradient, x, weight, eps, True)


@differentiable(_like_two_slopes, composite_backward(_two_slopes_by_torch))
def rms_norm_backward(
    gradient: Any, x: Any, weight: Any = None, eps: float = 1e-6
) -> tuple[Any, Any]:
    """The derivatives of `rms_norm` by `x` and by `weight`; otherwise as `layer_norm_backward`.

    Args:
        gradient: as in `layer_norm_backward`.
        x: as in `rms_norm`.
        weight: as in `rms_norm`.
        eps: as in `rms_norm`.

    Example:
        >>> import numpy as np, weft
        >>> x, gradient = np.array([[-1.0, 1.0]]), np.array([[1.0, 0.0]])
        >>> by_x, by_weight = weft.kernels.rms_norm_backward(gradient, x, eps=0.0)
        >>> by_x.tolist(), by_weight.tolist()
        ([[0.5, 0.5]], [-1.0, 0.0])
    """
    return _slopes(gradient, x, weight, eps, False)[:2]


def norm_backward(
    gradient: Any, x: Any, weight: Any, bias: Any, eps: float, is_centered: bool
) -> tuple[Any, Any, Any]:
    """What torch's operators call: the derivatives by what is not None, the vectors in their own types."""
    own = layer_norm_backward if is_centered else rms_norm_backward
    by_x, by_weight, *by_bias = own(gradient, x, weight, eps)
    return (
        by_x,
        None if weight is None else by_weight,
        None if bias is None else by_bias[0].to(bias.dtype),
    )


def _slopes(
    gradient: Any, x: Any, weight: Any, eps: float, is_centered: bool
) -> tuple[Any, Any, Any]:
    source, eps = describe(x, "x", is_float=True), number(eps, "eps")
    check_alike(source, gradient, "gradient")
    of_vectors = source if weight is None else describe_vector(source, "weight", weight)
    by_x = output_like(source)
    columns = source.shape[-1:]
    by_weight, by_bias = (
        output(source, columns, of_vectors.dtype, of_vectors.type_name) for _ in range(2)
    )
    if columns[0]:
        arrays = [source, describe(gradient, "gradient"), describe(by_x, "x")]
        width = common_width(*arrays)
        spread = spread_for(columns[0], width, source.dtype, source.device, _LIMITS)
        call = _of_kept_rows if spread.items else _of_read_rows
        call(gradient, x, weight, eps, by_x, by_weight, by_bias, spread, is_centered)
    return by_x, by_weight, by_bias


@jit
def _of_kept_rows(
    gradient: Array,
    x: Array,
    weight: Array | None,
    eps: Float64,
    by_x: Array,
    by_weight: Array,
    by_bias: Array,
    spread: Constant,
    is_centered: Constant,
) -> None:
    lines = ROWS if spread.threads == WARP_SIZE else 1
    at_once = multiprocessors() * (_MOST_THREADS // (spread.threads * lines)) // spread.blocks
    at_once = lesser(at_once, kept_row_kernel.max_clusters(spread.blocks))
    groups = greater(lesser(ceil_div(row_count(x.shape), lines), at_once), 1)
    wide, columns = sum_type(x.dtype), x.shape[-1]
    sums = scratch((2, groups * lines, columns), wide)
    kept_row_kernel(gradient, x, weight, eps, by_x, sums, spread, is_centered).launch(
        grid=groups * spread.blocks, block=block_of(spread), cluster=cluster_of(spread)
    )
    add_kernel(sums, by_weight, by_bias, is_centered).launch(
        grid=ceil_div(columns, _COLUMNS), block=(_COLUMNS, _LINES)
    )


@kernel(max_threads=_MOST_THREADS)
def kept_row_kernel(
    gradient: Array,
    x: Array,
    weight: Array | None,
    eps: Float64,
    by_x: Array,
    sums: Array,
    spread: Constant,
    is_centered: Constant,
) -> None:
    """A warp, a block or a cluster: row after row, in its registers, and what its rows add to each column."""
    wide, n, width, items = sum_type(x.dtype), x.shape[-1], spread.width, spread.items
    for_means, for_moments = meetings(spread, 2)
    at, first, step = places(spread), row_number(spread), sums.shape[1]
    ring = ring_of((x, gradient), spread) if spread.stages else None
    if spread.stages:
        begin_all((x, gradient), ring, first, spread)
    factors = [wide(1.0)] * items
    if weight is not None:
        own = part_of(weight, spread)
        factors = [
            wide(own[place + k]) if has(own, place, spread) else wide(0.0)
            for place in at
            for k in range(width)
        ]
    by_weight, by_bias = [wide(0.0)] * items, [wide(0.0)] * items
    state, turn = PipelineState(max(spread.stages, 1)), i32(0)
    for line in range(first, row_count(x.shape), step):
        target = part_of(row_of(by_x, line, width), spread)
        if spread.stages:
            parts = wait(ring, state, len(target))
        else:
            parts = [part_of(row_of(one, line, width), spread) for one in (x, gradient)]
        row, slopes = ([wide(value) for value in load_row(part, spread)] for part in parts)
        weighted = [slope * factor for slope, factor in zip(slopes, factors, strict=True)]
        mean = slope_mean = wide(0.0)
        if is_centered:
            mean, slope_mean = _means(row, weighted, n, spread, for_means, turn)
            row = [
                v - mean if has(target, at[k // width], spread) else wide(0.0)
                for k, v in enumerate(row)
            ]
        squares = [value * value for value in row]
        products = [value * slope for value, slope in zip(row, weighted, strict=True)]
        squares, products = _means(squares, products, n, spread, for_moments, turn)
        if spread.stages:
            begin((x, gradient), ring, line + spread.stages * step, state, spread)
        scale = rsqrt(squares + wide(eps))
        row = [value * scale for value in row]
        share = products * scale
        results = [
            x.dtype(scale * (slope - slope_mean - value * share))
            for slope, value in zip(weighted, row, strict=True)
        ]
        store_row(target, results, spread)
        by_weight = [t + s * v for t, s, v in zip(by_weight, slopes, row, strict=True)]
        by_bias = [t + s for t, s in zip(by_bias, slopes, strict=True)]
        state, turn = state.next(), turn + 1
    begin_column, own = first_of(n, spread), part_of(row_of(sums[0], first), spread)
    for k in static_range(items):
        place = at[k // width] + k % width
        if has(own, place, spread):
            put_sums(sums, first, begin_column + place, by_weight[k], by_bias[k], is_centered)


def put_sums(
    sums: Any, line: Any, column: Any, by_weight: Any, by_bias: Any, is_centered: Any
) -> None:
    """Writes partial sums of a column; traced in kernels."""
    sums[0, line, column] = by_weight
    if is_centered:
        sums[1, line, column] = by_bias


def _means(one: Any, other: Any, n: Any, spread: Any, meeting: Any, turn: Any = 0) -> Any:
    """The means over a row of n elements of what each of its threads has a sum or a list of."""
    pair = folded("sum", one), folded("sum", other)
    one, other = over_row("sum", pair, spread, meeting, turn)
    share = 1.0 / one.dtype(n)
    return one * share, other * share


@jit
def _of_read_rows(
    gradient: Array,
    x: Array,
    weight: Array | None,
    eps: Float64,
    by_x: Array,
    by_weight: Array,
    by_bias: Array,
    spread: Constant,
    is_centered: Constant,
) -> None:
    rows, columns, wide = row_count(x.shape), x.shape[-1], sum_type(x.dtype)
    blocks, block = ceil_div(columns, _COLUMNS), (_COLUMNS, _LINES)
    at_once = ceil_div(_AT_ONCE * multiprocessors(), blocks)
    slabs = greater(lesser(ceil_div(rows, 4 * _LINES), at_once), 1)
    of_rows = scratch((rows, 2), wide)
    sums = scratch((2, slabs, columns), wide)
    read_row_kernel(gradient, x, weight, eps, by_x, of_rows, spread, is_centered).launch(
        grid=greater(rows, 1) * spread.blocks, block=block_of(spread), cluster=cluster_of(spread)
    )
    column_kernel(gradient, x, of_rows, sums, is_centered).launch(grid=(blocks, slabs), block=block)
    add_kernel(sums, by_weight, by_bias, is_centered).launch(grid=blocks, block=block)


@kernel(max_threads=_MOST_THREADS)
def read_row_kernel(
    gradient: Array,
    x: Array,
    weight: Array | None,
    eps: Float64,
    by_x: Array,
    of_rows: Array,
    spread: Constant,
    is_centered: Constant,
) -> None:
    """A block or a cluster: a row, in rounds; its mean and its scale are kept for the columns."""
    for_means, for_moments = meetings(spread, 2)
    wide, n, width, number = sum_type(x.dtype), x.shape[-1], spread.width, row_number(spread)
    if number >= row_count(x.shape):
        return
    source, slopes, target = (
        part_of(row_of(one, number, width), spread) for one in (x, gradient, by_x)
    )
    weight = None if weight is None else part_of(weight, spread)

    def read(place: Any, mean: Any) -> Any:
        """Neighbors of the row, centered, and of its gradient times the weight."""
        values = [wide(value) - mean for value in elements(source, place, width)]
        weighted = [wide(value) for value in elements(slopes, place, width)]
        if weight is not None:
            weighted = [w * wide(weight[place + k]) for k, w in enumerate(weighted)]
        return values, weighted

    mean = slope_mean = one = other = wide(0.0)
    if is_centered:
        for place in rounds(source, spread):
            values, weighted = read(place, mean)
            one, other = one + folded("sum", values), other + folded("sum", weighted)
        mean, slope_mean = _means(one, other, n, spread, for_means)
    one = other = wide(0.0)
    for place in rounds(source, spread):
        values, weighted = read(place, mean)
        one += folded("sum", [value * value for value in values])
        other += folded("sum", [v * w for v, w in zip(values, weighted, strict=True)])
    squares, products = _means(one, other, n, spread, for_moments)
    scale = rsqrt(squares + wide(eps))
    share = products * scale * scale
    for place in rounds(source, spread):
        values, weighted = read(place, mean)
        results = [
            scale * (w - slope_mean - v * share) for v, w in zip(values, weighted, strict=True)
        ]
        put_elements(target, place, [x.dtype(result) for result in results])
    if thread_idx.x == 0 and cluster_rank() == 0:
        of_rows[number, 0], of_rows[number, 1] = mean, scale


@kernel
def column_kernel(
    gradient: Array, x: Array, of_rows: Array, sums: Array, is_centered: Constant
) -> None:
    """A block: some columns of a slab, whose rows are as far apart as there are slabs."""
    wide, slabs = sum_type(x.dtype), sums.shape[1]
    column, slab = block_idx.x * _COLUMNS + thread_idx.x, block_idx.y
    by_weight = by_bias = wide(0.0)
    if column < x.shape[-1]:
        lines = range(slab + slabs * thread_idx.y, row_count(x.shape), slabs * _LINES)
        for line in unroll(lines, 4):
            slope = wide(row_of(gradient, line)[column])
            value = wide(row_of(x, line)[column]) - of_rows[line, 0]
            by_weight += slope * value * of_rows[line, 1]
            by_bias += slope
    by_weight, by_bias = added_lines(by_weight, by_bias)
    if column < x.shape[-1] and thread_idx.y == 0:
        put_sums(sums, slab, column, by_weight, by_bias, is_centered)


def added_lines(one: Any, other: Any) -> Any:
    """Two sums over the lines of a block, for the threads of the first line; traced in kernels."""
    board = shared((2, _LINES, _COLUMNS), one.dtype)
    board[0, thread_idx.y, thread_idx.x] = one
    board[1, thread_idx.y, thread_idx.x] = other
    sync_threads()
    if thread_idx.y == 0:
        for line in static_range(1, _LINES):
            one += board[0, line, thread_idx.x]
            other += board[1, line, thread_idx.x]
    return one, other


@kernel
def add_kernel(sums: Array, by_weight: Array, by_bias: Array, is_centered: Constant) -> None:
    """A block: some columns of the partial sums."""
    column = block_idx.x * _COLUMNS + thread_idx.x
    one = other = sums.dtype(0.0)
    if column < by_weight.shape[0]:
        for line in unroll(range(thread_idx.y, sums.shape[1], _LINES), 4):
            one += sums[0, line, column]
            if is_centered:
                other += sums[1, line, column]
    one, other = added_lines(one, other)
    if column < by_weight.shape[0] and thread_idx.y == 0:
        by_weight[column] = by_weight.dtype(one)
        if is_centered:
            by_bias[column] = by_bias.dtype(other)
