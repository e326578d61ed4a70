# SPDX-License-Identifier: Apache-2.0
"""Layers of torch over ``weft.kernels``: subclasses of torch's layers, with their parameters, names and options.

In: arguments of torch's layers. Out: modules that load their state dicts, are pickled and compiled
(``torch.compile(fullgraph=True)``). An option that no kernel has runs torch's own code.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from weft import kernels
from weft.dynamo import left_to_python
from weft.errors import UnavailableError, brief
from weft.kernels.linalg.gemm import linear_gradients
from weft.nn.experts import experts_of
from weft.nn.loss import REDUCTIONS, is_counted, linear_cross_entropy
from weft.torch_operators import is_transformed

if TYPE_CHECKING:

    class Module:  # what checkers see of torch's modules
        def __init__(self, *arguments: Any, **keywords: Any) -> None: ...
        def __call__(self, *arguments: Any) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...
        def extra_repr(self) -> str: ...

        forward: Any

    class CrossEntropyBase(Module): ...

    class DropoutBase(Module): ...

    class EmbeddingBase(Module): ...

    class GELUBase(Module): ...

    class LayerNormBase(Module): ...

    class LinearBase(Module): ...

    class RMSNormBase(Module): ...

    class SoftmaxBase(Module): ...

    class Function(Module):
        apply: Any

    torch: Any = None
else:
    try:
        torch = import_module("torch")
    except ModuleNotFoundError:
        torch = None

        class Module:  # so that the page of the reference is made without torch, too
            """A layer that torch is missing for."""

            def __init__(self, *_: Any, **__: Any) -> None:
                raise UnavailableError(
                    "TORCH_MISSING",
                    f"weft.nn.{type(self).__name__} needs torch, which is not installed",
                    hint="install torch",
                )

        LinearBase = RMSNormBase = LayerNormBase = EmbeddingBase = Function = Module
        GELUBase = SoftmaxBase = CrossEntropyBase = DropoutBase = Module
    else:
        Module, LinearBase, RMSNormBase = torch.nn.Module, torch.nn.Linear, torch.nn.RMSNorm
        LayerNormBase, EmbeddingBase = torch.nn.LayerNorm, torch.nn.Embedding
        GELUBase, SoftmaxBase = torch.nn.GELU, torch.nn.Softmax
        DropoutBase = torch.nn.Dropout
        CrossEntropyBase, Function = torch.nn.CrossEntropyLoss, torch.autograd.Function

__all__ = (
    "GELU",
    "Attention",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "FusedLinearCrossEntropy",
    "LayerNorm",
    "Linear",
    "MoE",
    "RMSNorm",
    "Softmax",
    "SwiGLU",
    "linear",
    "linear_cross_entropy",
)


class Linear(LinearBase):
    """`torch.nn.Linear` with an activation in the epilogue of its GEMM.

    Args:
        in_features, out_features, bias, device, dtype: as torch's.
        activation: as that of `weft.kernels.gemm`, a name, or a name with parameters; None: the identity.

    Example:
        >>> import torch, weft.nn
        >>> layer = weft.nn.Linear(2, 3, activation="relu")
        >>> layer(torch.zeros(4, 2)).shape, list(layer.state_dict())
        (torch.Size([4, 3]), ['weight', 'bias'])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        activation: Any = None,
    ) -> None:
        if callable(activation):
            raise TypeError(
                f"activation is {brief(activation)}, expected a name: a function has no derivative that torch knows"
            )
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, input: Any) -> Any:
        """``activation(input @ weight.T + bias)``, of an input of any rank."""
        return linear(input, self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        own = "" if self.activation is None else f", activation={self.activation!r}"
        return super().extra_repr() + own


def linear(x: Any, weight: Any, bias: Any = None, activation: Any = None) -> Any:
    """``activation(x @ weight.T + bias)``, as `torch.nn.functional.linear`.

    If the weight has an attribute `main_grad`, a tensor of floats of its shape, the backward adds the weight's gradient
    to that in the epilogue of its GEMM, in main_grad's type, and `weight.grad` stays None. If it has the attribute
    `grad_added_to_main_grad`, this becomes True, and the gradient that autograd gets for the weight is zeros.

    Args:
        x: the input, (..., in_features).
        weight: (out_features, in_features).
        bias: (out_features,); None: 0.
        activation: a name, as that of `weft.kernels.gemm`; None: the identity.

    Raises:
        TypeError: for a main_grad that holds no floats, or is a `DTensor`.
        ValueError: for a main_grad of another shape or on another device.

    Example:
        >>> import torch, weft.nn
        >>> weight = torch.nn.Parameter(torch.zeros(1, 2))
        >>> weight.main_grad = torch.ones(1, 2)
        >>> weft.nn.linear(torch.tensor([3.0, 4.0]), weight).backward()
        >>> weight.main_grad.tolist(), weight.grad
        ([[4.0, 5.0]], None)
    """
    if x.dim() == 1:
        return linear(x[None], weight, bias, activation)[0]
    main_grad = getattr(weight, "main_grad", None)
    if main_grad is None or not weight.requires_grad or not torch.is_grad_enabled():
        return kernels.gemm(x, weight.T, bias, activation)
    return _outside_of_graphs(x, weight, bias, activation)


_UNTRACED: Final[list[Any]] = []


def _outside_of_graphs(*arguments: Any) -> Any:
    """Calls `_with_main_grad`, and keeps torch's tracer, where it is there, from looking at it."""
    if "torch._dynamo" not in sys.modules:
        return _with_main_grad(*arguments)
    if not _UNTRACED:
        _UNTRACED.append(torch.compiler.disable(_with_main_grad))
    return _UNTRACED[0](*arguments)


left_to_python(
    _outside_of_graphs, "the backward of a weight with main_grad writes to it, which no graph does"
)


def _with_main_grad(x: Any, weight: Any, bias: Any, activation: Any) -> Any:
    """`linear` of a weight that has `main_grad`."""
    if is_transformed(torch):  # which has gradients of its own
        return kernels.gemm(x, weight.T, bias, activation)
    main_grad = weight.main_grad
    if not isinstance(main_grad, torch.Tensor) or not main_grad.is_floating_point():
        kind = getattr(main_grad, "dtype", type(main_grad).__name__)
        raise TypeError(f"weight.main_grad is {kind}, expected a tensor of floats")
    if (
        type(weight) not in (torch.Tensor, torch.nn.Parameter)
        or type(main_grad) is not torch.Tensor
    ):
        names = f"{type(weight).__name__} with a main_grad of {type(main_grad).__name__}"
        raise TypeError(f"weight is a {names}, expected plain tensors; pass weight.to_local()")
    expected, found = ((tuple(one.shape), one.device) for one in (weight, main_grad))
    if found != expected:
        raise ValueError(
            f"weight.main_grad has shape {found[0]} on {found[1]}, expected {expected[0]} on {expected[1]}"
        )
    return _LinearWithMainGrad.apply(x, weight, bias, activation)


class _LinearWithMainGrad(Function):
    """A linear layer whose backward adds the weight's gradient to `weight.main_grad`, as Megatron's."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, activation: Any) -> Any:
        kind = x.device.type
        if torch.is_autocast_enabled(kind) and x.itemsize in (2, 4):
            x = x.to(torch.get_autocast_dtype(kind))
        ctx.save_for_backward(x, weight, bias)
        ctx.activation = activation
        ctx.weight = weight  # checkpointing saves tensors without attributes
        with torch.autocast(kind, enabled=False):
            return kernels.gemm(x, weight.to(x.dtype).T, bias, activation)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a weight with main_grad has no second derivative; delete main_grad, or leave create_graph= away"
            )
        x, value, bias = ctx.saved_tensors
        weight: Any = ctx.weight
        needed, into = list(ctx.needs_input_grad[:3]), weight.main_grad
        try:
            # `torch.autograd.grad` and `backward(inputs=...)` of other tensors leave the weight out.
            node = torch.autograd.graph.get_gradient_edge(weight).node
            needed[1] = torch._C._will_engine_execute_node(node)
        except RuntimeError:  # `torch.autograd.grad` of the weight returns its gradient
            into = None
        found = linear_gradients(gradient, x, value, bias, ctx.activation, needed, into)
        grad_x, grad_weight, grad_bias = found
        if needed[1] and into is not None:
            grad_weight = None
            if hasattr(weight, "grad_added_to_main_grad"):
                weight.grad_added_to_main_grad = True
                grad_weight = torch.zeros_like(weight)
        return grad_x, grad_weight, grad_bias, None


class RMSNorm(RMSNormBase):
    """`torch.nn.RMSNorm`, over the last dimension.

    Example:
        >>> import torch, weft.nn
        >>> weft.nn.RMSNorm(2, eps=0.0)(torch.tensor([[3.0, 3.0]])).tolist()
        [[1.0, 1.0]]
    """

    def forward(self, x: Any) -> Any:
        """x / √(mean of x² + eps) · weight, for each row."""
        if len(self.normalized_shape) != 1:
            return super().forward(x)
        _check_columns(self, x)
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        eps = torch.finfo(wide).eps if self.eps is None else self.eps  # as torch
        return kernels.rms_norm(x, self.weight, eps)


class LayerNorm(LayerNormBase):
    """`torch.nn.LayerNorm`, over the last dimension.

    Example:
        >>> import torch, weft.nn
        >>> weft.nn.LayerNorm(2, eps=0.0)(torch.tensor([[3.0, 5.0]])).tolist()
        [[-1.0, 1.0]]
    """

    def forward(self, input: Any) -> Any:
        """(x − mean) / √(variance + eps) · weight + bias, for each row."""
        if len(self.normalized_shape) != 1:
            return super().forward(input)
        _check_columns(self, input)
        return kernels.layer_norm(input, self.weight, self.bias, self.eps)


def _check_columns(module: Any, x: Any) -> None:
    """Raises an error for rows of another length, which a norm without a weight would take."""
    if x.shape[-1] != module.normalized_shape[0]:
        raise ValueError(
            f"{type(module).__name__}: the input has shape {tuple(x.shape)}, "
            f"expected (..., {module.normalized_shape[0]})"
        )


class Embedding(EmbeddingBase):
    """`torch.nn.Embedding`; with `max_norm`, `scale_grad_by_freq`, `sparse` or `padding_idx` it is torch's own code.

    Example:
        >>> import torch, weft.nn
        >>> weft.nn.Embedding(5, 3)(torch.tensor([4, 0])).shape
        torch.Size([2, 3])
    """

    def forward(self, input: Any) -> Any:
        """The rows of the weight at indices of any shape."""
        is_plain = self.max_norm is None and self.padding_idx is None
        if self.scale_grad_by_freq or self.sparse or not is_plain or input.dim() == 0:
            return super().forward(input)
        return kernels.embedding(self.weight, input)


class GELU(GELUBase):
    """`torch.nn.GELU`.

    Example:
        >>> import torch, weft.nn
        >>> weft.nn.GELU()(torch.tensor([0.0, 100.0])).tolist()
        [0.0, 100.0]
    """

    def forward(self, input: Any) -> Any:
        """Each element times the integral of the normal distribution up to it."""
        return super().forward(input) if input.dim() == 0 else kernels.gelu(input, self.approximate)


class Softmax(SoftmaxBase):
    """`torch.nn.Softmax`; along another dimension than the last one it is computed by torch.

    Example:
        >>> import torch, weft.nn
        >>> weft.nn.Softmax(-1)(torch.zeros(1, 2)).tolist()
        [[0.5, 0.5]]
    """

    def forward(self, input: Any) -> Any:
        """exp(x) / Σ exp(x), for each row."""
        if input.dim() == 0 or self.dim not in (-1, input.dim() - 1):
            return super().forward(input)
        return kernels.softmax(input)


_SEEDS: Final = (1 << 63) - 1


class Dropout(DropoutBase):
    """`torch.nn.Dropout`, by `weft.kernels.dropout` with a seed of torch's generator, which `torch.manual_seed` sets.

    The seed stays on the device, so that replays of a CUDA graph drop other elements, and no mask is kept for the
    derivative. With ``inplace=True`` it is torch's own code.

    Example:
        >>> import torch, weft.nn
        >>> weft.nn.Dropout(0.5).eval()(torch.ones(2)).tolist()
        [1.0, 1.0]
    """

    def forward(self, input: Any) -> Any:
        """In training each element is 0 with probability p, else divided by 1 − p."""
        is_plain = self.training and self.p and not self.inplace
        if not is_plain or input.dim() == 0 or not input.is_floating_point():
            return super().forward(input)
        seed = torch.randint(_SEEDS, (1,), device=input.device)
        return kernels.dropout(input, self.p, seed)


class SwiGLU(Module):
    """The feed-forward layer of Llama: ``down_proj(silu(gate) · up)``, with one GEMM for both halves.

    Args:
        dim: of the input and the result.
        hidden_dim: of `gate` and of `up`, which are the halves of ``gate_up_proj(x)``.
        bias: whether both layers have one.
        device, dtype: of the parameters.

    Example:
        >>> import torch, weft.nn
        >>> list(weft.nn.SwiGLU(4, 8).state_dict())
        ['gate_up_proj.weight', 'down_proj.weight']
    """

    def __init__(
        self, dim: int, hidden_dim: int, bias: bool = False, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.gate_up_proj = Linear(dim, 2 * hidden_dim, bias, device, dtype)
        self.down_proj = Linear(hidden_dim, dim, bias, device, dtype)

    def forward(self, x: Any) -> Any:
        """The result, of x's shape."""
        return self.down_proj(kernels.silu_mul(self.gate_up_proj(x)))


class CrossEntropyLoss(CrossEntropyBase):
    """`torch.nn.CrossEntropyLoss`; with weights, label smoothing, or probabilities it is computed by torch.

    Example:
        >>> import torch, weft.nn
        >>> round(float(weft.nn.CrossEntropyLoss()(torch.zeros(3, 4), torch.tensor([0, 1, 3]))), 4)
        1.3863
    """

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of each row, or their sum or mean over the rows that are not ignored, in the input's type."""
        is_plain = self.weight is None and self.label_smoothing == 0 and input.dim() > 1
        if not is_plain or target.is_floating_point():
            return super().forward(input, target)
        logits = input if input.dim() == 2 else input.movedim(1, -1)
        losses = kernels.cross_entropy(logits, target, self.ignore_index)
        loss = reduced(losses, target, self.ignore_index, self.reduction)
        # As torch's, which computes it in f32 under autocast.
        return loss if torch.is_autocast_enabled(input.device.type) else loss.to(input.dtype)


class FusedLinearCrossEntropy(Module):
    """A linear layer and the loss of its logits, by `linear_cross_entropy`; as `torch.nn.LinearCrossEntropyLoss`.

    Args:
        in_features: of a row.
        num_classes: the layer's outputs.
        bias: whether the layer has one.
        device, dtype: of the parameters.
        reduction, ignore_index, label_smoothing: as of `linear_cross_entropy`.

    Example:
        >>> import torch, weft.nn
        >>> loss = weft.nn.FusedLinearCrossEntropy(2, 4)
        >>> loss(torch.zeros(3, 2), torch.tensor([1, -100, 3])).shape, list(loss.state_dict())
        (torch.Size([]), ['linear.weight'])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction is {brief(reduction)}, expected one of {REDUCTIONS}")
        self.linear = Linear(in_features, num_classes, bias, device, dtype)
        self.reduction, self.ignore_index = reduction, ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of rows (..., in_features) with targets (...), in f32, or f64 for f64."""
        return linear_cross_entropy(
            input,
            self.linear.weight,
            target,
            linear_bias=self.linear.bias,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        return (
            f"reduction={self.reduction!r}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}"
        )


def reduced(losses: Any, target: Any, ignore_index: int, reduction: str) -> Any:
    """The losses of rows, their sum, or their mean over the rows that are not ignored."""
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / is_counted(target, ignore_index).sum()


class Attention(Module):
    """Attention of a transformer and its projections, with as many heads of keys as of queries or fewer.

    Args:
        dim: of the input and the result.
        heads: of queries.
        key_heads: of keys and values, a divisor of `heads`; None: as many.
        hdim: elements of a head; None: dim // heads.
        bias: whether the projections have one.
        causal: whether a token sees itself and those before it alone.
        device, dtype: of the parameters.

    Example:
        >>> import torch, weft.nn
        >>> layer = weft.nn.Attention(8, heads=4, key_heads=2)
        >>> layer(torch.zeros(1, 3, 8)).shape, list(layer.state_dict())[:2]
        (torch.Size([1, 3, 8]), ['q_proj.weight', 'k_proj.weight'])
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        key_heads: int | None = None,
        hdim: int | None = None,
        bias: bool = False,
        causal: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        key_heads = heads if key_heads is None else key_heads
        if heads < 1 or key_heads < 1 or heads % key_heads:
            raise ValueError(f"key_heads is {key_heads}, expected a divisor of heads, {heads}")
        if hdim is None and dim % heads:
            raise ValueError(f"dim is {dim}, expected a multiple of heads, {heads}, or hdim=")
        self.heads, self.key_heads, self.causal = heads, key_heads, causal
        self.hdim = dim // heads if hdim is None else hdim
        self.q_proj = Linear(dim, heads * self.hdim, bias, device, dtype)
        self.k_proj = Linear(dim, key_heads * self.hdim, bias, device, dtype)
        self.v_proj = Linear(dim, key_heads * self.hdim, bias, device, dtype)
        self.o_proj = Linear(heads * self.hdim, dim, bias, device, dtype)

    def forward(self, x: Any, cos: Any = None, sin: Any = None) -> Any:
        """The result, of x's shape, (..., tokens, dim).

        Args:
            x: the tokens.
            cos: the cosines of their rotary positions, (tokens, pairs), as `weft.kernels.rope` takes them; None: none.
            sin: their sines.
        """
        q = self._heads_of(self.q_proj, x, self.heads)
        k, v = (self._heads_of(one, x, self.key_heads) for one in (self.k_proj, self.v_proj))
        if cos is not None:
            q, k = kernels.rope(q, cos, sin), kernels.rope(k, cos, sin)
        return self.o_proj(kernels.attention(q, k, v, self.causal).flatten(-2))

    def _heads_of(self, projection: Any, x: Any, heads: int) -> Any:
        return projection(x).unflatten(-1, (heads, self.hdim))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, key_heads={self.key_heads}, hdim={self.hdim}, causal={self.causal}"


class MoE(Module):
    """A mixture of SwiGLU experts, with the parameters of transformers' Mixtral and Qwen 3 MoE.

    A token's experts are those of the `top_k` largest probabilities that ``gate`` gives it.

    Args:
        dim: of the input and the result.
        hidden_dim: of an expert.
        experts: their number.
        top_k: of them compute a token.
        normalize: whether the weights of a token's experts are divided by their sum.
        device, dtype: of the parameters.

    Example:
        >>> import torch, weft.nn
        >>> layer = weft.nn.MoE(4, 8, experts=3, top_k=2)
        >>> list(layer.state_dict())
        ['gate.weight', 'experts.gate_up_proj', 'experts.down_proj']
        >>> layer(torch.zeros(1, 5, 4)).shape
        torch.Size([1, 5, 4])
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        experts: int,
        top_k: int,
        normalize: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not 1 <= top_k <= experts:
            raise ValueError(f"top_k is {top_k}, expected 1 to {experts}, the number of experts")
        self.top_k, self.normalize = top_k, normalize
        self.gate = Linear(dim, experts, False, device, dtype)
        self.experts = _Experts(dim, hidden_dim, experts, device, dtype)

    def forward(self, x: Any) -> Any:
        """The result, of x's shape, (..., dim)."""
        rows = x.reshape(-1, x.shape[-1])
        logits = self.gate(rows)
        chances = logits if logits.dtype.itemsize > 2 else logits.float()
        weights, indices = kernels.softmax(chances).topk(self.top_k, -1)
        if self.normalize:
            weights = weights / weights.sum(-1, keepdim=True)
        return self.experts(rows, indices, weights.to(rows.dtype)).reshape(x.shape)

    def extra_repr(self) -> str:
        return f"top_k={self.top_k}, normalize={self.normalize}"


class _Experts(Module):
    """The weights of all experts, initialized as `Linear`'s."""

    def __init__(self, dim: int, hidden_dim: int, experts: int, device: Any, dtype: Any) -> None:
        super().__init__()
        for name, shape in {
            "gate_up_proj": (experts, 2 * hidden_dim, dim),
            "down_proj": (experts, dim, hidden_dim),
        }.items():
            weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            torch.nn.init.uniform_(weight, -(shape[-1] ** -0.5), shape[-1] ** -0.5)
            setattr(self, name, weight)

    def forward(self, x: Any, indices: Any, weights: Any) -> Any:
        return experts_of(x, indices, weights, self.gate_up_proj, self.down_proj, kernels.silu_mul)

    def extra_repr(self) -> str:
        experts, dim, hidden_dim = self.down_proj.shape
        return f"experts={experts}, dim={dim}, hidden_dim={hidden_dim}"
