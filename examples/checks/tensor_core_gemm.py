# SPDX-License-Identifier: Apache-2.0
"""Arguments and reference of `examples.tensor_core_gemm`."""

from __future__ import annotations

import numpy as np

from examples.common import Arguments, Arrays, Example
from examples.tensor_core_gemm import gemm, matrix


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
    """What NumPy computes, in float32."""
    return {"c": (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)}


EXAMPLE: Example = Example(
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
