# SPDX-License-Identifier: Apache-2.0
"""No function of `weft.kernels` detaches: it has a derivative, which differences confirm twice, or refuses by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sampling import sampled
from weft import kernels

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def bigger(a, b):
    return a if a > b else b


def is_positive(a):
    return a > 0


def numbers(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def spread(*shape: int) -> Any:
    """Numbers whose order differences do not change."""
    count = torch.Size(shape).numel()
    found = torch.randperm(count).double().reshape(shape) / 3
    return found.requires_grad_()


def transposed(x: Any) -> Any:
    """The same numbers in another layout."""
    return x.detach().mT.contiguous().mT.requires_grad_()


def repeated(x: Any) -> Any:
    """A tensor without elements of its own, of which an inner one is expanded."""
    return x[..., :1].expand(x.shape)


def seeded(function: Any) -> Any:
    torch.manual_seed(7)
    return function()


PLACES = ((0, 2), (1, 1), (2, 0), (0, 0))
CASES: dict[str, Any] = {
    "attention": lambda: (
        kernels.attention,
        numbers(1, 3, 2, 2),
        numbers(1, 4, 1, 2),
        numbers(1, 4, 1, 2),
    ),
    "attention, values of another size": lambda: (
        kernels.attention,
        *(numbers(1, 3, 2, 2), numbers(1, 4, 1, 2), numbers(1, 4, 1, 3)),
    ),
    "attention with sinks, a window and softcap": lambda: (
        lambda q, k, v, sinks: kernels.attention(
            q, k, v, window_size=(2, 0), softcap=0.7, sinks=sinks
        ),
        *(numbers(2, 3, 2, 2), numbers(2, 4, 1, 2), numbers(2, 4, 1, 3), numbers(2)),
    ),
    "attention_backward of the same": lambda: (
        lambda g, q, k, v: kernels.attention_backward(
            g, q, k, v, window_size=(1, 1), softcap=0.7, alignment="top-left"
        ),
        *(numbers(1, 3, 2, 3), numbers(1, 3, 2, 2), numbers(1, 4, 1, 2), numbers(1, 4, 1, 3)),
    ),
    "attention, causal": lambda: (
        lambda q, k, v: kernels.attention(q, k, v, True, 0.3),
        *(numbers(2, 3, 2, 2), numbers(2, 2, 2, 2), numbers(2, 2, 2, 2)),
    ),
    "attention of sequences": lambda: (
        lambda q, k, v: kernels.attention(
            q, k, v, True, None, torch.tensor([1, 3, 3, 5]).int(), torch.tensor([0, 1, 3, 4]).int()
        ),
        *(numbers(6, 2, 2), numbers(5, 1, 2), numbers(5, 1, 2)),
    ),
    "attention_backward": lambda: (
        lambda *a: kernels.attention_backward(*a, True),
        *(numbers(1, 3, 2, 2), numbers(1, 3, 2, 2), numbers(1, 3, 1, 2), numbers(1, 3, 1, 2)),
    ),
    "copy": lambda: (kernels.copy, transposed(numbers(3, 2))),
    "copy, of no elements": lambda: (kernels.copy, numbers(0, 2)),
    "cross_entropy": lambda: (
        lambda x: kernels.cross_entropy(x, torch.tensor([3, -100, 0])),
        numbers(3, 4),
    ),
    "cross_entropy_backward": lambda: (
        lambda g, x: kernels.cross_entropy_backward(g, x, torch.tensor([[3, -100, 0]])),
        *(numbers(1, 3), numbers(1, 3, 4)),
    ),
    "cumsum": lambda: (kernels.cumsum, numbers(2, 5)),
    "cumsum of a view": lambda: (lambda x: kernels.cumsum(repeated(x.mT)), numbers(4, 3)),
    "cumsum of no columns": lambda: (kernels.cumsum, numbers(2, 0)),
    "dropout": lambda: (lambda x: kernels.dropout(x, 0.5, 3), numbers(2, 5)),
    "embedding": lambda: (
        lambda t: kernels.embedding(t, torch.tensor([[1, 1], [0, 4]])),
        numbers(5, 2),
    ),
    "embedding_backward": lambda: (
        lambda g: kernels.embedding_backward(g, torch.tensor([1, 1, 0]), 5),
        numbers(3, 2),
    ),
    "fft": lambda: (lambda x: kernels.fft(x, True), numbers(2, 6, 2)),
    "fft of complex numbers": lambda: (
        kernels.fft,
        torch.randn(2, 5, dtype=torch.complex128, requires_grad=True),
    ),
    "rfft": lambda: (kernels.rfft, numbers(2, 6)),
    "rfft of conjugates": lambda: (lambda x: kernels.rfft(x).conj().imag, numbers(2, 7)),
    "irfft": lambda: (lambda x: kernels.irfft(x, 5), numbers(2, 3, 2)),
    "irfft of conjugates": lambda: (
        lambda x: kernels.irfft(torch.view_as_complex(x).conj()),
        numbers(2, 4, 2),
    ),
    "gather": lambda: (lambda x: kernels.gather(x, torch.tensor(PLACES)), numbers(4, 3)),
    "gather, along columns": lambda: (
        lambda x: kernels.gather(x, torch.tensor(PLACES).int(), 0),
        transposed(numbers(4, 2)),
    ),
    "gather of nothing": lambda: (
        lambda x: kernels.gather(x, torch.zeros(4, 0, dtype=torch.long)),
        numbers(4, 3),
    ),
    "gelu": lambda: (kernels.gelu, numbers(2, 3)),
    "gelu, tanh": lambda: (lambda x: kernels.gelu(x, "tanh"), transposed(numbers(2, 3))),
    "gelu of a row repeated": lambda: (lambda x: kernels.gelu(x.expand(3, 2)), numbers(1, 2)),
    "gelu_backward": lambda: (
        lambda g, x: kernels.gelu_backward(g, x, "tanh"),
        numbers(4),
        numbers(4),
    ),
    "gemm": lambda: (
        lambda a, b, bias, residual: kernels.gemm(a, b.mT, bias, "silu", residual, 0.5, 2.0),
        *(numbers(3, 4), numbers(2, 4), numbers(2), numbers(3, 2)),
    ),
    "gemm of stacks": lambda: (
        lambda a, b: kernels.gemm(a, b, alpha=0.5, activation="gelu_tanh"),
        *(numbers(4, 3), numbers(2, 3, 2)),
    ),
    "gemm, factors": lambda: (
        lambda a, b, residual, alpha, beta: kernels.gemm(
            a, b, None, "gelu", residual, alpha.sum(), beta
        ),
        *(numbers(3, 4), numbers(4, 2), numbers(3, 2), numbers(1), numbers()),
    ),
    "gemm, a factor of 0": lambda: (
        lambda a, b, alpha: kernels.gemm(a, b, alpha=alpha),
        *(numbers(3, 4), numbers(4, 2), torch.zeros_like(numbers()).requires_grad_()),
    ),
    "grouped_gemm": lambda: (
        lambda a, b, bias: kernels.grouped_gemm(
            a, b, torch.tensor([0, 2, 2, 4]).int(), bias, "gelu", 0.5
        ),
        *(numbers(5, 3), numbers(3, 3, 2), numbers(3, 2)),
    ),
    "grouped_gemm, a factor": lambda: (
        lambda a, b, alpha: kernels.grouped_gemm(a, b, torch.tensor([0, 2, 4]).int(), alpha=alpha),
        *(numbers(4, 3), numbers(2, 3, 2), numbers()),
    ),
    "layer_norm": lambda: (kernels.layer_norm, numbers(2, 3, 5), numbers(5), numbers(5)),
    "layer_norm of x alone": lambda: (kernels.layer_norm, transposed(numbers(3, 4))),
    "layer_norm_backward": lambda: (
        kernels.layer_norm_backward,
        numbers(3, 5),
        numbers(3, 5),
        numbers(5),
    ),
    "log_softmax": lambda: (kernels.log_softmax, numbers(2, 5)),
    "log_softmax_backward": lambda: (kernels.log_softmax_backward, numbers(2, 5), numbers(2, 5)),
    "matmul": lambda: (kernels.matmul, numbers(2, 3, 4), numbers(4, 2)),
    "matmul of no terms": lambda: (kernels.matmul, numbers(2, 0), numbers(0, 3)),
    "max": lambda: (kernels.max, spread(3, 4)),
    "max, of columns": lambda: (lambda x: kernels.max(x, 0), transposed(spread(3, 4))),
    "mean": lambda: (kernels.mean, numbers(3, 4)),
    "mean, of rows": lambda: (lambda x: kernels.mean(x, -1), numbers(2, 3, 4)),
    "min": lambda: (lambda x: kernels.min(x, 1), spread(2, 3, 4)),
    "rms_norm": lambda: (kernels.rms_norm, numbers(3, 5), numbers(5)),
    "rms_norm_backward": lambda: (
        kernels.rms_norm_backward,
        numbers(3, 5),
        numbers(3, 5),
        numbers(5),
    ),
    "rope": lambda: (kernels.rope, numbers(2, 3, 2, 5), numbers(3, 2), numbers(3, 2)),
    "rope, interleaved": lambda: (
        lambda *a: kernels.rope(*a, "interleaved", True),
        *(numbers(3, 2, 5), numbers(3, 2), numbers(3, 2)),
    ),
    "scatter_add": lambda: (
        lambda x, values: kernels.scatter_add(x, torch.tensor(PLACES), values),
        *(numbers(4, 3), numbers(4, 2)),
    ),
    "scatter_add, along columns": lambda: (
        lambda x, values: kernels.scatter_add(x, torch.tensor(PLACES).mT.int(), values, 1),
        *(transposed(numbers(2, 3)), transposed(numbers(2, 4))),
    ),
    "silu_mul": lambda: (kernels.silu_mul, numbers(2, 3), transposed(numbers(2, 3))),
    "silu_mul_backward": lambda: (kernels.silu_mul_backward, numbers(4), numbers(4), numbers(4)),
    "softmax": lambda: (kernels.softmax, numbers(2, 5)),
    "softmax of a view": lambda: (lambda x: kernels.softmax(x.mT[:, ::2]), numbers(5, 2)),
    "softmax_backward": lambda: (kernels.softmax_backward, numbers(2, 5), numbers(2, 5)),
    "sort": lambda: (kernels.sort, spread(2, 5)),
    "sort, down, with values": lambda: (
        lambda x, y: kernels.sort(x, y, descending=True),
        *(spread(2, 5), numbers(2, 5)),
    ),
    "sort of nothing": lambda: (kernels.sort, spread(2, 0)),
    "sparse_matvec": lambda: (
        lambda values, x: kernels.sparse_matvec(
            torch.tensor([0, 1, 1, 4]), torch.tensor([0, 2, 1, 2]), values, x
        ),
        *(numbers(4), numbers(3)),
    ),
    "sum": lambda: (kernels.sum, numbers(3, 4)),
    "sum of a view, along a dimension": lambda: (
        lambda x: kernels.sum(repeated(x), 1),
        numbers(2, 3, 4),
    ),
    "sum of nothing": lambda: (lambda x: kernels.sum(x, 0), numbers(0, 3)),
    "mean of nothing": lambda: (lambda x: kernels.mean(x, 0), numbers(3, 0)),
    "top_k": lambda: (lambda x: kernels.top_k(x, 2)[0], spread(3, 5)),
    "top_k, the smallest": lambda: (
        lambda x: kernels.top_k(x, 2, False)[0],
        transposed(spread(3, 5)),
    ),
    "transpose": lambda: (kernels.transpose, numbers(2, 3)),
    "transpose, by axes": lambda: (lambda x: kernels.transpose(x, (1, -1, 0)), numbers(2, 3, 4)),
}
INTEGERS = {"argmax", "argmin", "argsort", "histogram"}
"""Results that have no derivative in torch either: integers."""
REFUSED = {
    "partition": lambda: kernels.partition(is_positive, numbers(4)),
    "reduce": lambda: kernels.reduce(numbers(4), bigger, -1e9),
    "run_length_encode": lambda: kernels.run_length_encode(numbers(4)),
    "scan": lambda: kernels.scan(numbers(4), bigger),
    "compress": lambda: kernels.compress(is_positive, numbers(4)),
}
ELSEWHERE = {"scaled_gemm"}
"""Tested below: of 8-bit floats there are no differences."""


def test_every_function_has_a_case():
    names = {case.split(",")[0].split(" ")[0] for case in CASES}
    assert names | INTEGERS | set(REFUSED) | ELSEWHERE == set(kernels.__all__)
    assert not names & (INTEGERS | set(REFUSED) | ELSEWHERE)


@pytest.mark.parametrize("case", sampled(CASES, 3))
def test_derivatives_are_those_of_differences(case):
    function, *inputs = seeded(CASES[case])
    results = function(*inputs)
    for result in results if isinstance(results, tuple) else (results,):
        assert result.requires_grad and result.grad_fn is not None
    assert torch.autograd.gradcheck(function, inputs)


@pytest.mark.parametrize("case", sampled(CASES, 4))
def test_derivatives_of_derivatives_are_those_of_differences(case):
    function, *inputs = seeded(CASES[case])
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_derivative_says_so(name):
    with pytest.raises(TypeError, match=f"^{name} has no derivative"):
        REFUSED[name]()
    with torch.no_grad():
        REFUSED[name]()


TAKE_FUNCTIONS = {
    "partition": lambda x: kernels.partition(lambda a: a > 0, x),
    "reduce": lambda x: kernels.reduce(x, lambda a, b: a if a > b else b, -1e9),
    "scan": lambda x: kernels.scan(x, lambda a, b: a * b),
    "compress": lambda x: kernels.compress(lambda a: a > 0, x),
}


@pytest.mark.parametrize("name", TAKE_FUNCTIONS)
def test_a_lambda_without_derivative_is_refused_first(name):
    function, x = TAKE_FUNCTIONS[name], torch.ones(4)
    message = rf"^{name} has no derivative; .*no_grad.*detach"
    with pytest.raises(TypeError, match=message):
        function(x.clone().requires_grad_())
    with pytest.raises(TypeError, match=message):
        torch.func.grad(lambda x: function(x)[0].sum())(x)
    with pytest.raises(TypeError, match=message):
        torch.func.jvp(function, (x,), (x,))
    with pytest.raises(TypeError, match=message), torch.autograd.forward_ad.dual_level():
        function(torch.autograd.forward_ad.make_dual(x, x))
    with pytest.raises(TypeError, match="a module has by name"):
        torch.vmap(function)(x.reshape(2, 2))
    function(x.clone().requires_grad_().detach())


@pytest.mark.parametrize("name", sorted(INTEGERS))
def test_integers_have_no_derivative(name):
    arguments = (4, (-1.0, 1.0)) if name == "histogram" else ()
    found = getattr(kernels, name)(numbers(4), *arguments)
    assert not found.dtype.is_floating_point and not found.requires_grad


FLOATS = (torch.float16, torch.bfloat16, torch.float32)
SINGLE = (
    "sum",
    "mean",
    "max",
    "cumsum",
    "sort",
    "transpose",
    "softmax",
    "gelu",
    "layer_norm",
    "rms_norm",
)


@pytest.mark.parametrize(
    ("name", "dtype"), sampled([(n, d) for n in SINGLE for d in FLOATS], 6, several=True)
)
def test_derivatives_have_their_arguments_type(name, dtype):
    x = seeded(lambda: spread(4, 8)).detach().to(dtype).requires_grad_()
    wide = x.detach().double().requires_grad_()
    function = getattr(kernels, name)
    grad_out = torch.rand_like(function(x))
    (found,) = torch.autograd.grad(function(x), x, grad_out, create_graph=True)
    (expected,) = torch.autograd.grad(function(wide), wide, grad_out.double(), create_graph=True)
    assert found.dtype is dtype
    assert torch.allclose(found.double(), expected, 2e-2, 2e-2)
    if found.requires_grad:
        (second,) = torch.autograd.grad(found.square().sum(), x)
        (other,) = torch.autograd.grad(expected.square().sum(), wide)
        assert second.dtype is dtype
        assert torch.allclose(second.double(), other, 5e-2, 5e-2)


def test_equal_largest_elements_share_the_gradient_as_in_torch():
    x = torch.tensor([[3.0, 1.0, 3.0], [2.0, float("nan"), 5.0]], requires_grad=True)
    kernels.max(x, 1).sum().backward()
    assert x.grad.tolist() == [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]


VIEWS = {
    "negative": lambda g: torch.complex(torch.zeros_like(g), -g).conj().imag,
    "expanded": lambda g: g.flatten()[:1].reshape([1] * g.ndim).expand(g.shape) if g.numel() else g,
    "transposed": lambda g: g.mT.contiguous().mT if g.ndim > 1 else g.flip(0),
}


@pytest.mark.parametrize(
    ("case", "view"), sampled([(c, v) for c in CASES for v in VIEWS], 24, several=True)
)
def test_gradients_are_views_of_any_kind(case, view):
    function, *inputs = seeded(CASES[case])
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    results = [torch.view_as_real(r) if r.is_complex() else r for r in results]
    grads = [VIEWS[view](torch.rand_like(one)) for one in results]
    if view == "negative" and results[0].numel():
        assert grads[0].is_neg()
    plain = [one.clone().contiguous().resolve_neg() for one in grads]
    found = torch.autograd.grad(results, inputs, grads, retain_graph=True)
    expected = torch.autograd.grad(results, inputs, plain)
    assert all(map(torch.allclose, found, expected))


def test_gradients_of_complex_results_are_conjugates():
    x = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    found = kernels.rfft(x)
    grad_out = torch.randn_like(found).conj()
    assert grad_out.is_conj()
    by_view = torch.autograd.grad(found, x, grad_out, retain_graph=True)
    assert torch.allclose(by_view[0], torch.autograd.grad(found, x, grad_out.resolve_conj())[0])


@pytest.mark.parametrize("is_grouped", [False, True])
def test_small_gradients_of_8_bit_gemms_are_not_lost(is_grouped):
    stack = (1,) * is_grouped
    a, b = (torch.rand(s).to(torch.float8_e4m3fn) for s in ((4, 16), (*stack, 16, 8)))
    bias, offsets = torch.zeros((*stack, 8), requires_grad=True), torch.tensor([0, 4]).int()
    for eight in (a, b):
        eight.requires_grad_().grad_dtype = None  # torch rounds no gradient to 8 bits
    grad_out = torch.full((4, 8), 1e-5, dtype=torch.bfloat16)
    if is_grouped:
        found = kernels.grouped_gemm(a, b, offsets, bias, "silu")
    else:
        found = kernels.gemm(a, b, bias, "silu")
    grads = torch.autograd.grad(found, (a, b, bias), grad_out)
    wide = [one.detach().float().requires_grad_() for one in (a, b, bias)]
    total = torch.nn.functional.silu(wide[0] @ wide[1] + wide[2]).reshape(4, 8)
    expected = torch.autograd.grad(total, wide, grad_out.float())
    for one, other in zip(grads, expected, strict=True):
        assert one.dtype.itemsize > 1 and one.any()
        assert torch.allclose(one.float(), other, 2e-2, 1e-7)


def test_scaled_gemm_has_gradients_of_scales_bias_and_residual():
    torch.manual_seed(3)
    a, b = (torch.rand(shape).to(torch.float8_e4m3fn) for shape in ((3, 200), (200, 130)))
    others = [torch.rand(s, requires_grad=True) for s in ((3, 2), (2, 2), (130,), (3, 130))]
    scale_a, scale_b, bias, residual = others
    found = kernels.scaled_gemm(a, b, scale_a, scale_b, bias, "silu", residual, torch.float32)
    left = a.float() * scale_a.repeat_interleave(128, 1)[:, :200]
    right = b.float() * scale_b.repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)[:, :130]
    expected = torch.nn.functional.silu(left @ right + bias) + residual
    grad_out = torch.rand_like(found)
    assert torch.allclose(found, expected, 1e-2, 1e-2)
    pairs = zip(
        torch.autograd.grad(found, others, grad_out),
        torch.autograd.grad(expected, others, grad_out),
        strict=True,
    )
    assert all(torch.allclose(one, other, 1e-3, 1e-3) for one, other in pairs)


def test_a_loss_by_the_mean_of_weft_trains():
    x = torch.randn(3, 4, requires_grad=True)
    classes = torch.tensor([3, 1, 0])
    kernels.mean(kernels.cross_entropy(x, classes)).backward()
    (expected,) = torch.autograd.grad(torch.nn.functional.cross_entropy(x, classes), x)
    assert torch.allclose(x.grad, expected)


def test_alpha_of_8_bit_gemms_with_a_gradient_is_refused():
    a = torch.ones(16, 16).to(torch.float8_e4m3fn)
    with pytest.raises(TypeError, match="alpha requires a gradient"):
        kernels.gemm(a, a, alpha=torch.tensor(2.0, requires_grad=True))


def test_a_scalar_without_derivative_refuses_a_gradient():
    x, number = numbers(2, 4), torch.tensor(0.5, requires_grad=True)
    with pytest.raises(TypeError, match="layer_norm: eps requires a gradient"):
        kernels.layer_norm(x, eps=number)
    with pytest.raises(TypeError, match="dropout: p requires a gradient"):
        kernels.dropout(x, number, 3)
    q = numbers(1, 2, 1, 4)
    with pytest.raises(TypeError, match="attention: scale requires a gradient"):
        kernels.attention(q, q, q, False, number)
