# SPDX-License-Identifier: Apache-2.0
"""The examples that use a Hopper GPU's tensor cores, beside NVIDIA's libraries for the same.

GEMMs of bfloat16 beside cuBLAS, of 8-bit floats beside cuBLASLt, attention of bfloat16 beside cuDNN, each
called through torch on the same tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import Case, normal
from examples.attention import attention_for
from examples.hopper_gemm import gemm

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCTS = (
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8192, 8192, 1024),
    (1024, 8192, 8192),
    (4096, 4096, 16384),
)
TOKENS = 16384  # of all sequences together
HIDDEN = 2048  # heads times elements of each
LENGTHS = (2048, 4096, 8192, 16384)


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Products of either type, then attention with heads of 128 and 64 elements."""
    for name in ("bfloat16", "float8_e4m3fn"):
        for sizes in PRODUCTS:
            m, n, k = (size // scale for size in sizes)
            yield product_case(torch, name, m, n, k)
    for hdim in (128, 64):
        for causal in (False, True):
            for length in LENGTHS:
                yield attention_case(torch, hdim, length // scale, causal, TOKENS // scale)


def product_case(torch: Any, name: str, m: int, n: int, k: int) -> Case:
    """A product of m x k by k x n, both factors with k innermost; of 8-bit floats the result is bfloat16."""
    eight = name != "bfloat16"

    def make(seed: int) -> list[Any]:
        factors = normal(torch, name, seed, m, k), normal(torch, name, seed + 1, n, k)
        return [*factors, torch.empty(m, n, dtype=torch.bfloat16), torch.ones(())]

    def ours(a: Any, b: Any, c: Any, one: Any) -> Any:
        gemm(a, b, c)
        return c

    def theirs(a: Any, b: Any, c: Any, one: Any) -> Any:
        if eight:
            scales = {"scale_a": one, "scale_b": one}
            return torch._scaled_mm(a, b.T, **scales, out_dtype=c.dtype, use_fast_accum=True)
        return torch.mm(a, b.T, out=c)

    peer = "cuBLASLt" if eight else "cuBLAS"
    # Both round f32 sums to bfloat16; of 8-bit floats the tensor cores keep 14 bits of a sum for some steps.
    tolerance = 2e-2 if eight else 5e-3
    title, work = f"gemm/{name}/{m}x{n}x{k}", 2.0 * m * n * k
    return Case(title, make, ours, {peer: theirs}, work, "TFLOP/s", tolerance)


def attention_case(torch: Any, hdim: int, length: int, causal: bool, tokens: int = TOKENS) -> Case:
    """Attention of sequences of one length, as many as have so many tokens together."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attention = attention_for(hdim)
    batch, heads = tokens // length, HIDDEN // hdim
    scale = hdim**-0.5

    def make(seed: int) -> list[Any]:
        shape = batch, length, heads, hdim
        q, k, v = (normal(torch, "bfloat16", seed + one, *shape) for one in range(3))
        return [q, k, v, torch.empty_like(q)]

    def ours(q: Any, k: Any, v: Any, out: Any) -> Any:
        attention(q, k, v, out, scale, causal)
        return out

    def theirs(q: Any, k: Any, v: Any, out: Any) -> Any:
        views = (one.transpose(1, 2) for one in (q, k, v))
        # On a CPU there is no cuDNN, and the rows are only compared.
        known = [SDPBackend.CUDNN_ATTENTION] if q.is_cuda else [SDPBackend.MATH]
        with sdpa_kernel(known):
            call = torch.nn.functional.scaled_dot_product_attention
            return call(*views, is_causal=causal, scale=scale).transpose(1, 2)

    title = f"attention {hdim}/bfloat16/{length}{' causal' if causal else ''}"
    work = 4.0 * batch * heads * length * length * hdim * (0.5 if causal else 1.0)
    return Case(title, make, ours, {"cuDNN": theirs}, work, "TFLOP/s", 1e-2)
