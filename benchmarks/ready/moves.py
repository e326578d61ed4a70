# SPDX-License-Identifier: Apache-2.0
"""Functions that move elements: transposes and lookups, beside torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import TOLERANCE, Case, integers, normal
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = 8192  # of each matrix
TOKENS, WORDS, WIDTH = 16384, 32000, 4096


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Transposes and lookups, in f32 and bfloat16."""
    for name in TOLERANCE:
        side = SIDE // scale
        for what, shape, axes in (
            ("transpose", (side, side), (1, 0)),
            ("heads first", (max(1, 16 // scale), 512, 64, 128), (0, 2, 1, 3)),
        ):
            yield _transposed(torch, name, what, shape, axes)
        yield _embedding(torch, name, TOKENS // scale, WORDS // scale, WIDTH // scale)
        yield _gather(torch, name, side)


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


def _embedding(torch: Any, name: str, tokens: int, words: int, width: int) -> Case:
    def make(seed: int) -> list[Any]:
        found = integers(torch, words, torch.int64, seed, tokens)
        return [normal(torch, name, seed, words, width), found]

    def theirs(rows: Any, indices: Any) -> Any:
        return torch.nn.functional.embedding(indices, rows)

    work = 2 * tokens * width * getattr(torch, name).itemsize
    return Case(f"embedding/{name}", make, kernels.embedding, {"torch": theirs}, work)


def _gather(torch: Any, name: str, side: int) -> Case:
    def make(seed: int) -> list[Any]:
        found = integers(torch, side, torch.int64, seed, side, side)
        return [normal(torch, name, seed, side, side), found]

    work = side * side * (2 * getattr(torch, name).itemsize + 8)
    peers = {"torch": lambda x, indices: x.gather(1, indices)}
    return Case(f"gather/{name}", make, kernels.gather, peers, work)
