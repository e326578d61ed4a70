# SPDX-License-Identifier: Apache-2.0
"""The Fourier transforms of many signals of 1024 points: radix 2, in shared memory.

Shapes: `real` and `imaginary` are count x 1024, float32; each row becomes its transform. One block
computes one row: its threads put the points into bit-reversed order, then combine halves of 1, 2, 4, …
points, one butterfly per thread and stage, with a barrier between stages.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

POINTS = 1024
STAGES = 10


class Complex(NamedTuple):
    """A number that is two."""

    real: object
    imaginary: object

    def times(self, other):
        """Multiply two complex numbers."""
        return Complex(
            self.real * other.real - self.imaginary * other.imaginary,
            self.real * other.imaginary + self.imaginary * other.real,
        )


def unit(turns):
    """The complex number of length 1 at an angle, given in turns."""
    angle = 2.0 * math.pi * turns
    return Complex(weft.math.cos(angle), weft.math.sin(angle))


def reversed_bits(number):
    """The lowest `STAGES` bits of a number, in reverse."""
    result = 0
    for bit in weft.static_range(STAGES):
        result |= ((number >> bit) & 1) << (STAGES - 1 - bit)
    return result


@weft.kernel
def fft_kernel(real: weft.Tensor, imaginary: weft.Tensor):
    """One block: one signal. One thread: two of its points at a time."""
    thread = weft.thread_idx.x
    row_real, row_imaginary = real[weft.block_idx.x], imaginary[weft.block_idx.x]
    points = weft.shared((2, POINTS), weft.f32)
    for point in (thread, thread + POINTS // 2):
        points[0, reversed_bits(point)] = row_real[point]
        points[1, reversed_bits(point)] = row_imaginary[point]
    for stage in weft.static_range(STAGES):
        weft.sync_threads()
        half = 1 << stage
        place = thread % half
        low = (thread - place) * 2 + place
        high = low + half
        rotated = unit(weft.f32(place) * (-0.5 / half)).times(
            Complex(points[0, high], points[1, high])
        )
        points[0, high] = points[0, low] - rotated.real
        points[1, high] = points[1, low] - rotated.imaginary
        points[0, low] += rotated.real
        points[1, low] += rotated.imaginary
    weft.sync_threads()
    for point in (thread, thread + POINTS // 2):
        row_real[point] = points[0, point]
        row_imaginary[point] = points[1, point]


@weft.jit
def fft(
    real: weft.Tensor[weft.f32, ("count", POINTS)],
    imaginary: weft.Tensor[weft.f32, ("count", POINTS)],
):
    """Transform each row in place."""
    fft_kernel(real, imaginary).launch(grid=len(real), block=POINTS // 2)


def make_arguments(count: int) -> Arguments:
    """Noise."""
    random = np.random.default_rng(26)
    real, imaginary = random.standard_normal((2, count, POINTS)).astype(np.float32)
    return {"real": real, "imaginary": imaginary}


def fake_arguments():
    """Any number of signals."""
    signals = weft.fake_tensor(weft.f32, (weft.sym("count"), POINTS))
    return signals, signals


def reference(real: np.ndarray, imaginary: np.ndarray) -> Arrays:
    """What NumPy says."""
    expected = np.fft.fft(real + 1j * imaginary)
    return {"real": expected.real, "imaginary": expected.imag}


EXAMPLE = Example(
    name="fft",
    function=fft,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda count: f"{count} signals of {POINTS} points",
    size=500,
    test_size=3,
    tolerance=2e-4,
    instructions=("bar.sync", "ld.shared", "st.shared"),
)

if __name__ == "__main__":
    show(EXAMPLE)
