# SPDX-License-Identifier: Apache-2.0
"""Arguments and reference of `examples.attention`."""

from __future__ import annotations

import numpy as np

import weft
from examples.attention import attention
from examples.common import Arguments, Arrays, Example


def make_arguments(size: int) -> Arguments:
    """Two batches with that many queries, more keys, and four query heads to two key heads."""
    random = np.random.default_rng(34)
    shapes = (2, size, 4, 128), (2, size + 7, 2, 128), (2, size + 7, 2, 128)
    q, k, v = (
        random.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes
    )
    return {"q": q, "k": k, "v": v, "out": np.empty_like(q), "scale": 128**-0.5}


def fake_arguments(hdim: int = 128):
    """Tensors of bfloat16, aligned as tensor maps need it."""
    shapes = [("batch", "queries", "heads", hdim), ("batch", "keys", "k_heads", hdim)]
    q, k = (weft.fake_tensor(weft.bf16, shape, alignment_bytes=16) for shape in shapes)
    return q, k, k, q, 1.0


def attend(q, k, v, scale, causal) -> np.ndarray:
    """Attention of one sequence, (tokens, heads, hdim), in float64; zeros for queries that see no key."""
    k, v = (one.astype(np.float64).repeat(q.shape[1] // k.shape[1], 1) for one in (k, v))
    scores = scale * np.einsum("qhd,khd->hqk", q.astype(np.float64), k)
    if causal:
        queries, keys = scores.shape[1:]
        scores[:, ~np.tri(queries, keys, keys - queries, dtype=np.bool_)] = -np.inf
    largest = scores.max(2, keepdims=True, initial=np.finfo(np.float64).min)
    weights = np.exp(scores - largest)
    total = weights.sum(2, keepdims=True)
    found: np.ndarray = np.einsum("hqk,khd->qhd", weights / np.where(total == 0, 1, total), v)
    return found


def reference(q, k, v, out, scale, causal=True) -> Arrays:
    """What NumPy says, in float64."""
    found = [attend(*one, scale, causal) for one in zip(q, k, v, strict=True)]
    return {"out": np.stack(found).astype(q.dtype)}


EXAMPLE: Example = Example(
    name="attention",
    function=attention,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"2 x {size} queries, 4 heads of 128, f16",
    size=512,
    test_size=150,
    tolerance=2e-3,
    instructions=("wgmma.mma_async", "cp.async.bulk.tensor.4d", "setmaxnreg", "ex2.approx.ftz.f32"),
)
