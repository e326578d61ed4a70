# SPDX-License-Identifier: Apache-2.0
"""What torch says that each example gives: the same work written with torch's operators, on any device.

In: an example's arguments as tensors. Out: what each output should be. One function per example, named as it;
`reference_of` finds it.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from examples import crc32 as crc32_example
from examples import monte_carlo as monte_carlo_example
from examples import profile_pipeline as pipeline
from examples import sha256 as sha256_example
from examples import smith_waterman as alignment
from examples.block_reduction import SLICE
from examples.common import Example, largest_error
from examples.convolution import RADIUS
from examples.profile_regions import ROUNDS

if TYPE_CHECKING:
    from collections.abc import Callable

Tensors = dict[str, Tensor]

# Where torch computes in another way than the example and its reference in NumPy.
LOOSER = {"black_scholes": 1e-4}  # the normal distribution exactly, not by a polynomial


def tensors_of(arguments: dict[str, Any], device: str) -> dict[str, Any]:
    """Arrays as tensors, laid out as they are, but that torch has no negative strides."""
    return {
        name: torch.from_numpy(value.copy(order="K")).to(device)
        if isinstance(value, np.ndarray)
        else value
        for name, value in arguments.items()
    }


def copies_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same with copies of the tensors."""
    return {n: v.clone() if isinstance(v, Tensor) else v for n, v in arguments.items()}


def check(example: Example, arguments: dict[str, Any], expected: Tensors) -> None:
    """Compare what an example left in its arguments with a reference's tensors."""
    tolerance = max(example.tolerance, LOOSER.get(example.name, 0.0))
    for name, tensor in expected.items():
        error = largest_error(arguments[name].cpu().numpy(), tensor.cpu().numpy())
        assert error <= tolerance, f"{example.name}: {name} is off by {error}"


def reference_of(name: str) -> Callable[..., Tensors]:
    """The function of this file that an example is checked against."""
    return globals()[name]


def add_one(a: Tensor, **_: Any) -> Tensors:
    return {"b": a + 1}


def saxpy(a: float, x: Tensor, y: Tensor) -> Tensors:
    return {"y": torch.add(y, x, alpha=a)}


def strided_copy(source: Tensor, **_: Any) -> Tensors:
    return {"target": source.contiguous()}


def black_scholes(
    spot: Tensor, strike: Tensor, years: Tensor, rate: float, volatility: float, **_: Any
) -> Tensors:
    spread = volatility * years.sqrt()
    d1 = ((spot / strike).log() + (rate + volatility * volatility / 2) * years) / spread
    below_d1, below_d2 = torch.special.ndtr(d1), torch.special.ndtr(d1 - spread)
    discounted = strike * (-rate * years).exp()
    call = spot * below_d1 - discounted * below_d2
    return {"call": call, "put": call + discounted - spot}


def mandelbrot(counts: Tensor, left: float, top: float, step: float, limit: int) -> Tensors:
    height, width = counts.shape
    rows = torch.arange(height, device=counts.device, dtype=torch.float32)[:, None]
    columns = torch.arange(width, device=counts.device, dtype=torch.float32)[None]
    c_real = (left + columns * step).expand(height, width)
    c_imaginary = (top - rows * step).expand(height, width)
    result = torch.zeros_like(counts)
    real, imaginary = torch.zeros_like(c_real), torch.zeros_like(c_real)
    inside = torch.ones_like(counts, dtype=torch.bool)
    for _ in range(limit):
        inside &= real * real + imaginary * imaginary <= 4
        result += inside
        real, imaginary = (
            real * real - imaginary * imaginary + c_real,
            2 * real * imaginary + c_imaginary,
        )
    return {"counts": result}


def matmul(a: Tensor, b: Tensor, **_: Any) -> Tensors:
    return {"c": a @ b}


tiled_matmul = profile_matmul = matmul


def tensor_core_gemm(a: Tensor, b: Tensor, **_: Any) -> Tensors:
    return {"c": (a.float() @ b.float().T).half()}


