# SPDX-License-Identifier: Apache-2.0
"""Small random models of transformers, with `weft.hf.apply` and without: results, gradients, texts, graphs, pickles."""

from __future__ import annotations

import copy
import logging
import pickle
import subprocess
import sys

import pytest

from tests.sampling import sampled

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
transformers = pytest.importorskip("transformers", reason="needs transformers: make test TORCH=1")
import weft.hf  # noqa: E402  # it needs both

pytestmark = pytest.mark.torch
SMALL = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MODELS = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 8}),
    "mistral": ("MistralConfig", {"sliding_window": 4}),
    "gemma2": ("Gemma2Config", {"head_dim": 8, "sliding_window": 4}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 8, "sliding_window": 4}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12},
    ),
    "phi": ("PhiConfig", {"qk_layernorm": True}),
    "phi3": ("Phi3Config", {"partial_rotary_factor": 0.5}),
}


def model_of(name, **options):
    """A random model in evaluation mode."""
    torch.manual_seed(0)
    kind, own = MODELS[name]
    config = getattr(transformers, kind)(**{**SMALL, **own, **options})
    return transformers.AutoModelForCausalLM.from_config(config).eval()


FIRST = ("llama",)


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name in FIRST else pytest.mark.slow) for name in MODELS]
)
def model(request):
    made = model_of(request.param)
    yield made
    weft.hf.restore(made)


@pytest.fixture
def llama():
    made = model_of("llama")
    yield made
    weft.hf.restore(made)


def tokens(*shape):
    return torch.randint(3, SMALL["vocab_size"], shape)


def trained(model, *arguments, **keywords):
    """Logits, loss and all gradients."""
    model.zero_grad()
    found = model(*arguments, **keywords)
    found.loss.backward()
    grads = [one.grad.clone() for one in model.parameters() if one.grad is not None]
    return found.logits.detach(), found.loss.detach(), grads


def check(found, expected):
    torch.testing.assert_close(found, expected, atol=3e-5, rtol=1e-4)


def layers(model):
    return {type(module) for module in model.modules() if isinstance(module, weft.hf._Layer)}


def test_a_model_computes_what_it_did_and_is_restored(model):
    x = tokens(2, 7)
    labels = x.clone()
    labels[0, :3] = -100
    expected, names, text = trained(model, x, labels=labels), [*model.state_dict()], repr(model)
    own = model.config._attn_implementation
    assert weft.hf.apply(weft.hf.apply(model)) is model
    assert layers(model)
    assert ([*model.state_dict()], repr(model)) == (names, text)
    check(trained(model, x, labels=labels), expected)
    check(trained(model, x, labels=labels, num_items_in_batch=5)[1], expected[1] * 10 / 5)
    weft.hf.restore(weft.hf.restore(model))
    assert not layers(model)
    assert model.config._attn_implementation == ("eager" if own == "eager" else "sdpa")
    again = trained(model, x, labels=labels)
    assert torch.equal(again[0], expected[0])


@pytest.mark.parametrize("cache", sampled(["dynamic", "static"], 2))
def test_a_model_generates_the_same_text(model, cache):
    x, mask = tokens(2, 5), torch.ones(2, 5, dtype=torch.long)
    x[0, :2], mask[0, :2] = 0, 0
    options = {
        "max_new_tokens": 4,
        "do_sample": False,
        "cache_implementation": None if cache == "dynamic" else "static",
        "disable_compile": True,
        "eos_token_id": None,
    }
    whole = x[1:]
    expected = [model.generate(x, attention_mask=mask, **options), model.generate(whole, **options)]
    weft.hf.apply(model)
    found = [model.generate(x, attention_mask=mask, **options), model.generate(whole, **options)]
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", sampled(["llama", "gemma3"], 2))
def test_padding_on_either_side(name, side):
    model, x, mask = model_of(name), tokens(3, 6), torch.ones(3, 6, dtype=torch.long)
    padding = slice(0, 2) if side == "left" else slice(4, 6)
    mask[0, padding] = 0
    labels = x.masked_fill(mask == 0, -100)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    given = {"attention_mask": mask, "position_ids": positions, "labels": labels}
    expected = trained(model, x, **given)
    found = trained(weft.hf.apply(model), x, **given)
    weft.hf.restore(model)
    check(found[1:], expected[1:])
    check(found[0][mask == 1], expected[0][mask == 1])


