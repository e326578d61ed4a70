# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels.grouped_gemm` against NumPy in f64: each kernel, on the CPU; empty groups; rows of none; bad input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft
from weft import kernels
from weft.kernels.linalg import gemm_config_sm90 as hopper_plans
from weft.kernels.linalg import gemm_simt as tiled_products
from weft.kernels.linalg import gemm_sm80 as warp_products
from weft.kernels.linalg import gemm_sm90 as hopper_products
from weft.kernels.linalg.epilogue import Ending

RANDOM = np.random.default_rng(9)
STARTS = np.array([2, 2, 5, 5, 140, 300, 301], np.int32)
ROWS, K, N = 310, 72, 136


def numbers(*shape: int, dtype: object = np.float16) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def aligned(a: np.ndarray) -> weft.ffi.Tensor:
    return weft.copy(weft.empty(a.shape, weft.f16), np.ascontiguousarray(a))


def groups() -> list[slice]:
    return [slice(*bounds) for bounds in itertools.pairwise(STARTS)]


def test_each_group_has_its_matrix():
    a, weight, bias = numbers(ROWS, K), numbers(6, N, K), numbers(6, N, dtype=np.float64)
    expected = np.zeros((ROWS, N))
    for group, rows in enumerate(groups()):
        expected[rows] = a[rows].astype(np.float64) @ weight[group].T + bias[group]
    right = weight.swapaxes(1, 2)
    found = kernels.grouped_gemm(a, right, STARTS, bias, dtype="float32")
    assert np.allclose(found, expected, atol=1e-4)
    ending, given = Ending(None, bias), (aligned(a), aligned(weight))
    plan = hopper_plans.Plan(True, True, (False, True), False)
    for call, options in (
        (hopper_products.gemm, (plan,)),
        (warp_products.gemm_of_chunks, (True, True)),
    ):
        out = np.ones((ROWS, N), np.float32)
        call(*given, out, ending, *options, None, STARTS)
        assert np.allclose(out, expected, atol=1e-4)


def test_sums_of_a_group_see_no_other_group():
    a, b = numbers(ROWS, K), numbers(ROWS, N)
    pairs = [(a[rows].astype(np.float64), b[rows].astype(np.float64)) for rows in groups()]
    expected = np.stack([left.T @ right for left, right in pairs])
    a[301:], b[301:] = np.nan, np.inf
    given, plan = (aligned(a), aligned(b)), hopper_plans.Plan(False, False, by_copies=False)
    sizes = tiled_products.OF_CPU, (True, False)
    for call, factors, options in (
        (hopper_products.gemm, given, (plan,)),
        (warp_products.gemm_of_chunks, given, (False, False)),
        (tiled_products.gemm, (a.T, b), sizes),
    ):
        out = np.ones((6, K, N), np.float32)
        call(*factors, out, Ending(), *options, None, STARTS)
        assert np.allclose(out, expected, atol=1e-4)
        call(*factors, out[:0], Ending(), *options, None, STARTS[1:2])  # no group
        assert np.allclose(out, expected, atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 3, 4), (5, 0, 4), (5, 3, 0)])
def test_empty_arrays(shape):
    rows, k, n = shape
    starts = np.array([0, rows, rows], np.int32)
    found = kernels.grouped_gemm(np.ones((rows, k)), np.ones((2, k, n)), starts)
    assert found.shape == (rows, n) and (found == 0).all()


def test_no_group():
    found = kernels.grouped_gemm(np.ones((3, 2)), np.ones((0, 2, 4)), np.zeros(1, np.int32))
    assert (found == np.zeros((3, 4))).all()


@pytest.mark.slow
@pytest.mark.torch
def test_it_is_differentiated():
    import torch

    torch.manual_seed(2)
    starts = torch.tensor([0, 3, 3, 9], dtype=torch.int32)
    shapes = (10, 4), (3, 5, 4), (3, 5)
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]

    def function(a: Any, weight: Any, bias: Any, starts: Any = starts) -> Any:
        return kernels.grouped_gemm(a, weight.mT, starts, bias, "silu", 0.5)

    assert torch.autograd.gradcheck(function, inputs)
    of_none = inputs[0], *(torch.zeros(0, *s[1:]).double().requires_grad_() for s in shapes[1:])
    slopes = torch.autograd.grad(function(*of_none, starts[:1]).sum(), of_none)
    assert [one.shape for one in slopes] == [one.shape for one in of_none]
    assert not slopes[0].any()


@pytest.mark.slow
@pytest.mark.torch
def test_a_wide_bias_has_a_wide_derivative_of_narrow_rows():
    import torch

    a, b = torch.ones(200, 4).half(), torch.ones(1, 4, 3).half()
    starts, bias = torch.tensor([0, 200], dtype=torch.int32), torch.zeros(1, 3, requires_grad=True)
    for activation, dtype, slope in ((None, None, 1e3), ("relu", "float32", 1e5)):
        found = kernels.grouped_gemm(a, b, starts, bias, activation, dtype=dtype)
        (by_bias,) = torch.autograd.grad(found, bias, torch.full_like(found, slope))
        assert (by_bias == 200 * slope).all()


def test_bad_input_is_refused_by_name():
    a, b, starts = np.ones((4, 3)), np.ones((2, 3, 5)), np.array([0, 1, 4], np.int32)
    memory, stack = np.ones((9, 8)), np.ones((2, 3, 5))

    def call(a: Any = a, b: Any = b, starts: Any = starts, **others: Any) -> Any:
        return lambda: kernels.grouped_gemm(a, b, starts, **others)

    for error, text, refused in (
        (ValueError, r"a has shape \(1, 4, 3\), expected a matrix", call(a[None])),
        (ValueError, r"b has shape \(3, 5\), expected a stack", call(b=b[0])),
        (ValueError, "b has shape .*, expected 4 rows", call(a=np.ones((4, 4)))),
        (TypeError, "b has elements of float32", call(b=b.astype("f"))),
        (TypeError, "starts has elements of int64, expected int32", call(starts=np.arange(3))),
        (ValueError, r"starts has shape \(2,\), expected \(3,\)", call(starts=starts[:2])),
        (ValueError, r"bias has shape \(5,\), expected \(2, 5\)", call(bias=np.ones(5))),
        (TypeError, "alpha is 'a', expected a number", call(alpha="a")),
        (ValueError, "out has shape", call(out=np.ones((4, 4)))),
        (ValueError, "out overlaps with a,", call(memory[:4, 3:6], out=memory[:4, :5])),
        (ValueError, "out overlaps with b,", call(b=stack, out=stack.reshape(6, 5)[2:])),
        (ValueError, "out overlaps with bias,", call(bias=memory[:2, :5], out=memory[1:5, :5])),
        (AssertionError, "starts is not a row of bounds", call(starts=starts[::-1].copy())),
        (AssertionError, "starts is not a row of bounds", call(starts=starts * 2)),
    ):
        with pytest.raises(error, match=text):
            refused()
