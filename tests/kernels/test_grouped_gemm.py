# SPDX-License-Identifier: Apache-2.0
"""`weft.kernels.grouped_gemm` against NumPy in f64: each kernel, on the CPU; rows outside of groups; bad input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft
from tests.kernels.counting import like_ampere, like_hopper
from weft import kernels
from weft.kernels.linalg import gemm

RANDOM = np.random.default_rng(9)
OFFSETS = np.array([2, 2, 5, 5, 140, 300, 301], np.int32)
ROWS, K, N = 310, 72, 136


def numbers(*shape: int, dtype: object = np.float16) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def aligned(a: np.ndarray) -> np.ndarray:
    return np.asarray(weft.copy(weft.empty(a.shape, weft.f16), np.ascontiguousarray(a)))


def groups() -> list[slice]:
    return [slice(*bounds) for bounds in itertools.pairwise(OFFSETS)]


DEVICES = pytest.mark.parametrize(
    "like", [None, like_ampere, like_hopper], ids=["cpu", "sm80", "sm90"]
)


@DEVICES
def test_each_group_has_its_own_matrix(like, monkeypatch):
    a, weight, bias = numbers(ROWS, K), numbers(6, N, K), numbers(6, N, dtype=np.float64)
    expected = np.zeros((ROWS, N))
    for group, rows in enumerate(groups()):
        expected[rows] = a[rows].astype(np.float64) @ weight[group].T + bias[group]
    if like is not None:
        like(monkeypatch)
    left, right, out = aligned(a), aligned(weight).swapaxes(1, 2), np.ones((ROWS, N), np.float32)
    kernels.grouped_gemm(left, right, OFFSETS, bias, dtype="float32", out=out)
    assert np.allclose(out, expected, atol=1e-4)


@DEVICES
def test_groups_along_k_are_independent(like, monkeypatch):
    a, b = numbers(ROWS, K), numbers(ROWS, N)
    pairs = [(a[rows].astype(np.float64), b[rows].astype(np.float64)) for rows in groups()]
    expected = np.stack([left.T @ right for left, right in pairs])
    a[301:], b[301:] = np.nan, np.inf
    if like is not None:
        like(monkeypatch)
    left, right = aligned(a), aligned(b)
    found = gemm._gemm_grouped_k(left, right, OFFSETS, dtype="float32")  # the weight's gradient
    assert np.allclose(found, expected, atol=1e-4)
    none = gemm._gemm_grouped_k(left, right, OFFSETS[1:2], dtype="float32")
    assert none.shape == (0, K, N)


@pytest.mark.parametrize("shape", [(0, 3, 4), (5, 0, 4), (5, 3, 0)])
def test_empty_arrays(shape):
    rows, k, n = shape
    offsets = np.array([0, rows, rows], np.int32)
    found = kernels.grouped_gemm(np.ones((rows, k)), np.ones((2, k, n)), offsets)
    assert found.shape == (rows, n) and (found == 0).all()


def test_without_groups():
    found = kernels.grouped_gemm(np.ones((3, 2)), np.ones((0, 2, 4)), np.zeros(1, np.int32))
    assert (found == np.zeros((3, 4))).all()


@pytest.mark.slow
@pytest.mark.torch
def test_gradients():
    import torch

    torch.manual_seed(2)
    offsets = torch.tensor([0, 3, 3, 9], dtype=torch.int32)
    shapes = (10, 4), (3, 5, 4), (3, 5)
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]

    def function(a: Any, weight: Any, bias: Any, offsets: Any = offsets) -> Any:
        return kernels.grouped_gemm(a, weight.mT, offsets, bias, "silu", 0.5)

    assert torch.autograd.gradcheck(function, inputs)
    of_none = inputs[0], *(torch.zeros(0, *s[1:]).double().requires_grad_() for s in shapes[1:])
    grads = torch.autograd.grad(function(*of_none, offsets[:1]).sum(), of_none)
    assert [one.shape for one in grads] == [one.shape for one in of_none]
    assert not grads[0].any()


@pytest.mark.slow
@pytest.mark.torch
def test_gradient_of_a_wide_bias_is_wide():
    import torch

    a, b = torch.ones(200, 4).half(), torch.ones(1, 4, 3).half()
    offsets, bias = torch.tensor([0, 200], dtype=torch.int32), torch.zeros(1, 3, requires_grad=True)
    for activation, dtype, grad in ((None, None, 1e3), ("relu", "float32", 1e5)):
        found = kernels.grouped_gemm(a, b, offsets, bias, activation, dtype=dtype)
        (grad_bias,) = torch.autograd.grad(found, bias, torch.full_like(found, grad))
        assert (grad_bias == 200 * grad).all()


def test_bad_input_is_refused_by_name():
    a, b, offsets = np.ones((4, 3)), np.ones((2, 3, 5)), np.array([0, 1, 4], np.int32)
    memory, stack = np.ones((9, 8)), np.ones((2, 3, 5))

    def call(a: Any = a, b: Any = b, offsets: Any = offsets, **others: Any) -> Any:
        return lambda: kernels.grouped_gemm(a, b, offsets, **others)

    for error, text, refused in (
        (ValueError, r"a has shape \(1, 4, 3\), expected a matrix", call(a[None])),
        (ValueError, r"b has shape \(3, 5\), expected a stack", call(b=b[0])),
        (ValueError, "b has shape .*, expected 4 rows", call(a=np.ones((4, 4)))),
        (TypeError, "b has elements of float32", call(b=b.astype("f"))),
        (TypeError, "offsets has elements of int64, expected int32", call(offsets=np.arange(3))),
        (ValueError, r"offsets has shape \(2,\), expected \(3,\)", call(offsets=offsets[:2])),
        (ValueError, r"bias has shape \(5,\), expected \(2, 5\)", call(bias=np.ones(5))),
        (TypeError, "alpha is 'a', expected a number", call(alpha="a")),
        (ValueError, "out has shape", call(out=np.ones((4, 4)))),
        (ValueError, "out overlaps with a,", call(memory[:4, 3:6], out=memory[:4, :5])),
        (ValueError, "out overlaps with b,", call(b=stack, out=stack.reshape(6, 5)[2:])),
        (ValueError, "out overlaps with bias,", call(bias=memory[:2, :5], out=memory[1:5, :5])),
        (
            AssertionError,
            "offsets decrease, or are out of range",
            call(offsets=offsets[::-1].copy()),
        ),
        (AssertionError, "offsets decrease, or are out of range", call(offsets=offsets * 2)),
    ):
        with pytest.raises(error, match=text):
            refused()
