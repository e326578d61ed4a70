# SPDX-License-Identifier: Apache-2.0
"""The Hopper GEMM: right on the CPU at every kind of edge, and on sm_90a the expected main loop."""

from __future__ import annotations

import functools
import re
import time

import ml_dtypes
import numpy as np
import pytest

import weft
from examples.checks.hopper_gemm import EXAMPLE, fake_arguments
from examples.hopper_gemm import gemm, gemm_kernel, tile_coord
from tests.examples.lines import code_lines
from tests.sampling import sampled
from weft.errors import UnavailableError


@pytest.mark.parametrize("shape", [(1, 8, 8), (64, 256, 64), (129, 264, 200), (300, 520, 72)])
def test_every_shape_is_right(shape):
    m, n, k = shape
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (n, k)))
    gemm(a, b, c := np.full((m, n), np.nan, np.float16))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-3 * np.sqrt(k))


NARROW = {
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("shape", [(1, 8, 16), (129, 264, 272)])
@pytest.mark.parametrize("name", sampled(NARROW, 2))
def test_narrow_types_accumulate_in_f32(name, shape):
    m, n, k = shape
    random = np.random.default_rng(9)
    a, b = (random.standard_normal(s).astype(NARROW[name]) for s in ((m, k), (n, k)))
    gemm(a, b, c := np.zeros((m, n), ml_dtypes.bfloat16))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c.astype(np.float64), expected, rtol=2**-8, atol=1e-3 * np.sqrt(k))


DTYPES = pytest.mark.parametrize(
    "dtype", sampled([weft.bf16, weft.f16, weft.f8e4m3, weft.f8e5m2], 2), ids=str
)


@functools.cache
def compiled(dtype):
    return weft.compile(gemm, *fake_arguments(dtype), options="--gpu-arch sm_90a")


@DTYPES
def test_the_assembler_has_nothing_to_remark(dtype):
    found = compiled(dtype)
    kernel = found.kernels[gemm_kernel.function.__name__]
    assert (found.remarks, kernel.spill_load_bytes, kernel.registers) == ((), 0, 168)
    assert [text for text in EXAMPLE.instructions if text not in found.ptx] == []


@DTYPES
def test_a_step_is_four_wgmmas_and_at_most_45_instructions(dtype):
    """From the label that the loop goes back to, to the branch; sums stay where they are."""
    lines = [
        line for line in compiled(dtype).sass.splitlines() if "/*" in line or line.startswith(".L")
    ]
    wgmmas = [number for number, line in enumerate(lines) if re.search("[HQ]GMMA", line)]
    assert len(wgmmas) == 4
    start = max(n for n, line in enumerate(lines[: wgmmas[0]]) if line.startswith(".L"))
    end = next(n for n in range(wgmmas[-1], len(lines)) if " BRA " in lines[n])
    step = [line for line in lines[start:end] if re.search(r"/\*[0-9a-f]{4}\*/", line)]
    step = [line for line in step if " NOP" not in line]
    assert len(step) <= 45
    assert all("gdesc[UR" in lines[number] for number in wgmmas)
    assert not any(re.search(r"\b(MOV|LDL|STL|R2UR)\b", line) for line in step)


def test_assertions_leave_wgmmas_in_flight():
    found = weft.compile(gemm, *fake_arguments(), options="--gpu-arch sm_90a --enable-assertions")
    assert (found.remarks, len(re.findall(r"\bcall\b", found.ptx))) == ((), 0)


def test_other_architectures_are_refused_by_name():
    with pytest.raises(UnavailableError, match="sm_90a"):
        weft.compile(gemm, *fake_arguments(), options="--gpu-arch sm_90")


def test_a_small_gemm_takes_a_tenth_of_a_second_on_the_cpu():
    """256 x 256 x 256 through the whole pipeline: about 10 ms of CPU time, of all threads together."""
    a, b, c = (np.ones((256, 256), ml_dtypes.bfloat16) for _ in range(3))
    gemm(a, b, c)
    times = []
    for _ in range(3):
        begin = time.process_time()
        gemm(a, b, c)
        times.append(time.process_time() - begin)
    assert min(times) <= 0.1
    assert (c == 256).all()


def test_the_kernel_and_its_host_function_have_at_most_80_lines():
    assert sum(code_lines(function) for function in (tile_coord, gemm_kernel.function, gemm)) <= 80
