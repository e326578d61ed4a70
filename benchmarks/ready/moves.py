# SPDX-License-Identifier: Apache-2.0
"""Functions that move elements: transposes and gathers, beside torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import TOLERANCE, Case, integers, normal
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = 8192  # of each matrix
TOKENS, WORDS, WIDTH = 16384, 32000, 4096


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Transposes and gathers, in f32 and bfloat16."""
    for name in TOLERANCE:
        side = SIDE // scale
        for what, shape, axes in (
            ("transpose", (side, side), (1, 0)),
            ("transpose to heads first", (max(1, 16 // scale), 512, 64, 128), (0, 2, 1, 3)),
        ):
            yield _transposed(torch, name, what, shape, axes)
        yield from _embeddings(torch, name, TOKENS // scale, WORDS // scale, WIDTH // scale)
        yield from _places(torch, name, side)
        yield Case(
            f"copy of every second column/{name}",
            lambda seed, name=name, side=side: [normal(torch, name, seed, side, 2 * side)],
            lambda x: kernels.copy(x[:, ::2]),
            {"torch": lambda x: x[:, ::2].contiguous()},
            3 * side * side * getattr(torch, name).itemsize,
        )


def _transposed(
    torch: Any, name: str, what: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> Case:
    return Case(
        f"{what}/{name}",
        lambda seed: [normal(torch, name, seed, *shape)],
        lambda x: kernels.transpose(x, axes),
        {"torch": lambda x: x.permute(axes).contiguous()},
        2 * torch.Size(shape).numel() * getattr(torch, name).itemsize,
    )


def _embeddings(torch: Any, name: str, tokens: int, words: int, width: int) -> Iterator[Case]:
    def make(seed: int) -> list[Any]:
        found = integers(torch, words, torch.int64, seed, tokens)
        return [normal(torch, name, seed, words, width), found]

    def make_grad(seed: int) -> list[Any]:
        found = integers(torch, words, torch.int64, seed, tokens)
        return [normal(torch, name, seed, tokens, width), found]

    def theirs(rows: Any, indices: Any) -> Any:
        return torch.nn.functional.embedding(indices, rows)

    def grad(gradient: Any, indices: Any) -> Any:
        return torch.ops.aten.embedding_dense_backward(gradient, indices, words, -1, False)

    size = width * getattr(torch, name).itemsize
    yield Case(f"embedding/{name}", make, kernels.embedding, {"torch": theirs}, 2 * tokens * size)
    yield Case(
        f"embedding_backward/{name}",
        make_grad,
        lambda gradient, indices: kernels.embedding_backward(gradient, indices, words),
        {"torch": grad},
        (tokens + words) * size,
        tolerance=TOLERANCE[name],
    )


def _places(torch: Any, name: str, side: int) -> Iterator[Case]:
    def make(seed: int) -> list[Any]:
        found = integers(torch, side, torch.int64, seed, side, side)
        return [normal(torch, name, seed + k, side, side) for k in range(2)] + [found]

    size = getattr(torch, name).itemsize
    yield Case(
        f"gather/{name}",
        make,
        lambda x, _, indices: kernels.gather(x, indices),
        {"torch": lambda x, _, indices: x.gather(1, indices)},
        side * side * (2 * size + 8),
    )
    yield Case(
        f"scatter_add/{name}",
        make,
        lambda x, values, indices: kernels.scatter_add(x, indices, values),
        {"torch": lambda x, values, indices: x.scatter_add(1, indices, values)},
        side * side * (3 * size + 8),
        tolerance=2 * TOLERANCE[name],
    )
