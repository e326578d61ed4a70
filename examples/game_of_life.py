# SPDX-License-Identifier: Apache-2.0
"""Conway's Game of Life on a board whose edges are joined.

Shapes: `board` and `scratch` are height x width, uint8, 1 for a living cell. The host function loops over
the generations, two at a time, from one board to the other and back.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

BLOCK = (32, 8)


@weft.kernel
def step_kernel(before: weft.Tensor, after: weft.Tensor):
    """One thread: one cell of the next generation."""
    height, width = before.shape
    x = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    y = weft.block_idx.y * weft.block_dim.y + weft.thread_idx.y
    if x >= width or y >= height:
        return
    left, right = (x if x > 0 else width) - 1, x + 1 if x + 1 < width else 0
    above, below = (y if y > 0 else height) - 1, y + 1 if y + 1 < height else 0
    count = 0
    for row in (before[above], before[y], before[below]):
        for column in (left, x, right):
            count += row[column]
    count -= before[y, x]
    after[y, x] = count == 3 or (count == 2 and before[y, x] != 0)


@weft.kernel
def copy_kernel(source: weft.Tensor, target: weft.Tensor):
    """Copy one cell per iteration."""
    for index in weft.each(target.shape):
        target[index] = source[index]


@weft.jit
def game_of_life(
    board: weft.Tensor[weft.u8, ("height", "width")],
    scratch: weft.Tensor[weft.u8, ("height", "width")],
    generations: weft.i32,
):
    """Advance the board by `generations` generations, in place."""
    height, width = board.shape
    grid = weft.ceil_div(width, BLOCK[0]), weft.ceil_div(height, BLOCK[1])
    for _ in range(generations // 2):
        step_kernel(board, scratch).launch(grid=grid, block=BLOCK)
        step_kernel(scratch, board).launch(grid=grid, block=BLOCK)
    if generations % 2 == 1:
        step_kernel(board, scratch).launch(grid=grid, block=BLOCK)
        copy_kernel(scratch, board).launch(over=board.shape)


def make_arguments(height: int) -> Arguments:
    """A third of the cells live."""
    random = np.random.default_rng(23)
    board = (random.random((height, height + 5)) < 1 / 3).astype(np.uint8)
    return {"board": board, "scratch": np.zeros_like(board), "generations": 15}


def fake_arguments():
    """Two arrays of one size, and how long."""
    shape = weft.sym("height"), weft.sym("width")
    return weft.fake_tensor(weft.u8, shape), weft.fake_tensor(weft.u8, shape), 15


def reference(board: np.ndarray, scratch: np.ndarray, generations: int) -> Arrays:
    """NumPy's result: the sum of the board rolled eight ways."""
    for _ in range(generations):
        count = sum(
            np.roll(board, (dy, dx), (0, 1))
            for dy in (-1, 0, 1)
            for dx in (-1, 0, 1)
            if dx != 0 or dy != 0
        )
        board = ((count == 3) | ((count == 2) & (board == 1))).astype(np.uint8)
    return {"board": board}


EXAMPLE = Example(
    name="game_of_life",
    function=game_of_life,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda height: f"{height}x{height + 5}, 15 generations",
    size=1024,
    test_size=37,
    instructions=("ld.global", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