def n_body(
    bodies: Tensor, velocities: Tensor, seconds: float, softening: float, **_: Any
) -> Tensors:
    position, mass = bodies[:, :3], bodies[:, 3:]
    offsets = position[None] - position[:, None]
    squared = (offsets * offsets).sum(dim=2, keepdim=True) + softening * softening
    after = velocities + (offsets * mass * squared.pow(-1.5)).sum(dim=1) * seconds
    return {"velocities": after, "moved": torch.cat((position + after * seconds, mass), dim=1)}


def histogram(values: Tensor, counts: Tensor) -> Tensors:
    return {"counts": counts + torch.bincount(values, minlength=256)}


shared_histogram = histogram


def box_blur(source: Tensor, radius: int, **_: Any) -> Tensors:
    planes = source.permute(2, 0, 1)[:, None].double()
    ones = torch.ones_like(planes[:1])
    square = torch.ones((1, 1, 2 * radius + 1, 2 * radius + 1), device=source.device).double()
    total = functional.conv2d(planes, square, padding=radius)
    count = functional.conv2d(ones, square, padding=radius)
    return {"target": ((total + 0.5) / count).floor()[:, 0].permute(1, 2, 0)}


def block_reduction(a: Tensor, sums: Tensor) -> Tensors:
    padded = functional.pad(a, (0, len(sums) * SLICE - len(a)))
    return {"sums": padded.reshape(-1, SLICE).sum(dim=1)}


def warp_reduction(a: Tensor, **_: Any) -> Tensors:
    return {"sums": a.sum(dim=1)}


def softmax(logits: Tensor, **_: Any) -> Tensors:
    return {"probabilities": torch.softmax(logits, dim=1)}


def transpose(source: Tensor, **_: Any) -> Tensors:
    return {"target": source.T}


def convolution(source: Tensor, weights: Tensor, **_: Any) -> Tensors:
    flipped = weights.flip(0, 1)[None, None].double()
    return {"target": functional.conv2d(source[None, None].double(), flipped, padding=RADIUS)[0, 0]}


def inclusive_scan(a: Tensor, **_: Any) -> Tensors:
    return {"totals": a.cumsum(0)}


def bitonic_sort(values: Tensor) -> Tensors:
    return {"values": values.sort().values}


def breadth_first_search(
    first_edge: Tensor, targets: Tensor, distances: Tensor, **_: Any
) -> Tensors:
    vertices = torch.arange(len(distances), device=distances.device)
    sources = vertices.repeat_interleave(first_edge.diff().long())
    expected = torch.full_like(distances, -1)
    expected[0] = 0
    for level in range(len(distances)):
        reached = targets[expected[sources] == level].long()
        new = reached[expected[reached] < 0]
        if len(new) == 0:
            break
        expected[new] = level + 1
    return {"distances": expected}


def sieve(is_prime: Tensor) -> Tensors:
    expected = torch.ones_like(is_prime)
    expected[:2] = 0
    for number in range(2, math.isqrt(len(expected)) + 1):
        expected[number * number :: number] = 0
    return {"is_prime": expected}


def game_of_life(board: Tensor, generations: int, **_: Any) -> Tensors:
    steps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    for _generation in range(generations):
        alive = torch.stack([board.roll(step, (0, 1)) for step in steps]).sum(0)
        board = ((alive == 3) | ((alive == 2) & (board == 1))).to(board.dtype)
    return {"board": board}


def crc32(messages: Tensor, **_: Any) -> Tensors:
    table = torch.arange(256, device=messages.device)
    for _bit in range(8):
        table = (table >> 1) ^ ((table & 1) * crc32_example.POLYNOMIAL)
    remainder = torch.full((len(messages),), 0xFFFFFFFF, device=messages.device)
    for column in messages.long().unbind(1):
        remainder = table[(remainder ^ column) & 0xFF] ^ (remainder >> 8)
    return {"checksums": remainder ^ 0xFFFFFFFF}


