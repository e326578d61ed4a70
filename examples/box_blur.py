# SPDX-License-Identifier: Apache-2.0
"""Blurs a picture: each pixel becomes the mean of the square around it.

Shapes: `source` and `target` are height x width x 3, uint8. The square is (2·radius + 1)² pixels
and is cut off at the edges. The radius is a compile-time constant, so the inner loops have known
lengths; another radius compiles another function.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from examples.picture import landscape, write_png


@weft.kernel
def box_blur_kernel(source: weft.Tensor, target: weft.Tensor, radius: weft.Constexpr[int]):
    """One thread: one channel of one pixel."""
    x = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    y = weft.block_idx.y * weft.block_dim.y + weft.thread_idx.y
    channel = weft.thread_idx.z
    height, width, _ = source.shape
    if x >= width or y >= height:
        return
    total = count = 0
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            if 0 <= y + dy < height and 0 <= x + dx < width:
                total += source[y + dy, x + dx, channel]
                count += 1
    target[y, x, channel] = total // count


@weft.jit
def box_blur(
    source: weft.Tensor[weft.u8, ("height", "width", 3)],
    target: weft.Tensor[weft.u8, ("height", "width", 3)],
    radius: weft.Constexpr[int],
):
    """Write the blurred picture to target."""
    height, width, _ = source.shape
    grid = weft.ceil_div(width, 32), weft.ceil_div(height, 8)
    box_blur_kernel(source, target, radius).launch(grid=grid, block=(32, 8, 3))


def make_arguments(height: int) -> Arguments:
    """A landscape, 4/3 as wide as it is high, and room for the result."""
    source = landscape(height, height * 4 // 3)
    return {"source": source, "target": np.empty_like(source), "radius": 3}


def fake_arguments():
    """Two pictures of one size, and the radius."""
    shape = weft.sym("height"), weft.sym("width"), 3
    return weft.fake_tensor(weft.u8, shape), weft.fake_tensor(weft.u8, shape), 3


def reference(source: np.ndarray, target: np.ndarray, radius: int) -> Arrays:
    """What NumPy says: sums over the square as differences of running sums."""
    height, width, _ = source.shape
    running = np.zeros((height + 1, width + 1, 3), np.int64)
    running[1:, 1:] = source.cumsum(axis=0, dtype=np.int64).cumsum(axis=1)
    top = np.maximum(np.arange(height) - radius, 0)
    bottom = np.minimum(np.arange(height) + radius + 1, height)
    left = np.maximum(np.arange(width) - radius, 0)
    right = np.minimum(np.arange(width) + radius + 1, width)
    below, above = running[bottom], running[top]
    total = below[:, right] - below[:, left] - above[:, right] + above[:, left]
    count = (bottom - top)[:, None] * (right - left)[None, :]
    return {"target": (total // count[..., None]).astype(np.uint8)}


EXAMPLE = Example(
    name="box_blur",
    function=box_blur,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda height: f"{height}x{height * 4 // 3}x3 u8, radius 3",
    size=480,
    test_size=37,
    constants=("radius",),
    picture=lambda arguments: arguments["target"],
    instructions=("ld.global", "st.global"),
)


def main() -> None:
    """Run it and write the picture to the current folder."""
    show(EXAMPLE)
    arguments = make_arguments(EXAMPLE.size)
    box_blur(**arguments)
    print(f"wrote {write_png(Path('box_blur.png'), arguments['target'])}")


if __name__ == "__main__":
    main()
