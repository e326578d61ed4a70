# SPDX-License-Identifier: Apache-2.0
"""Two f32 in one instruction: which operations are, on which GPUs, and that each half is rounded as by itself."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import weft
from tests.conformance.test_packed import aligned, emulated
from tests.sampling import sampled

WITH_PAIRS = ("sm_100a", "sm_103a")
# Of the last three, ptxas makes two instructions of one for two.
WITHOUT = ("sm_90a", "sm_110a", "sm_120a", "sm_121a")
ARRAY = weft.fake_tensor(weft.f32, ("n",), alignment_bytes=16)
HALVES = weft.fake_tensor(weft.bf16, ("n",), alignment_bytes=16)


def host_of(body, argument=ARRAY):
    """Computes eight results of eight elements of each of two arrays, by `body(x, y)` of lists."""

    @weft.kernel
    def kernel(a: argument, b: argument, out: ARRAY):
        first = 8 * weft.thread_idx.x
        lists = [
            [*weft.load_vector(one, first, 4), *weft.load_vector(one, first + 4, 4)]
            for one in (a, b)
        ]
        results = body(*lists)
        weft.store_vector(out, first, tuple(results[:4]))
        weft.store_vector(out, first + 4, tuple(results[4:]))

    @weft.jit
    def host(a: argument, b: argument, out: ARRAY):
        kernel(a, b, out).launch(grid=1, block=32)

    return host, [argument, argument, ARRAY]


def chain(xs, ys):
    """Of each element all that is computed of it, before the next one."""
    results = []
    for x, y in zip(xs, ys, strict=True):
        t = (x * 3.0 + y) * x - y
        results.append(weft.math.fma(t, x, 1.5) + weft.math.abs(t) * 2.0)
    return results


def sums(xs, ys):
    return [x + y for x, y in zip(xs, ys, strict=True)]


def wide_sums(xs, ys):
    return [weft.f32(x) + weft.f32(y) for x, y in zip(xs, ys, strict=True)]


def products(xs, ys):
    return [x * y for x, y in zip(xs, ys, strict=True)]


def recurrence(xs, ys):
    """Each result is of the one before it: nothing is alike in two."""
    results = [xs[0]]
    for x, y in zip(xs[1:], ys[1:], strict=True):
        results.append(results[-1] * x + y)
    return results


def of_one_half(xs, ys):
    """A product of the first half is used before the second half is computed."""
    t = xs[0] * ys[0]
    u = weft.math.abs(t) + xs[1]
    return [t, u * ys[1], *(x * y for x, y in zip(xs[2:], ys[2:], strict=True))]


def instructions(host, examples, architecture: str) -> Counter[str]:
    compiled = weft.compile(host, *examples, options=f"--gpu-arch {architecture}")
    assert [kernel.stack_bytes for kernel in compiled.kernels.values()] == [0]
    return Counter(
        re.findall(r"\b(FFMA2|FADD2|FMUL2|FFMA|FADD|FMUL|FMNMX3|FMNMX)\b", compiled.sass)
    )


@pytest.mark.parametrize("architecture", sampled(WITH_PAIRS, 2))
def test_operations_on_both_halves_are_one_instruction(architecture):
    assert instructions(*host_of(chain), architecture) == {"FFMA2": 16}
    assert instructions(*host_of(sums), architecture) == {"FADD2": 4}
    assert instructions(*host_of(products), architecture) == {"FMUL2": 4}
    assert instructions(*host_of(wide_sums, HALVES), architecture) == {"FADD2": 4}


@pytest.mark.parametrize("architecture", sampled(WITHOUT, 4))
def test_other_gpus_compute_one_by_one(architecture):
    host, examples = host_of(chain)
    assert "f32x2" not in weft.compile(host, *examples, options=f"--gpu-arch {architecture}").ptx
    assert instructions(host, examples, architecture) == {"FFMA": 32}


def test_what_is_not_alike_stays_single():
    assert instructions(*host_of(recurrence), "sm_100a") == {"FFMA": 7}
    assert instructions(*host_of(of_one_half), "sm_100a")["FMUL2"] == 3


@pytest.mark.parametrize("body", [chain, sums, products, recurrence, of_one_half])
def test_results_are_those_of_single_operations(body):
    """Special values too: what an instruction for two gives is what it gives for each."""
    random = np.random.default_rng(8)
    arrays = [aligned((256,), np.float32) for _ in range(3)]
    for array in arrays[:2]:
        array[...] = random.integers(0, 1 << 32, 256, np.uint32).view(np.float32)
        array[:128] = random.standard_normal(128)
        array[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38]
    arrays[1][:8] = arrays[1][7::-1]
    host, examples = host_of(body)
    found = []
    for architecture in ("sm_90a", "sm_100a"):
        arrays[2][...] = 0
        with np.errstate(all="ignore"):
            emulated(host, arrays, examples, architecture, 32)
        found.append(arrays[2].copy())
    assert np.array_equal(found[0], found[1], equal_nan=True)
    host(*arrays)
    with np.errstate(all="ignore"):
        close = np.isclose(arrays[2], found[0], rtol=1e-5, equal_nan=True)
    assert close.mean() > 0.95  # a product and a sum are fused in PTX


def softmax_of(fragment):
    """Of a row's elements as attention has them: scaled, less the row's largest, and a function of that."""
    largest = fragment.row_max() * 0.125
    return fragment.map(lambda x, m: weft.math.abs(x * 0.125 - m) * 1.5 + 0.25, largest)


def test_functions_of_fragments_are_computed_in_twos():
    @weft.kernel
    def kernel(a: ARRAY, out: ARRAY):
        own = weft.load_vector(a, 4 * weft.lane_id(), 4)
        found = softmax_of(weft.mma.from_values((16, 8), own, weft.f32, "c")).values
        weft.store_vector(out, 4 * weft.lane_id(), found)

    @weft.jit
    def host(a: ARRAY, out: ARRAY):
        kernel(a, out).launch(grid=1, block=32)

    memory, out = aligned((128,), np.float32), aligned((128,), np.float32)
    memory[...] = np.random.default_rng(2).standard_normal(128) * 8
    counts, found = {}, []
    for architecture in ("sm_90a", "sm_100a"):
        counts[architecture] = instructions(host, [ARRAY, ARRAY], architecture)
        out[...] = 0
        emulated(host, [memory, out], [ARRAY, ARRAY], architecture, 32)
        found.append(out.copy())
    assert counts["sm_100a"]["FFMA2"] == 4
    assert counts["sm_100a"]["FFMA"] == counts["sm_90a"]["FFMA"] - 8
    assert (found[0] == found[1]).all()
    host(memory, out)
    assert np.allclose(out, found[0], rtol=1e-5)


@pytest.mark.parametrize("architecture", sampled(["sm_100a", "sm_103a", "sm_110a", "sm_90a"], 3))
def test_three_numbers_have_one_maximum(architecture):
    @weft.kernel
    def kernel(a: ARRAY, out: ARRAY):
        x = weft.load_vector(a, 4 * weft.thread_idx.x, 4)
        out[2 * weft.thread_idx.x] = max(x[0], x[1], x[2])
        out[2 * weft.thread_idx.x + 1] = min(x[1], x[2], x[3])

    @weft.jit
    def host(a: ARRAY, out: ARRAY):
        kernel(a, out).launch(grid=1, block=32)

    found = instructions(host, [ARRAY, ARRAY], architecture)
    assert found == ({"FMNMX": 4} if architecture == "sm_90a" else {"FMNMX3": 2})
    memory, out = aligned((128,), np.float32), aligned((64,), np.float32)
    memory[...] = np.random.default_rng(2).standard_normal(128)
    memory[[0, 5, 8, 9]] = np.nan
    emulated(host, [memory, out], [ARRAY, ARRAY], architecture, 32)
    rows = memory.reshape(-1, 4)
    with np.errstate(all="ignore"):
        wanted = np.stack(
            [np.fmax.reduce(rows[:, :3], 1), np.fmin.reduce(rows[:, 1:], 1)], -1
        ).reshape(-1)
    assert np.array_equal(out, wanted, equal_nan=True)
