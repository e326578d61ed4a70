# SPDX-License-Identifier: Apache-2.0
"""Iterations of `weft.each` race with each other, whichever thread runs them."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.sampling import sampled


@weft.kernel
def add_kernel(b: weft.Tensor, a: weft.Tensor):
    for i in weft.each(a.shape[0]):
        b[i] += a[i]


@pytest.mark.parametrize("threads", sampled([1, 3, 16], 2))
@pytest.mark.parametrize("distance", [-5, -1, 0, 1, 7, 8])
def test_iterations_over_views_race_where_they_overlap(threads, distance):
    x = np.zeros(32, np.float32)
    b, a = x[8 : 8 + 16], x[8 + distance : 8 + distance + 16]
    with weft.sanitize("all"):
        if distance == 0:
            add_kernel[1, threads](b, a)
            return
        with pytest.raises(weft.SanitizerError) as found:
            add_kernel[1, threads](b, a)
    (report,) = found.value.reports
    assert report.kind == "race" and report.other is not None
