# SPDX-License-Identifier: Apache-2.0
"""The matrix product of any GPU from sm_80 on: threads copy tiles ahead of time, warps multiply them.

Shapes: `a` is m x k, `b` is n x k, `c` is m x n = a · bᵀ, float16, summed in float32; rows are multiples of
16 bytes. The kernel is that of `weft.kernels.gemm`, in `src/weft/kernels/linalg/gemm_sm80.py`. A block computes 128 x
128 elements with eight warps. Its tiles go around in a ring of four stages: while the warps multiply one, copies of the
next three are under way, which pass no register. The annotations promise what such copies need.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.kernels.linalg.gemm_sm80 import BM, BN, THREADS, gemm_kernel

CHUNK = 8  # elements of a copy: 16 bytes
DTYPE = weft.f16  # or weft.bf16


def matrix(rows, columns):
    """A matrix whose rows are whole chunks."""
    return weft.fake_tensor(
        DTYPE, (rows, weft.sym(columns, divisibility=CHUNK)), alignment_bytes=16
    )


@weft.jit
def gemm(
    a: Annotated[weft.Tensor, matrix("m", "k")],
    b: Annotated[weft.Tensor, matrix("n", "k")],
    c: Annotated[weft.Tensor, matrix("m", "n")],
    profiled: weft.Constexpr[bool] = False,
):
    """c = a · bᵀ, for any m and n, and k whose rows are multiples of 16 bytes."""
    m_tiles, n_tiles = weft.ceil_div(a.shape[0], BM), weft.ceil_div(b.shape[0], BN)
    kernel = gemm_kernel(a, b, c, (m_tiles, n_tiles), profiled=profiled)
    kernel.launch(grid=m_tiles * n_tiles, block=THREADS)


def make_arguments(size: int) -> Arguments:
    """Two matrices of about that size, none of a whole number of tiles."""
    random = np.random.default_rng(35)
    m, n, k = size, size // 8 * 8 + 72, size // 8 * 8 + 8
    a = random.standard_normal((m, k), dtype=np.float32).astype(np.float16)
    b = random.standard_normal((n, k), dtype=np.float32).astype(np.float16)
    return {"a": a, "b": b, "c": np.empty((m, n), np.float16)}


def fake_arguments():
    """The matrices of the annotations."""
    return matrix("m", "k"), matrix("n", "k"), matrix("m", "n")


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """What NumPy says, in float32."""
    return {"c": (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)}


EXAMPLE = Example(
    name="tensor_core_gemm",
    function=gemm,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"{size}x{size // 8 * 8 + 72} f16",
    size=1024,
    test_size=312,
    tolerance=2e-3,
    instructions=("mma.sync", "ldmatrix", "cp.async.cg.shared.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
