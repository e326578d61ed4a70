# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.layer_norm`` and ``rms_norm``: a block per row.

In: an array of floats of any rank and layout, and maybe a factor and a term per column. Out: an array of its shape.
A row that fits into the block's registers is read once; of a longer one, each sum reads it again.
"""

from __future__ import annotations

from typing import Any

from weft.api import jit, kernel
from weft.kernels.arrays import Array, Constant, Float64, Given, given, output
from weft.kernels.rows import geometry, row_count, row_of, sum_type
from weft.language.numbers.math import sqrt
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.block.exchanges import striped
from weft.primitives.block.reductions import sum as block_sum
from weft.primitives.block.transfers import load


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
    source = given(x, "x", is_float=True)
    for name, vector in (("weight", weight), ("bias", bias)):
        _check_vector(source, name, vector)
    out = output(source, source.shape, source.dtype, source.type_name, out)
    if source.shape[-1] and source.rows:
        threads, items = geometry(source.shape[-1])
        _normalize(x, weight, bias, float(eps), out, threads, items, is_centered)
    return out


def _check_vector(source: Given, name: str, vector: object) -> None:
    if vector is None:
        return
    found = given(vector, name, is_float=True)
    if found.shape != source.shape[-1:]:
        raise ValueError(f"{name} has shape {found.shape}, expected {source.shape[-1:]}")


@jit
def _normalize(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Float64,
    out: Array,
    threads: Constant,
    items: Constant,
    is_centered: Constant,
) -> None:
    normalize_kernel(x, weight, bias, eps, out, threads, items, is_centered).launch(
        grid=row_count(x.shape), block=threads
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
    is_centered: Constant,
) -> None:
    """A block: a row; in its registers if `items` per thread are enough, else in rounds."""
    wide = sum_type(x.dtype)
    source, target = row_of(x, block_idx.x), row_of(out, block_idx.x)
    n, mean = len(source), wide(0.0)
    if items:
        row = [wide(value) for value in load(source, 0, items, order="striped")]
        places = striped(items)
        if is_centered:
            mean = block_sum(row) / wide(n)
            row = [
                value - mean if i < n else wide(0.0) for value, i in zip(row, places, strict=True)
            ]
        scale = _scale(block_sum([value * value for value in row]), n, eps)
        for value, i in zip(row, places, strict=True):
            if i < n:
                target[i] = x.dtype(_adjusted(value * scale, weight, bias, i))
    else:
        total = wide(0.0)
        if is_centered:
            for i in range(thread_idx.x, n, threads):
                total += wide(source[i])
            mean = block_sum(total) / wide(n)
        squares = wide(0.0)
        for i in range(thread_idx.x, n, threads):
            value = wide(source[i]) - mean
            squares += value * value
        scale = _scale(block_sum(squares), n, eps)
        for i in range(thread_idx.x, n, threads):
            target[i] = x.dtype(_adjusted((wide(source[i]) - mean) * scale, weight, bias, i))


def _scale(squares: Any, n: Any, eps: Any) -> Any:
    wide = squares.dtype
    return 1.0 / sqrt(squares / wide(n) + wide(eps))


def _adjusted(value: Any, weight: Any, bias: Any, i: Any) -> Any:
    if weight is not None:
        value *= value.dtype(weight[i])
    if bias is not None:
        value += value.dtype(bias[i])
    return value