def test_packed_sequences_do_not_see_each_other(llama):
    x = tokens(1, 7)
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3]])
    parts = [llama(x[:, :3]).logits, llama(x[:, 3:]).logits]
    expected = torch.cat(parts, 1)
    weft.hf.apply(llama)
    bounds = torch.tensor([0, 3, 7], dtype=torch.int32)
    packed = {
        "cu_seq_lens_q": bounds,
        "cu_seq_lens_k": bounds,
        "max_length_q": 4,
        "max_length_k": 4,
    }
    check(llama(x, position_ids=positions, use_cache=False).logits, expected)
    check(llama(x, position_ids=positions, use_cache=False, **packed).logits, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_a_model_is_one_graph(name):
    model, x = model_of(name), tokens(2, 6)
    expected = trained(model, x, labels=x)
    weft.hf.apply(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    check(trained(compiled, x, labels=x), expected)
    weft.hf.restore(model)


@pytest.mark.slow
def test_gradient_checkpointing_gives_the_same_gradients(llama):
    x = tokens(2, 6)
    expected = trained(llama.train(), x, labels=x)
    llama.gradient_checkpointing_enable()
    check(trained(weft.hf.apply(llama), x, labels=x), expected)


def test_copies_and_pickles_are_applied_and_can_be_restored(llama):
    x = tokens(2, 6)
    own = llama(x).logits
    expected = weft.hf.apply(llama)(x).logits
    for other in (copy.deepcopy(llama), pickle.loads(pickle.dumps(llama))):
        assert layers(other) == layers(llama)
        assert torch.equal(other(x).logits, expected)
        weft.hf.restore(other)
        assert not layers(other)
    weft.hf.restore(llama)
    assert torch.equal(llama(x).logits, own)


LOADED = """
import pickle, sys, torch
model, x, expected = pickle.load(open(sys.argv[1], "rb"))
assert type(model.model.norm).__mro__[1].__module__ == "weft.hf"
torch.testing.assert_close(model(x).logits, expected, atol=3e-5, rtol=1e-4)
"""


@pytest.mark.slow
def test_another_process_loads_a_pickle(llama, tmp_path):
    x = tokens(2, 6)
    file = tmp_path / "model"
    file.write_bytes(pickle.dumps((llama, x, weft.hf.apply(llama)(x).logits.detach())))
    subprocess.run([sys.executable, "-c", LOADED, str(file)], check=True)


def test_checkpoints_of_transformers_are_those_of_the_model(llama, tmp_path):
    weft.hf.apply(llama).save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    x = tokens(2, 6)
    check(loaded(x).logits, llama(x).logits)


@pytest.mark.slow
def test_16_bit_models_round_less_than_their_own_code(llama):
    x = tokens(2, 6)
    expected = llama.double()(x).logits
    llama.bfloat16()
    own = (llama(x).logits - expected).abs().mean()
    assert (weft.hf.apply(llama)(x).logits - expected).abs().mean() < 1.25 * own


def test_rotary_positions_of_a_family_are_its_own_again_after_the_last_model():
    modeling = transformers.models.llama.modeling_llama
    own, first, second = modeling.apply_rotary_pos_emb, model_of("llama"), model_of("llama")
    weft.hf.apply(first), weft.hf.apply(second)
    weft.hf.restore(first)
    assert modeling.apply_rotary_pos_emb is not own
    weft.hf.restore(second)
    assert modeling.apply_rotary_pos_emb is own


def test_attention_is_by_kernels_but_for_masks_with_gaps(llama, monkeypatch):
    called = []
    own = weft.hf.kernels.attention
    monkeypatch.setattr(weft.hf.kernels, "attention", lambda *a: called.append(1) or own(*a))
    weft.hf.apply(llama)(tokens(2, 6))
    layers = SMALL["num_hidden_layers"]
    assert len(called) == layers
    mask = torch.ones(2, 6, dtype=torch.long)
    mask[0, 0] = mask[1, 4] = mask[1, 5] = 0
    llama(tokens(2, 6), attention_mask=mask)
    assert len(called) == 2 * layers
    mask[0, 3] = 0
    llama(tokens(2, 6), attention_mask=mask)
    assert len(called) == 2 * layers
    weft.hf.restore(llama)
    llama = model_of("llama", attention_dropout=0.5).train()
    weft.hf.apply(llama)(
        tokens(2, 6), attention_mask=mask.fill_(1).index_fill_(1, torch.tensor([0]), 0)
    )
    assert len(called) == 2 * layers
    weft.hf.restore(llama)


@pytest.mark.parametrize("name", ["mistral", "gemma2"])
def test_windows_and_softcaps_are_by_kernels(name, monkeypatch):
    model, x = model_of(name), tokens(2, 7)
    expected = trained(model, x, labels=x)
    called, own = [], weft.hf.kernels.attention
    monkeypatch.setattr(weft.hf.kernels, "attention", lambda *a: called.append(a[8:]) or own(*a))
    check(trained(weft.hf.apply(model), x, labels=x), expected)
    softcap = model.config.attn_logit_softcapping if name == "gemma2" else None
    assert set(called) == {((3, -1), softcap)} | ({(None, softcap)} if softcap else set())
    weft.hf.restore(model)


@pytest.mark.parametrize("offset", [0, 2, torch.tensor(2)])
@pytest.mark.parametrize("queries", [1, 3])
def test_bounds_of_padding_are_the_mask(queries, offset):
    by_torch, causal = weft.hf._MASK
    keys, seen = 7, int(offset) + queries
    mask = torch.zeros(3, seen, dtype=torch.bool)
    for row, part in enumerate((slice(1, seen), slice(0, max(seen - 1, 1)), slice(None))):
        mask[row, part] = True
    for padding in (mask, mask[:1], None):
        rows = 1 if padding is None else len(padding)
        given = (rows, queries, keys, offset, 0, causal, padding)
        expected = by_torch(*given, allow_is_causal_skip=False)
        found = weft.hf.mask_of(*given, allow_is_causal_skip=False)
        if found is None or found.dtype == torch.bool:
            assert (rows > 1 and queries == 1) or (padding is None and isinstance(offset, int))
            continue
        assert found.shape == (1, 1, 2, 4 * rows + 1)
        found = weft.hf._mask_of_bounds(found, (rows, 4, queries, 8), keys)
        places = torch.arange(queries) + offset
        is_token = torch.ones(rows, queries).bool() if padding is None else padding[:, places]
        assert torch.equal(found[:, 0][is_token], expected[:, 0][is_token])


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("gemma2", {"attention_dropout": 0.5}, "Gemma2Attention: weft's attention has no dropout"),
        ("llama", {"attention_dropout": 0.5}, "LlamaAttention: weft's attention has no dropout"),
        (
            "llama",
            {"hidden_act": "relu"},
            "LlamaMLP: its activation ReLU() is none that kernels compute",
        ),
    ],
)
def test_what_kernels_lack_is_said_once(name, options, sentence, caplog):
    weft.hf._say_once.cache_clear()
    model = model_of(name, **options)
    with caplog.at_level(logging.WARNING, "weft.hf"):
        weft.hf.apply(model.train())(tokens(1, 4))
    weft.hf.restore(model)
    assert sum(sentence in one.getMessage() for one in caplog.records) == 1


def test_models_of_other_families_are_refused():
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=32)
    with pytest.raises(TypeError, match=r"GPT2Model of type 'gpt2', expected .* llama"):
        weft.hf.apply(transformers.GPT2Model(config))
    with pytest.raises(TypeError, match="model is a Linear, expected a model of transformers"):
        weft.hf.restore(torch.nn.Linear(2, 2))
