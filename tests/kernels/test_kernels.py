# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels` against NumPy in f64: shapes, layouts, types, libraries, bad input."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import weft
import weft.ffi
from tests.sampling import sampled
from weft import kernels
from weft.kernels.algorithms import reduce as reductions
from weft.kernels.algorithms import scan as scans
from weft.kernels.algorithms.operators import Reduction
from weft.kernels.algorithms.reduce import RowReduceConfig
from weft.kernels.device.row_mapping import RowMapping
from weft.kernels.nn import norm
from weft.kernels.nn import softmax as softmaxes


def numbers(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 3).astype(dtype)


def softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def layer_norm(x: np.ndarray, weight=1, bias=0) -> np.ndarray:
    x = x.astype(np.float64)
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias


def rms_norm(x: np.ndarray, weight=1) -> np.ndarray:
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * weight


SHAPES = [(1,), (2, 3, 500), (2, 40_000)]


@pytest.mark.parametrize("shape", sampled(SHAPES, 2), ids=str)
def test_rows_of_any_length_are_normalized(shape):
    x = numbers(*shape)
    weight, bias = numbers(shape[-1]), numbers(shape[-1]) + 1
    for found, expected in (
        (kernels.softmax(x), softmax(x)),
        (kernels.log_softmax(x), np.log(softmax(x))),
        (kernels.layer_norm(x, weight, bias), layer_norm(x, weight, bias)),
        (kernels.rms_norm(x, weight), rms_norm(x, weight)),
    ):
        assert type(found) is np.ndarray and found.dtype == x.dtype
        assert np.allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("shape", sampled([(5, 33), (0, 3), (1, 300_000), (5, 0)], 2), ids=str)
def test_rows_of_any_length_are_added(shape):
    x = numbers(*shape)
    exact = x.astype(np.float64)
    assert np.allclose(kernels.sum(x, axis=-1), exact.sum(axis=-1), atol=1e-2)
    assert np.allclose(kernels.cumsum(x), exact.cumsum(axis=-1), atol=1e-2)
    if x.size:
        assert np.array_equal(kernels.max(x, axis=-1), x.max(axis=-1))


@pytest.mark.slow
def test_any_dimension_is_reduced():
    x = numbers(3, 600, 4)
    x[1, 77, 2] = x[2, 5, 1] = np.nan
    for axis in (None, 0, 1, -1):
        for name in ("max", "argmax"):
            found, expected = getattr(kernels, name)(x, axis=axis), getattr(np, name)(x, axis=axis)
            assert np.array_equal(found, expected, equal_nan=True)
    assert np.allclose(kernels.mean(x, axis=1), x.astype(np.float64).mean(axis=1), equal_nan=True)
    assert kernels.mean(np.full((3, 4), 1 << 62), axis=0).tolist() == [2.0**62] * 4


@pytest.mark.parametrize("length", sampled([1, 9000, 9001, 5_000_000], 4))
def test_a_scan_takes_any_function_in_order(length):
    x = np.random.default_rng(0).integers(-9, 9, length).astype(np.int32)
    sums = x.cumsum(dtype=np.int64)
    assert np.array_equal(kernels.cumsum(x), sums)
    if length < 10_000:
        assert np.array_equal(kernels.scan(x, max), np.maximum.accumulate(x))
        assert np.array_equal(kernels.scan(x, later, exclusive=True, initial=7)[1:], x[:-1])
        assert np.array_equal(kernels.scan(x[::-1], exclusive=True, initial=7)[:1], [7])


def later(one, other):
    """The later value: associative, but not commutative."""
    return other


@pytest.mark.slow
def test_places_are_those_of_the_first_of_equals():
    x = np.zeros((2, 40_000), np.int8)
    x[1, 123] = x[1, 39_000] = -1
    assert kernels.argmin(x) == 40_123 and kernels.argmin(x[:, ::-1]) == 40_999
    assert kernels.argmax(x, axis=-1).tolist() == [0, 0]
    assert kernels.argmax(np.full(5, -np.inf, np.float32)) == 0


def test_a_function_of_two_numbers_reduces():
    x = np.arange(1, 7).reshape(2, 3)
    assert kernels.reduce(x, operator.mul, 1, axis=-1).tolist() == [6, 120]
    assert kernels.reduce(x, operator.mul, 1, axis=0).tolist() == [4, 10, 18]
    assert kernels.reduce(x[:, :0], operator.mul, 1) == 1


@pytest.mark.parametrize("shape", [(2, 2, 500), (0, 3)], ids=str)
def test_integers_and_all_elements(shape):
    x = np.round(numbers(*shape) * 10).astype(np.int16)
    for found, expected in (
        (kernels.sum(x, axis=-1), x.sum(axis=-1, dtype=np.int64)),
        (kernels.sum(x), x.sum(dtype=np.int64)),
        (kernels.cumsum(x), x.cumsum(axis=-1, dtype=np.int64)),
    ):
        assert found.dtype == np.int64 and np.array_equal(found, expected)
    if x.size:
        for found, expected in ((kernels.max(x), x.max()), (kernels.min(x), x.min())):
            assert found.dtype == x.dtype and found == expected


