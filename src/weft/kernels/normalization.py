# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.layer_norm`` and ``rms_norm``: a block per row.

In: an array of floats of any rank and layout, and maybe a factor and a term per column. Out: an array of its shape.
A row that fits into the block's registers is read once; of a longer one, each sum reads it again.
"""

from __future__ import annotations

from typing import Any

from weft.api import jit, kernel
from weft.kernels.arrays import (
    Array,
    Constant,
    Float64,
    common_width,
    given,
    number,
    output_like,
    vector_of,
)
from weft.kernels.calls import Call, remembered
from weft.kernels.gradients import differentiable, like_first
from weft.kernels.norm_gradients import norm_backward
from weft.kernels.rows import (
    block_of,
    elements,
    geometry,
    grid_of,
    load_row,
    over_row,
    places,
    put_elements,
    row_count,
    row_number,
    row_of,
    sum_type,
)
from weft.kernels.views import aligned
from weft.language.numbers.math import sqrt
from weft.language.threads.grid import thread_idx
from weft.primitives.block.reductions import sum as block_sum


def _layer_norm_backward(gradient: Any, _: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return *norm_backward(gradient, x, weight, bias, eps, True), None


def _rms_norm_backward(gradient: Any, _: Any, x: Any, weight: Any, eps: float) -> Any:
    by_x, by_weight, _ = norm_backward(gradient, x, weight, None, eps, False)
    return by_x, by_weight, None


@differentiable(like_first, _layer_norm_backward)
@remembered
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


@differentiable(like_first, _rms_norm_backward)
@remembered
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
    source, eps = given(x, "x", is_float=True), number(eps, "eps")
    vectors = [
        vector_of(source, name, vector)
        for name, vector in (("weight", weight), ("bias", bias))
        if vector is not None
    ]
    out = output_like(source, out, ("x",), x=x, weight=weight, bias=bias)
    if source.shape[-1] and source.rows:
        width = common_width(source, given(out, "out"), *vectors)
        threads, items = geometry(source.shape[-1], width)
        arguments = x, weight, bias, eps, out, threads, items, width, is_centered
        return Call(_normalize, arguments, out)
    return out


@jit
def _normalize(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    threads: Constant,
    items: Constant,
    width: Constant,
    is_centered: Constant,
) -> None:
    normalize_kernel(x, weight, bias, eps, out, threads, items, width, is_centered).launch(
        grid=grid_of(x.shape, threads), block=block_of(threads)
    )


@kernel
def normalize_kernel(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    threads: Constant,
    items: Constant,
    width: Constant,
    is_centered: Constant,
) -> None:
    """A warp or a block: a row; in its registers if `items` per thread are enough, else in rounds."""
    number = row_number(threads)
    if number < row_count(x.shape):
        source, target = row_of(x, number, width), row_of(out, number, width)
        weight = None if weight is None else aligned(weight, width)
        bias = None if bias is None else aligned(bias, width)
        if items:
            _normalize_kept(source, weight, bias, eps, target, threads, items, width, is_centered)
        else:
            _normalize_read(source, weight, bias, eps, target, threads, width, is_centered)


def _normalize_kept(
    source: Any,
    weight: Any,
    bias: Any,
    eps: Any,
    target: Any,
    threads: Any,
    items: Any,
    width: Any,
    is_centered: Any,
) -> None:
    """A row that the threads keep in registers."""
    dtype, n = source.dtype, len(source)
    wide = sum_type(dtype)
    row = [wide(value) for value in load_row(source, items, threads, width)]
    at = places(items, threads, width)
    if is_centered:
        mean = over_row("sum", row, threads) / wide(n)
        row = [value - mean if at[k // width] < n else wide(0.0) for k, value in enumerate(row)]
    scale = _scale(over_row("sum", [value * value for value in row], threads), n, eps)
    row = [value * scale for value in row]
    for k, place in enumerate(at):
        if place < n:
            part = _adjusted(row[k * width : (k + 1) * width], weight, bias, place)
            put_elements(target, place, [dtype(value) for value in part])


def _normalize_read(
    source: Any,
    weight: Any,
    bias: Any,
    eps: Any,
    target: Any,
    threads: Any,
    width: Any,
    is_centered: Any,
) -> None:
    """A row that is read again for each sum."""
    dtype, n, step = source.dtype, len(source), threads * width
    wide = sum_type(dtype)
    mean, first = wide(0.0), thread_idx.x * width
    if is_centered:
        total = wide(0.0)
        for i in range(first, n, step):
            for value in elements(source, i, width):
                total += wide(value)
        mean = block_sum(total) / wide(n)
    squares = wide(0.0)
    for i in range(first, n, step):
        for value in elements(source, i, width):
            centered = wide(value) - mean
            squares += centered * centered
    scale = _scale(block_sum(squares), n, eps)
    for i in range(first, n, step):
        row = [(wide(value) - mean) * scale for value in elements(source, i, width)]
        put_elements(target, i, [dtype(value) for value in _adjusted(row, weight, bias, i)])


def _scale(squares: Any, n: Any, eps: Any) -> Any:
    wide = squares.dtype
    return 1.0 / sqrt(squares / wide(n) + wide(eps))


def _adjusted(values: Any, weight: Any, bias: Any, i: Any) -> Any:
    """Neighbors from index i on, each times its factor and plus its term."""
    if weight is not None:
        factors = elements(weight, i, len(values))
        values = [value * value.dtype(f) for value, f in zip(values, factors, strict=True)]
    if bias is not None:
        terms = elements(bias, i, len(values))
        values = [value + value.dtype(term) for value, term in zip(values, terms, strict=True)]
    return values
