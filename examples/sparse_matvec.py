# SPDX-License-Identifier: Apache-2.0
"""A sparse matrix times a vector; the matrix in compressed rows (CSR).

Shapes: row r has `values[first[r] : first[r + 1]]` in the columns `columns[first[r] : first[r + 1]]`;
`first` has one int32 more than there are rows. One warp adds up one row.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

THREADS = 128
WARP = 32


@weft.kernel
def sparse_matvec_kernel(
    first: weft.Tensor,
    columns: weft.Tensor,
    values: weft.Tensor,
    x: weft.Tensor,
    y: weft.Tensor,
):
    """One warp: one row. Lane l takes its entries l, l + 32, and so on."""
    row = weft.block_idx.x * (THREADS // WARP) + weft.warp_id()
    if row >= len(y):
        return
    entries = slice(first[row], first[row + 1])
    row_values, row_columns = values[entries], columns[entries]
    total = 0.0
    for entry in range(weft.lane_id(), len(row_values), WARP):
        total += row_values[entry] * x[row_columns[entry]]
    total = weft.warp.sum(total)
    if weft.lane_id() == 0:
        y[row] = total


@weft.jit
def sparse_matvec(
    first: weft.Tensor[weft.i32, ("rows_and_one",)],
    columns: weft.Tensor[weft.i32, ("entries",)],
    values: weft.Tensor[weft.f32, ("entries",)],
    x: weft.Tensor[weft.f32, ("width",)],
    y: weft.Tensor[weft.f32, ("rows",)],
):
    """Write the result to y."""
    sparse_matvec_kernel(first, columns, values, x, y).launch(
        grid=weft.ceil_div(len(y), THREADS // WARP), block=THREADS
    )


def make_arguments(rows: int) -> Arguments:
    """Rows of up to 99 entries in random columns; some are empty."""
    random = np.random.default_rng(27)
    counts = random.integers(0, 100, rows)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    entries = int(first[-1])
    return {
        "first": first,
        "columns": random.integers(0, rows, entries).astype(np.int32),
        "values": random.standard_normal(entries).astype(np.float32),
        "x": random.standard_normal(rows).astype(np.float32),
        "y": np.empty(rows, np.float32),
    }


def fake_arguments():
    """Any matrix."""
    return (
        weft.fake_tensor(weft.i32, ("rows_and_one",)),
        weft.fake_tensor(weft.i32, ("entries",)),
        weft.fake_tensor(weft.f32, ("entries",)),
        weft.fake_tensor(weft.f32, ("width",)),
        weft.fake_tensor(weft.f32, ("rows",)),
    )


def reference(
    first: np.ndarray, columns: np.ndarray, values: np.ndarray, x: np.ndarray, y: np.ndarray
) -> Arrays:
    """NumPy's result: all terms, added up by row."""
    rows = np.repeat(np.arange(len(y)), np.diff(first))
    return {"y": np.bincount(rows, values * x[columns], len(y))}


EXAMPLE = Example(
    name="sparse_matvec",
    function=sparse_matvec,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda rows: f"{rows:,} rows of up to 99 entries",
    size=40_000,
    test_size=301,
    tolerance=1e-4,
    instructions=("shfl.sync", "ld.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
