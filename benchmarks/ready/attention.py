# SPDX-License-Identifier: Apache-2.0
"""Attention of `weft.kernels` and its derivatives, of bfloat16, beside torch's choice and cuDNN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import Case, normal
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOKENS = 16384  # of all sequences together
WIDTH = 2048  # heads times elements of each
LENGTHS = (4096, 16384)
HDIMS = (64, 128, 256, 96, 192)


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Forward, and forward and backward, by the size of heads, causal or not, and the length of sequences."""
    for hdim in HDIMS:
        for length in LENGTHS[: 2 if hdim in (64, 128, 256) else 1]:
            for causal in (True, False):
                for case in (_attention, _attention_backward):
                    yield case(torch, hdim, length // scale, causal, TOKENS // scale)


def _heads(torch: Any, seed: int, hdim: int, length: int, tokens: int) -> Any:
    return normal(torch, "bfloat16", seed, tokens // length, length, WIDTH // hdim, hdim)


def _scores(hdim: int, length: int, causal: bool, tokens: int) -> float:
    """Elements of all matrices of scores that are computed, times 2 · hdim: the FLOPs of a matmul."""
    return 2.0 * tokens * (WIDTH // hdim) * length * hdim * (0.5 if causal else 1.0)


def _by_cudnn(torch: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with torch's cuDNN; on a CPU as it is."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run(*arguments: Any) -> Any:
        if not arguments[0].is_cuda:
            return call(*arguments)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return call(*arguments)

    return run


def _attention(torch: Any, hdim: int, length: int, causal: bool, tokens: int) -> Case:
    def theirs(q: Any, k: Any, v: Any) -> Any:
        views = (one.transpose(1, 2) for one in (q, k, v))
        call = torch.nn.functional.scaled_dot_product_attention
        return call(*views, is_causal=causal).transpose(1, 2)

    return Case(
        f"attention/bfloat16/{length}, heads of {hdim}{', causal' if causal else ''}",
        lambda seed: [_heads(torch, seed + one, hdim, length, tokens) for one in range(3)],
        lambda q, k, v: kernels.attention(q, k, v, causal),
        {"torch": theirs, "cuDNN": _by_cudnn(torch, theirs)},
        2 * _scores(hdim, length, causal, tokens),
        "TFLOP/s",
        1e-2,
    )


def _attention_backward(torch: Any, hdim: int, length: int, causal: bool, tokens: int) -> Case:
    """With the forward pass, two matmuls of seven: weft's returns the logsumexp, torch's a graph."""

    def theirs(gradient: Any, q: Any, k: Any, v: Any) -> Any:
        views = [one.transpose(1, 2).detach().requires_grad_() for one in (q, k, v)]
        call = torch.nn.functional.scaled_dot_product_attention
        call(*views, is_causal=causal).backward(gradient.transpose(1, 2))
        return tuple(one.grad.transpose(1, 2) for one in views)

    return Case(
        f"attention_backward/bfloat16/{length}, heads of {hdim}{', causal' if causal else ''}",
        lambda seed: [_heads(torch, seed + one, hdim, length, tokens) for one in range(4)],
        lambda gradient, q, k, v: kernels.attention_backward(gradient, q, k, v, causal),
        {"torch": theirs, "cuDNN": _by_cudnn(torch, theirs)},
        7 * _scores(hdim, length, causal, tokens),
        "TFLOP/s",
        2e-2,
    )
