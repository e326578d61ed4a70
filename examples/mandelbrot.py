# SPDX-License-Identifier: Apache-2.0
"""The Mandelbrot set: a loop with a trip count of its own for each point, written as a picture.

Shapes: `counts` is height x width, int32: how many steps of z ← z² + c the point stays within the
circle of radius 2, at most `limit`. Neighboring threads leave their loops at different times.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from examples.picture import write_png


@weft.kernel(fp_contract=False)  # NumPy, the reference, rounds products before sums
def mandelbrot_kernel(
    counts: weft.Tensor, left: weft.f32, top: weft.f32, step: weft.f32, limit: weft.i32
):
    """Compute one point of the plane per iteration."""
    for y, x in weft.each(counts.shape):
        c_real = left + weft.f32(x) * step
        c_imaginary = top - weft.f32(y) * step
        real, imaginary = 0.0, 0.0
        count = 0
        while count < limit and real * real + imaginary * imaginary <= 4.0:
            real, imaginary = (
                real * real - imaginary * imaginary + c_real,
                2.0 * real * imaginary + c_imaginary,
            )
            count += 1
        counts[y, x] = count


@weft.jit
def mandelbrot(
    counts: weft.Tensor[weft.i32, ("height", "width")],
    left: weft.f32,
    top: weft.f32,
    step: weft.f32,
    limit: weft.i32,
):
    """Count the steps of each point; `step` is the distance of adjacent points."""
    mandelbrot_kernel(counts, left, top, step, limit).launch(over=counts.shape)


def make_arguments(height: int) -> Arguments:
    """The whole set, three units wide and two high, 3/2 as many columns as rows."""
    counts = np.empty((height, height * 3 // 2), np.int32)
    return {"counts": counts, "left": -2.1, "top": 1.0, "step": 2.0 / height, "limit": 200}


def fake_arguments():
    """A picture of any size, and four numbers."""
    shape = weft.sym("height"), weft.sym("width")
    return weft.fake_tensor(weft.i32, shape), -2.1, 1.0, 0.01, 200


def reference(counts: np.ndarray, left: float, top: float, step: float, limit: int) -> Arrays:
    """What NumPy says, with points that have left dropped from time to time."""
    height, width = counts.shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    c_real = (np.float32(left) + x * np.float32(step)).ravel()
    c_imaginary = (np.float32(top) - y * np.float32(step)).ravel()
    result = np.zeros(height * width, np.int32)
    alive = np.arange(height * width)
    real = np.zeros_like(c_real)
    imaginary = np.zeros_like(c_real)
    for _ in range(limit):
        inside = real * real + imaginary * imaginary <= np.float32(4)
        if not inside.all():
            alive, real, imaginary = alive[inside], real[inside], imaginary[inside]
            c_real, c_imaginary = c_real[inside], c_imaginary[inside]
        result[alive] += 1
        real, imaginary = (
            real * real - imaginary * imaginary + c_real,
            np.float32(2) * real * imaginary + c_imaginary,
        )
    return {"counts": result.reshape(height, width)}


def picture(arguments: Arguments) -> np.ndarray:
    """Colors for the counts: the set itself is black."""
    counts, limit = arguments["counts"], arguments["limit"]
    shade: np.ndarray = np.sqrt(counts / limit)[..., None]
    waves: np.ndarray = 0.5 + 0.5 * np.cos(6.3 * (shade * 2 + np.array([0.0, 0.15, 0.35])))
    waves[counts == limit] = 0
    return (waves * 255).astype(np.uint8)


EXAMPLE = Example(
    name="mandelbrot",
    function=mandelbrot,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda height: f"{height}x{height * 3 // 2}, 200 steps",
    size=640,
    test_size=45,
    picture=picture,
    instructions=("cvt.rn.f32", "setp", "st.global"),
)


def main() -> None:
    """Run it and write the picture to the current folder."""
    show(EXAMPLE)
    arguments = make_arguments(EXAMPLE.size)
    mandelbrot(**arguments)
    print(f"wrote {write_png(Path('mandelbrot.png'), picture(arguments))}")


if __name__ == "__main__":
    main()
