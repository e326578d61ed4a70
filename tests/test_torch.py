# SPDX-License-Identifier: Apache-2.0
"""weft's functions in programs that torch traces: as operators in whole graphs, and called beside graphs."""

from __future__ import annotations

import warnings

import pytest

import weft

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = [pytest.mark.torch]

VECTOR = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def scale_kernel(a: weft.Tensor, out: weft.Tensor, factor):
    for i in weft.each(a.shape[0]):
        out[i] = factor * a[i]


@weft.jit
def scale(a: VECTOR, out: VECTOR, factor: weft.f32 = 2.0):
    scale_kernel(a, out, factor).launch(over=a.shape[0])


@weft.kernel
def divide_kernel(a: weft.Tensor, quotient: weft.Tensor, rest: weft.Tensor, by):
    for i in weft.each(a.shape[0]):
        quotient[i] = a[i] // by
        rest[i] = a[i] % by


INTS = weft.Tensor[weft.i32, ("n",)]


@weft.jit
def divide(a: INTS, quotient: INTS, rest: INTS, /, *, by: weft.Constexpr[int]):
    divide_kernel(a, quotient, rest, by).launch(over=a.shape[0])
    return a.shape[0]


@weft.jit
def divided(a: VECTOR, quotient: VECTOR, rest: VECTOR, *, by: weft.Constexpr[int]):
    divide_kernel(a, quotient, rest, by).launch(over=a.shape[0])


def like(a, *_, **__):
    return torch.empty_like(a)


def whole(function):
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True)


@pytest.fixture(scope="module")
def scaled():
    return weft.torch.custom_op(scale, outputs={"out": like}, name="weft_tests::scaled")


@pytest.fixture(scope="module")
def scale_into():
    return weft.torch.custom_op(scale, mutates_args="out", name="weft_tests::scale_into")


@pytest.mark.slow
def test_an_operator_that_writes_into_an_argument(scale_into):
    a, out = torch.arange(5.0), torch.zeros(5)
    assert str(scale_into._opoverload._schema) == (
        "weft_tests::scale_into(Tensor a, Tensor(a1!) out, float factor=2.) -> ()"
    )

    def program(a, out):
        scale_into(a + 1, out, 3.0)
        return out * 2

    assert whole(program)(a, out).tolist() == [6, 12, 18, 24, 30]
    assert out.tolist() == [3, 6, 9, 12, 15]
    torch.library.opcheck(scale_into, (a, out), {"factor": 0.5})


def test_an_operator_that_returns_what_it_writes_has_a_derivative(scaled):
    def remember(ctx, inputs, output):
        ctx.factor = inputs[1]

    scaled.register_autograd(
        lambda ctx, grad: (scaled(grad, ctx.factor), None), setup_context=remember
    )
    a = torch.arange(4.0, requires_grad=True)
    whole(lambda a: (scaled(a, 3.0) * a).sum())(a).backward()
    assert a.grad.tolist() == [0, 6, 12, 18]
    torch.library.opcheck(scaled, (a, 3.0))


def test_a_derivative_takes_gradient_result_and_arguments():
    def backward(grad, out, a, factor=2.0):
        assert out.shape == a.shape
        return op(grad, factor), None

    op = weft.torch.custom_op(
        scale, outputs={"out": like}, backward=backward, name="weft_tests::derived"
    )
    a = torch.arange(4.0, requires_grad=True)
    (grad,) = torch.autograd.grad(whole(lambda a: op(a, 3.0))(a).sum(), a)
    assert grad.tolist() == [3, 3, 3, 3]
    weight = torch.ones(4, requires_grad=True)  # the gradient has a gradient, by the same rule
    (grad,) = torch.autograd.grad(op(a), a, weight, create_graph=True)
    assert torch.autograd.grad(grad.sum(), weight)[0].tolist() == [2, 2, 2, 2]
    torch.library.opcheck(op, (a, 3.0))


def test_a_derivative_of_several_results_and_a_number_by_keyword():
    def backward(grads, outs, a, by):
        assert len(grads) == len(outs) == 2 and by == 4
        return (grads[0] / by + grads[1],)

    op = weft.torch.custom_op(
        divided,
        outputs={"quotient": like, "rest": like},
        backward=backward,
        name="weft_tests::of_two",
    )
    a = torch.arange(6.0, requires_grad=True)
    quotient, rest = op(a, by=4)
    (quotient + 2 * rest).sum().backward()
    assert a.grad.tolist() == [2.25] * 6


@pytest.mark.parametrize(
    "make",
    [
        lambda a, factor: torch.empty_like(a),
        lambda x, k: torch.empty_like(x) if k == 2.0 else None,
        torch.empty_like,
        like,
    ],
)
def test_what_makes_an_output_gets_a_default_that_was_left_out(make):
    op = weft.torch.custom_op(scale, outputs={"out": make}, name="weft_tests::of_defaults")
    assert op(torch.ones(3)).tolist() == [2, 2, 2]
    assert whole(lambda a: op(a) + 1)(torch.ones(3)).tolist() == [3, 3, 3]


