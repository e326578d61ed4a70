# SPDX-License-Identifier: Apache-2.0
"""Transposes a matrix through shared memory, so that rows are read and rows are written.

Shapes: `source` is rows x columns, `target` is columns x rows, float32. A block moves a tile of
32 x 32 with 32 x 8 threads. The tile is 33 wide: columns of a 32-wide one lie in one bank of a GPU's
shared memory, and a warp that reads one would take 32 turns.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

TILE, ROWS = 32, 8


@weft.kernel
def transpose_kernel(source: weft.Tensor, target: weft.Tensor):
    """One block: one tile. One thread: four elements."""
    tile = weft.shared((TILE, TILE + 1), weft.f32)
    x, y = weft.thread_idx.x, weft.thread_idx.y
    left, top = weft.block_idx.x * TILE, weft.block_idx.y * TILE
    rows, columns = source.shape
    for step in weft.static_range(TILE // ROWS):
        row = y + step * ROWS
        if top + row < rows and left + x < columns:
            tile[row, x] = source[top + row, left + x]
    weft.sync_threads()
    for step in weft.static_range(TILE // ROWS):
        row = y + step * ROWS
        if left + row < columns and top + x < rows:
            target[left + row, top + x] = tile[x, row]


@weft.jit
def transpose(
    source: weft.Tensor[weft.f32, ("rows", "columns")],
    target: weft.Tensor[weft.f32, ("columns", "rows")],
):
    """Write the transposed source to target."""
    rows, columns = source.shape
    grid = weft.ceil_div(columns, TILE), weft.ceil_div(rows, TILE)
    transpose_kernel(source, target).launch(grid=grid, block=(TILE, ROWS))


def make_arguments(n: int) -> Arguments:
    """A matrix a little off square."""
    source = np.random.default_rng(12).random((n, n + 7), dtype=np.float32)
    return {"source": source, "target": np.empty((n + 7, n), np.float32)}


def fake_arguments():
    """A matrix and one for its transpose."""
    rows, columns = weft.sym("rows"), weft.sym("columns")
    return (
        weft.fake_tensor(weft.f32, (rows, columns)),
        weft.fake_tensor(weft.f32, (columns, rows)),
    )


def reference(source: np.ndarray, target: np.ndarray) -> Arrays:
    """What NumPy says; its transpose is a view, so it is copied."""
    return {"target": source.T.copy()}


EXAMPLE = Example(
    name="transpose",
    function=transpose,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n}x{n + 7} f32",
    size=2048,
    test_size=77,
    instructions=("ld.shared", "st.shared", "bar.sync"),
)

if __name__ == "__main__":
    show(EXAMPLE)
