# SPDX-License-Identifier: Apache-2.0
"""Rows that clusters take, as on a GPU from sm_90 on: each function against NumPy in f64, kept and read in rounds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import weft
from tests.kernels.counting import like_device
from tests.kernels.test_kernels import layer_norm, rms_norm, softmax
from tests.kernels.test_norm_gradients import reference
from weft.dialects.simt.views import VECTOR_BYTES
from weft.kernels.device import row_mapping as spreads
from weft.kernels.device.row_mapping import Spread
from weft.kernels.nn import cross_entropy as losses
from weft.kernels.nn import norm as normalization
from weft.kernels.nn import norm_backward as norm_gradients
from weft.kernels.nn import softmax as softmaxes
from weft.kernels.nn import softmax_backward as softmax_gradients

RANDOM = np.random.default_rng(5)
COLUMNS = 1500  # the last of four blocks has fewer of them than the others
SPREADS = [  # a row for each cluster, in its registers and in rounds; row after row
    Spread(4, 64, 8, 4),
    Spread(2, 64, 0, 1),
    Spread(4, 64, 8, 4, stages=2),
]


@pytest.mark.parametrize("spread", SPREADS, ids=str)
def test_softmax_of_a_row_that_a_cluster_takes(spread):
    x = (RANDOM.standard_normal((9, COLUMNS)) * 3 + 1).astype(np.float32)
    special = np.full((5, COLUMNS), -np.inf, np.float32)
    special[0, 7], special[1], special[2, 900], special[3, COLUMNS - 1] = 1, np.nan, np.nan, np.inf
    shares = softmax(x)
    for is_log, expected, one, other in (
        (False, shares, 1, 0),
        (True, np.log(shares), 0, -np.inf),
    ):
        out = np.empty_like(x)
        softmaxes._softmax(x, out, spread, is_log)
        assert np.allclose(out, expected, rtol=2e-5, atol=1e-9)
        softmaxes._softmax(special, special_out := np.empty_like(special), spread, is_log)
        assert special_out[0, 7] == one and (np.delete(special_out[0], 7) == other).all()
        assert np.isnan(special_out[1:]).all()
        gradient, y = RANDOM.standard_normal(x.shape).astype(np.float32), out.copy()
        softmax_gradients._softmax_backward(gradient, y, y, spread, is_log)  # in its own place
        total = (gradient if is_log else gradient * shares).sum(-1, keepdims=True)
        slope = gradient - shares * total if is_log else shares * (gradient - total)
        assert np.allclose(y, slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spread", SPREADS, ids=str)
def test_norms_of_a_row_that_a_cluster_takes(spread):
    x = (RANDOM.standard_normal((9, COLUMNS)) * 3 + 1).astype(np.float32)
    weight, bias = RANDOM.standard_normal((2, COLUMNS)).astype(np.float32)
    out = np.empty_like(x)
    normalization._normalize(x, weight, bias, 1e-5, out, spread, True)
    assert np.allclose(out, layer_norm(x, weight, bias), rtol=2e-5, atol=2e-6)
    normalization._normalize(y := x.copy(), weight, None, 1e-6, y, spread, False)
    assert np.allclose(y, rms_norm(x, weight), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("spread", SPREADS[:2], ids=str)
def test_losses_of_a_row_that_a_cluster_takes(spread):
    x = RANDOM.standard_normal((3, COLUMNS)).astype(np.float32)
    classes, factors = np.array([4, -100, COLUMNS - 1]), np.array([2, 3, 4], np.float32)
    losses._losses(x, classes, found := np.empty(3, np.float32), -100, spread.threads, spread.width)
    shares, places = softmax(x), ([0, 2], [4, COLUMNS - 1])
    assert np.allclose(found, [-np.log(shares[0, 4]), 0, -np.log(shares[2, -1])], rtol=1e-5)
    shares[places] -= 1
    losses._losses_backward(factors, x, classes, x, -100, spread)  # in its own place
    assert np.allclose(x, shares * [[2], [0], [4]], rtol=1e-4, atol=1e-7)


# Each cluster takes several rows, one after the other.
@pytest.mark.parametrize(
    ("spread", "is_centered"),
    [(SPREADS[2], True), (Spread(2, 64, 16, 1), False), (SPREADS[1], True)],
    ids=str,
)
def test_derivatives_of_norms_of_rows_that_clusters_take(spread, is_centered, monkeypatch):
    monkeypatch.setattr(norm_gradients, "_MOST_THREADS", 64)
    x, gradient = RANDOM.standard_normal((2, 30, COLUMNS)).astype(np.float32)
    weight = RANDOM.standard_normal(COLUMNS).astype(np.float32)
    found = np.empty_like(x), np.empty_like(weight), np.empty_like(weight)
    call = norm_gradients._of_kept_rows if spread.items else norm_gradients._of_read_rows
    call(gradient, x, weight, 1e-3, *found, spread, is_centered)
    expected = reference(gradient, x, weight, is_centered, 1e-3)
    for one, other in list(zip(found, expected, strict=True))[: 3 if is_centered else 2]:
        assert np.allclose(one, other, 1e-4, 1e-5)


def test_a_spread_holds_its_row(monkeypatch):
    columns_of = [1, 33, 1024, 1025, 30_000, 32_769, 131_072, 1 << 20]
    modules = softmaxes, softmax_gradients, norm_gradients, losses, normalization
    dtypes = weft.bf16, weft.f32, weft.f64
    devices = (
        ((0, 0), 0, 1),
        ((8, 0), 108, 1),
        ((9, 0), 132, 16),
        ((9, 0), 60, 8),
        ((12, 0), 170, 8),
    )
    for version, processors, most in devices:
        like_device(monkeypatch, version, processors)
        for columns, dtype, module, is_whole in product(columns_of, dtypes, modules, (True, False)):
            limits, width = module._LIMITS, VECTOR_BYTES // dtype.itemsize if is_whole else 1
            spread = spreads.spread_for(columns, width, dtype, None, limits)  # type: ignore[arg-type]
            held = spread.blocks * spread.threads * spread.items
            assert held >= columns or (
                held == 0 and columns > most * limits.threads * limits.items // 2
            )
            assert spread.items % width == 0 and spread.threads <= limits.threads
            assert spread.blocks <= most and spread.is_whole == (held == columns)
            part = spread.threads * spread.items * dtype.itemsize
            assert part * (spread.stages * limits.arrays + 2) <= 227 << 10 or not spread.stages
            assert not spread.stages or (is_whole and (9, 0) <= version < (12, 0))
