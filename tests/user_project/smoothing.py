# SPDX-License-Identifier: Apache-2.0
"""A user's program: a moving average, with annotations that mypy and pyright read too.

`Annotated[weft.Tensor, ...]` is a tensor for type checkers, and what stands beside it is for weft. Tests run this file,
and `make check` looks at it with `mypy --strict` and pyright.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

import weft

if TYPE_CHECKING:
    from numpy.typing import NDArray

Vector = Annotated[weft.Tensor, weft.Tensor[weft.f32, ("n",)]]
Aligned = Annotated[weft.Tensor, weft.fake_tensor(weft.f32, ("n",), alignment_bytes=16)]


def clamp(i: weft.i32, n: weft.i32) -> weft.i32:
    """A helper, which is inlined."""
    return max(0, min(i, n - 1))


@weft.kernel
def smooth_kernel(
    signal: weft.Tensor, smoothed: weft.Tensor, weight: weft.f32, radius: weft.Constexpr[int]
) -> None:
    """One iteration: one element."""
    for i in weft.each(signal.shape[0]):
        total = weft.f32(0)
        for step in range(-radius, radius + 1):
            total += signal[clamp(i + step, signal.shape[0])]
        smoothed[i] = total * weight


@weft.jit
def smooth(
    signal: Vector, smoothed: Aligned, weight: weft.f32 = 1.0, radius: weft.Constexpr[int] = 1
) -> None:
    """The sum of each element's neighborhood, times a weight."""
    smooth_kernel(signal, smoothed, weight, radius).launch(over=signal.shape[0])


def averages(signal: NDArray[np.float32], radius: int) -> NDArray[np.float32]:
    """The mean of each neighborhood."""
    smoothed = np.empty_like(signal)
    fn = weft.compile(smooth, radius=radius, options="--opt-level 2")
    fn(signal, smoothed, weight=1 / (2 * radius + 1))
    return smoothed


def main() -> None:
    """Smoothes a step, on this machine's CPU."""
    step = np.repeat(np.array([0, 3], np.float32), 4)
    try:
        smooth(step, step[:4])
    except ValueError as error:
        print(error)
    with weft.profiler.capture() as trace:
        print(averages(step, 1).tolist())
    print([launch.kernel for launch in trace.recordings])
    print(
        weft.compile(smooth, options=[weft.GPUArch("sm_90a")]).kernels["smooth_kernel"].registers
        > 0
    )


if __name__ == "__main__":
    main()
