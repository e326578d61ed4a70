# SPDX-License-Identifier: Apache-2.0
"""The loss of a linear layer's logits, by chunks of rows.

Computes cross_entropy(x · weightᵀ + bias, target) and, in the same pass, its gradients, which backward scales. In:
tensors of torch. Out: the loss in f32, f64 for f64. The gradient of the weight is summed in f32 over chunks. A chunk's
logits take as much memory as the weight; if all of them take less than such sums would, there is one chunk.
"""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import weft
from weft import kernels

torch: Any = None
try:
    torch = import_module("torch")
except ModuleNotFoundError:
    pass  # the layers say so

REDUCTIONS: Final = ("none", "mean", "sum")
_ROWS: Final = 128  # of a chunk, at least: a tile of a GEMM


class Options(NamedTuple):
    """Arguments other than tensors.

    Attributes:
        ignore_index: rows with this target have loss 0.
        label_smoothing: the share of the target that all classes get.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        by_x, by_weight, by_bias: whether there is such a gradient.
    """

    ignore_index: int
    label_smoothing: float
    reduction: str
    by_x: bool
    by_weight: bool
    by_bias: bool


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """`cross_entropy` of ``input @ linear_weight.T + linear_bias``, by chunks of rows.

    The logits of a chunk take as much memory as the weight; all rows are one chunk if that takes less than the sums of
    the weight's gradient in f32. Gradients are computed with the loss, if torch records any; of ``reduction="none"``
    and in float16 backward computes the logits again. There is no second derivative.

    Args:
        input: the rows, (..., features), of 16, 32 or 64-bit floats.
        linear_weight: (classes, features), of input's type.
        target: integers, (...), each from 0 below the number of classes, or `ignore_index`.
        linear_bias: (classes,), of input's type; None: 0.
        reduction: of the losses: ``"mean"`` over the rows that are not ignored, ``"sum"``, or ``"none"``.
        ignore_index: rows with this target have loss 0.
        label_smoothing: the share of the target, 0 to 1, that all classes get equally.

    Returns:
        The loss, or one per row, of f32, or f64 for f64.

    Raises:
        TypeError: for floats as targets; for tensors of other types.
        ValueError: for shapes that do not fit; for another reduction, or a label smoothing out of range.

    Example:
        >>> import torch, weft.nn
        >>> weight, labels = torch.zeros(4, 2), torch.tensor([1, -100, 3])
        >>> round(float(weft.nn.linear_cross_entropy(torch.ones(3, 2), weight, labels)), 4)
        1.3863
    """
    _check(input, linear_weight, target, linear_bias, reduction, label_smoothing)
    tensors: list[Any] = [input, linear_weight, linear_bias]
    kind = input.device.type
    if is_cast := torch.is_autocast_enabled(kind):
        narrow = torch.get_autocast_dtype(kind)
        tensors = [one if one is None else one.to(narrow) for one in tensors]
    needs = [one is not None and one.requires_grad for one in tensors]
    options = Options(
        int(ignore_index),
        float(label_smoothing),
        reduction,
        *(needs if torch.is_grad_enabled() else (False,) * 3),
    )
    x, weight, bias = tensors
    rows, labels = x.reshape(-1, x.shape[-1]), target.reshape(-1)
    with torch.autocast(kind, enabled=False) if is_cast else nullcontext():
        if any(options[3:]):
            loss = LinearCrossEntropy.apply(rows, weight, bias, labels, options)
        else:
            losses = _call(_ones(rows, labels), rows, weight, bias, labels, options)[0]
            loss = _reduced(losses, _scale(labels, options, losses.dtype), options)
    return loss.reshape(target.shape) if reduction == "none" else loss


def _check(
    x: Any, weight: Any, target: Any, bias: Any, reduction: str, label_smoothing: float
) -> None:
    name = "linear_cross_entropy"
    if reduction not in REDUCTIONS:
        raise ValueError(f"{name}: reduction is {reduction!r}, expected one of {REDUCTIONS}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing is {label_smoothing}, expected 0 to 1")
    if target.is_floating_point():
        raise TypeError(
            f"{name}: target has {target.dtype}, expected integers; for probabilities "
            "call torch.nn.functional.cross_entropy"
        )
    if weight.dim() != 2 or x.dim() < 1 or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"{name}: input has shape {tuple(x.shape)} and linear_weight {tuple(weight.shape)}, "
            "expected (..., features) and (classes, features)"
        )
    if target.shape != x.shape[:-1]:
        raise ValueError(
            f"{name}: target has shape {tuple(target.shape)}, expected {tuple(x.shape[:-1])}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"{name}: linear_bias has shape {tuple(bias.shape)}, expected {tuple(weight.shape[:1])}"
        )


