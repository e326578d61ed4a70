# SPDX-License-Identifier: Apache-2.0
"""Writes of a call to torch's tensors are counted, on every path and rung: autograd refuses a stale derivative.

In: tensors, their views and parameters, written by each way of calling. Out: torch's counts, and refusals.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft import _native

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

RUNGS = {"shim": 1, "exchange": 4, "dlpack": 8}
VECTOR = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def scale_kernel(a: weft.Tensor, out: weft.Tensor, factor):
    for i in weft.each(a.shape[0]):
        out[i] = factor * a[i]


@weft.kernel
def scale_by_threads(a: weft.Tensor, out: weft.Tensor, factor):
    i = weft.thread_idx.x
    if i < a.shape[0]:
        out[i] = factor * a[i]


@weft.jit
def scale(a: VECTOR, out: VECTOR, factor: weft.f32 = 2.0):
    scale_kernel(a, out, factor).launch(over=a.shape[0])


class Pair(NamedTuple):
    a: VECTOR
    out: VECTOR


@weft.jit
def scale_pair(pair: Pair, factor: weft.f32 = 2.0):
    scale_kernel(pair.a, pair.out, factor).launch(over=pair.a.shape[0])


@weft.jit
def scale_tuple(pair: tuple[VECTOR, VECTOR], factor: weft.f32 = 2.0):
    scale_kernel(pair[0], pair[1], factor).launch(over=pair[0].shape[0])


@cache
def compiled(function):
    a = torch.zeros(4)
    arguments = (Pair(a, a),) if function is scale_pair else (a, a)
    return weft.compile(function, *arguments, 2.0, options="--target cpu")


def by_prepared(a, out):
    compiled(scale).prepare(a, out, 2.0)()


def by_replaced(a, out):
    prepared = compiled(scale).prepare(a, torch.zeros(4), 2.0)
    prepared[1] = out
    prepared()


WAYS = {
    "direct": scale,
    "keywords": lambda a, out: scale(out=out, a=a, factor=2.0),
    "compiled": lambda a, out: compiled(scale)(a, out, 2.0),
    "prepared": by_prepared,
    "replaced": by_replaced,
    "a record's field": lambda a, out: scale_pair(Pair(a, out)),
    "a tuple's item": lambda a, out: scale_tuple((a, out)),
    "prepared record": lambda a, out: compiled(scale_pair).prepare(Pair(a, out), 2.0)(),
    "blocks": lambda a, out: scale_by_threads[1, 4](a, out, 2.0),
    "over": lambda a, out: scale_kernel.over(4)(a, out, 2.0),
    "copy": lambda a, out: weft.copy(out, a),
    "out=": lambda a, out: weft.kernels.softmax(a, out=out),
    "out= of a product": lambda a, out: weft.kernels.matmul(a[None], a[:, None], out=out[:1, None]),
}


@pytest.fixture(params=RUNGS)
def rung(request):
    _native.set_reader_rungs(RUNGS[request.param])
    yield request.param
    _native.set_reader_rungs(63)


@pytest.mark.joined
@pytest.mark.parametrize("way", WAYS)
def test_a_write_is_counted_and_a_read_is_not(way, rung):
    a, out = torch.arange(4.0), torch.zeros(4)
    for _ in range(3):  # the later calls are known
        read, before = a._version, out._version
        WAYS[way](a, out)
        assert out._version > before
        assert a._version == read


@pytest.mark.parametrize("way", WAYS)
def test_a_stale_derivative_is_refused(way):
    x = torch.arange(4.0, requires_grad=True)
    a = torch.ones(4)
    for share in (
        torch.Tensor.detach,
        lambda y: y.detach()[:],
        lambda y: y.detach().view(2, 2).view(4),
    ):
        y = x.exp()
        WAYS[way](a, share(y))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.joined
@pytest.mark.parametrize("way", WAYS)
def test_tensors_that_require_grad_are_not_written(way, rung):
    a, leaf = torch.ones(4), torch.zeros(4, requires_grad=True)
    for out in (leaf, leaf[:], leaf.exp(), torch.nn.Parameter(torch.zeros(4))):
        values = out.tolist()
        with pytest.raises(
            (ValueError, TypeError), match=r"requires a gradient|has no derivative"
        ) as caught:
            WAYS[way](a, out)
        assert "out" in str(caught.value) or way in {"copy", "a tuple's item"}
        assert out.tolist() == values
        with torch.no_grad():
            before = out._version
            WAYS[way](a, out)
        assert out._version > before


def test_a_prepared_call_asks_at_each_call():
    a, out = torch.ones(4), torch.zeros(4)
    prepared = compiled(scale).prepare(a, out, 2.0)
    prepared()
    before = out._version
    prepared()
    assert out._version == before + 1
    out.requires_grad_()
    with pytest.raises(ValueError, match=r"'out'.*requires a gradient|out.*requires a gradient"):
        prepared()
    with torch.no_grad():
        prepared()
    out.detach_()
    prepared()


def test_inference_tensors_have_no_count_and_are_written():
    with torch.inference_mode():
        out = torch.zeros(4)
        scale(torch.ones(4), out)
    scale(torch.ones(4), out)
    assert out.tolist() == [2.0] * 4
    normal = torch.zeros(4)
    with torch.inference_mode():
        scale(torch.ones(4), normal)
    assert normal._version == 1


def test_a_refused_call_counts_nothing():
    a, out = torch.ones(4), torch.zeros(4)
    with pytest.raises(TypeError):
        scale(a, out, "x")
    with pytest.raises(ValueError, match="shape"):
        scale(a, torch.zeros(5))
    assert out._version == 0


def test_an_autograd_forward_writes_its_arguments():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            scale(a, a)
            return a

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(4, requires_grad=True)
    Scale.apply(x + 1).sum().backward()
    assert x.grad.tolist() == [2.0] * 4


@pytest.mark.slow
def test_an_operator_writes_its_declared_arguments():
    @torch.library.custom_op("weft_tests::scale_in_place", mutates_args=["a"])
    def in_place(a: torch.Tensor) -> None:
        scale(a, a)

    leaf = torch.ones(4)
    in_place(leaf)
    assert leaf.tolist() == [2.0] * 4
    with torch._C._AutoDispatchBelowAutograd():
        scale(leaf.requires_grad_(), leaf)


def test_what_shares_memory_by_numpy_is_not_known():
    y = torch.zeros(4)
    scale(np.ones(4, np.float32), y.numpy())
    assert y.tolist() == [2.0] * 4
    assert y._version == 0


@weft.jit
def scaled(a: VECTOR, factor: weft.f32 = 2.0):
    out = weft.empty_like(a)
    scale_kernel(a, out, factor).launch(over=a.shape[0])
    return out


@weft.jit
def scaled_pair(pair: tuple[VECTOR, VECTOR]):
    out = weft.empty_like(pair[1])
    scale_kernel(pair[1], out, 2.0).launch(over=out.shape[0])
    return pair[0], out


def by_prepared_new(a):
    return compiled_new().prepare(a, 2.0)()


@cache
def compiled_new():
    return weft.compile(scaled, torch.zeros(4), 2.0, options="--target cpu")


MAKERS = {
    "direct": scaled,
    "keywords": lambda a: scaled(factor=2.0, a=a),
    "compiled": lambda a: compiled_new()(a, 2.0),
    "prepared": by_prepared_new,
    "a tuple's item": lambda a: scaled_pair((torch.zeros(4), a))[1],
}


@pytest.mark.parametrize("way", MAKERS)
def test_no_new_tensor_is_made_of_one_whose_derivatives_are_recorded(way, rung):
    make = MAKERS[way]
    a = torch.ones(4)
    for leaf in (a.clone().requires_grad_(), a.clone().requires_grad_().exp()):
        for _ in range(2):  # the later call is known
            assert make(a).tolist() == [2.0] * 4
            with pytest.raises(ValueError, match="the result is a new tensor without a derivative"):
                make(leaf)
        before = leaf._version
        with torch.no_grad():
            assert make(leaf).tolist() == (2 * leaf).tolist()
        assert leaf._version == before


def test_an_autograd_forward_makes_tensors():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return scaled(a)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(4, requires_grad=True)
    Scaled.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 4


def _by_jit(program, a):
    return torch.jit.trace(program, (a,), check_trace=False)


def _by_make_fx(program, a):
    return torch.fx.experimental.proxy_tensor.make_fx(program)(a)


@pytest.mark.parametrize("trace", [_by_jit, _by_make_fx])
@pytest.mark.parametrize("way", sampled([*WAYS, *MAKERS], 2))
def test_a_trace_that_would_miss_the_call_is_refused(way, trace, rung):
    def writes(a):
        out = torch.zeros(4)
        WAYS[way](a, out)
        return out

    def makes(a):
        return MAKERS[way](a)

    for program in [writes] * (way in WAYS) + [makes] * (way in MAKERS):
        program(torch.ones(4))
        with pytest.raises((ValueError, TypeError), match=r"nothing traces|no place in a graph"):
            trace(program, torch.ones(4))
        program(torch.ones(4))  # and is a plain call afterwards


def test_other_modes_of_torch_see_plain_calls():
    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    a, out = torch.ones(4), torch.zeros(4)
    with Watching():
        scale(a, out)
        assert scaled(a).tolist() == [2.0] * 4
    assert out.tolist() == [2.0] * 4
