# SPDX-License-Identifier: Apache-2.0
"""Reads of memory that no thread has written so far: a race if one writes it later."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@weft.kernel
def stencil_kernel(a: weft.Tensor, out: weft.Tensor):
    tile = weft.shared(33, weft.f32)
    i = weft.thread_idx.x
    tile[i] = a[i]
    out[i] = tile[i + 1]


def test_a_launch_that_continues_tells_each_early_read_once():
    a, out = np.ones(32, np.float32), np.zeros(32, np.float32)
    with (
        weft.sanitize("races", "uninit", continue_=True),
        pytest.raises(weft.SanitizerError) as found,
    ):
        stencil_kernel[1, 32](a, out)
    race, unwritten = found.value.reports
    assert (race.kind, race.count, race.index, race.thread) == ("race", 31, (1,), (1, 0, 0))
    assert (race.other.access, race.other.thread) == ("read", (0, 0, 0))
    assert (unwritten.kind, unwritten.count, unwritten.index) == ("uninitialized", 1, (32,))


@weft.kernel
def find_kernel(a: weft.Tensor, out: weft.Tensor):
    tile = weft.shared(4, weft.i32)
    i = weft.thread_idx.x
    out[i] = a[tile[i] - 1]


def test_an_unwritten_read_is_reported_before_its_consequences():
    a, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    with weft.sanitize("all"), pytest.raises(weft.SanitizerError) as found:
        find_kernel[1, 4](a, out)
    (report,) = found.value.reports
    assert (report.kind, report.array, report.index) == ("uninitialized", "tile", (0,))
