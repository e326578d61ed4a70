# SPDX-License-Identifier: Apache-2.0
"""Layers of `weft.nn` beside torch's: state dicts, results, gradients, pickles, graphs and checkpoints."""

from __future__ import annotations

import copy
import pickle

import pytest

import weft
from tests.sampling import sampled

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = pytest.mark.torch


def pairs():
    """By name: a layer, torch's with the same arguments, and an input."""
    nn, own = torch.nn, weft.nn
    x = torch.randn(2, 3, 4)
    places, labels = torch.tensor([[0, 4], [4, 1]]), torch.tensor([1, -100, 2])
    return {
        "linear": (own.Linear(4, 5), nn.Linear(4, 5), (x,)),
        "linear of a vector": (
            own.Linear(4, 5, bias=False),
            nn.Linear(4, 5, bias=False),
            (x[0, 0],),
        ),
        "rms_norm": (own.RMSNorm(4), nn.RMSNorm(4), (x,)),
        "rms_norm without weight": (
            own.RMSNorm(4, eps=0.1, elementwise_affine=False),
            nn.RMSNorm(4, eps=0.1, elementwise_affine=False),
            (x,),
        ),
        "rms_norm of two dims": (own.RMSNorm((3, 4)), nn.RMSNorm((3, 4)), (x,)),
        "layer_norm": (own.LayerNorm(4), nn.LayerNorm(4), (x,)),
        "layer_norm without bias": (
            own.LayerNorm(4, bias=False),
            nn.LayerNorm(4, bias=False),
            (x,),
        ),
        "embedding": (own.Embedding(5, 4), nn.Embedding(5, 4), (places,)),
        "embedding with padding": (own.Embedding(5, 4, 0), nn.Embedding(5, 4, 0), (places,)),
        "gelu": (own.GELU("tanh"), nn.GELU("tanh"), (x,)),
        "softmax": (own.Softmax(-1), nn.Softmax(-1), (x,)),
        "softmax of columns": (own.Softmax(1), nn.Softmax(1), (x,)),
        "loss": (own.CrossEntropyLoss(), nn.CrossEntropyLoss(), (x[0], labels)),
        "loss of planes": (
            own.CrossEntropyLoss(reduction="sum"),
            nn.CrossEntropyLoss(reduction="sum"),
            (x, torch.tensor([[1, 2, 0, -100], [0, 0, 1, 1]])),
        ),
        "losses": (
            own.CrossEntropyLoss(reduction="none"),
            nn.CrossEntropyLoss(reduction="none"),
            (x[0], labels),
        ),
        "smooth loss": (
            own.CrossEntropyLoss(label_smoothing=0.1),
            nn.CrossEntropyLoss(label_smoothing=0.1),
            (x[0], labels),
        ),
    }


def trained(layer, inputs):
    """The result, and all gradients."""
    inputs = [
        one.detach().clone().requires_grad_() if one.is_floating_point() else one for one in inputs
    ]
    result = layer(*inputs)
    tensors = [one for one in (*inputs, *layer.parameters()) if one.requires_grad]
    return result, torch.autograd.grad(result.sum() * 2, tensors)


@pytest.mark.parametrize("name", sampled(pairs(), 10))
def test_a_layer_is_torchs(name):
    torch.manual_seed(0)
    ours, theirs, inputs = pairs()[name]
    ours.load_state_dict(theirs.state_dict())
    assert isinstance(ours, type(theirs))
    torch.testing.assert_close(trained(ours, inputs), trained(theirs, inputs))
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_default_eps_of_rms_norm_is_that_of_sums(dtype):
    x = torch.full((2, 4), 1e-8 if dtype is torch.float64 else 1e-3, dtype=dtype)
    found, expected = (one.RMSNorm(4, dtype=dtype)(x) for one in (weft.nn, torch.nn))
    torch.testing.assert_close(found, expected)


