# SPDX-License-Identifier: Apache-2.0
"""Rows that clusters take, as on a GPU from sm_90 on: each function against NumPy in f64, kept and read in rounds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.test_kernels import layer_norm, rms_norm, softmax
from tests.kernels.test_norm_gradients import reference
from weft.kernels import norm_gradients, normalization, softmax_gradients, softmaxes, spreads
from weft.kernels.spreads import Spread

RANDOM = np.random.default_rng(5)
COLUMNS = 1500  # the last of four blocks has fewer of them than the others


@pytest.mark.parametrize("spread", [Spread(4, 64, 8, 4), Spread(2, 64, 0, 1)], ids=str)
def test_a_cluster_takes_a_row(spread):
    x = (RANDOM.standard_normal((3, COLUMNS)) * 3 + 1).astype(np.float32)
    weight, bias = RANDOM.standard_normal((2, COLUMNS)).astype(np.float32)
    out = np.empty_like(x)
    softmaxes._softmax(x, out, spread, False)
    assert np.allclose(out, softmax(x), rtol=2e-5, atol=1e-9)
    softmaxes._softmax(x, out, spread, True)
    assert np.allclose(out, np.log(softmax(x)), rtol=2e-5)
    normalization._normalize(x, weight, bias, 1e-5, out, spread, True)
    assert np.allclose(out, layer_norm(x, weight, bias), rtol=2e-5, atol=2e-6)
    gradient, shares = bias * x, softmax(x)
    sums = (gradient * shares).sum(-1, keepdims=True), gradient.sum(-1, keepdims=True)
    softmax_gradients._softmax_backward(gradient, shares.astype("f"), out, spread, False)
    assert np.allclose(out, shares * (gradient - sums[0]), rtol=1e-4, atol=1e-7)
    softmax_gradients._softmax_backward(gradient, np.log(shares).astype("f"), out, spread, True)
    assert np.allclose(out, gradient - shares * sums[1], rtol=1e-4, atol=1e-5)
    expected = rms_norm(x, weight)
    normalization._normalize(x, weight, None, 1e-6, x, spread, False)  # in its own place
    assert np.allclose(x, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("spread", [Spread(2, 64, 16, 1), Spread(2, 64, 0, 4)], ids=str)
def test_special_numbers_in_rows_of_clusters(spread):
    x = np.full((5, COLUMNS), -np.inf, np.float32)
    x[0, 7], x[1], x[2, 900], x[3, COLUMNS - 1] = 1, np.nan, np.nan, np.inf
    out = np.empty_like(x)
    for is_log, one, other in ((False, 1, 0), (True, 0, -np.inf)):
        softmaxes._softmax(x, out, spread, is_log)
        assert out[0, 7] == one and (np.delete(out[0], 7) == other).all()
        assert np.isnan(out[1:]).all()


# Each cluster takes several rows, one after the other.
@pytest.mark.parametrize("spread", [Spread(4, 64, 8, 4), Spread(2, 64, 0, 1)], ids=str)
@pytest.mark.parametrize("is_centered", [True, False])
def test_derivatives_of_rows_of_clusters(spread, is_centered, monkeypatch):
    monkeypatch.setattr(norm_gradients, "_MOST_THREADS", 64)
    x, gradient = RANDOM.standard_normal((2, 30, COLUMNS)).astype(np.float32)
    weight = RANDOM.standard_normal(COLUMNS).astype(np.float32)
    found = np.empty_like(x), np.empty_like(weight), np.empty_like(weight)
    call = norm_gradients._of_kept_rows if spread.items else norm_gradients._of_read_rows
    call(gradient, x, weight, 1e-3, *found, spread, is_centered)
    expected = reference(gradient, x, weight, is_centered, 1e-3)
    for one, other in list(zip(found, expected, strict=True))[: 3 if is_centered else 2]:
        assert np.allclose(one, other, 1e-4, 1e-5)


@pytest.mark.parametrize("columns", [1, 33, 1024, 1025, 30_000, 131_072, 1 << 20])
@pytest.mark.parametrize("width", [1, 4, 8])
@pytest.mark.parametrize("capability", [(0, 0), (8, 0), (9, 0)])
def test_a_spread_holds_its_row(columns, width, capability, monkeypatch):
    monkeypatch.setattr(spreads, "capability", lambda device: capability)
    for limits in ((), (512, 16, 8192)):
        found = spreads.spread_for(columns, width, None, *limits)  # type: ignore[arg-type]
        assert found.items == 0 or found.blocks * found.threads * found.items >= columns
        assert found.items % width == 0 and found.threads <= (limits or (1024,))[0]
        assert found.blocks == 1 or (columns > 8192 and capability >= (9, 0))
        assert found.items or columns > found.blocks * 8192
