# SPDX-License-Identifier: Apache-2.0
"""The matrix product of a Hopper GPU: TMA copies, tensor cores multiply, and no thread waits for the other kind.

Shapes: `a` is m x k, `b` is n x k, of bfloat16, float16 or 8-bit floats; `c` is m x n = a · bᵀ, float16 or bfloat16,
summed in float32; rows are multiples of 16 bytes. The kernel is that of `weft.kernels.gemm`, some 150 lines in
`src/weft/kernels/linalg/gemm_sm90.py`. A block has three warpgroups. One copies tiles of `a` and `b` into a ring of
four stages; two multiply, 64 rows each. A stage goes around by two barriers: `full` counts its bytes, `empty` the warps
that are done with it. Every multiprocessor has one block, which takes tile after tile. This host function makes the
tensor maps: the boxes that TMA copies, and how their rows lie in shared memory.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.kernels.linalg.gemm_config_sm90 import BM, BN, ROW_BYTES, GemmConfig
from weft.kernels.linalg.gemm_sm90 import gemm_kernel


@weft.jit
def gemm(a, b, c, profiled: weft.Constexpr[bool] = False):
    """c = a · bᵀ, for any m, n and k."""
    m_tiles, n_tiles = weft.ceil_div(a.shape[0], BM), weft.ceil_div(b.shape[0], BN)
    bk = ROW_BYTES // a.dtype.itemsize
    gemm_kernel(
        weft.tensor_map(a, box=(BM, bk), swizzle=128),
        weft.tensor_map(b, box=(BN, bk), swizzle=128),
        weft.tensor_map(c, box=(64, 64), swizzle=128),
        (m_tiles, n_tiles),
        a.shape[1],
        a.dtype,
        c.dtype,
        config=GemmConfig(profiled=profiled),
    ).launch(grid=min(m_tiles * n_tiles, weft.multiprocessors()), block=384)


def make_arguments(size: int) -> Arguments:
    """Two matrices of about that size, none of a whole number of tiles."""
    random = np.random.default_rng(33)
    m, n, k = size, size + 72, size // 8 * 8 + 8
    a = random.standard_normal((m, k), dtype=np.float32).astype(np.float16)
    b = random.standard_normal((n, k), dtype=np.float32).astype(np.float16)
    return {"a": a, "b": b, "c": np.empty((m, n), np.float16)}


def fake_arguments(dtype: weft.DType = weft.bf16):
    """Matrices whose rows are multiples of 16 bytes; the product of 8-bit floats is bfloat16."""
    m, n, k = (
        weft.sym("m"),
        weft.sym("n", divisibility=8),
        weft.sym("k", divisibility=16 // dtype.itemsize),
    )
    kinds = (dtype, (m, k)), (dtype, (n, k)), (weft.bf16 if dtype.bits == 8 else dtype, (m, n))
    return tuple(weft.fake_tensor(kind, shape, alignment_bytes=16) for kind, shape in kinds)


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """What NumPy says, in float32."""
    return {"c": (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)}


EXAMPLE = Example(
    name="hopper_gemm",
    function=gemm,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"{size}x{size + 72} f16",
    size=1024,
    test_size=312,
    tolerance=2e-3,
    instructions=("wgmma.mma_async", "cp.async.bulk.tensor.2d", "setmaxnreg", "stmatrix"),
)

if __name__ == "__main__":
    show(EXAMPLE)
