# SPDX-License-Identifier: Apache-2.0
"""The kernel that tests of the wrapper compile whole."""

from __future__ import annotations

import weft


@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)