def test_an_omitted_keyword_default_reaches_the_output_maker():
    def shift(a, *, by):
        return torch.empty_like(a) if by == 2 else None

    @weft.jit
    def divide_by_two(a: INTS, quotient: INTS, rest: INTS, *, by: weft.Constexpr[int] = 2):
        divide_kernel(a, quotient, rest, by).launch(over=a.shape[0])

    made = {"quotient": shift, "rest": shift}
    op = weft.torch.custom_op(divide_by_two, outputs=made, name="weft_tests::by_default")
    a = torch.arange(5, dtype=torch.int32)
    assert torch.equal(op(a)[0], a // 2) and torch.equal(whole(op)(a)[1], a % 2)


def test_several_outputs_and_a_constant_by_keyword():
    op = weft.torch.custom_op(
        divide, outputs={"quotient": like, "rest": like}, name="weft_tests::divide"
    )
    a = torch.arange(7, dtype=torch.int32)
    quotient, rest = whole(lambda a: op(a, by=3))(a)
    assert torch.equal(quotient, a // 3) and torch.equal(rest, a % 3)
    torch.library.opcheck(op, (a,), {"by": 2})


@pytest.mark.slow
def test_dims_that_change_do_not_compile_again(scaled):
    graphs = []

    def count(graph, examples):
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    program = torch.compile(lambda a: scaled(a) + 1, backend=count, fullgraph=True, dynamic=True)
    for n in (3, 5, 9):
        assert program(torch.ones(n)).tolist() == [3] * n
    assert len(graphs) == 1


def test_a_compiled_function_is_an_operator_too():
    compiled = weft.compile(scale)
    op = weft.torch.custom_op(compiled, outputs={"out": like}, name="weft_tests::compiled")
    assert whole(lambda a: op(a, 4.0))(torch.ones(3)).tolist() == [4, 4, 4]


def test_its_name_is_made_of_the_module_and_the_function():
    op = weft.torch.custom_op(scale, outputs={"out": like})
    assert op._qualname == f"{__name__.replace('.', '_')}::scale"


def test_a_graph_after_a_direct_call_has_operators_of_kernels():
    x = torch.zeros(3)

    def program(x):
        scale(x, x)  # left to Python, with all that is below it
        return x + 1

    torch._dynamo.reset()
    assert torch.compile(program, backend="aot_eager")(x).tolist() == [1, 1, 1]
    assert whole(lambda x: weft.kernels.softmax(x) * 3)(x).tolist() == [1, 1, 1]


@weft.jit
def takes_a_pair(a: VECTOR, pair: tuple[weft.f32, weft.f32]):
    scale_kernel(a, a, pair[0]).launch(over=a.shape[0])


@weft.jit
def takes_any_constant(a: VECTOR, constant: weft.Constexpr):
    scale_kernel(a, a, constant).launch(over=a.shape[0])


WRONG = {
    "not a function": (3, {}, TypeError, "received int 3"),
    "a kernel": (scale_kernel, {}, TypeError, "received Kernel"),
    "an unknown name": (
        scale,
        {"mutates_args": ["outt"]},
        weft.SignatureError,
        "scale: mutates_args has 'outt', expected names of its tensors: a, out",
    ),
    "a number": (scale, {"outputs": {"factor": like}}, weft.SignatureError, "outputs has 'factor'"),
    "both": (
        scale,
        {"mutates_args": ["out"], "outputs": {"out": like}},
        weft.SignatureError,
        "'out' is in mutates_args and in outputs",
    ),
    "not callable": (
        scale,
        {"outputs": {"out": torch.empty(3)}},
        weft.SignatureError,
        "expected a function that makes the tensor",
    ),
    "a derivative of what is written": (
        scale,
        {"mutates_args": ["out"], "backward": like},
        weft.SignatureError,
        "backward= is for operators that write nothing but outputs=",
    ),
    "a derivative of another type": (
        scale,
        {"outputs": {"out": like}, "backward": "scale"},
        weft.SignatureError,
        "backward is 'scale', expected a function",
    ),
    "no namespace": (scale, {"name": "scale"}, weft.SignatureError, "expected 'namespace::name'"),
    "a tuple": (takes_a_pair, {}, weft.SignatureError, "has no type in torch's schemas"),
    "a constant of any type": (
        takes_any_constant,
        {},
        weft.SignatureError,
        r"say which: weft.Constexpr\[int\]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_an_operator_is_said(case):
    function, keywords, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        weft.torch.custom_op(function, **keywords)


@pytest.mark.parametrize(
    "make", [lambda: scale, lambda: weft.compile(scale)], ids=["jit", "compiled"]
)
def test_an_unnamed_tensor_that_kernels_write_is_an_error(make):
    op = weft.torch.custom_op(make(), mutates_args=["a"], name="weft_tests::forgotten")
    with pytest.raises(weft.SignatureError, match="kernels write 'out', which is neither in"):
        op(torch.ones(3), torch.ones(3))


def beside(a, b):
    """A direct call, a bare launch and a compiled function: three graph breaks."""
    x = a * 2
    scale(x, b)
    scale_kernel[1, 32](b, x, 1.0)
    return x + b


@pytest.mark.slow
def test_direct_calls_stand_beside_the_graph_and_warn_of_nothing():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            result = torch.compile(beside, backend="eager")(torch.arange(4.0), torch.zeros(4))
            assert result.tolist() == [0, 8, 16, 24]


def test_a_direct_call_in_a_full_graph_names_the_remedy():
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"with weft\.torch\.custom_op"):
        whole(beside)(torch.arange(4.0), torch.zeros(4))


def test_tensors_that_torch_traces_are_refused_by_known_calls_too():
    """A known call runs no Python, where the first one did."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    @weft.jit
    def length(a: weft.Tensor, b: weft.i32 = 1):
        return a.shape[0] * b

    @weft.kernel
    def clear(a: weft.Tensor):
        a[weft.thread_idx.x] = 0.0

    def words():
        a, found = torch.ones(2, 4), []
        for call in (
            lambda: torch.vmap(length)(a),
            lambda: torch.func.grad(lambda a: (length(a, b=2), a.sum())[1])(a),
            lambda: length(FakeTensorMode().from_tensor(a)),
            lambda: length(torch.empty(4, device="meta")),
            lambda: torch.vmap(clear[1, 4])(a),
            lambda: torch.func.functionalize(length)(a),
        ):
            with pytest.raises((TypeError, ValueError)) as caught:
                call()
            found.append((type(caught.value), str(caught.value)))
        return found

    first = words()
    for _ in range(2):
        assert length(torch.ones(3)) == 3 and length(torch.ones(2, 4), b=2) == 4
        clear[1, 4](torch.ones(4))
    assert words() == first
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(lambda a: a * length(a), torch.ones(3), check_trace=False)
    assert traced(torch.ones(3)).tolist() == [3, 3, 3]


@weft.kernel
def vectors_kernel(a: weft.Tensor, out: weft.Tensor):
    first = 4 * weft.thread_idx.x
    weft.store_vector(out, first, weft.load_vector(a, first, 4))


PROMISED = weft.fake_tensor(weft.f32, (weft.sym("n", divisibility=4),), alignment_bytes=16)


@weft.jit
def promised(a: PROMISED, out: PROMISED):
    vectors_kernel(a, out).launch(grid=1, block=a.shape[0] // 4)


@weft.jit
def unannotated(a, out):
    vectors_kernel(a, out).launch(grid=1, block=a.shape[0] // 4)


CALLS = {
    "vmap": lambda op, a: torch.vmap(op)(a),
    "columns": lambda op, a: torch.vmap(op, in_dims=1)(a.t()),
    "compile": lambda op, a: whole(lambda a: torch.stack([op(a[0]), op(a[1])]))(a),
    "functionalize": lambda op, a: torch.func.functionalize(
        lambda a: torch.stack([op(a[0]), op(a[1])])
    )(a),
}


@pytest.mark.parametrize("function", [promised, unannotated], ids=["annotated", "own"])
@pytest.mark.parametrize("call", CALLS)
def test_promises_of_operators_hold_for_each_batch_element_or_are_refused(function, call):
    """Rows of a batch are parts of its memory: aligned as their distance says, and checked by each call."""
    op = weft.torch.custom_op(
        function, outputs={"out": like}, name=f"weft_tests::{call}_{function.function.__name__}"
    )
    memory = torch.arange(64.0)
    aligned = memory[: 2 * 20].reshape(2, 20)[:, :16]
    assert torch.equal(CALLS[call](op, aligned), aligned)
    refused = r"divisible by 16|known to be aligned|multiple of 4"
    for wrong in (memory[:36].reshape(2, 18)[:, :16], memory[:34].reshape(2, 17)[:, :16]):
        with pytest.raises((ValueError, weft.WeftError), match=refused):
            CALLS[call](op, wrong)
    with pytest.raises((ValueError, weft.WeftError), match=refused):
        CALLS[call](op, memory[:28].reshape(2, 14))


@pytest.mark.parametrize(
    "transform",
    [
        torch.vmap,
        torch.func.functionalize,
        lambda f: torch.func.grad(lambda a: f(a).sum()),
        lambda f: lambda a: torch.func.jvp(f, (a,), (a,)),
    ],
    ids=["vmap", "functionalize", "grad", "jvp"],
)
def test_a_direct_call_in_a_transform_is_refused_before_its_promises_are_asked(transform):
    def copied(a):
        out = torch.zeros_like(a)
        promised(a, out)
        return out

    with pytest.raises(weft.SignatureError, match="inside a transform such as vmap or grad"):
        transform(copied)(torch.zeros(2, 16))