def test_a_loss_under_autocast_is_f32():
    logits, target = torch.randn(3, 5).bfloat16(), torch.tensor([1, 2, -100])
    with torch.autocast("cpu"):
        found, expected = (one.CrossEntropyLoss()(logits, target) for one in (weft.nn, torch.nn))
    torch.testing.assert_close(found, expected)


def test_dropout_is_of_torchs_generator():
    layer, x = weft.nn.Dropout(0.25), torch.ones(10_000, requires_grad=True)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for one in (layer, compiled):
        torch.manual_seed(0)
        found = one(x)
        (gradient,) = torch.autograd.grad(found.sum(), x)
        torch.manual_seed(0)
        assert torch.equal(found, gradient) and torch.equal(one(x), found)
        assert not torch.equal(one(x), found)
        assert abs(float((found == 0).float().mean()) - 0.25) < 0.02
    inplace = weft.nn.Dropout(1.0, inplace=True)(torch.ones(3))
    assert torch.equal(layer.eval()(x), x) and not inplace.any()


@pytest.mark.parametrize("kind", ["SwiGLU", "Attention"])
def test_a_block_computes_what_its_layers_say(kind):
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8, requires_grad=True)
    nn = torch.nn.functional
    if kind == "SwiGLU":
        ours = weft.nn.SwiGLU(8, 6, bias=True)
        gate, up = torch.nn.Linear.forward(ours.gate_up_proj, x).chunk(2, -1)
        expected = torch.nn.Linear.forward(ours.down_proj, nn.silu(gate) * up)
    else:
        ours = weft.nn.Attention(8, heads=4, key_heads=2)
        q, k, v = (
            torch.nn.Linear.forward(one, x).unflatten(-1, (-1, 2)).transpose(1, 2)
            for one in (ours.q_proj, ours.k_proj, ours.v_proj)
        )
        found = nn.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        expected = torch.nn.Linear.forward(ours.o_proj, found.transpose(1, 2).flatten(-2))
    tensors = [x, *ours.parameters()]
    torch.testing.assert_close(ours(x), expected)
    checkpointed = torch.utils.checkpoint.checkpoint(ours, x, use_reentrant=False)
    found = torch.autograd.grad(checkpointed.sum(), tensors)
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), tensors))


