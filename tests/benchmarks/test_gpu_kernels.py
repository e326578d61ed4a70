# SPDX-License-Identifier: Apache-2.0
"""Launches of the suite cover its arrays, and the benchmark runs to its end on the fake driver."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

import weft
from benchmarks import gpu_kernels
from benchmarks.codegen.runs import GRID, runs
from benchmarks.codegen_quality import CASES
from benchmarks.operations import operations
from tests.benchmarks.test_codegen_quality import (
    butterflies,
    convolved,
    layernorm,
    prices,
    pulls,
    softmax,
)
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from tests.sampling import sampled

SCALE = 64


def partial_sums(a):
    """Sum of each block of the reduction."""
    padded = np.zeros(-(-len(a) // (GRID * 256)) * GRID * 256)
    padded[: len(a)] = a
    return padded.reshape(-1, GRID, 256).sum((0, 2))


def scanned(a):
    rows = np.cumsum(a.reshape(-1, 256), 1)
    return [rows.ravel(), rows[:, -1]]


# Kernel → what the arrays that it writes must hold, from all its arguments.
REFERENCES = {
    "copy": lambda a, b: [a],
    "saxpy": lambda factor, x, y: [factor * x + y],
    "saxpy_vec4": lambda factor, x, y: [factor * x + y],
    "reduction": lambda a, sums: [partial_sums(a)],
    "softmax": lambda x, y: [softmax(x)],
    "layernorm": lambda x, gain, bias, y: [layernorm(x, gain, bias)],
    "transpose": lambda a, b: [a.T],
    "matmul_naive": lambda a, b, c: [a @ b],
    "matmul_tiled": lambda a, b, c: [a @ b],
    "sgemm": lambda a, b, c: [a @ b],
    "stencil5x5": lambda a, weights, b: [convolved(a, weights)],
    "fft_step": lambda span, re, im, *_: butterflies(re + 1j * im, span),
    "nbody": lambda x, y, z, mass, _: [pulls(np.stack([x, y, z], 1), mass)],
    "black_scholes": lambda spot, strike, years, *_: prices(spot, strike, years),
    "spmv": lambda first, columns, values, x, y: [np.add.reduceat(values * x[columns], first[:-1])],
    "histogram": lambda a, bins: [np.bincount(a, minlength=256)],
    "blur_u8": lambda a, _: [convolved(a, np.ones((3, 3), int)) // 9],
    "scan": lambda a, b, sums: scanned(a),
    "attention": lambda q, k, v, out: [softmax(q @ k.T) @ v],
    "gelu": lambda x, y: [0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))],
}


def test_every_kernel_of_the_suite_has_arguments_and_a_reference():
    assert list(runs()) == list(CASES) == list(REFERENCES)


# With every change, those that test_codegen_quality leaves to the night.
@pytest.mark.parametrize("name", sampled(reversed(CASES), 4))
def test_a_run_of_a_kernel_covers_all_that_it_writes(name):
    run = runs(SCALE)[name](np.random.default_rng(7))
    wide = [one.astype(np.float64) if one.dtype.kind == "f" else one for one in run.arguments]
    expected = REFERENCES[name](*wide)
    given = [one.copy() if one.ndim else one.item() for one in run.arguments]
    gpu_kernels.of_weft(name, "--target cpu")(run, given)
    for position, right in zip(run.written, expected, strict=True):
        assert gpu_kernels.difference(given[position], np.asarray(right)) < 1e-5


@pytest.mark.parametrize(("wrong", "infinite"), [(np.nan, True), (np.inf, True), (1.5, False)])
def test_a_wrong_result_is_seen(wrong, infinite):
    right = np.ones(4, np.float32)
    given = right.copy()
    given[2] = wrong
    apart = gpu_kernels.difference(given, right)
    assert math.isinf(apart) == infinite
    assert apart > gpu_kernels.TOLERANCE


# Operation → its result, from all its arguments.
RESULTS = {
    "add": lambda a, b, _: a + b,
    "softmax": lambda x, _: softmax(x),
    "layernorm": lambda x, weight, bias, _: layernorm(x, weight, bias),
    "sum": lambda a, _: a.sum(),
    "cumsum": lambda a, _: np.cumsum(a),
    "sort": lambda keys, *_: np.sort(keys),
    "matmul": lambda a, b, _: a @ b.T,
}


@pytest.mark.parametrize("name", sampled([name for name in operations() if name != "matmul"], 3))
def test_an_operation_computes_what_its_name_says(name):
    operation = operations(64)[name]
    run = operation.make(np.random.default_rng(7))
    expected = RESULTS[operation.computes](*(one.astype(np.float64) for one in run.arguments))
    operation.call(*run.arguments)
    (position,) = run.written
    assert gpu_kernels.difference(run.arguments[position], np.asarray(expected)) < 1e-5


def tires_after_the_first_measurements() -> Callable[..., None]:
    calls = itertools.count()

    def cumsum(*_: object) -> None:
        if next(calls) > 5:  # a comparison, four to find the count, one measurement
            raise RuntimeError("tired")

    return cumsum


class Peer:
    """A library of NumPy's calls, on copies of what is in the fake device's memory."""

    CALLS: ClassVar = {
        "copy": lambda a, b: np.ones_like(a),
        "saxpy": lambda factor, x, y: 1 / 0,
        "add": lambda a, b, c: None,
        "cumsum": tires_after_the_first_measurements(),
    }

    @staticmethod
    def array(one):
        return weft.copy(np.empty(one.shape, np.float32), one)

    @staticmethod
    def host(one):
        return one


@pytest.mark.slow
@on_fake()
def test_every_row_is_measured(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch):
    def load(missing):
        missing["triton"] = "not here"
        return {"cupy": Peer}

    monkeypatch.setattr(gpu_kernels, "REGION", 0.0)
    monkeypatch.setattr(gpu_kernels, "load_peers", load)
    monkeypatch.setattr(gpu_kernels, "of_nvcc", lambda architecture: ("nvcc", b""))
    monkeypatch.setattr(
        gpu_kernels, "runs", lambda scale: {name: runs(scale)[name] for name in ("copy", "saxpy")}
    )
    measured = (
        "add",
        "weft.kernels.cumsum",
    )  # test_an_operation_computes_what_its_name_says has all
    monkeypatch.setattr(
        gpu_kernels,
        "operations",
        lambda scale: {name: operations(scale)[name] for name in measured},
    )
    found = list(gpu_kernels.figures(2, str(fake.path), SCALE))
    names = {figure.name for figure in found}
    assert {f"gpu_kernels/{name}" for name in ("copy", "saxpy", *measured)} <= names
    notes = {(figure.name.removeprefix("gpu_kernels/"), figure.peer): figure for figure in found}
    assert notes["triton", "triton"].note == "not here"
    assert "weft's result is 1.0e+00 of the norm from it" == notes["copy", "cupy"].note
    assert notes["saxpy", "cupy"].note == "ZeroDivisionError: division by zero"
    assert notes["saxpy", "cupy"].peer_value is None
    assert notes["add", "cupy"].peer_value and "of the ceiling" in notes["add", "cupy"].note
    tired = notes["weft.kernels.cumsum", "cupy"]
    assert (tired.peer_value, tired.note) == (None, "RuntimeError: tired")
    # A wrong result counts in no mean.
    assert notes["geometric mean/cupy", None].note.startswith("of 1 ratios")


def test_peers_that_cannot_be_imported_are_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_kernels, "PEERS", ("nothing",))
    missing: dict[str, str] = {}
    assert gpu_kernels.load_peers(missing) == {}
    assert missing == {
        "nothing": "ModuleNotFoundError: No module named 'benchmarks.peers.kernels_nothing'"
    }
