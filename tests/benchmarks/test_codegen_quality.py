# SPDX-License-Identifier: Apache-2.0
"""The kernels whose code is counted compute what their names say; counts find the hot loop, and do not grow."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import weft
from benchmarks import codegen_quality
from benchmarks.codegen import kernels
from benchmarks.codegen.sass import Block, hot_cost, loops, work
from benchmarks.codegen_quality import CASES, figures, of_weft
from benchmarks.harness import Missing
from tests.sampling import sampled

random = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return random.standard_normal(shape, dtype=np.float32)


def aligned(values: np.ndarray) -> np.ndarray:
    memory = np.empty(len(values) + 4, np.float32)
    first = -memory.ctypes.data % 16 // 4
    memory[first : first + len(values)] = values
    return memory[first : first + len(values)]


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def layernorm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias


def convolved(a: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The correlation of each window that lies within; zeros at the border."""
    windows = np.lib.stride_tricks.sliding_window_view(a, weights.shape)
    return np.pad((windows * weights).sum((2, 3)), weights.shape[0] // 2)


def butterflies(z: np.ndarray, span: int) -> list[np.ndarray]:
    low, high = z.reshape(-1, 2, span).transpose(1, 0, 2)
    rotated = high * np.exp(-1j * np.pi * np.arange(span) / span)
    both = np.stack([low + rotated, low - rotated], 1).reshape(-1)
    return [both.real, both.imag]


def pulls(p: np.ndarray, mass: np.ndarray) -> np.ndarray:
    d = p[None] - p[:, None]
    return (d * (mass * ((d**2).sum(-1) + 1e-3) ** -1.5)[..., None]).sum(1)


def prices(s: np.ndarray, k: np.ndarray, t: np.ndarray) -> list[np.ndarray]:
    phi = np.vectorize(lambda x: (1 + math.erf(x / math.sqrt(2))) / 2)
    root = 0.3 * np.sqrt(t)
    d1 = (np.log(s / k) + 0.065 * t) / root
    d2, later = d1 - root, k * np.exp(-0.02 * t)
    return [s * phi(d1) - later * phi(d2), later * phi(-d2) - s * phi(-d1)]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


x, y, wide, matrix = normal(1000), normal(1000), normal(3, 700), normal(40, 70)
points, market = normal(3, 40), random.uniform(1, 9, (3, 1000)).astype(np.float32)
image = random.integers(0, 256, (30, 50), np.uint8)
first = np.cumsum([0, *random.integers(0, 9, 40)]).astype(np.int32)
columns, entries = random.integers(0, 50, first[-1], np.int32), normal(first[-1])
left, right, weights, z = normal(128, 16), normal(16, 128), normal(5, 5), normal(2, 64)
q, k, v = normal(70, 32), normal(96, 32), normal(96, 32)
rows = [(entries * x[columns])[a:b].sum() for a, b in pairwise(first)]
tanh = np.tanh(0.79788456 * (x + 0.044715 * x**3))

# Kernel → blocks, arguments, and what the last of these must hold afterwards.
COMPUTED: dict[str, tuple[tuple[int, int, int], list[Any], list[Any]]] = {
    "copy": ((4, 1, 1), [x, zeros(1000)], [x]),
    "saxpy": ((4, 1, 1), [2.5, x, y.copy()], [2.5 * x + y]),
    "saxpy_vec4": ((1, 1, 1), [2.5, aligned(x), aligned(y)], [2.5 * x + y]),
    "reduction": ((1, 1, 1), [x, zeros(1)], [[x.sum()]]),
    "softmax": ((3, 1, 1), [wide, zeros(3, 700)], [softmax(wide)]),
    "layernorm": (
        (3, 1, 1),
        [wide, x[:700], y[:700], zeros(3, 700)],
        [layernorm(wide, x[:700], y[:700])],
    ),
    "transpose": ((3, 2, 1), [matrix, zeros(70, 40)], [matrix.T]),
    "matmul_naive": ((2, 5, 1), [matrix, matrix.T.copy(), zeros(40, 40)], [matrix @ matrix.T]),
    "matmul_tiled": ((3, 3, 1), [matrix, matrix.T.copy(), zeros(40, 40)], [matrix @ matrix.T]),
    "sgemm": ((1, 1, 1), [left, right, zeros(128, 128)], [left @ right]),
    "stencil5x5": ((3, 5, 1), [matrix, weights, zeros(40, 70)], [convolved(matrix, weights)]),
    "fft_step": ((1, 1, 1), [8, *z, zeros(64), zeros(64)], butterflies(z[0] + 1j * z[1], 8)),
    "nbody": ((1, 1, 1), [*points, x[:40], zeros(40, 3)], [pulls(points.T, x[:40])]),
    "black_scholes": ((4, 1, 1), [*market, zeros(1000), zeros(1000)], prices(*market)),
    "spmv": ((1, 1, 1), [first, columns, entries, x[:50], zeros(40)], [rows]),
    "histogram": (
        (2, 1, 1),
        [image.ravel(), np.zeros(256, np.int32)],
        [np.bincount(image.ravel(), minlength=256)],
    ),
    "blur_u8": ((2, 4, 1), [image, image * 0], [convolved(image, np.ones((3, 3), int)) // 9]),
    "scan": ((1, 1, 1), [x[:256], zeros(256), zeros(1)], [np.cumsum(x[:256]), [x[:256].sum()]]),
    "attention": ((1, 1, 1), [q, k, v, zeros(70, 32)], [softmax(q @ k.T) @ v]),
    "gelu": ((4, 1, 1), [x, zeros(1000)], [x / 2 * (1 + tanh)]),
}


@pytest.mark.parametrize("name", sampled(CASES, 4))
def test_a_counted_kernel_computes_what_its_name_says(name: str):
    grid, arguments, expected = COMPUTED[name]
    stand_ins = getattr(kernels, name), CASES[name].block, (1, 1, 1), CASES[name].arguments
    compiled = weft.compile(kernels.launch, *stand_ins, options="--target cpu")
    compiled(grid, tuple(arguments))
    for found, right in zip(arguments[-len(expected) :], expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-4, atol=2e-5)


def graph(**blocks: tuple[str, str]) -> dict[str, Block]:
    """Blocks by name, each with its opcodes and its successors as words."""
    return {name: Block(code.split(), after.split()) for name, (code, after) in blocks.items()}


NESTED = graph(
    entry=("S2R", "outer"),
    outer=("IADD3", "main"),
    main=("LDG.E LDG.E LDG.E.64 FADD ISETP BRA", "main rest"),
    rest=("LDG.E FADD ISETP IADD3 BRA", "rest2 rest"),
    rest2=("BAR.SYNC BRA", "outer end"),
    end=("STG.E EXIT", ""),
    dead=("BRA", "dead"),
)


def test_the_hot_loop_is_the_most_unrolled_innermost_one():
    assert sorted(map(sorted, loops(NESTED))) == [["main"], ["outer", "rest2"], ["rest"]]
    assert hot_cost(NESTED, "LDG", 4) == (6, 4)
    assert hot_cost(NESTED, "BAR", 1) == (3, 1)
    assert hot_cost(NESTED, "STG", 4) == (17, 1)


def test_a_loop_of_several_blocks_is_counted_with_all_of_them():
    branches = graph(
        entry=("S2R", "head"),
        head=("LDG.E BRA", "yes no"),
        yes=("MUFU.EX2", "tail"),
        no=("FADD FADD", "tail"),
        tail=("BRA", "head end"),
        end=("EXIT", ""),
    )
    assert hot_cost(branches, "LDG", 4) == (6, 1)


@pytest.mark.parametrize(
    ("instruction", "kind", "amount"),
    [
        ("LDG.E R3, desc[UR4][R2.64]", "LDG", 4),
        ("LDG.E.U8.CONSTANT R3, [R2]", "LDG", 1),
        ("STG.E.U16 [R2], R3", "STG", 2),
        ("LDS.64 R2, [R4]", "LDS", 8),
        ("LDG.E.128 R4, [R2]", "LDG", 16),
        ("FMUL.FTZ R1, R2, R3", "FFMA|FMUL", 1),
        ("MUFU.RSQ R1, R2", "MUFU.RSQ", 1),
        ("MUFU.RCP R1, R2", "MUFU.RSQ", 0),
        ("LDGSTS.E [R1], [R2]", "LDG", 0),
    ],
)
def test_work_is_counted_in_bytes_or_instructions(instruction: str, kind: str, amount: int):
    assert work(instruction, kind) == amount


# Measured with CUDA 13.5; a tenth more is allowed, as another release of ptxas may choose otherwise.
@pytest.mark.parametrize(
    ("name", "instructions", "warps"),
    sampled(
        [
            ("saxpy_vec4", 5.75, 64),
            ("copy", 15, 64),
            ("reduction", 4, 64),
            ("layernorm", 8.25, 64),
            ("sgemm", 1.15, 16),
            ("matmul_tiled", 3.38, 64),
            ("scan", 65, 64),
            ("nbody", 23.8, 48),
            ("transpose", 18, 64),
            ("gelu", 39, 64),
        ],
        4,
        several=True,
    ),
)
def test_code_does_not_get_worse(name: str, instructions: float, warps: int):
    found = of_weft(name)
    assert found.instructions <= 1.1 * instructions
    assert found.warps >= warps
    assert found.spills == 0


def test_without_nvrtc_there_are_figures_without_a_peer(monkeypatch: pytest.MonkeyPatch):
    def missing() -> None:
        raise Missing("no NVRTC")

    monkeypatch.setattr(codegen_quality, "of_nvrtc", missing)
    monkeypatch.setattr(codegen_quality, "CASES", {"copy": CASES["copy"]})
    *found, mean = figures()
    assert [figure.value is not None for figure in found] == [True] * 4
    assert (mean.value, mean.note) == (None, "no NVRTC")
