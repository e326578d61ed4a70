# SPDX-License-Identifier: Apache-2.0
"""Attention as FlashAttention-3 computes it on a Hopper GPU: the tensor cores never wait for the softmax.

Shapes: `q` and `out` are query tokens x heads x hdim, `k` and `v` key tokens x key heads x hdim, float16 or bfloat16;
key heads divide heads (GQA). Sequences are packed: batch i has the tokens from `cu_seqlens_q[i]` to
`cu_seqlens_q[i + 1]`, and keys likewise. With `causal` a query sees the keys up to its own, the last
query all. Tokens outside of all sequences get zeros. After the last key of a sequence v is read
and multiplied by 0: it may not be infinite there.

The kernel is that of `weft.kernels.attention`, in `src/weft/kernels/flash_attention/fwd_sm90.py`; this host function
makes the tensor maps and the grid.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.kernels.flash_attention.fwd_sm90 import HIDDEN, LOG2_E, attention_kernel, maps_of


def attention_for(hdim: int):
    """The host function for heads of 64 or 128 elements."""
    multiply = 2 if hdim == 128 else 3  # warpgroups
    bm = 64 * multiply

    @weft.jit
    def attention(
        q: weft.Tensor[None, ("q_tokens", "heads", hdim)],
        k: weft.Tensor[None, ("k_tokens", "k_heads", hdim)],
        v: weft.Tensor[None, ("k_tokens", "k_heads", hdim)],
        out: weft.Tensor[None, ("q_tokens", "heads", hdim)],
        cu_seqlens_q: weft.Tensor[weft.i32, ("bounds",)],
        cu_seqlens_k: weft.Tensor[weft.i32, ("bounds",)],
        max_seqlen_q: weft.i32,
        scale: weft.f32,
        causal: weft.Constexpr[bool] = True,
        profiled: weft.Constexpr[bool] = False,
    ):
        """out = softmax(scale · q · kᵀ) · v, by head and sequence; `max_seqlen_q` is the most queries of one."""
        attention_kernel(
            maps_of(q, k, v, bm, hdim),
            out,
            None,
            (cu_seqlens_q, cu_seqlens_k),
            q.shape[1] // k.shape[1],
            scale * LOG2_E,
            hdim,
            causal,
            multiply,
            profiled=profiled,
        ).launch(
            grid=(weft.ceil_div(max_seqlen_q, bm), q.shape[1], cu_seqlens_q.shape[0] - 1),
            block=128 * (multiply + 1),
        )

    return attention


attention = attention_for(128)


def starts_of(lengths) -> np.ndarray:
    """Where each sequence begins, and where the last one ends."""
    return np.cumsum([0, *lengths]).astype(np.int32)


def make_arguments(size: int) -> Arguments:
    """Three sequences of up to that many queries, with four query heads to two key heads."""
    random = np.random.default_rng(34)
    queries, keys = (size, size // 2 + 3, 1), (size, size + 7, 2 * size)
    cu_seqlens_q, cu_seqlens_k = starts_of(queries), starts_of(keys)
    shapes = (sum(queries), 4, 128), (sum(keys), 2, 128), (sum(keys), 2, 128)
    q, k, v = (
        random.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes
    )
    return {
        "q": q,
        "k": k,
        "v": v,
        "out": np.empty_like(q),
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "max_seqlen_q": max(queries),
        "scale": 128**-0.5,
    }


def fake_arguments(hdim: int = 128):
    """Tensors of bfloat16, aligned as tensor maps need it."""
    tokens = (weft.sym(f"{name}_tokens") for name in "qkkq")
    heads = ("heads", "k_heads", "k_heads", "heads")
    tensors = [
        weft.fake_tensor(weft.bf16, (token, head, hdim), alignment_bytes=16)
        for token, head in zip(tokens, heads, strict=True)
    ]
    starts = weft.fake_tensor(weft.i32, ("bounds",))
    return (*tensors, starts, starts, 1, 1.0)


def reference(q, k, v, out, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, scale, causal=True) -> Arrays:
    """What NumPy says, in float64; zeros for queries that see nothing."""
    result = np.zeros(q.shape)
    for batch in range(len(cu_seqlens_q) - 1):
        own = slice(*cu_seqlens_q[batch : batch + 2])
        theirs = slice(*cu_seqlens_k[batch : batch + 2])
        for head in range(q.shape[1]):
            where = theirs, head * k.shape[1] // q.shape[1]
            keys, values = k[where].astype(np.float64), v[where].astype(np.float64)
            scores = scale * q[own, head].astype(np.float64) @ keys.T
            if causal:
                ahead = scores.shape[1] - scores.shape[0]
                scores[~np.tri(scores.shape[0], scores.shape[1], ahead, dtype=np.bool_)] = HIDDEN
            largest = scores.max(1, keepdims=True, initial=np.finfo(np.float64).min)
            weights = np.exp(scores - largest)
            total = weights.sum(1, keepdims=True)
            result[own, head] = weights @ values / np.where(total == 0, 1, total)
    return {"out": result.astype(q.dtype)}


EXAMPLE = Example(
    name="attention",
    function=attention,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda size: f"up to {size} queries, 4 heads of 128, f16",
    size=512,
    test_size=150,
    tolerance=2e-3,
    instructions=("wgmma.mma_async", "cp.async.bulk.tensor.3d", "setmaxnreg", "ex2.approx.ftz.f32"),
)

if __name__ == "__main__":
    show(EXAMPLE)
