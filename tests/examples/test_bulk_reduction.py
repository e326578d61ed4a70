# SPDX-License-Identifier: Apache-2.0
"""The reduction by bulk copies: right for vectors of any length; on GPUs one copy a chunk, vectors, and `red`."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from examples.bulk_reduction import (
    CHUNK,
    EXAMPLE,
    STAGES,
    add_sums,
    fake_arguments,
    reference,
    sums_kernel,
)
from examples.common import run
from tests.sampling import sampled
from weft import _native


def test_the_example_is_right():
    report = run(EXAMPLE, EXAMPLE.test_size)
    assert report.passed, report.error


@pytest.fixture
def one_multiprocessor():
    _native.set_cpu_multiprocessors(1)
    yield
    _native.set_cpu_multiprocessors(0)


# Without a chunk, less than a chunk, whole ones, and more for each block than its ring has.
@pytest.mark.parametrize("length", [1, 3, 4, CHUNK - 1, 2 * CHUNK, (2 * STAGES + 3) * CHUNK + 7])
def test_every_length_is_right(one_multiprocessor, length):
    a = np.random.default_rng(length).random(length, np.float32) - np.float32(0.3)
    sums = np.array([3, 4], np.float32)
    expected = reference(a, sums)["sums"]
    add_sums(a, sums)
    np.testing.assert_allclose(sums, expected, rtol=1e-5)


@pytest.mark.parametrize("architecture", sampled(["sm_90a", "sm_100a", "sm_120a"], 3))
def test_a_chunk_is_one_copy_and_the_sums_ask_for_nothing_back(architecture):
    function = weft.compile(add_sums, *fake_arguments(), options=f"--gpu-arch {architecture}")
    kernel = function.kernels[sums_kernel.function.__name__]
    assert (function.remarks, kernel.spill_load_bytes) == ((), 0)
    assert [text for text in EXAMPLE.instructions if text not in function.ptx] == []
    assert function.sass.count("UBLKCP") == 1
    assert re.search(r"\bREDG?\.E\.ADD\.F32", function.sass)
    assert "ATOM" not in function.sass