def sha256(words: Tensor, digests: Tensor) -> Tensors:
    rows = words.cpu().numpy()
    found = [hashlib.sha256(sha256_example.message_of(row)).digest() for row in rows]
    expected = np.frombuffer(b"".join(found), ">u4").reshape(len(rows), 8).astype(np.int64)
    return {"digests": torch.from_numpy(expected).to(digests.device)}


def monte_carlo(hits: Tensor, count: int, seed: int) -> Tensors:
    word, device = 0xFFFFFFFF, hits.device
    threads = torch.arange(count, device=device).repeat_interleave(monte_carlo_example.PAIRS)
    pairs = torch.arange(monte_carlo_example.PAIRS, device=device).repeat(count)
    c0, c1, c2, c3 = threads, pairs, torch.zeros_like(pairs), torch.zeros_like(pairs)
    keys = [seed & word, seed >> 32]
    for _round in range(monte_carlo_example.ROUNDS):
        first, second = (
            c * m for c, m in zip((c0, c2), monte_carlo_example.MULTIPLIERS, strict=True)
        )
        c0, c1 = ((second >> 32) & word) ^ c1 ^ keys[0], second & word
        c2, c3 = ((first >> 32) & word) ^ c3 ^ keys[1], first & word
        keys = [k + s & word for k, s in zip(keys, monte_carlo_example.KEY_STEPS, strict=True)]
    places = [(c >> 8).float() * 2.0**-24 for c in (c0, c1, c2, c3)]
    inside = sum(int((x * x + y * y < 1).sum()) for x, y in (places[:2], places[2:]))
    return {"hits": hits.long() + inside}


def radix_sort(keys: Tensor, **_: Any) -> Tensors:
    return {"keys": keys.long().sort().values}


def floyd_warshall(distances: Tensor) -> Tensors:
    for middle in range(len(distances)):
        distances = torch.minimum(distances, distances[:, middle, None] + distances[middle])
    return {"distances": distances}


def fft(real: Tensor, imaginary: Tensor) -> Tensors:
    expected = torch.fft.fft(torch.complex(real, imaginary))
    return {"real": expected.real, "imaginary": expected.imag}


def sparse_matvec(first: Tensor, columns: Tensor, values: Tensor, x: Tensor, y: Tensor) -> Tensors:
    rows = torch.arange(len(y), device=y.device).repeat_interleave(first.diff().long())
    products = values.double() * x[columns.long()].double()
    return {"y": torch.zeros_like(y, dtype=torch.float64).index_add(0, rows, products)}


def cholesky(a: Tensor) -> Tensors:
    return {"a": torch.linalg.cholesky(a) + a.triu(1)}


def smith_waterman(first: Tensor, second: Tensor, **_: Any) -> Tensors:
    m, n = len(first), len(second)
    expected = torch.zeros((m + 1, n + 1), dtype=torch.int32, device=first.device)
    for diagonal in range(2, m + n + 1):
        low, high = max(diagonal - n, 1), min(diagonal - 1, m) + 1
        i = torch.arange(low, high, device=first.device)
        j = diagonal - i
        same = first[i - 1] == second[j - 1]
        score = torch.where(same, alignment.MATCH, alignment.MISMATCH)
        gaps = torch.maximum(expected[i - 1, j], expected[i, j - 1]) + alignment.GAP
        best = torch.maximum(expected[i - 1, j - 1] + score, gaps).clamp(min=0)
        expected[i, j] = best.to(torch.int32)
    return {"scores": expected}


def profile_regions(source: Tensor, **_: Any) -> Tensors:
    total = torch.zeros_like(source)
    for _round in range(ROUNDS):
        total = total * 0.5 + source
    return {"out": total}


def profile_pipeline(source: Tensor, **_: Any) -> Tensors:
    padded = functional.pad(source, (0, -len(source) % pipeline.WARP))
    x = padded.reshape(-1, pipeline.WARP) * 0.25 + 1
    total = torch.zeros_like(x)
    for _term in range(pipeline.TERMS):
        total = total * x * 0.5 + 1
    scaled = total / (total * total).sum(dim=1, keepdim=True).sqrt()
    return {"out": ((scaled * 64 + 0.5).floor() / 64).reshape(-1)[: len(source)]}
