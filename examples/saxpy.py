# SPDX-License-Identifier: Apache-2.0
"""y ← a·x + y: independent iterations, a scalar argument, and a result written in place.

Shapes: `x` and `y` have n float32 elements; `a` is one float32. `weft.each` maps iterations to
the grid that `over=` chooses, so the kernel names no thread. A scalar's value is not part of the
compiled code: calling with another `a` compiles nothing.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show


@weft.kernel
def saxpy_kernel(a: weft.f32, x: weft.Tensor, y: weft.Tensor):
    """Compute y[i] = a·x[i] + y[i], one element per iteration."""
    for i in weft.each(x.shape[0]):
        y[i] = a * x[i] + y[i]


@weft.jit
def saxpy(a: weft.f32, x: weft.Tensor[weft.f32, ("n",)], y: weft.Tensor[weft.f32, ("n",)]):
    """Add a·x to y."""
    saxpy_kernel(a, x, y).launch(over=x.shape[0])


def make_arguments(n: int) -> Arguments:
    """Two vectors of normally distributed numbers."""
    random = np.random.default_rng(1)
    x = random.standard_normal(n, dtype=np.float32)
    return {"a": 2.5, "x": x, "y": random.standard_normal(n, dtype=np.float32)}


def fake_arguments():
    """A number and two vectors of one length."""
    n = weft.sym("n")
    return 2.5, weft.fake_tensor(weft.f32, (n,)), weft.fake_tensor(weft.f32, (n,))


def reference(a: float, x: np.ndarray, y: np.ndarray) -> Arrays:
    """What NumPy says, in two passes."""
    return {"y": np.float32(a) * x + y}


EXAMPLE = Example(
    name="saxpy",
    function=saxpy,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} f32",
    size=1 << 24,
    test_size=1001,
    # A target may fuse multiplication and addition, which rounds once instead of twice.
    tolerance=1e-6,
    instructions=("ld.global", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
