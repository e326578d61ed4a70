# SPDX-License-Identifier: Apache-2.0
"""The GEMM for sm_80: right on the CPU at every kind of edge, and on three architectures the expected main loop."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from examples.checks.tensor_core_gemm import EXAMPLE, fake_arguments
from examples.tensor_core_gemm import gemm, gemm_kernel
from tests.sampling import sampled


@pytest.mark.parametrize("shape", [(1, 8, 8), (128, 128, 128), (129, 136, 200), (257, 8, 1000)])
def test_every_shape_is_right(shape):
    m, n, k = shape
    random = np.random.default_rng(6)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (n, k)))
    gemm(a, b, c := np.full((m, n), np.nan, np.float16))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-3 * np.sqrt(k))


@pytest.mark.parametrize("architecture", sampled(["sm_90a", "sm_80", "sm_120a"], 3))
def test_instructions_of_a_step(architecture):
    function = weft.compile(gemm, *fake_arguments(), options=f"--gpu-arch {architecture}")
    kernel = function.kernels[gemm_kernel.function.__name__]
    assert (function.remarks, kernel.spill_load_bytes) == ((), 0)
    assert kernel.registers <= 128  # so that two blocks fit
    assert [text for text in EXAMPLE.instructions if text not in function.ptx] == []
    lines = [
        one for one in function.sass.splitlines() if re.search(r"/\*[0-9a-f]{4,5}\*/|^\.L", one)
    ]
    mmas = [number for number, line in enumerate(lines) if "HMMA" in line]
    start = max(n for n, line in enumerate(lines[: mmas[0]]) if line.startswith(".L"))
    end = next(n for n in range(mmas[-1], len(lines)) if "BRA" in lines[n])
    step = [line for line in lines[start:end] if "/*" in line]
    counts = {name: sum(name in line for line in step) for name in ("HMMA", "LDSM", "LDGSTS")}
    assert counts == {"HMMA": 32, "LDSM": 12, "LDGSTS": 4}
    assert len(step) <= 140
    assert not any(re.search(r"\b(LDL|STL|LDG)\b", line) for line in step)
