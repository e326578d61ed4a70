# SPDX-License-Identifier: Apache-2.0
"""Tangents of functions of `weft.kernels` against torch's own, and against differences."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.sampling import sampled
from weft import kernels

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
from tests.kernels.test_derivatives import CASES as DIFFERENCES  # noqa: E402
from tests.kernels.test_derivatives import INTEGERS, PLACES, REFUSED, seeded  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(600)]
functional = torch.nn.functional


def rms(x: Any, weight: Any) -> Any:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def attended(q: Any, k: Any, v: Any) -> Any:
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def pulled(function: Any) -> Any:
    """A derivative as a function of the gradient and of arguments."""

    def backward(gradient: Any, *arguments: Any) -> Any:
        found = torch.func.vjp(function, *arguments)[1](gradient)
        return found if len(found) > 1 else found[0]

    return backward


def gemm(a: Any, b: Any, bias: Any, residual: Any, alpha: Any, beta: Any) -> Any:
    return kernels.gemm(a, b, bias, "silu", residual, alpha, beta)


CLASSES, INDICES = torch.tensor([3, 0, 2]), torch.tensor(PLACES)
OFFSETS = torch.tensor([0, 1, 3], dtype=torch.int32)
FIRST, COLUMNS = torch.tensor([0, 1, 1, 3]), torch.tensor([0, 2, 1])

PAIRS: dict[str, tuple[Any, Any, tuple[tuple[int, ...], ...]]] = {
    "attention": (kernels.attention, attended, ((1, 3, 2, 4),) * 3),
    "attention_backward": (kernels.attention_backward, pulled(attended), ((1, 3, 2, 4),) * 4),
    "copy": (kernels.copy, torch.clone, ((2, 3),)),
    "cross_entropy": (
        lambda x: kernels.cross_entropy(x, CLASSES),
        lambda x: functional.cross_entropy(x, CLASSES, reduction="none"),
        ((3, 4),),
    ),
    "cross_entropy_backward": (
        lambda g, x: kernels.cross_entropy_backward(g, x, CLASSES),
        pulled(lambda x: functional.cross_entropy(x, CLASSES, reduction="none")),
        ((3,), (3, 4)),
    ),
    "cumsum": (kernels.cumsum, lambda x: x.cumsum(-1), ((2, 4),)),
    "dropout": (
        lambda x: kernels.dropout(x, 0.5, 3),
        lambda x: x * kernels.dropout(torch.ones(2, 8), 0.5, 3).to(x.dtype),
        ((2, 8),),
    ),
    "embedding": (
        lambda x: kernels.embedding(x, CLASSES),
        lambda x: functional.embedding(CLASSES, x),
        ((4, 3),),
    ),
    "embedding_backward": (
        lambda g: kernels.embedding_backward(g, CLASSES, 4),
        lambda g: g.new_zeros(4, 2).index_add(0, CLASSES, g),
        ((3, 2),),
    ),
    "fft": (
        kernels.fft,
        lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))),
        ((2, 4, 2),),
    ),
    "gather": (
        lambda x: kernels.gather(x, INDICES),
        lambda x: x.gather(1, INDICES),
        ((4, 3),),
    ),
    "gelu": (kernels.gelu, functional.gelu, ((2, 3),)),
    "gelu_backward": (kernels.gelu_backward, pulled(functional.gelu), ((2, 3), (2, 3))),
    "gemm": (
        gemm,
        lambda a, b, bias, residual, alpha, beta: (
            functional.silu(alpha * (a @ b) + bias) + beta * residual
        ),
        ((3, 4), (4, 2), (2,), (3, 2), (), ()),
    ),
    "grouped_gemm": (
        lambda a, b, alpha: kernels.grouped_gemm(a, b, OFFSETS, alpha=alpha),
        lambda a, b, alpha: alpha * torch.cat((a[:1] @ b[0], a[1:3] @ b[1])),
        ((3, 4), (2, 4, 2), ()),
    ),
    "irfft": (
        lambda x: kernels.irfft(x, 5),
        lambda x: torch.fft.irfft(torch.view_as_complex(x), 5),
        ((2, 3, 2),),
    ),
    "layer_norm": (
        kernels.layer_norm,
        lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
        ((3, 5), (5,), (5,)),
    ),
    "layer_norm_backward": (
        lambda g, x, w: kernels.layer_norm_backward(g, x, w)[:2],
        pulled(lambda x, w: functional.layer_norm(x, x.shape[-1:], w)),
        ((3, 5), (3, 5), (5,)),
    ),
    "log_softmax": (kernels.log_softmax, lambda x: x.log_softmax(-1), ((2, 5),)),
    "log_softmax_backward": (
        lambda g, x: kernels.log_softmax_backward(g, x.log_softmax(-1)),
        pulled(lambda x: x.log_softmax(-1)),
        ((2, 5), (2, 5)),
    ),
    "matmul": (kernels.matmul, torch.matmul, ((2, 3, 4), (4, 2))),
    "max": (lambda x: kernels.max(x, 1), lambda x: x.amax(1), ((3, 4),)),
    "mean": (kernels.mean, torch.mean, ((3, 4),)),
    "min": (lambda x: kernels.min(x, 0), lambda x: x.amin(0), ((3, 4),)),
    "rfft": (
        lambda x: torch.view_as_real(kernels.rfft(x)),
        lambda x: torch.view_as_real(torch.fft.rfft(x)),
        ((2, 6),),
    ),
    "rms_norm": (kernels.rms_norm, rms, ((3, 5), (5,))),
    "rms_norm_backward": (kernels.rms_norm_backward, pulled(rms), ((3, 5), (3, 5), (5,))),
    "rope": (kernels.rope, rotated, ((3, 2, 4), (3, 2), (3, 2))),
    "scatter_add": (
        lambda x, v: kernels.scatter_add(x, INDICES, v),
        lambda x, v: x.scatter_add(1, INDICES, v),
        ((4, 3), (4, 2)),
    ),
    "silu_mul": (kernels.silu_mul, lambda a, b: functional.silu(a) * b, ((2, 3), (2, 3))),
    "silu_mul_backward": (
        kernels.silu_mul_backward,
        pulled(lambda a, b: functional.silu(a) * b),
        ((2, 3),) * 3,
    ),
    "softmax": (kernels.softmax, lambda x: x.softmax(-1), ((2, 5),)),
    "softmax_backward": (
        lambda g, x: kernels.softmax_backward(g, x.softmax(-1)),
        pulled(lambda x: x.softmax(-1)),
        ((2, 5), (2, 5)),
    ),
    "sort": (kernels.sort, lambda x: x.sort(-1).values, ((2, 5),)),
    "sparse_matvec": (
        lambda values, x: kernels.sparse_matvec(FIRST, COLUMNS, values, x),
        lambda values, x: torch.stack(
            (values[0] * x[0], 0 * x[0], values[1] * x[2] + values[2] * x[1])
        ),
        ((3,), (3,)),
    ),
    "sum": (lambda x: kernels.sum(x, 0), lambda x: x.sum(0), ((3, 4),)),
    "top_k": (
        lambda x: kernels.top_k(x, 2)[0],
        lambda x: x.topk(2, -1).values,
        ((3, 5),),
    ),
    "transpose": (kernels.transpose, lambda x: x.mT, ((2, 3),)),
}


def test_every_differentiable_function_is_compared():
    others = {*INTEGERS, *REFUSED, "scaled_gemm"}
    assert {*PAIRS} == {*kernels.__all__} - others


def assert_close(found: Any, expected: Any) -> None:
    found, expected = (one if isinstance(one, tuple) else (one,) for one in (found, expected))
    for one, other in zip(found, expected, strict=True):
        tolerance = 1e-9 if other.dtype is torch.float64 else 2e-5
        assert one.dtype is other.dtype
        assert torch.allclose(one, other, tolerance, tolerance)


@pytest.mark.parametrize(
    ("name", "kind"),
    sampled([(n, k) for n in PAIRS for k in ("float32", "float64")], 12, several=True),
)
def test_tangents_are_those_of_torch(name, kind):
    own, other, shapes = PAIRS[name]
    torch.manual_seed(1)
    dtype = getattr(torch, kind)
    values, tangents = (tuple(torch.randn(s, dtype=dtype) for s in shapes) for _ in range(2))
    found, expected = (torch.func.jvp(f, values, tangents) for f in (own, other))
    assert_close(found[0], expected[0])
    assert_close(found[1], expected[1])
    for place, tangent in enumerate(tangents):  # one argument alone

        def of_one(value, f, place=place):
            return f(*values[:place], value, *values[place + 1 :])

        for_one = [
            torch.func.jvp(lambda v, f=f: of_one(v, f), (values[place],), (tangent,))[1]
            for f in (own, other)
        ]
        assert_close(*for_one)
        jacobians = [
            torch.func.jacfwd(lambda v, f=f: of_one(v, f))(values[place]) for f in (own, other)
        ]
        assert_close(*jacobians)
    if () not in shapes:  # a graph has no values of factors
        push = torch.func.linearize(own, *values)[1]
        assert_close(push(*tangents), expected[1])


def total(function: Any) -> Any:
    """A scalar of the results, with derivatives of every order."""

    def program(*arguments: Any) -> Any:
        results = function(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        parts = [torch.view_as_real(r) if r.is_complex() else r for r in results]
        return sum((one * one * one).sum() for one in parts)

    return program


@pytest.mark.parametrize("name", sampled(PAIRS, 6))
def test_hessians_are_those_of_torch(name):
    own, other, shapes = PAIRS[name]
    torch.manual_seed(2)
    values = tuple(torch.randn(s, dtype=torch.float64) for s in shapes)
    found, expected = (torch.func.hessian(total(f))(*values) for f in (own, other))
    assert torch.allclose(found, expected, 1e-7, 1e-7)


@pytest.mark.parametrize("case", sampled(DIFFERENCES, 3))
def test_tangents_are_those_of_differences(case):
    function, *inputs = seeded(DIFFERENCES[case])
    assert torch.autograd.gradcheck(
        function, inputs, check_forward_ad=True, check_backward_ad=False, check_undefined_grad=False
    )
