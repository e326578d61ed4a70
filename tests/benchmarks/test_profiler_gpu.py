# SPDX-License-Identifier: Apache-2.0
"""The kernels that `benchmarks.profiler_gpu` times compute what they should and record what it counts."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import profiler_gpu as measured
from tests.sampling import sampled

MODES = [pytest.param(mode, id=mode.name) for mode in measured.MODES]
UNMARKED = pytest.param(None, id="unmarked")


@pytest.mark.parametrize("mode", sampled([UNMARKED, *MODES], 3))
def test_the_pipelined_gemm_is_right_and_records_every_step(mode):
    size, tiles = 64, 4
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    c = np.zeros((size, size), np.float32)
    per_block = 2 * (2 * tiles * tiles + tiles)
    words = 64 + tiles * 3 * (16 + 4 * tiles * tiles + 4) * 2
    records = measured.records_of(mode, words, "cpu")
    marks = measured.marks_of(mode, 3, "lane == 0", "role")
    measured.compiled(measured.PIPELINE, "", **marks)(a, b, c, records)
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-4)
    if mode is not None:
        measured.check(mode, records, tiles * per_block)


@pytest.mark.parametrize("mode", MODES)
def test_the_timed_loop_records_every_iteration(mode):
    blocks, trips = 2, 20
    out = np.zeros(blocks, np.int64)
    words = 64 + blocks * (16 + 2 * (2 * trips + 2))
    records = measured.records_of(mode, words, "cpu")
    marks = measured.marks_of(mode, 1, "tid == 0", "0")
    run = measured.compiled(measured.CYCLES, "", trips="n", **marks)
    run(out, np.ones(128, np.float32), records, trips)
    assert (out > 0).all()
    measured.check(mode, records, blocks * 2 * trips)
