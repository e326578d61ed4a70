# SPDX-License-Identifier: Apache-2.0
"""Arguments and reference of `examples.split_k_gemm`."""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example
from examples.split_k_gemm import gemm


def make_arguments(size: int) -> Arguments:
    """Matrices of 100 and 200 rows of about that size."""
    random = np.random.default_rng(37)
    k = size // 8 * 8 + 8
    a = random.standard_normal((100, k), dtype=np.float32).astype(np.float16)
    b = random.standard_normal((200, k), dtype=np.float32).astype(np.float16)
    return {"a": a, "b": b, "c": np.empty((100, 200), np.float16)}


def fake_arguments():
    """Matrices whose rows are multiples of 16 bytes."""
    m, n, k = weft.sym("m"), weft.sym("n"), weft.sym("k", divisibility=8)
    shapes = (m, k), (n, k), (m, n)
    return tuple(weft.fake_tensor(weft.f16, shape, alignment_bytes=16) for shape in shapes)


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """What NumPy computes, in float32."""
    return {"c": (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)}


EXAMPLE: Example = Example(
    name="split_k_gemm",
    function=gemm,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"100x200x{size // 8 * 8 + 8} f16",
    size=16384,
    test_size=1500,
    tolerance=2e-3,
    instructions=("wgmma.mma_async", "griddepcontrol.launch_dependents", "griddepcontrol.wait"),
)
