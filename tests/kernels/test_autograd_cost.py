# SPDX-License-Identifier: Apache-2.0
"""Tensors that autograd keeps and copies for calls of `weft.kernels`."""

from __future__ import annotations

import itertools

import pytest

import weft.kernels.nn.embedding as embedding_module
from tests.sampling import sampled
from weft import kernels

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = pytest.mark.torch


def copies(run) -> int:
    """Copies and additions that torch makes in a call."""
    with torch.profiler.profile() as profile:
        run()
    return sum(event.key in ("aten::copy_", "aten::clone") for event in profile.events())


@pytest.mark.parametrize("function", ["gemm", "matmul"])
def test_a_weights_gradient_has_its_layout_without_a_copy(function):
    x, weight = torch.randn(6, 4), torch.nn.Parameter(torch.randn(3, 4))
    result = getattr(kernels, function)(x, weight.T)
    seen = []
    weight.register_hook(lambda gradient: seen.append(gradient.data_ptr()))
    assert copies(lambda: result.backward(torch.ones(6, 3))) == 0
    assert weight.grad.stride() == weight.stride()
    assert weight.grad.data_ptr() == seen[0]
    torch.testing.assert_close(weight.grad, torch.ones(3, 6) @ x)


def test_gradients_keep_layouts_of_transposed_operands_and_stacks():
    a, b = torch.randn(4, 6, requires_grad=True), torch.randn(2, 3, 4, requires_grad=True)
    kernels.matmul(a.T, b.mT).backward(torch.ones(2, 6, 3))
    assert (a.grad.stride(), b.grad.stride()) == (a.stride(), b.stride())
    torch.testing.assert_close(a.grad, (b.mT @ torch.ones(2, 3, 6)).sum(0))


def test_experts_weights_have_gradients_in_their_layout():
    x, weight = torch.randn(5, 4), torch.nn.Parameter(torch.randn(2, 3, 4))
    offsets = torch.tensor([0, 2, 5], dtype=torch.int32)
    result = kernels.grouped_gemm(x, weight.mT, offsets)
    assert copies(lambda: result.backward(torch.ones(5, 3))) == 0
    assert weight.grad.stride() == weight.stride()
    torch.testing.assert_close(weight.grad[1], torch.ones(3, 3) @ x[2:])


def test_a_residuals_gradient_is_the_results_where_beta_is_one():
    x, residual = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    gradient = torch.ones(4, 4)
    result = kernels.gemm(x, x, residual=residual)
    assert torch.autograd.grad(result, residual, gradient)[0].data_ptr() == gradient.data_ptr()
    result = kernels.gemm(x, x, residual=residual, beta=2.0)
    assert torch.equal(torch.autograd.grad(result, residual, gradient)[0], 2 * gradient)


@pytest.mark.parametrize("shape", [(8,), (2, 3, 8)])
def test_halves_of_rows_have_one_packed_gradient(shape):
    packed = torch.randn(shape, requires_grad=True)
    gate, up = packed.detach().chunk(2, -1)
    result = kernels.silu_mul(packed)
    assert torch.equal(result, kernels.silu_mul(gate, up))
    gradient = torch.randn_like(result)
    assert copies(lambda: result.backward(gradient)) == 0
    expected = torch.cat(kernels.silu_mul_backward(gradient, gate, up), -1)
    assert torch.equal(packed.grad, expected)
    assert torch.autograd.gradgradcheck(kernels.silu_mul, packed.detach().double().requires_grad_())


def test_rows_of_an_odd_length_have_no_halves():
    with pytest.raises(
        ValueError, match=r"gate has shape \(2, 3\), expected rows of an even length"
    ):
        kernels.silu_mul(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"out"):
        kernels.silu_mul(torch.ones(2, 4), out=torch.ones(2, 4))


# Of one run within a chunk, of runs over several chunks, of keys that one block sorts and of more.
SORTED = ((50, 7, 6), (0, 7, 6), (300, 1, 5), (700, 3, 16), (3000, 5, 8), (3000, 700, 3))


