# SPDX-License-Identifier: Apache-2.0
"""`layer_norm_backward` and `rms_norm_backward` against NumPy in f64: rows of any length, types, layouts, bad input."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import kernels
from weft.kernels.device.row_mapping import RowMapping
from weft.kernels.nn import norm

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(11)


def reference(
    gradient: np.ndarray, x: np.ndarray, weight: np.ndarray, is_centered: bool, eps: float
):
    """The derivatives by input, weight and bias, in f64."""
    x, gradient, weight = (one.astype(np.float64) for one in (x, gradient, weight))
    centered = x - x.mean(-1, keepdims=True) if is_centered else x
    scale = 1 / np.sqrt((centered**2).mean(-1, keepdims=True) + eps)
    unit, weighted = centered * scale, gradient * weight
    shift = weighted.mean(-1, keepdims=True) if is_centered else 0
    by_x = scale * (weighted - shift - unit * (weighted * unit).mean(-1, keepdims=True))
    rows = tuple(range(x.ndim - 1))
    return by_x, (gradient * unit).sum(rows), gradient.sum(rows)


# Rows of a warp, of a block, and such as are read in iterations; of 16 bytes at a time, and not.
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((2, 3, 5), np.float64),
        ((9, 1032), ml_dtypes.bfloat16),
        ((40, 1033), np.float32),
        ((3, 17000), np.float16),
        ((0, 5), np.float32),
        ((0, 17000), np.float16),
        ((3, 0), np.float32),
    ],
)
def test_derivatives_are_right(shape, dtype):
    x, gradient = (RANDOM.standard_normal(shape).astype(dtype) for _ in range(2))
    of_weight = np.float64 if dtype is np.float64 else np.float32
    weight = RANDOM.standard_normal(shape[-1]).astype(of_weight)
    tolerance = {np.float64: 1e-12, np.float32: 1e-5}.get(dtype, 3e-2)
    found = kernels.layer_norm_backward(gradient, x, weight, 1e-3)
    assert [one.dtype for one in found] == [x.dtype, of_weight, of_weight]
    if shape[-1]:
        expected = reference(gradient, x, weight, True, 1e-3)
        for one, other in zip(found, expected, strict=True):
            assert np.allclose(one.astype(np.float64), other, tolerance, tolerance)
        found = kernels.rms_norm_backward(gradient, x, weight, 1e-3)
        for one, other in zip(found, reference(gradient, x, weight, False, 1e-3), strict=False):
            assert np.allclose(one.astype(np.float64), other, tolerance, tolerance)


def test_strided_rows_without_a_weight():
    x, gradient = (RANDOM.standard_normal((7, 4, 6)) for _ in range(2))
    views = gradient[::-2, :, ::2], x[1::2, :, ::-2][[0, 1, 2, 0]][::-1]
    found = kernels.layer_norm_backward(*views)
    expected = reference(*views, np.ones(3), True, 1e-5)
    assert all(np.allclose(one, other) for one, other in zip(found, expected, strict=True))


def test_rows_stay_in_registers():
    def rows(dtype: weft.DType, rank: int):
        shape = [weft.sym(name, divisibility=8) for name in "mn"[-rank:]]
        return weft.fake_tensor(dtype, shape, alignment_bytes=16)

    for dtype, mapping in (
        (weft.bf16, RowMapping(1, 256, 16, 8)),
        (weft.f32, RowMapping(16, 512, 16, 4)),
    ):
        x, vector = rows(dtype, 2), rows(dtype, 1)
        arguments = x, x, vector, 1e-5, x, vector, vector, mapping, True
        found = weft.compile(norm._backward_in_registers, *arguments, options="--gpu-arch sm_90a")
        assert found.kernels["norm_backward_registers_kernel"].spill_load_bytes == 0


def test_bad_input_is_refused_by_name():
    x = np.ones((3, 4))
    for error, text, call in (
        (TypeError, "gradient has elements of float32", lambda: (x.astype("f"), x)),
        (ValueError, r"gradient has shape \(4,\), expected \(3, 4\)", lambda: (x[0], x)),
        (ValueError, r"weight has shape \(3, 4\), expected \(4,\)", lambda: (x, x, x)),
        (TypeError, "weight is 'a'", lambda: (x, x, "a")),
        (TypeError, "eps is 'a', expected a number", lambda: (x, x, None, "a")),
    ):
        for function in (kernels.layer_norm_backward, kernels.rms_norm_backward):
            with pytest.raises(error, match=text):
                function(*call())
    with pytest.raises(TypeError, match="eps is None, expected a number"):
        kernels.layer_norm(x, eps=None)
