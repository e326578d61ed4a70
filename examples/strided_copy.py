# SPDX-License-Identifier: Apache-2.0
"""Copies a 3-D view of any strides: transposed, reversed, or every second element.

Shapes: `source` and `target` are both depth x height x width, float32. The layout class "strided"
says that every stride is read from the tensor, negative ones included, so no contiguous copy is
made first. `weft.each` of a shape goes over all indices, the last dimension fastest.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show


@weft.kernel
def copy_kernel(source: weft.Tensor, target: weft.Tensor):
    """Copy one element per iteration."""
    for z, y, x in weft.each(target.shape):
        target[z, y, x] = source[z, y, x]


@weft.jit
def strided_copy(
    source: weft.Tensor[weft.f32, ("depth", "height", "width"), "strided"],
    target: weft.Tensor[weft.f32, ("depth", "height", "width"), "strided"],
):
    """Copy source to target, element by element."""
    copy_kernel(source, target).launch(over=target.shape)


def make_arguments(n: int) -> Arguments:
    """A cube seen with its axes exchanged and two of them reversed, and a contiguous target.

    The view has shape n/2 x n x n and strides in elements of (-2, n·n, -n).
    """
    cube = np.random.default_rng(2).standard_normal((n, n, n), dtype=np.float32)
    source = cube.transpose(2, 0, 1)[::-2, :, ::-1]
    return {"source": source, "target": np.empty(source.shape, np.float32)}


def fake_arguments():
    """Two tensors of one shape and any strides."""
    shape = weft.sym("depth"), weft.sym("height"), weft.sym("width")
    return (
        weft.fake_tensor(weft.f32, shape, layout="strided"),
        weft.fake_tensor(weft.f32, shape, layout="strided"),
    )


def reference(source: np.ndarray, target: np.ndarray) -> Arrays:
    """What NumPy says: a contiguous copy of the view."""
    return {"target": source.copy(order="C")}


EXAMPLE = Example(
    name="strided_copy",
    function=strided_copy,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{(n + 1) // 2}x{n}x{n} f32",
    size=224,
    test_size=19,
    instructions=("ld.global", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
