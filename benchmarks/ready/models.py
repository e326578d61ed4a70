# SPDX-License-Identifier: Apache-2.0
"""What models are made of: elementwise functions, movers, lookups, products, beside torch and `torch.compile`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import Case
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Unary = Callable[[Any], Any]
    Binary = Callable[[Any, Any], Any]
    Ternary = Callable[[Any, Any, Any], Any]

SIDE = 8192  # of each matrix
TOKENS, HEADS, HDIM = 16384, 32, 128
TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2}
PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 1024), (1024, 8192, 8192), (16, 8192, 8192))


def cases(torch: Any) -> Iterator[Case]:
    """Every row, in f32 and in bfloat16."""
    for name in ("float32", "bfloat16"):
        yield from _elementwise(torch, name)
        yield from _moves(torch, name)
        yield _rope(torch, name)
        yield from _lookups(torch, name)
        for sizes in PRODUCTS:
            yield from _products(torch, name, sizes)
    for causal in (False, True):
        yield _attention(torch, causal)
    yield from _losses(torch)


def _random(torch: Any, name: str, seed: int, *shape: int) -> Any:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda").to(getattr(torch, name))


def _both(torch: Any, call: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {"torch": call, "torch.compile": torch.compile(call)}


def _elementwise(torch: Any, name: str) -> Iterator[Case]:
    functional, size = torch.nn.functional, getattr(torch, name).itemsize * SIDE * SIDE
    tanh: tuple[Unary, Unary] = (
        lambda x: kernels.gelu(x, "tanh"),
        lambda x: functional.gelu(x, approximate="tanh"),
    )
    gated: Binary = lambda x, y: functional.silu(x) * y  # noqa: E731
    calls: tuple[tuple[str, int, Callable[..., Any], Callable[..., Any]], ...] = (
        ("gelu", 1, kernels.gelu, functional.gelu),
        ("gelu_tanh", 1, *tanh),
        ("silu_mul", 2, kernels.silu_mul, gated),
    )
    for what, inputs, ours, theirs in calls:

        def make(seed: int, inputs: int = inputs) -> list[Any]:
            return [_random(torch, name, seed + k, SIDE, SIDE) for k in range(inputs)]

        work, peers = (inputs + 1) * size, _both(torch, theirs)
        yield Case(f"{what}/{name}", make, ours, peers, work, tolerance=TOLERANCE[name])
    # Other elements are dropped: the results cannot be compared.
    dropout: tuple[Unary, Unary] = (
        lambda x: kernels.dropout(x, 0.1, 1),
        lambda x: functional.dropout(x, 0.1),
    )
    make_one: Unary = lambda seed: [_random(torch, name, seed, SIDE, SIDE)]  # noqa: E731
    peers = {"torch": dropout[1]}
    yield Case(f"dropout/{name}", make_one, dropout[0], peers, 2 * size, tolerance=math.inf)


def _moves(torch: Any, name: str) -> Iterator[Case]:
    size = getattr(torch, name).itemsize * SIDE * SIDE
    calls: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
        ("transpose", (SIDE, SIDE), (1, 0)),
        ("heads first", (16, 512, 64, 128), (0, 2, 1, 3)),
    )
    for what, shape, axes in calls:

        def make(seed: int, shape: tuple[int, ...] = shape) -> list[Any]:
            return [_random(torch, name, seed, *shape)]

        def ours(x: Any, axes: tuple[int, ...] = axes) -> Any:
            return kernels.transpose(x, axes)

        def theirs(x: Any, axes: tuple[int, ...] = axes) -> Any:
            return x.permute(axes).contiguous()

        yield Case(f"{what}/{name}", make, ours, {"torch": theirs}, 2 * size)


def _rope(torch: Any, name: str) -> Case:
    def make(seed: int) -> list[Any]:
        angles = _random(torch, "float32", seed, TOKENS, HDIM // 2)
        return [_random(torch, name, seed, TOKENS, HEADS, HDIM), angles.cos(), angles.sin()]

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        p, q = x.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat((p * c - q * s, q * c + p * s), -1).to(x.dtype)

    work = 2 * TOKENS * HEADS * HDIM * getattr(torch, name).itemsize
    peers = _both(torch, turned)
    return Case(f"rope/{name}", make, kernels.rope, peers, work, tolerance=TOLERANCE[name])


def _lookups(torch: Any, name: str) -> Iterator[Case]:
    size = getattr(torch, name).itemsize

    def table(seed: int) -> list[Any]:
        generator = torch.Generator("cuda").manual_seed(seed)
        rows = torch.randint(0, 32000, (TOKENS,), generator=generator, device="cuda")
        return [_random(torch, name, seed, 32000, 4096), rows]

    def places(seed: int) -> list[Any]:
        generator = torch.Generator("cuda").manual_seed(seed)
        found = torch.randint(0, SIDE, (SIDE, SIDE), generator=generator, device="cuda")
        return [_random(torch, name, seed, SIDE, SIDE), found]

    def lookup(rows: Any, indices: Any) -> Any:
        return torch.nn.functional.embedding(indices, rows)

    yield Case(
        f"embedding/{name}", table, kernels.embedding, {"torch": lookup}, 2 * TOKENS * 4096 * size
    )
    work = SIDE * SIDE * (2 * size + 8)
    gather: Binary = lambda x, indices: x.gather(1, indices)  # noqa: E731
    yield Case(f"gather/{name}", places, kernels.gather, {"torch": gather}, work)


def _products(torch: Any, name: str, sizes: tuple[int, int, int]) -> Iterator[Case]:
    m, n, k = sizes
    scale = k**-0.5

    def make(seed: int) -> list[Any]:
        bias = _random(torch, name, seed + 2, n)
        return [
            _random(torch, name, seed, m, k),
            _random(torch, name, seed + 1, n, k) * scale,
            bias,
        ]

    work, tolerance = 2.0 * m * n * k, TOLERANCE[name]
    plain: tuple[Ternary, Ternary] = (
        lambda a, weight, bias: kernels.matmul(a, weight.T),
        lambda a, weight, bias: a @ weight.T,
    )
    yield Case(
        f"gemm/{name}/{m}x{n}x{k}",
        make,
        plain[0],
        {"torch": plain[1]},
        work,
        "TFLOP/s",
        tolerance,
    )

    def ours(a: Any, weight: Any, bias: Any) -> Any:
        return kernels.gemm(a, weight.T, bias, "gelu")

    def layer(a: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.gelu(torch.nn.functional.linear(a, weight, bias))

    yield Case(
        f"gemm, bias, gelu/{name}/{m}x{n}x{k}",
        make,
        ours,
        _both(torch, layer),
        work,
        "TFLOP/s",
        tolerance,
    )


def _attention(torch: Any, causal: bool) -> Case:
    tokens, heads, hdim = 8192, 16, 128

    def make(seed: int) -> list[Any]:
        shape = 2, tokens, heads, hdim
        return [_random(torch, "bfloat16", seed + k, *shape) for k in range(3)]

    def ours(q: Any, k: Any, v: Any) -> Any:
        return kernels.attention(q, k, v, causal)

    def theirs(q: Any, k: Any, v: Any) -> Any:
        views = (one.transpose(1, 2) for one in (q, k, v))
        call = torch.nn.functional.scaled_dot_product_attention
        return call(*views, is_causal=causal).transpose(1, 2)

    work = 8.0 * heads * tokens * tokens * hdim * (0.5 if causal else 1)
    name = f"attention/bfloat16{' causal' if causal else ''}"
    return Case(name, make, ours, {"torch": theirs}, work, "TFLOP/s", 1e-2)


def _losses(torch: Any) -> Iterator[Case]:
    def make(seed: int) -> list[Any]:
        generator = torch.Generator("cuda").manual_seed(seed)
        classes = torch.randint(0, 128_000, (4096,), generator=generator, device="cuda")
        return [_random(torch, "bfloat16", seed, 4096, 128_000), classes]

    def theirs(logits: Any, classes: Any) -> Any:
        return torch.nn.functional.cross_entropy(logits.float(), classes, reduction="none")

    work = 2.0 * 4096 * 128_000
    peers = _both(torch, theirs)
    yield Case("cross_entropy/bfloat16", make, kernels.cross_entropy, peers, work, tolerance=1e-3)
