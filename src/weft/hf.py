# SPDX-License-Identifier: Apache-2.0
"""Models of Hugging Face's transformers over ``weft.kernels``: ``weft.hf.apply(model)``, and ``restore(model)``.

In: a model of a known family. Out: the same model, whose norms, rotary positions, feed-forward layers, experts,
attention and loss call kernels. A layer gets a subclass of its class; a case that kernels lack runs the model's code.
"""

from __future__ import annotations

import logging
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet

from weft import kernels
from weft.errors import UnavailableError
from weft.nn.experts import experts_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("apply", "restore")

torch: Any = None
transformers: Any = None
try:
    torch, transformers = import_module("torch"), import_module("transformers")
except ModuleNotFoundError:
    pass  # `apply` says so

_LOG: Final = logging.getLogger("weft.hf")
_NAME: Final = "weft"  # of the attention, in transformers' tables
_STATE: Final = "_weft_hf"  # the attribute of a model: what `restore` puts back
# By the type of a configuration: the package of transformers that has the family's layers.
_FAMILIES: Final = {
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
    "llama": "llama",
    "mistral": "mistral",
    "mixtral": "mixtral",
    "phi": "phi",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3_moe",
}
_APPLIED: Final[dict[str, Any]] = {family: WeakSet[Any]() for family in _FAMILIES.values()}


def apply(model: Any) -> Any:
    """Lets a model of transformers compute by ``weft.kernels``.

    Parameters, state dict and results stay as they are, up to rounding. Pickles and copies of the model are such models
    too. A second call changes nothing. The function of rotary positions is one of the family's module in transformers:
    other models of the family in this process call weft's too, until all are restored.

    Args:
        model: a `transformers.PreTrainedModel`: Llama, Qwen 2 and 3, Qwen 3 MoE, Mistral, Mixtral, Gemma 2 and 3, Phi
            or Phi 3, with any head.

    Returns:
        The model.

    Raises:
        TypeError: for anything else, with the families.

    Example:
        >>> import torch, transformers, weft.hf
        >>> config = transformers.LlamaConfig(
        ...     vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
        ... )
        >>> model = weft.hf.apply(transformers.LlamaForCausalLM(config))
        >>> model.config._attn_implementation
        'weft'
    """
    family = _family_of(model)
    if getattr(model, _STATE, None) is not None:
        return model
    modeling: Any = import_module(f"transformers.models.{family}.modeling_{family}")
    layers = _layers_of(modeling)
    for module in model.modules():
        own = cast("Any", type(module))
        if own in layers:
            module.__class__ = _applied(layers[own], own)
    state: dict[str, Any] = {"attention": None, "has_loss": False}
    setattr(model, _STATE, state)
    _patch_rope(family)
    _APPLIED[family].add(model)
    if _has_attention(model.config):
        state["attention"] = model.config._attn_implementation
        model.set_attn_implementation(_NAME)
    if model.loss_function is _causal_lm_loss():
        model._loss_function, state["has_loss"] = loss, True
    return model


def restore(model: Any) -> Any:
    """Gives a model of `apply` its own code again; others stay as they are.

    Args:
        model: as of `apply`.

    Returns:
        The model.

    Raises:
        TypeError: for anything but a model of transformers of a known family.

    Example:
        >>> import torch, transformers, weft.hf
        >>> config = transformers.LlamaConfig(
        ...     vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
        ... )
        >>> model = weft.hf.apply(transformers.LlamaForCausalLM(config))
        >>> weft.hf.restore(model).config._attn_implementation
        'sdpa'
    """
    family = _family_of(model)
    state = getattr(model, _STATE, None)
    if state is None:
        return model
    for module in model.modules():
        if isinstance(module, _Layer):
            module.__class__ = type(module).own_class
    if state["attention"] is not None:
        model.set_attn_implementation(state["attention"])
    if state["has_loss"]:
        del model._loss_function
    delattr(model, _STATE)
    _APPLIED[family].discard(model)
    if not _APPLIED[family]:
        modeling: Any = import_module(f"transformers.models.{family}.modeling_{family}")
        own = modeling.apply_rotary_pos_emb
        modeling.apply_rotary_pos_emb = getattr(own, "weft_own", own)
    return model


