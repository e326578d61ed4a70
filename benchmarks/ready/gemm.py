# SPDX-License-Identifier: Apache-2.0
"""GEMM of `weft.kernels`, beside torch's, which calls cuBLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import TOLERANCE, Case, eager_and_compiled, integers, normal, triton
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GEMM_SIZES = ((4096, 4096, 4096), (8192, 8192, 1024), (1024, 8192, 8192), (16, 8192, 8192))
TOKENS = 8192
WIDTH, GROUPS = 4096, 8
BLOCK = 128  # elements of a scale
ROWS, ENTRIES = 1 << 21, 16  # of a sparse matrix; mean entries of a row


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """GEMM with and without an epilogue, then grouped, scaled and sparse products."""
    for name in TOLERANCE:
        for m, n, k in GEMM_SIZES:
            yield from _gemm(torch, name, max(m // scale, 16), n // scale, k // scale)
    yield _grouped(torch, TOKENS // scale, WIDTH // scale)
    yield _scaled(torch, TOKENS // scale, WIDTH // scale)
    yield _sparse(torch, ROWS // scale)


def _gemm(torch: Any, name: str, m: int, n: int, k: int) -> Iterator[Case]:
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
        f"matmul/{name}/{sizes}",
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


def _grouped(torch: Any, tokens: int, width: int) -> Case:
    ends = [tokens * (k + 1) ** 2 // GROUPS**2 for k in range(GROUPS)]  # each group is larger
    offsets = [0, *ends]

    def make(seed: int) -> list[Any]:
        b = normal(torch, "bfloat16", seed + 1, GROUPS, width, width) * width**-0.5
        a = normal(torch, "bfloat16", seed, tokens, width)
        return [a, b, torch.tensor(offsets, dtype=torch.int32)]

    def one_by_one(a: Any, b: Any, _: Any) -> Any:
        parts = zip(offsets, ends, b, strict=False)
        return torch.cat([a[start:end] @ matrix for start, end, matrix in parts])

    peers = {"torch": one_by_one}
    if call := getattr(torch.nn.functional, "grouped_mm", None):
        peers["grouped_mm"] = lambda a, b, offsets: call(a, b, offs=offsets[1:])
    work, name = 2.0 * tokens * width * width, f"{GROUPS} groups of {tokens}x{width}x{width}"
    title = f"grouped_gemm/bfloat16/{name}"
    return Case(title, make, kernels.grouped_gemm, peers, work, "TFLOP/s", TOLERANCE["bfloat16"])


def _scaled(torch: Any, tokens: int, width: int) -> Case:
    parts = -(-width // BLOCK)

    def make(seed: int) -> list[Any]:
        a = normal(torch, "float8_e4m3fn", seed, tokens, width)
        weight = normal(torch, "float8_e4m3fn", seed + 1, width, width)
        scales = normal(torch, "float32", seed + 2, tokens, parts).exp()
        return [a, weight, scales, normal(torch, "float32", seed + 3, parts, parts).exp()]

    def by_bfloat16(a: Any, weight: Any, scale_a: Any, scale_weight: Any) -> Any:
        wide = scale_a.repeat_interleave(BLOCK, 1)[:, :width]
        blocks = scale_weight.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        left, right = a.float() * wide, weight.float() * blocks[:width, :width]
        return left.bfloat16() @ right.bfloat16().T

    return Case(
        f"scaled_gemm/float8_e4m3fn/{tokens}x{width}x{width}",
        make,
        lambda a, weight, scale_a, scale_weight: kernels.scaled_gemm(
            a, weight.T, scale_a, scale_weight.T
        ),
        {"by bf16": torch.compile(by_bfloat16, dynamic=False)},
        2.0 * tokens * width * width,
        "TFLOP/s",
        2e-2,
    )


def _sparse(torch: Any, rows: int) -> Case:
    def make(seed: int) -> list[Any]:
        counts = integers(torch, 2 * ENTRIES + 1, torch.int64, seed, rows)
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(torch.int32)
        indices = integers(torch, rows, torch.int32, seed + 1, int(indptr[-1]))
        values = normal(torch, "float32", seed + 2, len(indices))
        return [indptr, indices, values, normal(torch, "float32", seed + 3, rows)]

    def theirs(indptr: Any, indices: Any, values: Any, x: Any) -> Any:
        return torch.sparse_csr_tensor(indptr, indices, values, (rows, rows)) @ x

    work = 8 * rows * ENTRIES + 12 * rows
    peers = {"torch": theirs}
    return Case("sparse_matvec/float32", make, kernels.sparse_matvec, peers, work, "GB/s", 1e-5)
