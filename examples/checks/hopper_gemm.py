# SPDX-License-Identifier: Apache-2.0
"""Arguments and reference of `examples.hopper_gemm`."""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example
from examples.hopper_gemm import gemm


def make_arguments(size: int) -> Arguments:
    """Two matrices of about that size, none of a whole number of tiles."""
    random = np.random.default_rng(33)
    m, n, k = size, size + 72, size // 8 * 8 + 8
    a = random.standard_normal((m, k), dtype=np.float32).astype(np.float16)
    b = random.standard_normal((n, k), dtype=np.float32).astype(np.float16)
    return {"a": a, "b": b, "c": np.empty((m, n), np.float16)}


def fake_arguments(dtype: weft.DType = weft.bf16):
    """Matrices whose rows are multiples of 16 bytes; the result for 8-bit floats is bfloat16."""
    m, n, k = (
        weft.sym("m"),
        weft.sym("n", divisibility=8),
        weft.sym("k", divisibility=16 // dtype.itemsize),
    )
    kinds = (dtype, (m, k)), (dtype, (n, k)), (weft.bf16 if dtype.bits == 8 else dtype, (m, n))
    return tuple(weft.fake_tensor(kind, shape, alignment_bytes=16) for kind, shape in kinds)


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """What NumPy computes, in float32."""
    return {"c": (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)}


EXAMPLE: Example = Example(
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