def _family_of(model: Any) -> str:
    if transformers is None:
        raise UnavailableError(
            "TORCH_MISSING",
            "weft.hf needs torch and transformers, which are not installed",
            hint="install transformers",
        )
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if not isinstance(model, transformers.PreTrainedModel) or kind not in _FAMILIES:
        known = ", ".join(_FAMILIES)
        name = type(model).__name__ + (f" of type {kind!r}" if kind else "")
        raise TypeError(f"model is a {name}, expected a model of transformers of type {known}")
    return _FAMILIES[kind]


def _say(sentence: str) -> None:
    """Logs once that a model's own code runs."""
    if not torch.compiler.is_compiling():
        _say_once(sentence)


@cache
def _say_once(sentence: str) -> None:
    _LOG.warning(sentence)


# Layers: each is a base of a class that is made for a model's own one.


class _Layer:
    """A layer whose own class is the next one in the order of bases."""

    own_class: Any = None
    kind: Any = None

    def __reduce_ex__(self, _: Any) -> Any:
        return _made, (self.kind, self.own_class), self.__dict__


def _made(kind: Any, own: Any) -> Any:
    """An empty layer, for pickles and copies."""
    for family in set(_FAMILIES.values()):
        if own.__module__.endswith(f".modeling_{family}"):
            _patch_rope(family)
    made = _applied(kind, own)
    return made.__new__(made)


@cache
def _applied(kind: Any, own: Any) -> Any:
    names = {"own_class": own, "kind": kind, "__module__": own.__module__, "__doc__": own.__doc__}
    made: Any = type(own.__name__, (kind, own), names)
    return made


def _layers_of(modeling: Any) -> dict[Any, Any]:
    """The layers of a family: its class, and the base that computes it by kernels."""
    suffixes = {
        "RMSNorm": _OffsetRMSNorm if "gemma" in modeling.__name__ else _RMSNorm,
        "MLP": _MLP,
        "Experts": _Experts,
    }
    found: dict[Any, Any] = {torch.nn.LayerNorm: _LayerNorm}
    for name, value in cast("dict[str, Any]", vars(modeling)).items():
        for suffix, layer in suffixes.items():
            if isinstance(value, type) and name.endswith(suffix):
                found[value] = layer
    return found


def _is_plain(x: Any, *others: Any) -> bool:
    """Whether kernels take a tensor, beside others of its type."""
    is_float = x.is_floating_point() and x.dtype.itemsize > 1
    return is_float and all(one.dtype == x.dtype for one in others)


class _RMSNorm(_Layer):
    """``weight · x / √(mean of x² + eps)``."""

    def forward(self: Any, hidden_states: Any) -> Any:
        if not _is_plain(hidden_states, self.weight):
            return self.own_class.forward(self, hidden_states)
        return kernels.rms_norm(hidden_states, self.weight, self.variance_epsilon)


class _OffsetRMSNorm(_Layer):
    """Gemma's: ``(1 + weight) · x / √(mean of x² + eps)``, rounded once."""

    def forward(self: Any, x: Any) -> Any:
        if not _is_plain(x) or x.dtype == torch.float64:
            return self.own_class.forward(self, x)
        return kernels.rms_norm(x, 1.0 + self.weight.float(), self.eps)


class _LayerNorm(_Layer):
    def forward(self: Any, input: Any) -> Any:
        vectors = [one for one in (self.weight, self.bias) if one is not None]
        if len(self.normalized_shape) != 1 or not _is_plain(input, *vectors):
            return self.own_class.forward(self, input)
        return kernels.layer_norm(input, self.weight, self.bias, self.eps)


class _MLP(_Layer):
    """Feed-forward layers: of Llama, of Phi 3 with both halves in one GEMM, and of Phi without a gate."""

    def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
        function = getattr(self, "act_fn", None) or getattr(self, "activation_fn", None)
        kind = _ACTIVATIONS.get(type(function))
        (x,) = (*arguments, *keywords.values())
        if kind is None:
            _say(
                f"{type(self).__name__}: its activation {function} is none that kernels compute; it runs its own code"
            )
            return self.own_class.forward(self, x)
        if hasattr(self, "fc1"):
            hidden = self.fc1(x)
            return self.fc2(_activated(hidden, kind))
        if hasattr(self, "gate_up_proj"):
            hidden = self.gate_up_proj(x)
            if kind == "silu":
                return self.down_proj(kernels.silu_mul(hidden))
            gate, up = hidden.chunk(2, -1)
        else:
            gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(_gated(gate, up, kind))