def test_rotary_positions_turn_queries_and_keys():
    torch.manual_seed(0)
    layer, x = weft.nn.Attention(8, heads=2), torch.randn(1, 3, 8)
    angles = torch.rand(3, 2)
    assert not torch.allclose(layer(x, angles.cos(), angles.sin()), layer(x))
    torch.testing.assert_close(layer(x, torch.ones(3, 2), torch.zeros(3, 2)), layer(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = weft.nn.Embedding(11, 8)
        self.norm = weft.nn.RMSNorm(8)
        self.attention = weft.nn.Attention(8, heads=2)
        self.mlp = weft.nn.SwiGLU(8, 12)
        self.head = weft.nn.Linear(8, 11, bias=False, activation="relu")
        self.loss = weft.nn.CrossEntropyLoss()

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.attention(self.norm(x))
        x = x + self.mlp(x)
        return self.loss(self.head(x)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


@pytest.mark.slow
def test_a_model_is_one_graph_a_pickle_and_a_copy():
    torch.manual_seed(0)
    model, tokens = Model(), torch.randint(0, 11, (2, 6))
    loss = model(tokens)
    loss.backward()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(tokens), loss)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    grads = [one.grad.clone() for one in model.parameters()]
    model.zero_grad()
    compiled(tokens).backward()
    torch.testing.assert_close([one.grad for one in model.parameters()], grads)


MAIN_GRADS = {
    "f32": lambda weight: torch.ones(weight.shape),
    "of columns": lambda weight: torch.ones(weight.T.shape, dtype=torch.float64).T,
    "of a buffer": lambda weight: torch.ones(2, 3 * weight.numel())[
        1, 1 : 1 + weight.numel()
    ].view_as(weight),
}


@pytest.mark.parametrize("activation", sampled(["silu", None], 2))
@pytest.mark.parametrize("kind", sampled(MAIN_GRADS, 2))
def test_a_weights_gradient_is_added_to_main_grad(kind, activation):
    torch.manual_seed(0)
    layer = weft.nn.Linear(6, 4, dtype=torch.bfloat16, activation=activation)
    x = torch.randn(3, 5, 6, dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn(3, 5, 4, dtype=torch.bfloat16)
    tensors = [x, layer.weight, layer.bias]
    expected = torch.autograd.grad(layer(x), tensors, gradient)
    x.grad = layer.bias.grad = None
    main = layer.weight.main_grad = MAIN_GRADS[kind](layer.weight)
    for _ in range(2):
        layer(x).backward(gradient)
    assert layer.weight.main_grad is main and layer.weight.grad is None
    torch.testing.assert_close([x.grad, layer.bias.grad], [2 * expected[0], 2 * expected[2]])
    if activation is None:
        rows = gradient.flatten(0, 1).to(main.dtype).T
        wide = 1 + 2 * rows @ x.detach().flatten(0, 1).to(main.dtype)
        torch.testing.assert_close(main, wide, rtol=2e-6, atol=2e-6)  # more digits than bf16 has
    else:
        near = 1 + 2 * expected[1].to(main.dtype)
        torch.testing.assert_close(main, near, rtol=0.02, atol=0.05)
    # Gradients that are asked for by name are returned.
    kept = main.clone()
    torch.testing.assert_close(torch.autograd.grad(layer(x), tensors, gradient), expected)
    torch.testing.assert_close(torch.autograd.grad(layer(x), x, gradient)[0], expected[0])
    layer(x).backward(gradient, inputs=[x])
    assert torch.equal(main, kept)


def test_a_trainer_knows_which_gradients_are_in_main_grad():
    layer, x = weft.nn.Linear(3, 2, bias=False), torch.ones(4, 3)
    weight, seen = layer.weight, list[bool]()
    weight.main_grad, weight.grad_added_to_main_grad = torch.zeros(2, 3), False
    weight.register_post_accumulate_grad_hook(lambda one: seen.append(one.grad_added_to_main_grad))
    checkpointed = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    (checkpointed.sum() + layer(x[0]).sum()).backward()
    assert seen == [True] and not weight.grad.any()
    assert weight.main_grad.tolist() == [[5.0] * 3] * 2
    with torch.no_grad():
        layer(x)
    with torch.autocast("cpu"):
        assert layer(x).dtype == torch.bfloat16
        layer(x).sum().backward()
    assert weight.main_grad.tolist() == [[9.0] * 3] * 2
    other = torch.func.grad(lambda p: torch.func.functional_call(layer, p, x).sum())
    assert other({"weight": weight})["weight"].tolist() == [[4.0] * 3] * 2
    assert weight.main_grad.tolist() == [[9.0] * 3] * 2
    # Graphs write to no main_grad: the layer is left to Python.
    torch.compile(lambda x: 2 * layer(x), backend="aot_eager")(x).sum().backward()
    assert weight.main_grad.tolist() == [[17.0] * 3] * 2
    torch._dynamo.reset()
    with pytest.raises(Exception, match="the backward of a weight with main_grad writes to it"):
        torch.compile(layer, backend="aot_eager", fullgraph=True)(x)
    grad = torch.autograd.grad(layer(x).sum(), weight, create_graph=False)[0]
    assert grad.tolist() == [[4.0] * 3] * 2
    with pytest.raises(RuntimeError, match="main_grad has no second derivative"):
        torch.autograd.grad(layer(x).sum(), weight, create_graph=True)
    for wrong, said in (
        (torch.zeros(3, 2), r"main_grad has shape \(3, 2\) on cpu, expected \(2, 3\) on cpu"),
        (
            torch.zeros(2, 3, dtype=torch.int32),
            r"main_grad is torch.int32, expected a tensor of floats",
        ),
        ("f32", "main_grad is str, expected a tensor of floats"),
    ):
        weight.main_grad = wrong
        with pytest.raises((TypeError, ValueError), match=said):
            layer(x)


def fused_inputs(rows, dtype=torch.float64, features=3, classes=7):
    """Rows, a weight, a bias, and targets, of which one is ignored."""
    torch.manual_seed(0)
    shapes = (rows, features), (classes, features), (classes,)
    tensors = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    target = torch.randint(0, classes, (rows,))
    target[1] = -100
    return tensors, target


def fused(tensors, target, **options):
    x, weight, bias = tensors
    return weft.nn.linear_cross_entropy(x, weight, target, linear_bias=bias, **options)


def unfused(tensors, target, **options):
    return torch.nn.functional.cross_entropy(
        torch.nn.functional.linear(*tensors), target, **options
    )


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of four rows."""
    monkeypatch.setattr(weft.nn.loss, "_ROWS", 4)


@pytest.mark.parametrize("smoothing", sampled([0.3, 0.0], 2))
@pytest.mark.parametrize("reduction", sampled(["mean", "sum", "none"], 2))
@pytest.mark.parametrize("rows", [5, 21])  # a chunk, and six
@pytest.mark.usefixtures("small_chunks")
def test_the_fused_loss_is_that_of_all_logits(rows, reduction, smoothing):
    tensors, target = fused_inputs(rows)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    found, expected = fused(tensors, target, **options), unfused(tensors, target, **options)
    torch.testing.assert_close(found, expected)
    gradient = torch.randn_like(expected)
    grads = torch.autograd.grad(expected, tensors, gradient)
    first = torch.autograd.grad(found, tensors, gradient, retain_graph=True)
    second = torch.autograd.grad(found, tensors, 2 * gradient)
    torch.testing.assert_close(first, grads)
    torch.testing.assert_close(second, [2 * one for one in grads])
    with torch.no_grad():
        torch.testing.assert_close(fused(tensors, target, **options), expected)


def test_a_fused_loss_of_no_rows_has_gradients_of_zeros():
    (x, weight, bias), target = fused_inputs(4)
    tensors = [x.detach()[:0].requires_grad_(), weight, bias]
    for reduction in ("sum", "none"):
        found, expected = (
            one(tensors, target[:0], reduction=reduction) for one in (fused, unfused)
        )
        torch.testing.assert_close(found, expected)
        grads = [torch.autograd.grad(one.sum(), tensors) for one in (found, expected)]
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize("smoothing", [0.3, 0.0])
def test_rows_that_are_ignored_have_no_part_in_the_fused_loss(smoothing):
    (x, weight, bias), target = fused_inputs(4)
    tensors = [
        x.detach().index_fill(0, torch.tensor([1]), torch.nan).requires_grad_(),
        weight,
        bias,
    ]
    found, expected = (one(tensors, target, label_smoothing=smoothing) for one in (fused, unfused))
    torch.testing.assert_close(found, expected)
    none = torch.full_like(target, -100)
    tensors[0] = x
    grads = [
        torch.autograd.grad(one(tensors, none, label_smoothing=smoothing), tensors)
        for one in (fused, unfused)
    ]
    torch.testing.assert_close(*grads)


def test_targets_of_bytes_are_compared_with_ignore_index_as_integers():
    tensors, _ = fused_inputs(4, classes=200)
    target = torch.tensor([156, 1, 2, 156], dtype=torch.uint8)  # -100 modulo 256
    expected = unfused(tensors, target.long())
    torch.testing.assert_close(fused(tensors, target), expected)
    logits = torch.nn.functional.linear(*tensors)
    torch.testing.assert_close(weft.nn.CrossEntropyLoss()(logits, target), expected)
    smooth = {"label_smoothing": 0.2}
    torch.testing.assert_close(
        fused(tensors, target, **smooth), unfused(tensors, target.long(), **smooth)
    )


@pytest.mark.usefixtures("small_chunks")
def test_the_fused_loss_passes_gradcheck_and_is_one_graph():
    tensors, target = fused_inputs(11)
    for reduction in ("mean", "none"):
        assert torch.autograd.gradcheck(
            lambda *own, kind=reduction: fused(own, target, reduction=kind), tensors
        )
        graph = torch.compile(fused, backend="aot_eager", fullgraph=True)
        found = graph(tensors, target, reduction=reduction).sum()
        expected = unfused(tensors, target, reduction=reduction).sum()
        grads = [torch.autograd.grad(one, tensors) for one in (found, expected)]
        torch.testing.assert_close(*grads)
    # A penalty of gradients is not left out of a sum with a loss.
    loss = fused(tensors, target)
    penalty = torch.autograd.grad(loss, tensors, create_graph=True)[0].square().sum()
    with pytest.raises(RuntimeError, match="differentiate twice"):
        (fused(tensors, target) + penalty).backward()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.usefixtures("small_chunks")
def test_the_fused_loss_of_16_bit_floats_rounds_as_few_times(dtype):
    tensors, target = fused_inputs(21, dtype)
    wide = [one.detach().double().requires_grad_() for one in tensors]
    found, expected = fused(tensors, target), unfused(wide, target)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, atol=0.01, rtol=0.01)
    # A scaled loss: gradients of float16 do not vanish.
    grads = torch.autograd.grad(found * 2.0**12, tensors)
    expected = torch.autograd.grad(expected * 2.0**12, wide)
    for one, other in zip(grads, expected, strict=True):
        assert one.dtype == dtype
        assert (one.double() - other).norm() < 0.02 * other.norm()


def test_only_the_logits_of_a_chunk_are_in_memory(monkeypatch):
    sizes, own = [], weft.kernels.gemm
    monkeypatch.setattr(
        weft.nn.loss.kernels,
        "gemm",
        lambda *given, out, **named: sizes.append(out.numel()) or own(*given, out=out, **named),
    )
    tensors, target = fused_inputs(1000, torch.float32, classes=50)
    expected = torch.autograd.grad(unfused(tensors, target), tensors)
    torch.testing.assert_close(torch.autograd.grad(fused(tensors, target), tensors), expected)
    assert max(sizes) == 128 * 50


def test_a_chunk_takes_the_weights_memory_or_less_than_sums_would():
    rows, options = (
        weft.nn.loss._rows_of_chunk,
        weft.nn.loss.Options(-100, 0.0, "mean", True, True, True),
    )
    for dtype, most in ((torch.float32, 200), (torch.bfloat16, 600)):
        weight = torch.empty(7, 200, dtype=dtype)
        assert rows(weight.new_empty(most, 200), weight, options) == most
        assert rows(weight.new_empty(most + 1, 200), weight, options) == 200
        assert (
            rows(weight.new_empty(most + 1, 200), weight, options._replace(by_weight=False)) == 200
        )


def test_floating_point_operations_of_the_fused_loss_are_counted():
    counter = pytest.importorskip("torch.utils.flop_counter", reason="needs another torch")
    tensors, target = fused_inputs(10)
    expected = torch.autograd.grad(unfused(tensors, target), tensors)
    with counter.FlopCounterMode(display=False) as mode:
        found = torch.autograd.grad(fused(tensors, target), tensors)
    torch.testing.assert_close(found, expected)
    assert mode.get_total_flops() == 3 * 2 * 10 * 3 * 7


def test_the_fused_loss_under_autocast_is_of_its_type():
    tensors, target = fused_inputs(6, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = fused(tensors, target)
    grads = torch.autograd.grad(found, tensors)
    assert [one.dtype for one in grads] == [torch.float32] * 3
    torch.testing.assert_close(found, unfused(tensors, target), atol=0.05, rtol=0.05)


def test_a_fused_layer_has_its_own_weight_and_tied_ones_take_the_function():
    torch.manual_seed(0)
    layer = weft.nn.FusedLinearCrossEntropy(3, 7, bias=True, label_smoothing=0.1)
    assert [*layer.state_dict()] == ["linear.weight", "linear.bias"]
    x, target = torch.randn(2, 5, 3), torch.randint(0, 7, (2, 5))
    own = layer.linear.weight, layer.linear.bias
    expected = unfused((x.flatten(0, 1), *own), target.flatten(), label_smoothing=0.1)
    torch.testing.assert_close(layer(x, target), expected)
    torch.testing.assert_close(pickle.loads(pickle.dumps(layer))(x, target), expected)
    again = torch.utils.checkpoint.checkpoint(layer, x, target, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again, own), torch.autograd.grad(expected, own))


def test_a_mixture_of_experts_is_that_of_its_experts():
    torch.manual_seed(0)
    layer, x = weft.nn.MoE(4, 6, experts=3, top_k=2), torch.randn(2, 5, 4, requires_grad=True)
    rows = x.flatten(0, 1)
    weights, indices = torch.softmax(rows @ layer.gate.weight.T, -1).topk(2)
    weights = weights / weights.sum(-1, keepdim=True)
    expected = 0.0
    for expert, (packed, down) in enumerate(
        zip(layer.experts.gate_up_proj, layer.experts.down_proj, strict=True)
    ):
        gate, up = (rows @ packed.T).chunk(2, -1)
        share = (weights * (indices == expert)).sum(-1, keepdim=True)
        expected = expected + share * ((torch.nn.functional.silu(gate) * up) @ down.T)
    expected, tensors = expected.reshape(x.shape), [x, *layer.parameters()]
    torch.testing.assert_close(layer(x), expected)
    grads = torch.autograd.grad(expected.square().sum(), tensors)
    for call in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True)):
        torch.testing.assert_close(torch.autograd.grad(call(x).square().sum(), tensors), grads)
    again = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again.square().sum(), tensors), grads)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), layer(x))


def test_misuse_is_named():
    with pytest.raises(ValueError, match=r"top_k is 4, expected 1 to 3"):
        weft.nn.MoE(4, 6, experts=3, top_k=4)
    with pytest.raises(ValueError, match="reduction is 'average', expected one of"):
        weft.nn.FusedLinearCrossEntropy(3, 7, reduction="average")
    tensors, target = fused_inputs(4)
    with pytest.raises(ValueError, match=r"target has shape \(3,\), expected \(4,\)"):
        fused(tensors, target[:3])
    with pytest.raises(TypeError, match="expected integers; for probabilities"):
        fused(tensors, target.double())
    with pytest.raises(ValueError, match=r"input has shape \(4, 3\) and linear_weight \(3, 7\)"):
        fused((tensors[0], tensors[1].T, tensors[2]), target)
    with pytest.raises(ValueError, match="label_smoothing is 2, expected 0 to 1"):
        fused(tensors, target, label_smoothing=2)
    with pytest.raises(
        ValueError, match=r"RMSNorm: the input has shape \(2, 3\), expected \(..., 4\)"
    ):
        weft.nn.RMSNorm(4, elementwise_affine=False)(torch.ones(2, 3))
    with pytest.raises(TypeError, match=r"activation is .* expected a name"):
        weft.nn.Linear(2, 2, activation=torch.relu)
    with pytest.raises(ValueError, match="key_heads is 3, expected a divisor of heads, 4"):
        weft.nn.Attention(8, 4, 3)
    with pytest.raises(ValueError, match="dim is 9, expected a multiple of heads, 4"):
        weft.nn.Attention(9, 4)
