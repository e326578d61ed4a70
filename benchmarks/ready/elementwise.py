# SPDX-License-Identifier: Apache-2.0
"""Functions of each element, or of each row's elements and few more, beside torch and `torch.compile`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import TOLERANCE, Case, eager_and_compiled, integers, normal
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[..., Any]

SIDE = 8192  # of each matrix
TOKENS, HEADS, HDIM = 16384, 32, 128
ROWS, CLASSES = 4096, 128_000


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Activations, dropout and rope in f32 and bfloat16, then a loss and its derivative."""
    for name in TOLERANCE:
        yield from _activations(torch, name, SIDE // scale)
        yield _rope(torch, name, TOKENS // scale)
    yield from _losses(torch, ROWS // scale, CLASSES // scale)


def _activations(torch: Any, name: str, side: int) -> Iterator[Case]:
    functional, size = torch.nn.functional, getattr(torch, name).itemsize * side * side

    def grads(gradient: Any, gate: Any, up: Any) -> Any:
        part = torch.sigmoid(gate)
        return gradient * up * part * (1 + gate * (1 - part)), gradient * gate * part

    calls: tuple[tuple[str, int, int, Call, Call], ...] = (
        ("gelu", 1, 1, kernels.gelu, functional.gelu),
        ("gelu_backward", 2, 1, kernels.gelu_backward, torch.ops.aten.gelu_backward),
        (
            "gelu by tanh",
            1,
            1,
            lambda x: kernels.gelu(x, "tanh"),
            lambda x: functional.gelu(x, approximate="tanh"),
        ),
        ("silu_mul", 2, 1, kernels.silu_mul, lambda x, y: functional.silu(x) * y),
        ("silu_mul_backward", 3, 2, kernels.silu_mul_backward, grads),
    )
    for what, inputs, outputs, ours, theirs in calls:

        def make(seed: int, inputs: int = inputs) -> list[Any]:
            return [normal(torch, name, seed + k, side, side) for k in range(inputs)]

        work, peers = (inputs + outputs) * size, eager_and_compiled(torch, theirs)
        yield Case(f"{what}/{name}", make, ours, peers, work, tolerance=TOLERANCE[name])
    # Other elements are dropped: the results cannot be compared.
    yield Case(
        f"dropout/{name}",
        lambda seed: [normal(torch, name, seed, side, side)],
        lambda x: kernels.dropout(x, 0.1, 1),
        {"torch": lambda x: functional.dropout(x, 0.1)},
        2 * size,
        tolerance=math.inf,
    )


def _rope(torch: Any, name: str, tokens: int) -> Case:
    def make(seed: int) -> list[Any]:
        angles = normal(torch, "float32", seed, tokens, HDIM // 2)
        return [normal(torch, name, seed, tokens, HEADS, HDIM), angles.cos(), angles.sin()]

    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        p, q = x.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat((p * c - q * s, q * c + p * s), -1).to(x.dtype)

    work = 2 * tokens * HEADS * HDIM * getattr(torch, name).itemsize
    peers = eager_and_compiled(torch, rotated)
    return Case(f"rope/{name}", make, kernels.rope, peers, work, tolerance=TOLERANCE[name])


def _losses(torch: Any, rows: int, classes: int) -> Iterator[Case]:
    functional = torch.nn.functional

    def make(seed: int) -> list[Any]:
        logits = normal(torch, "bfloat16", seed, rows, classes)
        gradient = normal(torch, "bfloat16", seed + 1, rows)
        return [logits, integers(torch, classes, torch.int64, seed, rows), gradient]

    def loss(logits: Any, found: Any, gradient: Any) -> Any:
        return functional.cross_entropy(logits.float(), found, reduction="none")

    def grad(logits: Any, found: Any, gradient: Any) -> Any:
        places = torch.arange(logits.shape[1], device=logits.device)
        hit = (places == found[:, None]).float()
        return ((logits.float().softmax(-1) - hit) * gradient.float()[:, None]).to(logits.dtype)

    work, name = 2.0 * rows * classes, "bfloat16"
    yield Case(
        f"cross_entropy/{name}",
        make,
        lambda logits, found, gradient: kernels.cross_entropy(logits, found),
        eager_and_compiled(torch, loss),
        work,
        tolerance=1e-2,
    )
    yield Case(
        f"cross_entropy_backward/{name}",
        make,
        lambda logits, found, gradient: kernels.cross_entropy_backward(gradient, logits, found),
        eager_and_compiled(torch, grad),
        2 * work,
        tolerance=1e-2,
    )
