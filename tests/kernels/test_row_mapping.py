# SPDX-License-Identifier: Apache-2.0
"""Row mappings to clusters, as on sm_90: functions of rows against NumPy in f64, in registers and read again."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import weft
from tests.kernels.counting import like_device
from tests.kernels.test_kernels import layer_norm, rms_norm, softmax
from tests.kernels.test_norm_backward import reference
from tests.sampling import sampled
from weft.kernels.device import row_mapping
from weft.kernels.device.row_mapping import RowMapping
from weft.kernels.nn import cross_entropy, norm
from weft.kernels.nn import softmax as softmax_module
from weft.types.launch_limits import VECTOR_BYTES

RANDOM = np.random.default_rng(5)
COLUMNS = 1500  # the last of four blocks has fewer of them than the others
MAPPINGS = [  # a row for each cluster, in registers, read again, and pipelined
    RowMapping(4, 64, 8, 4),
    RowMapping(2, 64, 0, 1),
    RowMapping(4, 64, 8, 4, stages=2),
]


@pytest.mark.parametrize("mapping", sampled(MAPPINGS, 2), ids=str)
def test_softmax_with_a_cluster_per_row(mapping):
    x = (RANDOM.standard_normal((9, COLUMNS)) * 3 + 1).astype(np.float32)
    special = np.full((5, COLUMNS), -np.inf, np.float32)
    special[0, 7], special[1], special[2, 900], special[3, COLUMNS - 1] = 1, np.nan, np.nan, np.inf
    shares = softmax(x)
    for is_log, expected, one, other in (
        (False, shares, 1, 0),
        (True, np.log(shares), 0, -np.inf),
    ):
        out = np.empty_like(x)
        softmax_module._softmax(x, out, mapping, is_log)
        assert np.allclose(out, expected, rtol=2e-5, atol=1e-9)
        softmax_module._softmax(special, special_out := np.empty_like(special), mapping, is_log)
        assert special_out[0, 7] == one and (np.delete(special_out[0], 7) == other).all()
        assert np.isnan(special_out[1:]).all()
        gradient, y = RANDOM.standard_normal(x.shape).astype(np.float32), out.copy()
        softmax_module._softmax_backward_rows(gradient, y, y, mapping, is_log)  # in its own place
        total = (gradient if is_log else gradient * shares).sum(-1, keepdims=True)
        dx = gradient - shares * total if is_log else shares * (gradient - total)
        assert np.allclose(y, dx, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mapping", sampled(MAPPINGS, 2), ids=str)
def test_norms_with_a_cluster_per_row(mapping):
    x = (RANDOM.standard_normal((9, COLUMNS)) * 3 + 1).astype(np.float32)
    weight, bias = RANDOM.standard_normal((2, COLUMNS)).astype(np.float32)
    out = np.empty_like(x)
    norm._normalize(x, weight, bias, 1e-5, out, mapping, True)
    assert np.allclose(out, layer_norm(x, weight, bias), rtol=2e-5, atol=2e-6)
    norm._normalize(y := x.copy(), weight, None, 1e-6, y, mapping, False)
    assert np.allclose(y, rms_norm(x, weight), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("mapping", sampled(MAPPINGS[:2], 2), ids=str)
def test_cross_entropy_with_a_cluster_per_row(mapping):
    x = RANDOM.standard_normal((3, COLUMNS)).astype(np.float32)
    classes, factors = np.array([4, -100, COLUMNS - 1]), np.array([2, 3, 4], np.float32)
    cross_entropy._cross_entropy(
        x, classes, found := np.empty(3, np.float32), -100, mapping.threads, mapping.width
    )
    shares, places = softmax(x), ([0, 2], [4, COLUMNS - 1])
    assert np.allclose(found, [-np.log(shares[0, 4]), 0, -np.log(shares[2, -1])], rtol=1e-5)
    shares[places] -= 1
    cross_entropy._cross_entropy_backward(factors, x, classes, x, -100, mapping)  # in its own place
    assert np.allclose(x, shares * [[2], [0], [4]], rtol=1e-4, atol=1e-7)


# Each cluster takes several rows, one after the other.
@pytest.mark.parametrize(
    ("mapping", "is_centered"),
    sampled(
        [(MAPPINGS[2], True), (RowMapping(2, 64, 16, 1), False), (MAPPINGS[1], True)],
        2,
        several=True,
    ),
    ids=str,
)
def test_norm_backward_with_clusters(mapping, is_centered, monkeypatch):
    monkeypatch.setattr(norm, "_MOST_THREADS", 64)
    x, gradient = RANDOM.standard_normal((2, 30, COLUMNS)).astype(np.float32)
    weight = RANDOM.standard_normal(COLUMNS).astype(np.float32)
    found = np.empty_like(x), np.empty_like(weight), np.empty_like(weight)
    call = norm._backward_in_registers if mapping.items else norm._backward_from_memory
    call(gradient, x, weight, 1e-3, *found, mapping, is_centered)
    expected = reference(gradient, x, weight, is_centered, 1e-3)
    for one, other in list(zip(found, expected, strict=True))[: 3 if is_centered else 2]:
        assert np.allclose(one, other, 1e-4, 1e-5)


def test_a_row_mapping_holds_its_row(monkeypatch):
    columns_of = [1, 33, 1024, 1025, 30_000, 32_769, 131_072, 1 << 20]
    limits_of = (
        softmax_module._LIMITS,
        softmax_module._BACKWARD_LIMITS,
        norm._LIMITS,
        norm._BACKWARD_LIMITS,
        cross_entropy._LIMITS,
    )
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
        for columns, dtype, limits, is_whole in product(
            columns_of, dtypes, limits_of, (True, False)
        ):
            width = VECTOR_BYTES // dtype.itemsize if is_whole else 1
            mapping = row_mapping.row_mapping_for(columns, width, dtype, None, limits)  # type: ignore[arg-type]
            held = mapping.blocks * mapping.threads * mapping.items
            assert held >= columns or (
                held == 0 and columns > most * limits.threads * limits.items // 2
            )
            assert mapping.items % width == 0 and mapping.threads <= limits.threads
            assert mapping.blocks <= most and mapping.is_whole == (held == columns)
            part = mapping.threads * mapping.items * dtype.itemsize
            assert part * (mapping.stages * limits.arrays + 2) <= 227 << 10 or not mapping.stages
            assert not mapping.stages or (is_whole and (9, 0) <= version < (12, 0))
