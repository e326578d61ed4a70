# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.sparse_matvec``: y = A · x for a sparse matrix in CSR format.

In: `indptr`, `indices` and `values`, as in SciPy, and a vector. Out: a vector. A power of two of lanes, about the mean
number of entries of a row, sums a row: y[r] = Σ values[i] · x[indices[i]] for i from indptr[r] to indptr[r + 1].
"""

from __future__ import annotations

from math import nan
from typing import Final

import weft
from weft.kernels.annotations import Array
from weft.kernels.device.row import sum_type
from weft.kernels.host.arrays import ArrayInfo, check_device, describe, output
from weft.kernels.host.autograd import composite_backward, differentiable, upcast
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

_THREADS: Final = 128


@weft.kernel
def sparse_matvec_kernel(
    indptr: weft.Tensor,
    indices: weft.Tensor,
    values: weft.Tensor,
    x: weft.Tensor,
    y: weft.Tensor,
    lanes: weft.Constexpr[int],
) -> None:
    """A group of lanes sums a row."""
    wide = sum_type(x.dtype)
    group, lane = divmod(weft.thread_idx.x, lanes)
    row = weft.block_idx.x * (_THREADS // lanes) + group
    total = wide(0.0)
    if row < len(y):
        bound = weft.i32 if indptr.dtype is weft.i32 else weft.i64
        begin, end = bound(indptr[row]), bound(indptr[row + 1])
        is_row = 0 <= begin <= end <= len(values)
        assert is_row, "indptr of sparse_matvec is out of range, or decreases"
        if not is_row:
            begin, end, total = bound(0), bound(0), wide(nan)
        for entry in range(begin + lane, end, lanes):
            column = indices[entry]
            inside = 0 <= column < len(x)
            assert inside, "an index of sparse_matvec is out of range"
            total += wide(values[entry]) * wide(x[column]) if inside else wide(nan)
    total = weft.warp.sum(total, width=lanes)
    if row < len(y) and lane == 0:
        y[row] = x.dtype(total)


@weft.jit
def _sparse_matvec(
    indptr: weft.Tensor,
    indices: weft.Tensor,
    values: weft.Tensor,
    x: weft.Tensor,
    y: weft.Tensor,
    lanes: weft.Constexpr[int],
) -> None:
    grid = weft.ceil_div(y.shape[0], _THREADS // lanes)
    sparse_matvec_kernel(indptr, indices, values, x, y, lanes).launch(grid=grid, block=_THREADS)


def _like(indptr: Array, indices: Array, values: Array, x: Array) -> Array:
    return x.new_empty((indptr.shape[0] - 1,))


def _by_torch(indptr: Array, indices: Array, values: Array, x: Array) -> Array:
    rows = indptr.shape[0] - 1
    numbers = indptr.new_ones(rows).cumsum(0) - 1
    owners = numbers.repeat_interleave(indptr.diff().long(), output_size=values.shape[0])
    terms = upcast(values) * upcast(x)[indices.long()]
    return terms.new_zeros(rows).index_add(0, owners.long(), terms).to(x.dtype)


def _vector(source: ArrayInfo, array: object, name: str) -> ArrayInfo:
    found = describe(array, name)
    if name in ("values", "x"):
        if found.dtype is not source.dtype:
            raise TypeError(
                f"{name} has elements of {found.type_name}, expected {source.type_name} as x"
            )
    elif not found.dtype.is_integer:
        raise TypeError(f"{name} has elements of {found.type_name}, expected integers")
    if len(found.shape) != 1:
        raise ValueError(f"{name} has shape {found.shape}, expected a vector")
    check_device(found, name, source)
    return found


def _lanes(entries: float) -> int:
    """The lanes of a row with that many entries on average, a power of two."""
    lanes = 2
    while lanes < weft.WARP_SIZE and lanes < entries:
        lanes *= 2
    return lanes


@differentiable(_like, composite_backward(_by_torch))
@cached_dispatch
def sparse_matvec(
    indptr: Array, indices: Array, values: Array, x: Array, out: Array = None
) -> Array:
    """Multiplies a sparse matrix in CSR format (compressed rows) by a vector.

    Row r has `values[indptr[r] : indptr[r + 1]]` in the columns `indices[indptr[r] : indptr[r + 1]]`. Sums are in f32,
    or f64 for f64, and always in the same order.

    Args:
        indptr: a vector of integers, (rows + 1,), from 0 to the number of entries, that never decreases.
        indices: a vector of integers, the column of each entry, from 0 below x's length.
        values: a vector of 16, 32 or 64-bit floats, one for each entry.
        x: a vector of floats of values' type, any stride.
        out: a vector, (rows,), of x's type, that does not overlap an input; None: a new one of x's library.

    Returns:
        `out`, or the new vector.

    Raises:
        TypeError: for something else than vectors of these types.
        ValueError: for other shapes; for arrays on different devices.
        AssertionError: for a row or a column out of range on the CPU. A GPU gives NaN for such a row.

    Example:
        >>> import numpy as np, weft
        >>> indptr, indices = np.array([0, 1, 3]), np.array([0, 0, 1])  # a triangle
        >>> values, x = np.array([2.0, 1.0, 1.0]), np.array([3.0, 5.0])
        >>> weft.kernels.sparse_matvec(indptr, indices, values, x).tolist()
        [6.0, 8.0]
    """
    source = describe(x, "x", is_float=True)
    inputs = {"indptr": indptr, "indices": indices, "values": values, "x": x}
    found = {name: _vector(source, array, name) for name, array in inputs.items()}
    if found["values"].shape != found["indices"].shape:
        raise ValueError(
            f"values has shape {found['values'].shape}, expected {found['indices'].shape} as indices"
        )
    if not found["indptr"].shape[0]:
        raise ValueError("indptr has shape (0,), expected (rows + 1,)")
    rows = found["indptr"].shape[0] - 1
    out = output(source, (rows,), source.dtype, source.type_name, out, **inputs)
    if rows:
        lanes = _lanes(found["values"].shape[0] / rows)
        return Call(_sparse_matvec, (indptr, indices, values, x, out, lanes), out)
    return out
