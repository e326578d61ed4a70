# SPDX-License-Identifier: Apache-2.0
"""Softmax over a cluster: right for rows of any length; on GPUs blocks exchange results without a cluster barrier."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from examples import cluster_softmax
from examples.cluster_softmax import EXAMPLE, fake_arguments, reference, softmax, softmax_kernel
from examples.common import run


def test_the_example_is_right():
    report = run(EXAMPLE, EXAMPLE.test_size)
    assert report.passed, report.error


# Fewer columns than blocks, a block with less than the others, and more than shared memory holds.
@pytest.mark.parametrize("columns", [1, 7, 513, 1033])
def test_every_length_is_right(monkeypatch, columns):
    monkeypatch.setattr(cluster_softmax, "SHARE", 128)
    logits = np.random.default_rng(3).standard_normal((2, columns), dtype=np.float32)
    softmax(logits, found := np.full_like(logits, np.nan))
    expected = reference(logits, found)["probabilities"]
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize("architecture", ["sm_90a", "sm_100a", "sm_120a"])
def test_blocks_tell_each_other_by_stores(architecture):
    function = weft.compile(softmax, *fake_arguments(), options=f"--gpu-arch {architecture}")
    kernel = function.kernels[softmax_kernel.function.__name__]
    assert (function.remarks, kernel.spill_load_bytes) == ((), 0)
    assert [text for text in EXAMPLE.instructions if text not in function.ptx] == []
    # One cluster barrier, after the mbarriers are made.
    assert function.ptx.count("barrier.cluster.wait") == 1
    assert function.ptx.count("st.async") == 2
    if architecture == "sm_90a":
        counts = {name: function.sass.count(f" {name} ") for name in ("STAS", "UCGABAR_WAIT")}
        assert counts == {"STAS": 2, "UCGABAR_WAIT": 1}
