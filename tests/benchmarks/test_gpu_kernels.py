# SPDX-License-Identifier: Apache-2.0
"""The suite of kernels computes what its names say; the benchmark of their times runs on the fake driver."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import gpu_kernels
from benchmarks.codegen.runs import GRID, runs
from benchmarks.codegen_quality import CASES
from tests.native.fake_cuda.fake import FakeCuda, on_fake

SCALE = 64


def erf(x):
    return np.vectorize(math.erf)(x)


def windows(a, size):
    return np.lib.stride_tricks.sliding_window_view(a, (size, size))


def inside(a, border, values):
    whole = np.zeros_like(a)
    whole[border:-border, border:-border] = values
    return whole


def fft_step(span, re, im):
    u = (re + 1j * im).reshape(-1, 2, span)
    turned = u[:, 1] * np.exp(-1j * np.pi * np.arange(span) / span)
    whole = np.stack([u[:, 0] + turned, u[:, 0] - turned], 1).ravel()
    return whole.real, whole.imag


def forces(x, y, z, mass):
    place = np.stack([x, y, z], 1)
    apart = place[None] - place[:, None]
    pull = mass[None] * (np.square(apart).sum(2) + 1e-3) ** -1.5
    return np.einsum("ij,ijk->ik", pull, apart)


def options_of(spot, strike, years):
    root = 0.3 * np.sqrt(years)
    d1 = (np.log(spot / strike) + 0.065 * years) / root
    later = strike * np.exp(-0.02 * years)
    normal = lambda x: 0.5 * (1 + erf(x * 0.70710678))
    d2 = d1 - root
    return spot * normal(d1) - later * normal(d2), later * normal(-d2) - spot * normal(-d1)


def partial_sums(a):
    padded = np.zeros(-(-len(a) // 256) * 256)
    padded[: len(a)] = a
    strided = np.zeros(-(-len(padded) // (GRID * 256)) * GRID * 256)
    strided[: len(a)] = a
    return strided.reshape(-1, GRID, 256).sum((0, 2))


def scanned(a):
    rows = np.cumsum(a.reshape(-1, 256), 1)
    return rows.ravel(), rows[:, -1]


def softmax(x):
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def attention(q, k, v):
    return softmax(q @ k.T) @ v


REFERENCES = {
    "copy": lambda a, b: a,
    "saxpy": lambda factor, x, y: factor * x + y,
    "saxpy_vec4": lambda factor, x, y: factor * x + y,
    "reduction": lambda a, sums: partial_sums(a),
    "softmax": lambda x, y: softmax(x),
    "layernorm": lambda x, gain, bias, y: (
        (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias
    ),
    "transpose": lambda a, b: a.T,
    "matmul_naive": lambda a, b, c: a @ b,
    "matmul_tiled": lambda a, b, c: a @ b,
    "sgemm": lambda a, b, c: a @ b,
    "stencil5x5": lambda a, weights, b: inside(a, 2, (windows(a, 5) * weights).sum((2, 3))),
    "fft_step": lambda span, re, im, *_: fft_step(span, re, im),
    "nbody": lambda x, y, z, mass, force: forces(x, y, z, mass),
    "black_scholes": lambda spot, strike, years, *_: options_of(spot, strike, years),
    "spmv": lambda first, columns, values, x, y: np.add.reduceat(values * x[columns], first[:-1]),
    "histogram": lambda a, bins: np.bincount(a.astype(np.int64), minlength=256),
    "blur_u8": lambda a, b: inside(a, 1, windows(a, 3).sum((2, 3)) // 9),
    "scan": lambda a, b, sums: scanned(a),
    "attention": lambda q, k, v, out: attention(q, k, v),
    "gelu": lambda x, y: 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3))),
}


def test_every_kernel_of_the_suite_has_arguments_and_a_reference():
    assert list(runs()) == list(CASES) == list(REFERENCES)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_the_suite_computes_what_its_name_says(name):
    run = runs(SCALE)[name](np.random.default_rng(7))
    wide = [one.astype(np.float64) if one.dtype.kind == "f" else one for one in run.arguments]
    wide = [one.astype(np.int64) if one.dtype == np.uint8 else one for one in wide]
    expected = REFERENCES[name](*wide)
    given = [one.copy() if one.ndim else one.item() for one in run.arguments]
    gpu_kernels.of_weft(name, "--target cpu")(run, given)
    for position, right in zip(
        run.written, expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        assert gpu_kernels.difference(given[position], np.asarray(right)) < 1e-5


@pytest.mark.parametrize(("wrong", "infinite"), [(np.nan, True), (np.inf, True), (1.5, False)])
def test_a_wrong_result_is_seen(wrong, infinite):
    right = np.ones(4, np.float32)
    given = right.copy()
    given[2] = wrong
    apart = gpu_kernels.difference(given, right)
    assert math.isinf(apart) == infinite
    assert apart > gpu_kernels.TOLERANCE


@on_fake()
def test_every_kernel_is_measured(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_kernels, "REGION", 0.0)
    found = {figure.name: figure for figure in gpu_kernels.figures(2, str(fake.path), SCALE)}
    assert {f"gpu_kernels/{name}" for name in CASES} <= found.keys()
