# SPDX-License-Identifier: Apache-2.0
"""Matrix products and attention of `weft.kernels`, beside torch's, which are cuBLAS's and the fastest that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import TOLERANCE, Case, eager_and_compiled, normal, triton
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 1024), (1024, 8192, 8192), (16, 8192, 8192))
TOKENS, HEADS, HDIM = 8192, 16, 128


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Products, alone and with what follows them in a layer, then attention."""
    for name in TOLERANCE:
        for m, n, k in PRODUCTS:
            yield from _products(torch, name, max(m // scale, 16), n // scale, k // scale)
    for causal in (False, True):
        yield _attention(torch, TOKENS // scale, causal)


def _products(torch: Any, name: str, m: int, n: int, k: int) -> Iterator[Case]:
    def make(seed: int) -> list[Any]:
        weight = normal(torch, name, seed + 1, n, k) * k**-0.5
        return [normal(torch, name, seed, m, k), weight, normal(torch, name, seed + 2, n)]

    def into(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(a: Any, weight: Any, bias: Any) -> Any:
            c = a.new_empty(a.shape[0], weight.shape[0])
            call(a, weight, c)
            return c

        return run

    def layer(a: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.gelu(torch.nn.functional.linear(a, weight, bias))

    work, tolerance, sizes = 2.0 * m * n * k, TOLERANCE[name], f"{m}x{n}x{k}"
    more = {who: into(call) for who, call in triton("matmul").items() if name != "float32"}
    yield Case(
        f"gemm/{name}/{sizes}",
        make,
        lambda a, weight, bias: kernels.matmul(a, weight.T),
        {"torch": lambda a, weight, bias: a @ weight.T, **more},
        work,
        "TFLOP/s",
        tolerance,
    )
    yield Case(
        f"gemm, bias, gelu/{name}/{sizes}",
        make,
        lambda a, weight, bias: kernels.gemm(a, weight.T, bias, "gelu"),
        eager_and_compiled(torch, layer),
        work,
        "TFLOP/s",
        tolerance,
    )


def _attention(torch: Any, tokens: int, causal: bool) -> Case:
    def make(seed: int) -> list[Any]:
        return [normal(torch, "bfloat16", seed + k, 2, tokens, HEADS, HDIM) for k in range(3)]

    def theirs(q: Any, k: Any, v: Any) -> Any:
        views = (one.transpose(1, 2) for one in (q, k, v))
        call = torch.nn.functional.scaled_dot_product_attention
        return call(*views, is_causal=causal).transpose(1, 2)

    return Case(
        f"attention/bfloat16/{tokens}{' causal' if causal else ''}",
        make,
        lambda q, k, v: kernels.attention(q, k, v, causal),
        {"torch": theirs},
        8.0 * HEADS * tokens * tokens * HDIM * (0.5 if causal else 1),
        "TFLOP/s",
        1e-2,
    )
