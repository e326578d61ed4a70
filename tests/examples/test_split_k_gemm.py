# SPDX-License-Identifier: Apache-2.0
"""Split-K GEMM: right for any number of splits, and overlapping launches on GPUs."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from examples.checks.split_k_gemm import EXAMPLE, fake_arguments
from examples.common import run
from examples.split_k_gemm import BK, gemm, gemm_kernel
from weft import _native


@pytest.fixture(params=[1, 3, 64])
def multiprocessors(request):
    _native.set_cpu_multiprocessors(request.param)
    yield request.param
    _native.set_cpu_multiprocessors(0)


def test_the_example_is_right():
    report = run(EXAMPLE, EXAMPLE.test_size)
    assert report.passed, report.error


# As many steps as stages, fewer, and a number that the blocks do not divide.
@pytest.mark.parametrize("shape", [(1, 8, 8), (64, 128, 4 * BK), (70, 8, 11 * BK + 8)])
def test_any_number_of_splits(multiprocessors, shape):
    m, n, k = shape
    random = np.random.default_rng(6)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (n, k)))
    gemm(a, b, c := np.full((m, n), np.nan, np.float16))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-3 * np.sqrt(k))


def test_a_step_is_four_wgmmas_and_launches_overlap():
    function = weft.compile(gemm, *fake_arguments(), options="--gpu-arch sm_90a")
    kernel = function.kernels[gemm_kernel.function.__name__]
    assert (function.remarks, kernel.spill_load_bytes) == ((), 0)
    assert [text for text in EXAMPLE.instructions if text not in function.ptx] == []
    assert function.sass.count("HGMMA") == BK // 16
    assert "ACQBULK" in function.sass  # how griddepcontrol.wait is called there
