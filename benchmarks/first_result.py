# SPDX-License-Identifier: Apache-2.0
"""The shortest program with a result: compiles add_one for the CPU and calls it. cold_start times it.

It has no NumPy of its own: its arrays are Python's.
"""

from __future__ import annotations

from array import array

import weft


@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    """One thread adds one to one element."""
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    """Write a + 1 to b."""
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


def main() -> None:
    """Compile, call and check."""
    a = array("f", range(1000))
    b = array("f", [0.0] * 1000)
    add_one(a, b)
    assert list(b) == [x + 1 for x in a]


if __name__ == "__main__":
    main()