def _activated(x: Any, kind: str) -> Any:
    return torch.nn.functional.silu(x) if kind == "silu" else kernels.gelu(x, kind)


def _gated(gate: Any, up: Any, kind: str) -> Any:
    return kernels.silu_mul(gate, up) if kind == "silu" else kernels.gelu(gate, kind) * up


class _Experts(_Layer):
    """A mixture of experts: tokens sorted by their expert, and two grouped GEMMs."""

    def forward(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        kind = _ACTIVATIONS.get(type(self.act_fn))
        if kind is None or not _is_plain(hidden_states, self.gate_up_proj, self.down_proj):
            _say(
                f"{type(self).__name__}: its activation or types are none that kernels compute; it runs its own code"
            )
            return self.own_class.forward(self, hidden_states, top_k_index, top_k_weights)

        def activated(packed: Any) -> Any:
            if kind == "silu":
                return kernels.silu_mul(packed)
            gate, up = packed.chunk(2, -1)
            return kernels.gelu(gate, kind) * up

        given = hidden_states, top_k_index, top_k_weights, self.gate_up_proj, self.down_proj
        return experts_of(*given, activated)


# Rotary positions: attention looks its function up in the module of its family.


def _patch_rope(family: str) -> None:
    modeling: Any = import_module(f"transformers.models.{family}.modeling_{family}")
    own = modeling.apply_rotary_pos_emb
    if getattr(own, "weft_own", None) is None:
        modeling.apply_rotary_pos_emb = _rotary(own)


def _rotary(own: Callable[..., Any]) -> Any:
    """The function of a family, by kernels."""

    def apply_rotary_pos_emb(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        if cos.dim() != 3 or unsqueeze_dim != 1 or not _is_plain(q, k) or cos.requires_grad:
            return own(q, k, cos, sin, unsqueeze_dim)
        pairs = cos.shape[-1] // 2
        cos, sin = cos[..., :pairs], sin[..., :pairs]
        return _rotated(q, cos, sin), _rotated(k, cos, sin)

    apply_rotary_pos_emb.weft_own = own  # type: ignore[attr-defined]
    return apply_rotary_pos_emb


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    """Heads (batch, heads, tokens, hdim), rotated by angles (batch or 1, tokens, pairs)."""
    tokens = x.transpose(1, 2)
    if cos.shape[0] == 1:
        return kernels.rope(tokens, cos[0], sin[0]).transpose(1, 2)
    rows = tokens.flatten(0, 1)
    rotated = kernels.rope(rows, cos.flatten(0, 1), sin.flatten(0, 1))
    return rotated.unflatten(0, tokens.shape[:2]).transpose(1, 2)


# Attention, in transformers' table of functions.


def _has_attention(config: Any) -> bool:
    """Whether kernels have a model's attention; the reason is logged if not."""
    if config._attn_implementation not in ("sdpa", "eager"):
        _say(
            f"{config.model_type}: its attention stays {config._attn_implementation!r}, as it was chosen"
        )
        return False
    return True


def attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[Any, None]:
    """The attention of transformers' interface: heads (batch, heads, tokens, hdim) to (batch, tokens, heads, hdim).

    Without a mask, with the bounds of one (`mask_of`), or for packed sequences whose bounds are given
    (`cu_seq_lens_q`), by kernels; else by torch.
    """
    reason = _lacks(query, key, value, dropout, options)
    packed, window = options.get("cu_seq_lens_q"), options.get("sliding_window")
    window = window if window is not None and window < key.shape[2] else None
    is_padded = attention_mask is not None and attention_mask.dtype == torch.int32
    is_packed = packed is not None and query.shape[0] == 1
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal, tokens = bool(is_causal), query.shape[2]
    if attention_mask is None and tokens > 1 and causal and key.shape[2] > tokens:
        # The first tokens of a static cache: a query's own key has its index.
        key, value = key[:, :, :tokens], value[:, :, :tokens]
    if reason is None and (attention_mask is None or is_packed or is_padded):
        q, k, v = (one.transpose(1, 2) for one in (query, key, value))
        sides = None if window is None else (window - 1, -1)
        given = sides, options.get("softcap")
        if is_packed:
            bounds = packed, options.get("cu_seq_lens_k", packed)
            longest = options.get("max_length_q")
            longest = longest if isinstance(longest, int) else None
            found = kernels.attention(q[0], k[0], v[0], causal, scaling, *bounds, longest, *given)
            return found[None], None
        if is_padded:
            by_q, by_k = cast("Any", attention_mask)[0, 0]
            q, k, v = (one.flatten(0, 1) for one in (q, k, v))
            found = kernels.attention(q, k, v, True, scaling, by_q, by_k, tokens, *given)
            return found.unflatten(0, (query.shape[0], tokens)), None
        causal = causal and tokens > 1
        return kernels.attention(q, k, v, causal, scaling, None, None, None, *given), None
    if reason is not None:
        _say(f"{type(module).__name__}: weft's attention has no {reason}; torch computes it")
    keywords = {"dropout": dropout, "scaling": scaling, "is_causal": is_causal, **options}
    softcap = options.get("softcap")
    if is_padded or (attention_mask is None and causal and (window or softcap)):
        bounds = (
            attention_mask if is_padded else _bounds(query.shape, key.shape[2], device=query.device)
        )
        attention_mask = _mask_of_bounds(bounds, query.shape, key.shape[2], window)
    if softcap is None:
        return _BY_TORCH[0](module, query, key, value, attention_mask, **keywords)
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        least = torch.finfo(query.dtype).min
        attention_mask = torch.zeros_like(attention_mask, dtype=query.dtype).masked_fill(
            ~attention_mask, least
        )
    own: Any = import_module(type(module).__module__)
    return own.eager_attention_forward(module, query, key, value, attention_mask, **keywords)


def mask_of(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Any = None,
    attention_mask: Any = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    **options: Any,
) -> Any:
    """The mask of transformers' interface: None, the bounds of sequences between padding, or torch's.

    Bounds are int32, (1, 1, 2, 4 * batch + 1): cumulative lengths of queries and of keys, of four sequences for each
    row: the queries of padding before its tokens, which see nothing; that padding's keys; the tokens; all after them.
    """
    given = {"mask_function": mask_function} if mask_function is not None else {}
    given |= {"attention_mask": attention_mask, "local_size": local_size, **options}
    sizes = batch_size, q_length, kv_length, q_offset, kv_offset
    device = options.get("device", "cpu")
    by_torch = partial(_MASK[0], *sizes, allow_is_causal_skip=allow_is_causal_skip, **given)
    is_causal = mask_function is _MASK[1] and local_size is None
    is_sliding = local_size is not None and allow_is_causal_skip
    is_read = attention_mask is not None  # on the host
    if kv_offset or not (is_causal or is_sliding) or (is_read and torch.compiler.is_compiling()):
        return by_torch()
    seen = q_offset + q_length
    first: Any = 0
    end: Any = seen
    is_full = attention_mask is None
    if is_read:
        mask = attention_mask.bool()
        if mask.shape != (batch_size, min(mask.shape[-1], kv_length)):
            return by_torch()
        first, count = mask.int().argmax(-1), mask.sum(-1)
        end = mask.shape[-1] - mask.flip(-1).int().argmax(-1)
        end = end.where(count > 0, first)
        is_full, is_one = torch.stack([mask.all(), (end - first == count).all()]).tolist()
        if not is_one:
            return by_torch()
    if is_full and allow_is_causal_skip and isinstance(q_offset, int):
        # `attention` knows the window, and that queries are the first ones, or the last one.
        if not q_offset or (q_length == 1 and seen == kv_length):
            return None
    if torch.compiler.is_compiling() or (q_length == 1 and batch_size > 1):
        # Several rows of a cache are not adjacent: there would be a copy.
        return by_torch()
    return _bounds((batch_size, 1, q_length, 1), kv_length, q_offset, first, end, device=device)


def _bounds(
    shape: Any, keys: int, offset: Any = None, first: Any = 0, end: Any = None, device: Any = None
) -> Any:
    """Bounds of rows whose tokens are from `first` to `end`; by default all, the queries are the last ones."""
    batch, _, queries, _ = shape
    offset = keys - queries if offset is None else offset
    rows = torch.arange(batch, device=device)
    first, end = (torch.zeros_like(rows) + one for one in (first, keys if end is None else end))
    before, own = ((one - offset).clamp(0, queries) for one in (first, end))
    by_k = torch.stack([rows * keys + one for one in (0, 0, first, end)], -1).flatten()
    by_q = torch.stack([rows * queries + one for one in (0, before, before, own)], -1).flatten()
    ends = [
        torch.nn.functional.pad(one, (0, 1), value=batch * size)
        for one, size in ((by_q, queries), (by_k, keys))
    ]
    return torch.stack(ends).to(torch.int32)[None, None]  # transformers takes 4 dims as they are


def _mask_of_bounds(bounds: Any, shape: Any, keys: int, window: int | None = None) -> Any:
    """The mask of bounds, (batch, 1, tokens, keys); queries of padding see all keys."""
    batch, _, tokens, _ = shape
    rows = torch.arange(batch, device=bounds.device)
    (q_first, q_end), (first, end) = (
        [ends[place::4][:batch, None, None] - rows[:, None, None] * size for place in (2, 3)]
        for ends, size in zip(bounds[0, 0], (tokens, keys), strict=True)
    )
    queries = torch.arange(tokens, device=bounds.device)[None, :, None]
    places = torch.arange(keys, device=bounds.device)
    after = (places - end) - (queries - q_end)
    seen = (places >= first) & (places < end) & (after <= 0)
    if window is not None:
        seen &= after > -window
    return (seen | (queries < q_first) | (queries >= q_end))[:, None]


def _lacks(query: Any, key: Any, value: Any, dropout: float, options: dict[str, Any]) -> str | None:
    """A feature of a call that kernels lack, or None."""
    if options.get("s_aux") is not None:
        raise ValueError("weft.hf has no sinks of attention: weft.hf.restore(model)")
    if dropout:
        return "dropout"
    if options.get("position_bias") is not None:
        return "position bias"
    if not _is_plain(query, key, value):
        return f"mixture of {query.dtype}, {key.dtype} and {value.dtype}"
    if value.shape[-1] != key.shape[-1] or query.shape[-1] > 1024:
        return f"heads of {key.shape[-1]} and {value.shape[-1]} elements"
    return None


# The loss.


def _causal_lm_loss() -> Any:
    return import_module("transformers.loss.loss_utils").ForCausalLMLoss


def loss(
    logits: Any,
    labels: Any,
    vocab_size: int,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: Any = None,
    **_: Any,
) -> Any:
    """The loss of the next token, as transformers' `ForCausalLMLoss`, without logits in f32."""
    if shift_labels is None:
        padded = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)
        shift_labels = padded[..., 1:].contiguous()
    target = shift_labels.reshape(-1).to(logits.device)
    losses = kernels.cross_entropy(logits.reshape(-1, vocab_size), target, ignore_index)
    if num_items_in_batch is None:
        return losses.sum() / (target != ignore_index).sum()
    if isinstance(num_items_in_batch, torch.Tensor):
        num_items_in_batch = num_items_in_batch.to(losses.device)
    return losses.sum() / num_items_in_batch


_ACTIVATIONS: Final[dict[Any, str]] = {}  # that kernels have, by their classes
_BY_TORCH: Final[list[Any]] = []  # the attention that takes masks
_MASK: Final[list[Any]] = []  # torch's masks, and the function of causal ones
if transformers is not None:
    _own: Any = import_module("transformers.activations").ACT2FN
    _ACTIVATIONS[type(_own["silu"])] = "silu"
    _ACTIVATIONS[type(_own["gelu"])] = "none"
    _ACTIVATIONS[type(_own["gelu_new"])] = _ACTIVATIONS[type(_own["gelu_pytorch_tanh"])] = "tanh"
    _BY_TORCH.append(transformers.AttentionInterface()["sdpa"])
    # Pickles of models name the attention alone: the import enters it in transformers' tables, with its masks.
    transformers.AttentionInterface.register(_NAME, attention)
    _masks: Any = transformers.AttentionMaskInterface
    _utilities: Any = import_module("transformers.masking_utils")
    _MASK.extend([_masks()["sdpa"], _utilities.causal_mask_function])
    _masks.register(_NAME, mask_of)
