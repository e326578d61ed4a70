# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.layer_norm`` and ``rms_norm``: a warp, a block or a cluster per row, as `spreads` says.

In: an array of floats of any rank and layout, and maybe a factor and a term per column. Out: an array of its shape.
A row that fits into registers is read once; of a longer one, each sum reads it again.
"""

from __future__ import annotations

from typing import Any, Final

from weft.api import jit, kernel
from weft.dialects.simt.views import VECTOR_BYTES
from weft.kernels.device.row import elements, put_elements, row_count, row_of, sum_type
from weft.kernels.device.row_mapping import (
    Limits,
    block_of,
    cluster_of,
    folded,
    grid_of,
    has,
    is_beyond,
    load_row,
    meetings,
    over_row,
    part_of,
    places,
    rounds,
    row_number,
    spread_for,
)
from weft.kernels.device.row_pipeline import begin, begin_all, kept, ring_of, step_of, wait
from weft.kernels.device.views import aligned
from weft.kernels.host.arrays import (
    Array,
    Constant,
    Float64,
    common_width,
    describe,
    describe_vector,
    number,
    output_like,
)
from weft.kernels.host.autograd import WIDE_ON_GPUS, differentiable, like_first
from weft.kernels.host.dispatch_cache import Call, cached_dispatch
from weft.kernels.nn.norm_backward import norm_backward
from weft.language.asynchronous.pipeline import PipelineState
from weft.language.control import unroll
from weft.language.numbers.math import min as lesser
from weft.language.numbers.math import rsqrt
from weft.language.threads.barrier import sync_threads
from weft.types.dtype import i32

_LIMITS: Final = Limits(items=32, threads=1024, streams_from=32768, arrays=1)


def _layer_norm_backward(gradient: Any, _: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return *norm_backward(gradient, x, weight, bias, eps, True), None


def _rms_norm_backward(gradient: Any, _: Any, x: Any, weight: Any, eps: float) -> Any:
    by_x, by_weight, _ = norm_backward(gradient, x, weight, None, eps, False)
    return by_x, by_weight, None


@differentiable(like_first, _layer_norm_backward, autocast=WIDE_ON_GPUS, rows={"x": 1})
@cached_dispatch
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, out: Any = None
) -> Any:
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


@differentiable(like_first, _rms_norm_backward, rows={"x": 1})
@cached_dispatch
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, out: Any = None) -> Any:
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


def _of_rows(x: Any, weight: Any, bias: Any, eps: float, out: Any, is_centered: bool) -> Any:
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
        spread = spread_for(source.shape[-1], width, source.dtype, source.device, _LIMITS)
        return Call(_normalize, (x, weight, bias, eps, out, spread, is_centered), out)
    return out


@jit
def _normalize(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    spread: Constant,
    is_centered: Constant,
) -> None:
    arguments = x, weight, bias, eps, out, spread, is_centered
    block, cluster = block_of(spread), cluster_of(spread)
    if spread.stages:
        groups = lesser(row_count(x.shape), normalize_stream_kernel.max_clusters(spread.blocks))
        normalize_stream_kernel(*arguments).launch(
            grid=groups * spread.blocks, block=block, cluster=cluster
        )
    else:
        normalize_kernel(*arguments).launch(
            grid=grid_of(x.shape, spread), block=block, cluster=cluster
        )


@kernel
def normalize_stream_kernel(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    spread: Constant,
    is_centered: Constant,
) -> None:
    """A block or a cluster: row after row, in its registers, while the next ones are on their way."""
    meeting = meetings(spread, 2)
    ring, first, step = ring_of((x,), spread), row_number(spread), step_of(spread)
    begin_all((x,), ring, first, spread)
    factors, terms = (kept(one, x.dtype, spread) for one in (weight, bias))
    sync_threads()
    state, turn = PipelineState(spread.stages), i32(0)
    for line in range(first, row_count(x.shape), step):
        target = part_of(row_of(out, line, spread.width), spread)
        (part,) = wait(ring, state, len(target))
        row = _standardized(part, x.shape[-1], eps, spread, is_centered, meeting, turn)
        begin((x,), ring, line + spread.stages * step, state, spread)
        _put(target, row, factors, terms, spread)
        state, turn = state.next(), turn + 1


@kernel
def normalize_kernel(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    spread: Constant,
    is_centered: Constant,
) -> None:
    """A warp, a block or a cluster: a row; in its registers, or in rounds."""
    meeting = meetings(spread, 2)
    line, n, width = row_number(spread), x.shape[-1], spread.width
    if is_beyond(line, x.shape, spread):
        return
    source, target = (part_of(row_of(one, line, width), spread) for one in (x, out))
    weight = None if weight is None else part_of(_aligned(weight, width), spread)
    bias = None if bias is None else part_of(_aligned(bias, width), spread)
    if spread.items:
        row = _standardized(source, n, eps, spread, is_centered, meeting)
        _put(target, row, weight, bias, spread)
    else:
        _normalize_read(source, weight, bias, n, eps, target, spread, is_centered, meeting)


def _aligned(vector: Any, width: Any) -> Any:
    """A vector that is read so many neighbors at a time, by accesses of up to 16 bytes."""
    return aligned(vector, min(width, VECTOR_BYTES // vector.dtype.itemsize))


def _standardized(
    part: Any, n: Any, eps: Any, spread: Any, is_centered: Any, meeting: Any, turn: Any = 0
) -> Any:
    """A thread's elements of a row of n, without the mean and divided by the deviation."""
    wide, width, at = sum_type(part.dtype), spread.width, places(spread)
    row = [wide(value) for value in load_row(part, spread)]
    if is_centered:
        mean = over_row("sum", row, spread, meeting[0], turn) * (1.0 / wide(n))
        row = [
            value - mean if has(part, at[k // width], spread) else wide(0.0)
            for k, value in enumerate(row)
        ]
    squares = over_row("sum", [value * value for value in row], spread, meeting[1], turn)
    scale = _scale(squares, n, eps)
    return [value * scale for value in row]


def _put(target: Any, row: Any, weight: Any, bias: Any, spread: Any) -> None:
    """Writes a thread's elements, each times its factor and plus its term."""
    for k, place in enumerate(places(spread)):
        if has(target, place, spread):
            values = row[k * spread.width : (k + 1) * spread.width]
            _put_neighbors(target, place, values, weight, bias)


def _normalize_read(
    source: Any,
    weight: Any,
    bias: Any,
    n: Any,
    eps: Any,
    target: Any,
    spread: Any,
    is_centered: Any,
    meeting: Any,
) -> None:
    """A row that is read again for each sum."""
    wide, width = sum_type(source.dtype), spread.width
    mean, squares = wide(0.0), wide(0.0)
    if is_centered:
        total = wide(0.0)
        for i in unroll(rounds(source, spread), 4):
            total += folded("sum", [wide(value) for value in elements(source, i, width)])
        mean = over_row("sum", total, spread, meeting[0]) * (1.0 / wide(n))
    for i in unroll(rounds(source, spread), 4):
        row = [wide(value) - mean for value in elements(source, i, width)]
        squares += folded("sum", [value * value for value in row])
    scale = _scale(over_row("sum", squares, spread, meeting[1]), n, eps)
    for i in rounds(source, spread):
        row = [(wide(value) - mean) * scale for value in elements(source, i, width)]
        _put_neighbors(target, i, row, weight, bias)


def _scale(squares: Any, n: Any, eps: Any) -> Any:
    wide = squares.dtype
    return rsqrt(squares * (1.0 / wide(n)) + wide(eps))


def _put_neighbors(target: Any, i: Any, values: Any, weight: Any, bias: Any) -> None:
    """Writes neighbors from index i on, each times its factor and plus its term."""
    if weight is not None:
        factors = elements(weight, i, len(values))
        values = [value * value.dtype(f) for value, f in zip(values, factors, strict=True)]
    if bias is not None:
        terms = elements(bias, i, len(values))
        values = [value + value.dtype(term) for value, term in zip(values, terms, strict=True)]
    put_elements(target, i, [target.dtype(value) for value in values])
