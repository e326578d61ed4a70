# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.layer_norm`` and ``rms_norm``: a warp, a block or a cluster per row, as `spreads` says.

In: an array of floats of any rank and layout, and maybe a factor and a term per column. Out: an array of its shape.
A row that fits into registers is read once; of a longer one, each sum reads it again.
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
from weft.kernels.rows import elements, put_elements, row_of, sum_type
from weft.kernels.spreads import (
    block_of,
    cluster_of,
    first_place,
    grid_of,
    is_beyond,
    load_row,
    meetings,
    over_row,
    places,
    round_length,
    row_number,
    spread_for,
    store_row,
)
from weft.kernels.views import aligned
from weft.language.numbers.math import sqrt


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
        spread = spread_for(source.shape[-1], width, source.device)
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
    normalize_kernel(x, weight, bias, eps, out, spread, is_centered).launch(
        grid=grid_of(x.shape, spread), block=block_of(spread), cluster=cluster_of(spread)
    )


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
    number = row_number(spread)
    if is_beyond(number, x.shape, spread):
        return
    source, target = row_of(x, number, spread.width), row_of(out, number, spread.width)
    weight = None if weight is None else aligned(weight, spread.width)
    bias = None if bias is None else aligned(bias, spread.width)
    if spread.items:
        _normalize_kept(source, weight, bias, eps, target, spread, is_centered)
    else:
        _normalize_read(source, weight, bias, eps, target, spread, is_centered)


def _normalize_kept(
    source: Any, weight: Any, bias: Any, eps: Any, target: Any, spread: Any, is_centered: Any
) -> None:
    """A row that the threads keep in registers."""
    dtype, n, width = source.dtype, len(source), spread.width
    of_mean, of_squares = meetings(spread, 2)
    wide = sum_type(dtype)
    at, row = places(spread), [wide(value) for value in load_row(source, spread)]
    if is_centered:
        mean = over_row("sum", row, spread, of_mean) / wide(n)
        row = [value - mean if at[k // width] < n else wide(0.0) for k, value in enumerate(row)]
    squares = over_row("sum", [value * value for value in row], spread, of_squares)
    scale = _scale(squares, n, eps)
    factors, terms = (None if one is None else load_row(one, spread) for one in (weight, bias))
    row = _adjusted([value * scale for value in row], factors, terms)
    store_row(target, [dtype(value) for value in row], spread)


def _normalize_read(
    source: Any, weight: Any, bias: Any, eps: Any, target: Any, spread: Any, is_centered: Any
) -> None:
    """A row that is read again for each sum."""
    dtype, n, width = source.dtype, len(source), spread.width
    of_mean, of_squares = meetings(spread, 2)
    wide, first, step = sum_type(dtype), first_place(spread), round_length(spread)
    mean = wide(0.0)
    if is_centered:
        total = wide(0.0)
        for i in range(first, n, step):
            for value in elements(source, i, width):
                total += wide(value)
        mean = over_row("sum", total, spread, of_mean) / wide(n)
    squares = wide(0.0)
    for i in range(first, n, step):
        for value in elements(source, i, width):
            centered = wide(value) - mean
            squares += centered * centered
    scale = _scale(over_row("sum", squares, spread, of_squares), n, eps)
    for i in range(first, n, step):
        row = [(wide(value) - mean) * scale for value in elements(source, i, width)]
        factors, terms = (
            None if one is None else elements(one, i, width) for one in (weight, bias)
        )
        put_elements(target, i, [dtype(value) for value in _adjusted(row, factors, terms)])


def _scale(squares: Any, n: Any, eps: Any) -> Any:
    wide = squares.dtype
    return 1.0 / sqrt(squares / wide(n) + wide(eps))


def _adjusted(values: Any, factors: Any, terms: Any) -> Any:
    """Elements, each times its factor and plus its term."""
    if factors is not None:
        values = [value * value.dtype(f) for value, f in zip(values, factors, strict=True)]
    if terms is not None:
        values = [value + value.dtype(term) for value, term in zip(values, terms, strict=True)]
    return values
