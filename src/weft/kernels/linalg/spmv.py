# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.sparse_matvec``: a sparse matrix in compressed rows times a vector.

In: the matrix's rows, columns and values, and a vector. Out: a vector. Some lanes of a warp add up a row: as many as a
row has entries on average.
"""

from __future__ import annotations

from math import nan
from typing import Any, Final

from weft.api import jit, kernel
from weft.kernels.device.row import sum_type
from weft.kernels.host.arrays import Array, Constant, Given, given, output
from weft.kernels.host.autograd import differentiable
from weft.kernels.host.calls import Call, remembered
from weft.kernels.host.compositions import composed, widened
from weft.language.control import ceil_div
from weft.language.threads.grid import block_idx, thread_idx
from weft.primitives.warp.reductions import sum as warp_sum
from weft.types.dtype import i32, i64
from weft.types.launch_limits import WARP_SIZE

_THREADS: Final = 128


def _like_rows(first: Any, columns: Any, values: Any, x: Any) -> Any:
    return x.new_empty((first.shape[0] - 1,))


def _by_torch(first: Any, columns: Any, values: Any, x: Any) -> Any:
    rows, places = first.shape[0] - 1, columns.long()
    numbers = first.new_ones(rows).cumsum(0) - 1
    owners = numbers.repeat_interleave(first.diff().long(), output_size=values.shape[0])
    terms = widened(values) * widened(x)[places]
    return terms.new_zeros(rows).index_add(0, owners.long(), terms).to(x.dtype)


@differentiable(_like_rows, composed(_by_torch))
@remembered
def sparse_matvec(first: Any, columns: Any, values: Any, x: Any, out: Any = None) -> Any:
    """The product of a matrix in compressed rows (CSR) with a vector.

    Row r has `values[first[r] : first[r + 1]]` in the columns `columns[first[r] : first[r + 1]]`. Sums are in f32, or
    f64 for f64, and always in the same order.

    Args:
        first: a vector of integers, one more than there are rows: from 0 to the number of entries, none below the one
            before.
        columns: a vector of integers, one for each entry, from 0 below x's length.
        values: a vector of 16, 32 or 64-bit floats, one for each entry.
        x: a vector of floats of values' type, any stride.
        out: a vector of the rows, of x's type, that does not overlap x; None: a new one of x's library.

    Returns:
        `out`, or the new vector.

    Raises:
        TypeError: for something else than vectors of these types.
        ValueError: for other shapes; for arrays on different devices.
        AssertionError: for a row or a column out of range on the CPU. A GPU gives NaN for such a row.

    Example:
        >>> import numpy as np, weft
        >>> first, columns = np.array([0, 1, 3]), np.array([0, 0, 1])  # a triangle
        >>> values, x = np.array([2.0, 1.0, 1.0]), np.array([3.0, 5.0])
        >>> weft.kernels.sparse_matvec(first, columns, values, x).tolist()
        [6.0, 8.0]
    """
    source = given(x, "x", is_float=True)
    found = {"x": source}
    for name, array in (("first", first), ("columns", columns), ("values", values)):
        found[name] = _vector(source, array, name)
    if found["values"].shape != found["columns"].shape:
        raise ValueError(
            f"values has shape {found['values'].shape}, expected {found['columns'].shape} as columns"
        )
    if len(source.shape) != 1 or not found["first"].shape[0]:
        raise ValueError(
            f"x has shape {source.shape}, first {found['first'].shape}: expected vectors"
        )
    rows = found["first"].shape[0] - 1
    inputs = {"first": first, "columns": columns, "values": values, "x": x}
    out = output(source, (rows,), source.dtype, source.type_name, out, **inputs)
    if rows:
        lanes = _lanes(found["values"].shape[0] / rows)
        return Call(_sparse_matvec, (first, columns, values, x, out, lanes), out)
    return out


def _vector(source: Given, array: object, name: str) -> Given:
    found = given(array, name)
    if name == "values":
        if found.dtype is not source.dtype:
            raise TypeError(
                f"values has elements of {found.type_name}, expected {source.type_name}"
            )
    elif not found.dtype.is_integer:
        raise TypeError(f"{name} has elements of {found.type_name}, expected integers")
    if len(found.shape) != 1:
        raise ValueError(f"{name} has shape {found.shape}, expected a vector")
    if found.device != source.device:
        raise ValueError(f"{name} is on {found.device}, expected {source.device}")
    return found


def _lanes(entries: float) -> int:
    """Lanes for a row with so many entries on average: a power of two."""
    lanes = 2
    while lanes < WARP_SIZE and lanes < entries:
        lanes *= 2
    return lanes


@jit
def _sparse_matvec(
    first: Array, columns: Array, values: Array, x: Array, out: Array, lanes: Constant
) -> None:
    grid = ceil_div(out.shape[0], _THREADS // lanes)
    sparse_matvec_kernel(first, columns, values, x, out, lanes).launch(grid=grid, block=_THREADS)


@kernel
def sparse_matvec_kernel(
    first: Array, columns: Array, values: Array, x: Array, out: Array, lanes: Constant
) -> None:
    """Some lanes: a row."""
    wide = sum_type(x.dtype)
    group, lane = divmod(thread_idx.x, lanes)
    row = block_idx.x * (_THREADS // lanes) + group
    total = wide(0.0)
    if row < len(out):
        bound = i32 if first.dtype is i32 else i64
        begin, end = bound(first[row]), bound(first[row + 1])
        is_row = 0 <= begin <= end <= len(values)
        assert is_row, "first of sparse_matvec is out of range, or decreases"
        if not is_row:
            begin, end, total = bound(0), bound(0), wide(nan)
        for entry in range(begin + lane, end, lanes):
            column = columns[entry]
            inside = 0 <= column < len(x)
            assert inside, "a column of sparse_matvec is out of range"
            total += wide(values[entry]) * wide(x[column]) if inside else wide(nan)
    total = warp_sum(total, width=lanes)
    if row < len(out) and lane == 0:
        out[row] = x.dtype(total)
