# SPDX-License-Identifier: Apache-2.0
"""torch differentiates and compiles the functions of `weft.kernels` that have a derivative."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.sampling import sampled
from weft import kernels
from weft.kernels.linalg import gemm as gemm_module

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def cases(torch: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    def numbers(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    starts = [torch.tensor(ends, dtype=torch.int32) for ends in ([0, 2, 2, 5], [0, 1, 3, 5])]
    angles, classes = torch.rand(3, 2, dtype=torch.float64), torch.tensor([3, -100, 0])
    return {
        "gelu": (lambda x: kernels.gelu(x, "tanh"), (numbers(2, 3),)),
        "silu_mul": (kernels.silu_mul, (numbers(2, 3), numbers(2, 3))),
        "rope": (lambda x: kernels.rope(x, angles.cos(), angles.sin()), (numbers(3, 2, 5),)),
        "dropout": (lambda x: kernels.dropout(x, 0.5, 3), (numbers(2, 5),)),
        "embedding": (lambda t: kernels.embedding(t, classes.clamp(0)), (numbers(5, 2),)),
        "fft": (lambda x: kernels.fft(kernels.fft(x) * x, True), (numbers(2, 6, 2),)),
        "rfft": (lambda x: torch.view_as_real(kernels.rfft(x)), (numbers(2, 6),)),
        "irfft": (lambda x: kernels.irfft(x, 5), (numbers(2, 3, 2),)),
        "softmax": (kernels.softmax, (numbers(2, 5),)),
        "log_softmax": (kernels.log_softmax, (numbers(2, 5),)),
        "cross_entropy": (lambda x: kernels.cross_entropy(x, classes), (numbers(3, 4),)),
        "layer_norm": (kernels.layer_norm, (numbers(2, 3, 5), numbers(5), numbers(5))),
        "rms_norm": (kernels.rms_norm, (numbers(3, 5), numbers(5))),
        "attention": (
            lambda q, k, v: kernels.attention(q, k, v, True, 0.3, *starts),
            (numbers(5, 2, 2), numbers(5, 1, 2), numbers(5, 1, 2)),
        ),
        "matmul": (kernels.matmul, (numbers(2, 3, 4), numbers(4, 2))),
        "gemm": (
            lambda a, b, bias, residual: kernels.gemm(a, b.mT, bias, "silu", residual, 0.5, 2.0),
            (numbers(3, 4), numbers(2, 4), numbers(2), numbers(3, 2)),
        ),
        "gemm of stacks": (
            lambda a, b: kernels.gemm(a, b, alpha=0.5, activation="gelu_tanh"),
            (numbers(4, 3), numbers(2, 3, 2)),
        ),
    }


NAMES = (
    *("gelu", "silu_mul", "rope", "dropout", "embedding", "fft", "rfft", "irfft"),
    *("softmax", "log_softmax"),
    *("cross_entropy", "layer_norm", "rms_norm", "attention"),
    *("matmul", "gemm", "gemm of stacks"),
)


@pytest.mark.parametrize("name", sampled(NAMES, 2))
def test_derivatives_are_those_of_differences(name):
    import torch

    torch.manual_seed(1)
    function, inputs = cases(torch)[name]
    assert torch.autograd.gradcheck(function, inputs)


PROGRAM = """
import numpy as np
import weft

weft.kernels.softmax(np.ones(3))  # before torch is there
import torch


def program(x, weight, up):
    hidden = weft.kernels.silu_mul(weft.kernels.matmul(x, weight), up)
    hidden = weft.kernels.gemm(x, weight, activation="relu", dtype=torch.float64) + hidden
    return weft.kernels.softmax(weft.kernels.rms_norm(hidden, up[0])).sum(0)


shapes = (3, 4), (4, 5), (3, 5)
inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
compiled = torch.compile(program, backend="aot_eager", fullgraph=True)
scale = torch.arange(5, dtype=torch.float64)
found = torch.autograd.grad((compiled(*inputs) * scale).sum(), inputs)
expected = torch.autograd.grad((program(*inputs) * scale).sum(), inputs)
assert all(map(torch.allclose, found, expected))
"""


def test_a_compiled_program_is_one_graph_with_its_derivative(tmp_path):
    """In a process of its own, where the tracer is the first to need the operators."""
    (path := tmp_path / "program.py").write_text(PROGRAM)
    subprocess.run([sys.executable, str(path)], check=True)


def test_a_result_in_out_has_no_derivative():
    import torch

    x = torch.randn(3, requires_grad=True)
    with pytest.raises(TypeError, match="gelu: a result written to out= has no derivative"):
        kernels.gelu(x, out=torch.empty(3))
    with torch.no_grad():
        assert not kernels.gelu(x, out=torch.empty(3)).requires_grad


@pytest.mark.parametrize("name", ["relu", "gelu"])
def test_a_layer_is_differentiated_as_in_torch(name):
    import torch

    functional, kinds = torch.nn.functional, (torch.float32, torch.float32, torch.bfloat16)
    x, weight, bias = (
        torch.randn(shape, dtype=kind, requires_grad=True)
        for shape, kind in zip(((2, 5, 16), (8, 16), (8,)), kinds, strict=True)
    )
    found = kernels.gemm(x, weight.mT, bias, name, dtype=torch.bfloat16)
    assert found.dtype is torch.bfloat16
    sums = functional.linear(x, weight, bias.float())
    expected = getattr(functional, name)(sums)
    gradient = torch.randn(2, 5, 8, dtype=torch.bfloat16)
    grads = torch.autograd.grad(found, (x, weight, bias), gradient)
    others = torch.autograd.grad(expected, (x, weight, bias), gradient.float())
    for one, other in zip(grads, others, strict=True):
        assert one.dtype is other.dtype and torch.allclose(one, other, 1e-2, 1e-3)


def test_wide_bias_and_residual_have_wide_gradients():
    import torch

    a, b = torch.ones(3, 4).half(), torch.ones(4, 2).half()
    bias, residual = torch.zeros(2, requires_grad=True), torch.zeros(3, 2, requires_grad=True)
    for dtype, grad in ((None, 1e4), ("float32", 1e5)):
        found = kernels.gemm(a, b, bias, "relu", residual, beta=16.0, dtype=dtype)
        by_bias, by_residual = torch.autograd.grad(
            found, (bias, residual), torch.full_like(found, grad)
        )
        assert (by_bias == 3 * grad).all() and (by_residual == 16 * grad).all()


def test_what_needs_no_derivative_is_not_multiplied(monkeypatch):
    import torch

    weight, x = torch.randn(4, 3, requires_grad=True), torch.randn(2, 4)
    found, calls = kernels.gemm(x, weight), []
    monkeypatch.setattr(gemm_module, "gemm", lambda *a, **_: calls.append(a) or torch.zeros(4, 3))
    found.sum().backward()
    assert len(calls) == 1 and calls[0][0].shape == (4, 2)


def test_a_users_activation_has_no_derivative():
    import torch

    x = torch.randn(3, 3, requires_grad=True)
    with pytest.raises(TypeError, match="activation is a function without a derivative"):
        kernels.gemm(x, x, activation=lambda x: x * x)
    with pytest.raises(TypeError, match="alpha is 'a', expected a number"):
        kernels.gemm(x, x, alpha="a")
    with torch.no_grad():
        assert kernels.gemm(x, x, activation=lambda x: x * x).shape == (3, 3)