@pytest.mark.slow
def test_each_kernel_assembles_for_a_gpu():
    x = weft.fake_tensor(weft.bf16, ("n", "m"))
    row, of_rows = weft.fake_tensor(weft.f32, ("m",)), weft.fake_tensor(weft.bf16, ("n",))
    config, op = RowReduceConfig(256, 8, False, True, False, False), Reduction("sum")
    for accesses, function, *arguments in (
        (("LDG.E.128", "STG.E.128"), softmaxes._softmax, x, x, RowMapping(1, 32, 8, 8), False),
        (("LDG.E.128", "STG.E.128"), softmaxes._softmax, x, x, RowMapping(1, 1024, 0, 8), True),
        (
            ("LDG.E.128",),
            norm._normalize,
            x,
            row,
            None,
            1e-5,
            x,
            RowMapping(8, 256, 8, 4),
            True,
        ),
        (("LDG.E.128",), reductions._reduce, x, of_rows, 7, 1, 1 << 20, config, op),
        (
            ("LDG.E.128", "STRONG.GPU"),
            scans._scan,
            x,
            x,
            9,
            256,
            16,
            8,
            True,
            scans.ScanOp(None, False, None),
        ),
    ):
        compiled = weft.compile(function, *arguments, options="--gpu-arch sm_90a")
        assert compiled.cubin and all(access in compiled.sass for access in accesses)


def test_nan_and_infinity_are_as_in_numpy():
    x = np.array([[1, np.nan, 3], [np.inf, 2, 3], [-np.inf, -np.inf, 0]], np.float32)
    assert np.array_equal(kernels.max(x, axis=-1), x.max(axis=-1), equal_nan=True)
    assert np.array_equal(kernels.min(x, axis=-1), x.min(axis=-1), equal_nan=True)
    assert np.isnan(kernels.softmax(x)[0]).all()
    assert kernels.softmax(x)[2].tolist() == [0, 0, 1]
    long = np.full((1, 40_000), -np.inf, np.float32)
    long[0, 5] = 1
    assert kernels.softmax(long)[0, 5] == 1 and kernels.softmax(long).sum() == 1


@pytest.mark.parametrize("dtype", sampled([np.float16, np.float64], 2), ids=lambda t: t.__name__)
def test_other_floats(dtype):
    x = numbers(4, 300, dtype=dtype)
    tolerance = 1e-3 if dtype is np.float16 else 1e-12
    assert np.allclose(
        kernels.softmax(x), softmax(x), rtol=tolerance, atol=1e-6 if dtype is np.float16 else 0
    )
    assert np.allclose(kernels.layer_norm(x), layer_norm(x), rtol=tolerance, atol=tolerance)
    assert np.allclose(
        kernels.sum(x, axis=-1),
        x.astype(np.float64).sum(axis=-1),
        atol=0.1 if dtype is np.float16 else 1e-10,
    )


def test_views_and_outputs_of_any_layout():
    x = numbers(40, 30, 6).transpose(2, 1, 0)[::2, ::-1]
    out = np.zeros((30, 3, 40), np.float32).transpose(1, 0, 2)
    assert kernels.softmax(x, out=out) is out
    assert np.allclose(out, softmax(x), atol=1e-6)
    assert np.allclose(kernels.cumsum(x), x.astype(np.float64).cumsum(axis=-1), atol=1e-4)
    same = x.copy()
    assert kernels.rms_norm(same, out=same) is same
    assert np.allclose(same, rms_norm(x), atol=1e-5)


def test_broadcast_and_read_only_inputs():
    x = np.broadcast_to(np.float32(2), (3, 5))
    assert kernels.sum(x, axis=-1).tolist() == [10, 10, 10]


def test_arrays_of_weft_give_arrays_of_weft():
    x = weft.ffi.from_dlpack(numbers(2, 9))
    found = kernels.softmax(x)
    assert type(found) is weft.ffi.Tensor and np.allclose(np.asarray(found), softmax(numbers(2, 9)))


@pytest.mark.torch
def test_tensors_of_torch_give_tensors_of_torch():
    import torch

    x = torch.randn(3, 100, dtype=torch.bfloat16)
    found = kernels.softmax(x)
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), torch.softmax(x.float(), -1), atol=1e-2)
    assert kernels.sum(x.int()).dtype == torch.int64


def test_bad_input_is_refused_by_name():
    x = numbers(3, 4)
    for error, text, call in (
        (TypeError, "x is 3, expected an array", lambda: kernels.softmax(3)),
        (
            TypeError,
            "expected 16, 32 or 64-bit floats",
            lambda: kernels.softmax(x.astype(np.int32)),
        ),
        (ValueError, "x has no dimension", lambda: kernels.sum(np.zeros((), np.float32))),
        (
            ValueError,
            r"weight has shape \(3,\), expected \(4,\)",
            lambda: kernels.rms_norm(x, x[:, 0]),
        ),
        (
            ValueError,
            "axis is 2, expected None or an integer from -2 to 1",
            lambda: kernels.sum(x, axis=2),
        ),
        (ValueError, "initial is None", lambda: kernels.scan(x, max, exclusive=True)),
        (TypeError, "function is 3, expected a function", lambda: kernels.reduce(x, 3, 0)),
        (ValueError, "without elements has no max", lambda: kernels.max(x[:, :0], axis=-1)),
        (
            ValueError,
            r"out has shape \(4, 3\)",
            lambda: kernels.softmax(x, out=np.zeros((4, 3), np.float32)),
        ),
        (
            TypeError,
            "out has elements of float64",
            lambda: kernels.softmax(x, out=np.zeros((3, 4))),
        ),
        (TypeError, "out is 'a'", lambda: kernels.cumsum(x, out="a")),
    ):
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(AttributeError, match=r"weft\.kernels has no 'gemv'; it has argmax"):
        getattr(kernels, "gemv")  # noqa: B009
