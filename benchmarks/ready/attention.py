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
WINDOW = 1024  # keys that a query sees before its own
HDIMS = (64, 64), (128, 128), (256, 256), (96, 96), (192, 192), (192, 128)  # of q and k, and of v


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Forward, and forward and backward, by the size of heads, causal or not, and the length of sequences."""
    for hdims in HDIMS:
        for length in LENGTHS[: 2 if hdims in HDIMS[:3] else 1]:
            for causal in (True, False):
                for case in (_attention, _attention_backward):
                    yield case(torch, hdims, length // scale, causal, TOKENS // scale)
    yield _window(torch, HDIMS[1], LENGTHS[1] // scale, WINDOW // scale)


def _heads(torch: Any, seed: int, hdims: tuple[int, int], length: int, tokens: int) -> list[Any]:
    """q, k, v and a gradient of the result."""
    shape = tokens // length, length, WIDTH // hdims[0]
    columns = (hdims[0], *hdims, hdims[1])
    return [normal(torch, "bfloat16", seed + k, *shape, columns[k]) for k in range(4)]


def _flops(
    hdims: tuple[int, int], length: int, causal: bool, tokens: int, products: tuple[int, int]
) -> float:
    """FLOPs of so many matmuls with Q or K, and with V, of the scores that are computed."""
    scores = tokens * (WIDTH // hdims[0]) * length * (0.5 if causal else 1.0)
    return 2.0 * scores * sum(x * y for x, y in zip(hdims, products, strict=True))


def _title(hdims: tuple[int, int], length: int, causal: bool) -> str:
    heads = f"{hdims[0]}" if hdims[0] == hdims[1] else f"{hdims[0]} and {hdims[1]}"
    return f"bfloat16/{length}, heads of {heads}{', causal' if causal else ''}"


def _by_cudnn(torch: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with torch's cuDNN; on a CPU as it is."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run(*arguments: Any) -> Any:
        if not arguments[0].is_cuda:
            return call(*arguments)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return call(*arguments)

    return run


def _attention(torch: Any, hdims: tuple[int, int], length: int, causal: bool, tokens: int) -> Case:
    def theirs(q: Any, k: Any, v: Any) -> Any:
        views = (one.transpose(1, 2) for one in (q, k, v))
        call = torch.nn.functional.scaled_dot_product_attention
        return call(*views, is_causal=causal).transpose(1, 2)

    return Case(
        f"attention/{_title(hdims, length, causal)}",
        lambda seed: _heads(torch, seed, hdims, length, tokens)[:3],
        lambda q, k, v: kernels.attention(q, k, v, causal),
        {"torch": theirs, "cuDNN": _by_cudnn(torch, theirs)},
        _flops(hdims, length, causal, tokens, (1, 1)),
        "TFLOP/s",
        1e-2,
    )


def _attention_backward(
    torch: Any, hdims: tuple[int, int], length: int, causal: bool, tokens: int
) -> Case:
    """With the forward pass, two matmuls of seven: weft's returns the logsumexp, torch's a graph."""

    def theirs(q: Any, k: Any, v: Any, gradient: Any) -> Any:
        views = [one.transpose(1, 2).detach().requires_grad_() for one in (q, k, v)]
        call = torch.nn.functional.scaled_dot_product_attention
        call(*views, is_causal=causal).backward(gradient.transpose(1, 2))
        return tuple(one.grad.transpose(1, 2) for one in views)

    return Case(
        f"attention_backward/{_title(hdims, length, causal)}",
        lambda seed: _heads(torch, seed, hdims, length, tokens),
        lambda q, k, v, gradient: kernels.attention_backward(gradient, q, k, v, causal),
        {"torch": theirs, "cuDNN": _by_cudnn(torch, theirs)},
        _flops(hdims, length, causal, tokens, (4, 3)),
        "TFLOP/s",
        2e-2,
    )


def _window(torch: Any, hdims: tuple[int, int], length: int, window: int) -> Case:
    """A causal sliding window, beside torch with a matrix of truths, and its flex_attention compiled for blocks."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    sizes: dict[str, Any] = {"B": None, "H": None, "Q_LEN": length, "KV_LEN": length}

    def visible(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (key >= query - window)

    def masked(q: Any, k: Any, v: Any) -> Any:
        own = torch.arange(length, device=q.device)
        mask = visible(None, None, own[:, None], own)
        views = (one.transpose(1, 2) for one in (q, k, v))
        call = torch.nn.functional.scaled_dot_product_attention
        return call(*views, attn_mask=mask).transpose(1, 2)

    compiled, masks = torch.compile(flex_attention, dynamic=False), {}

    def flex(q: Any, k: Any, v: Any) -> Any:
        if not masks:
            masks["window"] = create_block_mask(visible, **sizes, device=q.device)
        views = (one.transpose(1, 2) for one in (q, k, v))
        return compiled(*views, block_mask=masks["window"]).transpose(1, 2)

    scores = WIDTH // hdims[0] * (length * (window + 1) - window * (window + 1) // 2)
    return Case(
        f"attention/{_title(hdims, length, True)}, window of {window}",
        lambda seed: _heads(torch, seed, hdims, length, length)[:3],
        lambda q, k, v: kernels.attention(q, k, v, window_size=(window, 0)),
        {"torch": masked, "flex_attention": flex},
        4.0 * hdims[0] * scores,
        "TFLOP/s",
        1e-2,
    )
