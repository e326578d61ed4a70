# SPDX-License-Identifier: Apache-2.0
"""Every function of `weft.kernels` under everything that torch does to calls: it runs, or is refused by name."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tests.sampling import sampled
from weft import kernels
from weft.kernels.host.autograd import _DECLARED, make_operators

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def bigger(a, b):
    return a if a > b else b


def is_positive(a):
    return a > 0


def cases() -> dict[str, tuple[Any, ...]]:
    """Arguments of a call of each function."""
    torch.manual_seed(0)
    x, y, row, angles = torch.randn(4, 8), torch.randn(4, 8), torch.randn(8), torch.rand(4, 4)
    classes, offsets = torch.tensor([3, 0, 7, 1]), torch.tensor([0, 1, 4], dtype=torch.int32)
    eight, scales = torch.ones(8, 16).to(torch.float8_e4m3fn), torch.ones(8, 1)
    q, k, v, g = (torch.randn(1, 5, 2, 16) for _ in range(4))
    places, pairs = torch.tensor([[0, 1, 7]] * 4), torch.randn(4, 6, 2)
    return {
        "argmax": (x, 1),
        "argmin": (x,),
        "argsort": (x, True),
        "attention": (q, k, v, True),
        "attention_backward": (g, q, k, v, True),
        "copy": (x.mT,),
        "cross_entropy": (x, classes),
        "cross_entropy_backward": (torch.ones(4), x, classes),
        "cumsum": (x,),
        "dropout": (x, 0.5, 3),
        "embedding": (x, classes % 4),
        "embedding_backward": (x, classes % 4, 5),
        "fft": (pairs, True),
        "gather": (x, places),
        "gelu": (x, "tanh"),
        "gelu_backward": (y, x, "tanh"),
        "gemm": (x, y.mT, torch.randn(4), "silu", torch.randn(4, 4), 0.5, 2.0),
        "grouped_gemm": (x, torch.randn(2, 8, 2), offsets, torch.randn(2, 2), "silu"),
        "histogram": (x, 4, (-1.0, 1.0)),
        "irfft": (pairs, 11),
        "layer_norm": (x, row, row),
        "layer_norm_backward": (y, x, row),
        "log_softmax": (x,),
        "log_softmax_backward": (y, x),
        "matmul": (x, y.mT),
        "max": (x, 0),
        "mean": (x,),
        "min": (x, -1),
        "partition": (row > 0, row),
        "reduce": (x, bigger, -1e9, 1),
        "rfft": (x,),
        "rms_norm": (x, row),
        "rms_norm_backward": (y, x, row),
        "rope": (torch.randn(4, 2, 8), angles.cos(), angles.sin()),
        "run_length_encode": (classes,),
        "scaled_gemm": (eight, eight.mT, scales, scales[:1]),
        "scan": (x, bigger),
        "scatter_add": (x, places, torch.ones(4, 3)),
        "compress": (is_positive, row),
        "silu_mul": (x, y),
        "silu_mul_backward": (x, y, x),
        "softmax": (x,),
        "softmax_backward": (y, x),
        "sort": (x, torch.arange(32).reshape(4, 8)),
        "sparse_matvec": (offsets, torch.tensor([0, 7, 1, 2]), torch.randn(4), row),
        "sum": (x, 0),
        "top_k": (x, 3),
        "transpose": (torch.randn(2, 3, 4), (2, 0, 1)),
    }


NAMES = kernels.__all__
CASES = cases()
# What is beyond the count is undefined.
COUNTED = ("compress", "partition", "run_length_encode")


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def assert_same(name, found, expected):
    found, expected = as_tuple(found), as_tuple(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype is other.dtype and one.shape == other.shape
        if name in COUNTED and other.ndim:
            one, other = one[: int(expected[-1])], other[: int(expected[-1])]
        wide = torch.complex128 if one.is_complex() else torch.float64
        assert torch.allclose(one.to(wide), other.to(wide), atol=1e-5)


def call(name, arguments=None):
    return getattr(kernels, name)(*(CASES[name] if arguments is None else arguments))


def traced(name):
    """The function of its tensors alone, and these."""
    arguments = CASES[name]
    places = [k for k, one in enumerate(arguments) if isinstance(one, torch.Tensor)]
    function = getattr(kernels, name)

    def program(*tensors):
        every = list(arguments)
        for place, tensor in zip(places, tensors, strict=True):
            every[place] = tensor
        return function(*every)

    return program, [arguments[place] for place in places]


def names_in(graph) -> str:
    return " ".join(str(node.target) for node in graph.nodes)


def test_the_table_has_every_function():
    assert set(CASES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_an_operator_that_gives_what_the_call_gives(name):
    make_operators()
    assert hasattr(torch.ops.weft, name)
    program, tensors = traced(name)
    graph = torch.fx.experimental.proxy_tensor.make_fx(program)(*tensors)
    assert f"weft.{name}.default" in names_in(graph.graph)
    assert "new_empty" not in names_in(graph.graph)
    assert_same(name, graph(*tensors), call(name))


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_types_are_known_without_data(name):
    program, tensors = traced(name)
    expected = as_tuple(call(name))
    found = as_tuple(program(*[one.to("meta") for one in tensors]))
    with torch._subclasses.FakeTensorMode() as mode:
        fakes = as_tuple(program(*map(mode.from_tensor, tensors)))
    for one, fake, other in zip(found, fakes, expected, strict=True):
        assert one.is_meta and type(fake) is torch._subclasses.FakeTensor
        assert (one.shape, one.dtype) == (fake.shape, fake.dtype) == (other.shape, other.dtype)
        assert one.stride() == fake.stride() == other.stride()


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.names.append(str(function))
        return function(*arguments, **(keywords or {}))


class Watcher(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        self.names.append(str(function))
        return function(*arguments, **(keywords or {}))


class Own(torch.Tensor):
    pass


@pytest.mark.parametrize("name", NAMES)
def test_modes_and_subclasses_see_the_operator(name):
    expected = call(name)
    with Recorder() as recorder:
        found = call(name)
    assert f"weft.{name}.default" in recorder.names
    assert not any("new_empty" in one for one in recorder.names)
    assert_same(name, found, expected)
    with Watcher() as watcher:
        found = call(name)
    assert any(name in one for one in watcher.names)
    assert_same(name, found, expected)
    program, tensors = traced(name)
    found = as_tuple(program(*[one.as_subclass(Own) for one in tensors]))
    assert type(found[0]) is Own
    assert_same(name, found, expected)
    with torch.profiler.profile() as profile:
        assert_same(name, call(name), expected)
    assert f"weft::{name}" in [event.key for event in profile.key_averages()]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_functionalized_and_scripted(name):
    program, tensors = traced(name)
    assert_same(name, torch.func.functionalize(program)(*tensors), call(name))
    script = torch.jit.trace(program, tuple(tensors), check_trace=False)
    assert f"weft::{name}" in str(script.graph)
    assert_same(name, script(*tensors), call(name))


@pytest.mark.parametrize("name", sampled(NAMES, 3))
def test_it_is_compiled_and_exported_whole(name):
    torch._dynamo.reset()
    program, tensors = traced(name)
    compiled = torch.compile(program, backend="aot_eager", fullgraph=True)
    assert_same(name, compiled(*tensors), call(name))

    class Module(torch.nn.Module):
        def forward(self, *arguments):
            return program(*arguments)

    exported = torch.export.export(Module(), tuple(tensors))
    assert f"weft.{name}.default" in names_in(exported.graph)
    assert_same(name, exported.module()(*tensors), call(name))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_mapped_over_a_batch(name):
    program, tensors = traced(name)
    batches = [
        torch.stack([one, one.flip(0) if one.is_floating_point() and one.itemsize > 1 else one])
        for one in tensors
    ]
    found = as_tuple(torch.vmap(program)(*batches))
    each = [as_tuple(program(*[one[k] for one in batches])) for k in range(2)]
    for k in range(2):
        assert_same(name, tuple(one[k] for one in found), each[k])


@pytest.mark.parametrize("name", NAMES)
def test_a_derivative_is_never_lost(name):
    """Backward, forward, and by `torch.func`: a result that depends on its gradient, or an error by name."""
    program, tensors = traced(name)
    floats = [k for k, one in enumerate(tensors) if one.is_floating_point() and one.itemsize > 1]
    if not floats:
        return
    tracked = [one.clone().requires_grad_(k in floats) for k, one in enumerate(tensors)]

    def is_continuous(one):
        return one.is_floating_point() or one.is_complex()

    expected = as_tuple(program(*tensors))
    if not any(map(is_continuous, expected)):
        assert not any(one.requires_grad for one in as_tuple(program(*tracked)))
        return
    try:
        found = as_tuple(program(*tracked))
    except TypeError as error:
        assert f"{name} has no derivative" in str(error)
    else:
        assert any(one.requires_grad for one in found if is_continuous(one))
    tangents = tuple(
        torch.ones_like(one) if k in floats else torch.zeros_like(one)
        for k, one in enumerate(tensors)
    )
    with torch.autograd.forward_ad.dual_level():
        duals = [
            torch.autograd.forward_ad.make_dual(one, tangent) if k in floats else one
            for k, (one, tangent) in enumerate(zip(tensors, tangents, strict=True))
        ]
        try:
            found = as_tuple(program(*duals))
        except TypeError as error:
            assert "has no derivative" in str(error) and name in str(error)
        else:
            unpack = torch.autograd.forward_ad.unpack_dual
            assert any(unpack(one).tangent is not None for one in found)

    def total(*some):
        return sum(one.abs().sum() for one in as_tuple(program(*some)) if is_continuous(one))

    try:
        grads = torch.func.grad(total, tuple(floats))(*tensors)
    except TypeError as error:
        assert "has no derivative" in str(error)
    else:
        own = torch.autograd.grad(total(*tracked), [tracked[k] for k in floats], allow_unused=True)
        for one, other in zip(grads, own, strict=True):
            assert torch.allclose(one, torch.zeros_like(one) if other is None else other)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_pickled_and_copied(name):
    function = getattr(kernels, name)
    assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) is function


class Calls(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes calls of operators of weft."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if function.namespace == "weft":
            self.found.append((function, arguments))
        return function(*arguments, **(keywords or {}))


def inner() -> dict[str, tuple[Any, ...]]:
    """Arguments of the operators that derivatives alone call."""
    x, y = CASES["softmax_backward"]
    q, lse = torch.randn(1, 3, 2, 4), torch.randn(1, 2, 3)
    a, _, offsets, *_ = CASES["grouped_gemm"]
    return {
        "_activation_backward": (torch.randn(4, 4), x, y.mT, "silu"),
        "_gemm_grouped_k": (a, torch.randn(4, 2), offsets),
        "_packed_silu_mul_backward": (torch.randn(4, 3), torch.randn(4, 6)),
        "_sinks_backward": (
            q,
            q,
            q,
            q,
            False,
            None,
            None,
            None,
            q,
            lse,
            None,
            None,
            torch.randn(2),
        ),
    }


INNER = inner()


@pytest.mark.parametrize("name", [*NAMES, *INNER])
def test_torch_checks_the_operator(name):
    make_operators()
    if name in INNER:
        calls = [(getattr(torch.ops.weft, name).default, INNER[name])]
    else:
        with Calls() as mode:
            call(name)
        calls = mode.found
    for operator, arguments in calls:
        checks = ["test_autograd_registration", "test_faketensor"]
        if name not in COUNTED and arguments[0].itemsize > 1:  # the rest torch does not compare
            checks.append("test_schema")
        torch.library.opcheck(operator, arguments, test_utils=checks)


def test_no_other_operator_is_declared():
    make_operators()
    assert {*_DECLARED} == {*NAMES, *INNER}


SEEDS = (0, 2**63 - 1, 2**63, 2**64 - 1)


@pytest.mark.parametrize(("seed", "offset"), [*zip(SEEDS, reversed(SEEDS), strict=True)])
def test_dropout_takes_any_seed_under_operators(seed, offset):
    x = torch.ones(64)
    expected = kernels.dropout(x, 0.5, seed, offset)
    tracked = x.clone().requires_grad_()
    found = kernels.dropout(tracked, 0.5, seed, offset)
    (gradient,) = torch.autograd.grad(found.sum(), tracked)
    assert torch.equal(found, expected) and torch.equal(gradient, expected)
    torch._dynamo.reset()
    program = torch.compile(kernels.dropout, backend="aot_eager", fullgraph=True, dynamic=True)
    assert torch.equal(program(x, 0.5, seed, offset), expected)


@pytest.mark.parametrize("seed", [7, -1])
def test_dropout_takes_its_numbers_from_the_device(seed):
    x, offset = torch.ones(64), torch.tensor([3])
    expected = kernels.dropout(x, 0.5, seed % 2**64, 3)
    number = torch.tensor([seed])
    for _ in range(4):  # cached from the third on, but not its elements
        number += 1
        assert not torch.equal(kernels.dropout(x, 0.5, number, offset), expected)
        number -= 1
        assert torch.equal(kernels.dropout(x, 0.5, number, offset), expected)
    tracked = x.clone().requires_grad_()
    found = kernels.dropout(tracked, 0.5, number, 3)
    (gradient,) = torch.autograd.grad(found.sum(), tracked)
    assert torch.equal(found, expected) and torch.equal(gradient, expected)
    torch._dynamo.reset()
    program = torch.compile(kernels.dropout, backend="aot_eager", fullgraph=True)
    assert torch.equal(program(x, 0.5, number, offset), expected)
    # Numbers that change between forward and backward would be another mask.
    found = kernels.dropout(tracked, 0.5, 7, offset)
    offset += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()
    for wrong, said in (
        (torch.tensor([1, 2]), r"seed has shape \(2,\) of int64, expected a number or one integer"),
        (
            torch.tensor([1.0]),
            r"seed has shape \(1,\) of float32, expected a number or one integer",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            kernels.dropout(tracked, 0.5, wrong)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_beyond_64_bits_is_refused_everywhere(seed):
    for is_tracked in (False, True):
        with pytest.raises(ValueError, match=r"seed is .*, expected an integer from 0"):
            kernels.dropout(torch.ones(4, requires_grad=is_tracked), 0.5, seed)


WITH_INTEGERS = [n for n, a in CASES.items() if any(type(one) is int for one in a)]


@pytest.mark.parametrize("name", WITH_INTEGERS)
def test_integers_of_a_compiled_program_may_vary(name):
    torch._dynamo.reset()
    function, arguments = getattr(kernels, name), CASES[name]
    program = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    assert_same(name, program(*arguments), call(name))