@pytest.mark.parametrize(
    ("size", "dtype"),
    sampled(
        itertools.product(SORTED, (torch.bfloat16, torch.float32, torch.float64)), 9, several=True
    ),
    ids=str,
)
def test_an_embeddings_gradient_adds_sorted_uses(size, dtype):
    torch.manual_seed(0)
    uses, rows, columns = size
    indices = torch.randint(0, rows, (2, uses // 2))
    gradient = torch.randn(2, uses // 2, columns).to(dtype)
    expected = torch.zeros(rows + 300, columns, dtype=torch.float64)
    expected.index_add_(0, indices.flatten(), gradient.double().flatten(0, 1))
    for given in (gradient, gradient.mT.contiguous().mT):
        # Of 16 bits it is the default.
        found = kernels.embedding_backward(
            given, indices, rows + 300, deterministic=dtype is not torch.bfloat16
        )
        # Rounded once: to half of the last place of bf16.
        tolerance = {torch.bfloat16: 2**-8, torch.float32: 1e-5}.get(dtype, 1e-12)
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance / 2)
    if uses:
        with pytest.raises(AssertionError, match="an index of embedding_backward is out of range"):
            kernels.embedding_backward(gradient, indices - 1, rows, deterministic=True)


def test_torchs_deterministic_algorithms_are_asked_for(monkeypatch):
    asked = []
    own = embedding_module.embedding_backward
    monkeypatch.setattr(
        embedding_module, "embedding_backward", lambda *a: asked.append(a[3]) or own(*a)
    )
    table = torch.randn(4, 3, requires_grad=True)
    for is_fixed in (False, True):
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda f=is_fixed: f)
        kernels.embedding(table, torch.tensor([1, 1])).sum().backward()
    assert asked == [False, True]


def saved_by(call, *, as_operator: bool) -> set[int]:
    """The addresses of the tensors that torch keeps for the derivative of a call."""
    found = set()

    def pack(tensor):
        found.add(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
        with torch.autograd.profiler.profile(enabled=as_operator):
            result = call()
    assert result.requires_grad
    return found - {result.data_ptr()}


ANGLES = torch.ones(4, 2)
INDEX = torch.tensor([0, 2])


@pytest.mark.parametrize("as_operator", [False, True])
def test_torch_keeps_what_the_derivative_reads(as_operator):
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    cases = {
        "residual": (lambda: kernels.gemm(w, w, residual=x), set()),
        "the other operand": (lambda: kernels.gemm(w, x), {w}),
        "softmax": (lambda: kernels.softmax(x), set()),
        "gelu": (lambda: kernels.gelu(x), {x}),
        "embedding": (lambda: kernels.embedding(x, INDEX), {INDEX}),
        "dropout": (lambda: kernels.dropout(x, 0.5, 1), set()),
        "activation": (lambda: kernels.gemm(w, x, activation="silu"), {w, x}),
    }
    for name, (call, expected) in cases.items():
        found = saved_by(call, as_operator=as_operator)
        assert found == {one.data_ptr() for one in expected}, name


def test_rope_keeps_x_for_the_derivative_by_angles_alone():
    saved = []

    def pack(tensor):
        saved.append(tuple(tensor.shape))
        return tensor

    x = torch.randn(4, 1, 4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
        kernels.rope(x, ANGLES, ANGLES)
        assert saved == [(4, 2), (4, 2)]
        kernels.rope(x, ANGLES.clone().requires_grad_(), ANGLES)
    assert saved[2:] == [(4, 1, 4), (4, 2), (4, 2)]


@pytest.mark.slow
def test_checkpointing_and_counters_agree_on_saved_values():
    from torch.utils.flop_counter import FlopCounterMode

    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)

    def layer(x):
        return kernels.softmax(kernels.rms_norm(x, weight))

    result = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    with FlopCounterMode(display=False):
        result.sum().backward()
    expected = torch.autograd.grad(layer(x).sum(), (x, weight))
    torch.testing.assert_close((x.grad, weight.grad), expected)


def test_keywords_and_defaults_reach_a_differentiated_call():
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(8)
    expected = torch.nn.functional.rms_norm(x, (8,), weight, 0.5)
    torch.testing.assert_close(kernels.rms_norm(x, eps=0.5, weight=weight), expected)
    with pytest.raises(TypeError, match="wight"):
        kernels.rms_norm(x, wight=weight)
    with pytest.raises(TypeError, match="weight"):
        kernels.rms_norm(x, weight, weight=weight)
    with pytest.raises(TypeError, match="out"):
        kernels.rms_norm(x, out=torch.empty(4, 8))


def test_a_number_that_requires_a_gradient_is_refused():
    x, eps = torch.randn(4, 8, requires_grad=True), torch.tensor(0.1, requires_grad=True)
    with pytest.raises(TypeError, match="eps requires a gradient"):
        kernels.rms_norm(x, None, eps)


def test_a_missing_gradient_of_another_function_is_none():
    class Cut(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return None

    x = torch.randn(4, 8, requires_grad=True)
    (Cut.apply(kernels.softmax(x)).sum() + x.sum()).backward()
    assert torch.equal(x.grad, torch.ones(4, 8))


@pytest.mark.parametrize("name", sampled(["gemm", "attention", "layer_norm"], 3))
def test_second_derivatives_of_recorded_calls(name):
    torch.manual_seed(0)
    if name == "attention":
        inputs = [torch.randn(1, 3, 2, 4, dtype=torch.float64) for _ in range(3)]
    elif name == "gemm":
        inputs = [torch.randn(3, 4, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)]
    else:
        inputs = [torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)]
    inputs = [one.requires_grad_() for one in inputs]
    assert torch.autograd.gradgradcheck(getattr(kernels, name), inputs)


@pytest.mark.slow
def test_gradients_of_a_bias_and_of_a_shared_matrix_come_in_batches():
    torch.manual_seed(0)
    inputs = [torch.randn(shape, requires_grad=True) for shape in [(3, 4), (2, 4, 5), (5,)]]
    result = kernels.gemm(*inputs[:2], bias=inputs[2])
    gradients = torch.randn(2, *result.shape)
    found = torch.autograd.grad(result, inputs, gradients, retain_graph=True, is_grads_batched=True)
    for number, gradient in enumerate(gradients):
        expected = torch.autograd.grad(result, inputs, gradient, retain_graph=True)
        torch.testing.assert_close([one[number] for one in found], list(expected))
