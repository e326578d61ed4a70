# SPDX-License-Identifier: Apache-2.0
"""A 2-D convolution: each block keeps its part of the picture, and a margin around it, at hand.

Shapes: `source` and `target` are height x width, `weights` is (2·radius + 1)², float32. Outside the
picture there are zeros. The threads of a 32 x 8 block load a tile that is larger than the block by
the radius on each side, wait for each other, and then read only the tile.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

WIDTH, HEIGHT, RADIUS = 32, 8, 2
DIAMETER = 2 * RADIUS + 1


@weft.kernel
def convolution_kernel(source: weft.Tensor, weights: weft.Tensor, target: weft.Tensor):
    """One thread: one element of the result, and up to two of the tile."""
    tile = weft.shared((HEIGHT + 2 * RADIUS, WIDTH + 2 * RADIUS), weft.f32)
    x, y = weft.thread_idx.x, weft.thread_idx.y
    left, top = weft.block_idx.x * WIDTH, weft.block_idx.y * HEIGHT
    height, width = source.shape
    tile_height, tile_width = tile.shape
    for i in range(y * WIDTH + x, tile_height * tile_width, WIDTH * HEIGHT):
        row, column = top + i // tile_width - RADIUS, left + i % tile_width - RADIUS
        inside = 0 <= row < height and 0 <= column < width
        tile[i // tile_width, i % tile_width] = source[row, column] if inside else 0.0
    weft.sync_threads()
    if left + x < width and top + y < height:
        total = 0.0
        # A convolution turns its weights around; without that it would be a correlation.
        for dy in weft.static_range(DIAMETER):
            for dx in weft.static_range(DIAMETER):
                total += weights[DIAMETER - 1 - dy, DIAMETER - 1 - dx] * tile[y + dy, x + dx]
        target[top + y, left + x] = total


@weft.jit
def convolution(
    source: weft.Tensor[weft.f32, ("height", "width")],
    weights: weft.Tensor[weft.f32, (DIAMETER, DIAMETER)],
    target: weft.Tensor[weft.f32, ("height", "width")],
):
    """Write the convolution of source and weights to target."""
    height, width = source.shape
    grid = weft.ceil_div(width, WIDTH), weft.ceil_div(height, HEIGHT)
    convolution_kernel(source, weights, target).launch(grid=grid, block=(WIDTH, HEIGHT))


def make_arguments(height: int) -> Arguments:
    """A picture of noise, 4/3 as wide as it is high, and weights without symmetry."""
    random = np.random.default_rng(17)
    source = random.random((height, height * 4 // 3), dtype=np.float32)
    weights = random.random((DIAMETER, DIAMETER), dtype=np.float32)
    return {"source": source, "weights": weights, "target": np.empty_like(source)}


def fake_arguments():
    """Two pictures of one size, and the weights."""
    shape = weft.sym("height"), weft.sym("width")
    return (
        weft.fake_tensor(weft.f32, shape),
        weft.fake_tensor(weft.f32, (DIAMETER, DIAMETER)),
        weft.fake_tensor(weft.f32, shape),
    )


def reference(source: np.ndarray, weights: np.ndarray, target: np.ndarray) -> Arrays:
    """What NumPy says: one shifted picture per weight."""
    height, width = source.shape
    padded = np.pad(source, RADIUS)
    total = np.zeros_like(source)
    for dy in range(DIAMETER):
        for dx in range(DIAMETER):
            shifted = padded[dy : dy + height, dx : dx + width]
            total += weights[DIAMETER - 1 - dy, DIAMETER - 1 - dx] * shifted
    return {"target": total}


EXAMPLE = Example(
    name="convolution",
    function=convolution,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda height: f"{height}x{height * 4 // 3} f32, {DIAMETER}x{DIAMETER} weights",
    size=720,
    test_size=37,
    tolerance=1e-5,
    instructions=("ld.shared", "st.shared", "bar.sync"),
)

if __name__ == "__main__":
    show(EXAMPLE)
