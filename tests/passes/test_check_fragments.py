# SPDX-License-Identifier: Apache-2.0
"""Branches without an else, as passes see them in kernels with products, are paths too."""

from __future__ import annotations

import numpy as np

import weft


@weft.kernel
def kernel(out: weft.Tensor):
    tile = weft.shared((64, 64), weft.f16, swizzle=128)
    acc = weft.wgmma.accumulator((64, 8), weft.f32)
    for i in range(weft.thread_idx.x, 64 * 64, 128):
        tile[i // 64, i % 64] = weft.f16(1)
    weft.fence_proxy()
    weft.sync_threads()
    if weft.thread_idx.x == 0:
        out[1] = 1.0
    right = tile.T.tile((64, 8), (0, 0))
    acc = weft.wgmma.wait(weft.wgmma.mma(tile, right, acc, accumulate=False), pending=0)
    if weft.thread_idx.x == 0:
        out[0] = acc.values[0]


@weft.jit
def host(out: weft.Tensor[weft.f32, (2,)]):
    kernel(out).launch(grid=1, block=128)


def test_a_branch_without_an_else_is_followed():
    host(out := np.zeros(2, np.float32))
    assert out.tolist() == [64.0, 1.0]