def _wide(x: Any) -> Any:
    """The type of sums."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _ones(x: Any, target: Any) -> Any:
    return target.new_ones(target.shape, dtype=_wide(x))


def is_counted(target: Any, ignore_index: int) -> Any:
    """Whether each row is not ignored. Elements of 8 or 16 bits would take ignore_index modulo their range."""
    return (target if target.dtype.itemsize > 2 else target.int()) != ignore_index


def _scale(target: Any, options: Options, dtype: Any) -> Any:
    """The gradient of each loss that is not ignored, of the reduced one."""
    if options.reduction != "mean":
        return 1.0
    return 1.0 / is_counted(target, options.ignore_index).sum(dtype=dtype)


def _reduced(losses: Any, scale: Any, options: Options) -> Any:
    return losses if options.reduction == "none" else losses.sum() * scale


def _is_late(x: Any, options: Options) -> bool:
    """Whether backward computes the gradients, from those of the losses: in f16 they vanish without its scale."""
    return options.reduction == "none" or x.dtype == torch.float16


def _rows_of_chunk(x: Any, weight: Any, options: Options) -> int:
    """Rows of a chunk: its logits take the weight's memory; all rows where sums over chunks would take more.

    Sums of 32 and 64-bit floats take none beside the gradient.
    """
    rows, features = x.shape
    chunk, wide = max(_ROWS, features), _wide(x)
    sums = wide.itemsize * features if options.by_weight and wide != x.dtype else 0
    return rows if rows * x.dtype.itemsize <= chunk * x.dtype.itemsize + sums else chunk


def _gradients(
    gradient: Any, x: Any, weight: Any, bias: Any, target: Any, options: Options
) -> tuple[Any, Any, Any, Any]:
    """The losses, and the gradients by x, weight and bias from those of the losses; None: not asked for."""
    wide, smoothing = _wide(x), options.label_smoothing
    losses = x.new_empty(x.shape[:1], dtype=wide)
    by_x = x.new_empty(x.shape) if options.by_x else None
    by_weight = by_bias = None
    chunk = _rows_of_chunk(x, weight, options)
    is_whole = chunk >= len(x)
    if options.by_weight:
        make = weight.new_empty if len(x) else weight.new_zeros
        by_weight = make(weight.shape, dtype=None if is_whole else wide)
    if options.by_bias:
        by_bias = weight.new_zeros(weight.shape[:1], dtype=wide)
    counted = chosen = cast("Any", None)
    logits = buffer = x.new_empty((min(chunk, len(x)), len(weight)))
    for first in range(0, len(x), max(chunk, 1)):
        part = slice(first, min(first + chunk, len(x)))
        own, labels = x[part], target[part]
        logits = kernels.gemm(own, weight.T, bias, out=buffer[: len(own)])
        kernels.cross_entropy(logits, labels, options.ignore_index, out=losses[part])
        if smoothing:
            counted = is_counted(labels, options.ignore_index)
            chosen = labels.long().clamp(0, len(weight) - 1)[:, None]
            # (1 - s) · CE + s · (logsumexp - mean): the difference of the target's logit and the mean is added.
            found = logits.gather(1, chosen)[:, 0].to(wide) - logits.mean(1, dtype=wide)
            losses[part] += smoothing * found.where(counted, 0.0)
        if not any(options[3:]):
            continue
        kernels.cross_entropy_backward(
            gradient[part], logits, labels, options.ignore_index, out=logits
        )
        if smoothing:
            share = smoothing * gradient[part].where(counted, 0.0)
            logits.sub_((share / len(weight))[:, None])
            logits.scatter_add_(1, chosen, share[:, None].to(logits.dtype))
        if by_x is not None:
            kernels.gemm(logits, weight, out=by_x[part])
        if by_weight is not None:
            sums = by_weight if first else None
            kernels.gemm(logits.T, own, residual=sums, out=by_weight)
        if by_bias is not None:
            by_bias += logits.sum(0, dtype=wide)
    del buffer, logits  # before the sums are converted
    if by_weight is not None:
        by_weight = by_weight.to(weight.dtype)
    return losses, by_x, by_weight, by_bias if by_bias is None else by_bias.to(weight.dtype)


# Programs of torch.compile: one operator, so that its buffers are its own.


def _declare() -> None:
    """Registers the operator; gradients that are not asked for are empty."""

    def run(
        gradient: Any,
        x: Any,
        weight: Any,
        bias: Any,
        target: Any,
        ignore_index: int,
        label_smoothing: float,
        needs: list[bool],
    ) -> list[Any]:
        options = Options(ignore_index, label_smoothing, "none", *needs)
        found = _gradients(gradient, x, weight, bias, target, options)
        return [x.new_empty(0) if one is None else one for one in found]

    def fake(
        gradient: Any, x: Any, weight: Any, bias: Any, target: Any, _: int, __: float, needs: Any
    ) -> list[Any]:
        shapes = x.shape, weight.shape, weight.shape[:1]
        grads = [
            x.new_empty(shape if is_needed else 0)
            for shape, is_needed in zip(shapes, needs, strict=True)
        ]
        return [x.new_empty(x.shape[:1], dtype=_wide(x)), *grads]

    schema = (
        "(Tensor gradient, Tensor x, Tensor weight, Tensor? bias, Tensor target, SymInt ignore_index, "
        "float label_smoothing, bool[] needs) -> Tensor[]"
    )
    name = "weft::linear_cross_entropy_gradients"
    made = torch.library.custom_op(name, run, mutates_args=(), schema=schema)
    made.register_fake(fake)
    counter: Any = import_module("torch.utils.flop_counter")

    @counter.register_flop_formula(torch.ops.weft.linear_cross_entropy_gradients)
    def flops(_: Any, x: Any, weight: Any, *rest: Any, **__: Any) -> int:  # pyright: ignore[reportUnusedFunction]
        rows, classes = x[0], weight[0]
        return 2 * rows * x[-1] * classes * (1 + sum(rest[-1][:2]))


def _call(gradient: Any, x: Any, weight: Any, bias: Any, target: Any, options: Options) -> Any:
    """`_gradients`, in programs and modes of torch by its operator."""
    if not torch.compiler.is_compiling() and not torch._C._len_torch_dispatch_stack():
        return _gradients(gradient, x, weight, bias, target, options)
    smoothing, needs = options.label_smoothing, list(options[3:])
    given = gradient, x, weight, bias, target, options.ignore_index, smoothing, needs
    losses, *grads = torch.ops.weft.linear_cross_entropy_gradients(*given)
    return losses, *[one if needed else None for one, needed in zip(grads, needs, strict=True)]


@weft.kernel
def scale_kernel(x: weft.Tensor, factor: weft.Tensor) -> None:
    """An iteration: an element; none is read where the factor is 1, as that of a loss mostly is."""
    wide = factor.dtype
    for place in weft.each(x.shape):
        if factor[0] != wide(1.0):
            x[place] = x.dtype(wide(x[place]) * factor[0])


@weft.jit
def scale(x: weft.Tensor, factor: weft.Tensor) -> None:
    """Multiplies a tensor by an element in place."""
    scale_kernel(x, factor).launch(over=x.shape)


if torch is not None:
    _declare()

    class LinearCrossEntropy(torch.autograd.Function):
        """The loss, with its gradients computed in the forward pass, unless each row has one of its own."""

        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, bias: Any, target: Any, options: Options) -> Any:
            ctx.options, ctx.is_used = options, False
            is_late = _is_late(x, options)
            own = (
                options._replace(by_x=False, by_weight=False, by_bias=False) if is_late else options
            )
            scale = _scale(target, options, _wide(x))
            losses, *grads = _call(_ones(x, target) * scale, x, weight, bias, target, own)
            ctx.save_for_backward(x, weight, bias, target, *([] if is_late else grads))
            return _reduced(losses, scale, options)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            if torch.is_grad_enabled() and not torch.compiler.is_compiling():
                # The results depend on x and the weight: their derivatives are an error, not left out.
                gradient = gradient.detach().requires_grad_()
            return LinearCrossEntropy._gradients(ctx, gradient)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def _gradients(ctx: Any, gradient: Any) -> Any:
            x, weight, bias, target, *grads = ctx.saved_tensors
            options = ctx.options
            if _is_late(x, options):
                own = _ones(x, target) * _scale(target, options, _wide(x)) * gradient
                grads = _call(own, x, weight, bias, target, options)[1:]
            elif torch.compiler.is_compiling():
                grads = [one if one is None else one * gradient for one in grads]
            else:
                if ctx.is_used:  # of a graph that is kept: these are scaled by another gradient
                    own = _ones(x, target) * _scale(target, options, _wide(x))
                    grads = _gradients(own, x, weight, bias, target, options)[1:]
                ctx.is_used = True
                for one in grads:
                    if one is not None and one.numel():
                        scale(one.data, gradient.reshape(1))  # which torch is not to see
            return *grads, None, None
