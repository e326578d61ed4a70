# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.matmul``, ``gemm``, ``grouped_gemm`` and ``scaled_gemm``: C = epilogue(A · B), and its gradients.

In: arrays of floats of any layout. Out: an array. A call is a `GemmProblem`, which `dispatch` gives to a kernel. The
gradients are GEMMs again: with dC, multiplied by the derivative of the activation, dA = dC · Bᵀ and dB = Aᵀ · dC.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from weft.kernels.annotations import Arguments, Array, ElementType, Number
from weft.kernels.host.arrays import describe, number, output, output_like
from weft.kernels.host.autograd import NARROW, composite_backward, differentiable, is_tracked, vjp
from weft.kernels.host.dispatch_cache import cached_dispatch
from weft.kernels.linalg.dispatch import dispatch, run
from weft.kernels.linalg.epilogue import (
    Activation,
    Bias,
    Residual,
    accumulator_type,
    activate,
    activation_text,
    epilogue_of,
    gradient_epilogue,
    widest,
)
from weft.kernels.linalg.operands import SCALE_BLOCK, Scales, operand
from weft.kernels.linalg.problem import GemmProblem, gemm_problem, named_type, result_type

if TYPE_CHECKING:
    from collections.abc import Sequence


def _call(problem: GemmProblem) -> Array:
    """The call that computes a problem, or an empty result."""
    return problem.c.array if 0 in problem.c.shape else dispatch(problem)


def _type_name(dtype: ElementType) -> str | None:
    """The element type of a result as torch's operators take it."""
    return None if dtype is None else named_type(dtype)[1]


_type_name._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch's tracer calls it


def _like(a: Array, b: Array, dtype: str | None = None) -> Array:
    """A new tensor of torch like A · B."""
    if dtype is None:
        dtype = "bfloat16" if a.dtype.itemsize == 1 else None
    kind = a.dtype if dtype is None else getattr(sys.modules["torch"], dtype)
    shape = *(a.shape[:-2] or b.shape[:-2]), a.shape[-2], b.shape[-1]
    return a.new_empty(shape, dtype=kind)


def _flops(_: object, a: Array, b: Array, *__: object) -> int:
    stack = a.shape[:-2] or b.shape[:-2]
    return 2 * math.prod(stack) * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _scaled_operand(tensor: Array, factor: Number, name: str) -> tuple[Any, float]:
    """A tensor and its factor as torch's operators take it, a number; the gradient flows through the tensor.

    Raises:
        TypeError: for something else than a number; for one that requires a gradient with 8-bit floats.
    """
    if not is_tracked(factor):
        return tensor, number(factor, name)
    value = number(factor.detach(), name)
    if tensor.itemsize == 1:
        raise TypeError(
            f"{name} requires a gradient, which 8-bit operands do not give; pass {name}.item(), or multiply the result"
        )
    if value == 0:
        return tensor * factor.to(tensor.dtype), 1.0
    # A factor of 1 whose gradient is 1 / value.
    return tensor * (factor / value).to(tensor.dtype), value


def _wide_operand(tensor: Array) -> Array:
    """An operand as gradients are computed from it: bf16 for 8-bit floats, which hold no gradients without scales."""
    return tensor.bfloat16() if tensor.itemsize == 1 else tensor


def _saved(needed: Sequence[bool], a: Array, b: Array, *others: Any) -> frozenset[str]:
    """The gradient of an operand reads the other; that of an activation reads all that it was computed from."""
    activation = others[1] if len(others) > 1 else None
    if activation is not None:
        return frozenset({"a", "b", "bias"})
    return frozenset(({"b"} if needed[0] else set()) | ({"a"} if needed[1] else set()))


def _operand_gradients(
    gradient: Array, a: Array, b: Array, alpha: float = 1.0
) -> tuple[Array, Array]:
    """The gradients of A and B in ``alpha · A · B``, of those that require one, each in its operand's layout."""
    grad_a = grad_b = None
    narrow = a.itemsize == 1
    if a.requires_grad or b.requires_grad:
        if narrow or gradient.dtype != a.dtype:
            gradient = gradient.bfloat16() if narrow else gradient.to(a.dtype)
    if a.requires_grad:
        grad_a = _product(gradient, _wide_operand(b).mT, alpha, a)
        if a.ndim < grad_a.ndim:
            grad_a = grad_a.reshape(-1, *grad_a.shape[-2:]).sum(0)
    if b.requires_grad:
        left = _wide_operand(a)
        if b.ndim < gradient.ndim:  # one matrix: all rows of A at once
            left, gradient = (one.reshape(-1, one.shape[-1]) for one in (left, gradient))
        grad_b = _product(left.mT, gradient, alpha, b)
    return grad_a, grad_b


def _product(a: Array, b: Array, alpha: float, operand: Any) -> Array:
    """``alpha · A · B`` in an operand's layout: autograd copies the gradient of a weight that has another one."""
    if not is_transposed(operand.stride(), operand.shape):
        return gemm(a, b, alpha=alpha)
    return gemm(b.mT, a.mT, alpha=alpha).mT


def is_transposed(strides: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a tensor's matrices are transposed views of rows."""
    return strides[-2] == 1 != strides[-1] and shape[-2] > 1 and shape[-1] > 1


def _matmul_backward(gradient: Array, _: object, a: Array, b: Array) -> Array:
    return _operand_gradients(gradient, a, b)


@differentiable(
    _like,
    _matmul_backward,
    autocast=NARROW,
    rows={"a": 2, "b": 2},
    flops=_flops,
    saves=_saved,
)
def matmul(a: Array, b: Array, out: Array = None) -> Array:
    """Matrix multiplication, also of stacks of matrices: ``a @ b``.

    Args:
        a: an array of 8, 16, 32 or 64-bit floats, (..., m, k), of any layout. Sums are in f32, or f64 for f64.
        b: an array of floats, (..., k, n), of a's type; 8-bit types may differ. The leading dimensions are those of
            `a`, or one of the two has none, and its matrix is multiplied with each of the other's.
        out: an array of the result's shape, of 16, 32 or 64-bit floats, that does not overlap the others; None: a new
            one of a's library and type, bfloat16 for 8-bit floats.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays of floats, or of two types.
        ValueError: for shapes that do not fit; for arrays on different devices; for `out` that overlaps another one.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.matmul(np.ones((2, 3)), np.ones((3, 1))).tolist()
        [[3.0], [3.0]]
    """
    return gemm(a, b, out=out)


def _like_gemm(
    a: Array,
    b: Array,
    bias: Array = None,
    activation: Activation = None,
    residual: Array = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    dtype: str | None = None,
) -> Array:
    return _like(a, b, dtype)


def _accept_gemm(
    a: Array,
    b: Array,
    bias: Array = None,
    activation: Activation = None,
    residual: Array = None,
    alpha: Number = 1.0,
    beta: Number = 1.0,
    dtype: ElementType = None,
) -> Arguments:
    """The arguments of torch's operator."""
    if activation is None and dtype is None and type(alpha) is float and type(beta) is float:
        return a, b, bias, None, residual, alpha, beta, None
    activation, dtype = activation_text(activation), _type_name(dtype)
    a, alpha = _scaled_operand(a, alpha, "alpha")
    if residual is not None:
        residual, beta = _scaled_operand(residual, beta, "beta")
    return a, b, bias, activation, residual, alpha, number(beta, "beta"), dtype


def _gemm_backward(
    gradient: Array,
    _: object,
    a: Array,
    b: Array,
    bias: Array,
    activation: str | None,
    residual: Array,
    alpha: float,
    beta: float,
    __: object,
) -> Array:
    grad_bias = grad_residual = None
    if residual is not None:
        grad_residual = Residual.backward(gradient, residual, beta)
    gradient = widest(gradient, a)
    if activation is not None:
        gradient = _activation_backward(gradient, a, b, activation, bias, alpha)
    if bias is not None and bias.requires_grad:
        grad_bias = Bias.backward(gradient, bias)
    grads = _operand_gradients(gradient, a, b, alpha)
    return *grads, grad_bias, None, grad_residual, None, None, None


def linear_gradients(
    gradient: Array,
    x: Array,
    weight: Array,
    bias: Array,
    activation: str | None,
    needed: Sequence[bool],
    into: Array = None,
) -> tuple[Array, Array, Array]:
    """The gradients of ``activation(x @ weight.T + bias)`` by x, the weight and the bias, of those that are needed.

    The weight's is added to `into`, which it is then, in the epilogue of its GEMM.
    """
    grad_x = grad_weight = grad_bias = None
    weight = weight.to(x.dtype)
    gradient = widest(gradient, x)
    if activation is not None:
        gradient = _activation_backward(
            gradient, x, weight.T, activation_text(activation) or "", bias
        )
    if needed[2]:
        grad_bias = Bias.backward(gradient, bias)
    x, weight = _wide_operand(x), _wide_operand(weight)
    gradient = gradient.to(x.dtype)
    if needed[0]:
        grad_x = gemm(gradient, weight)
    if needed[1]:
        rows = gradient.reshape(-1, gradient.shape[-1])
        grad_weight = gemm(rows.mT, x.reshape(-1, x.shape[-1]), residual=into, out=into)
    return grad_x, grad_weight, grad_bias


def _like_gradient(gradient: Array, *_: object) -> Array:
    return gradient.new_empty(gradient.shape)


def _activation_backward_by_torch(
    gradient: Array,
    a: Array,
    b: Array,
    activation: str,
    bias: Array,
    alpha: float,
    offsets: Array,
) -> Array:
    wide = accumulator_type(a)
    if offsets is None:
        acc = gemm(a, b, bias, alpha=alpha, dtype=wide)
    else:
        acc = grouped_gemm(a, b, offsets, bias, alpha=alpha, dtype=wide)
    (found,) = vjp(lambda acc: activate(activation, acc), gradient, acc)
    return found.to(gradient.dtype)


def _activation_backward_flops(_: object, __: object, a: Array, b: Array, *others: Array) -> int:
    return _flops(_, a, b) if others[-1] is None else _flops(_, a, b[0])


@differentiable(
    _like_gradient,
    composite_backward(_activation_backward_by_torch),
    flops=_activation_backward_flops,
)
def _activation_backward(
    gradient: Array,
    a: Array,
    b: Array,
    activation: str,
    bias: Array = None,
    alpha: float = 1.0,
    offsets: Array = None,
) -> Array:
    """The gradient of ``alpha · A · B + bias`` from that of its activation; computes the sums again."""
    epilogue = gradient_epilogue(gradient, activation, bias, alpha)
    out = output_like(describe(gradient, "gradient"))
    operands = operand(a, "a"), operand(b, "b")
    return run(GemmProblem(*operands, describe(out, "out"), epilogue, offsets))


@differentiable(
    _like_gemm,
    _gemm_backward,
    _accept_gemm,
    autocast=NARROW,
    rows={"a": 2, "b": 2, "residual": 2},
    flops=_flops,
    saves=_saved,
)
@cached_dispatch
def gemm(
    a: Array,
    b: Array,
    bias: Array = None,
    activation: Activation = None,
    residual: Array = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    dtype: ElementType = None,
    out: Array = None,
) -> Array:
    """GEMM with a fused epilogue: ``activation(alpha · a @ b + bias) + beta · residual``, rounded once.

    Args:
        a: as in `matmul`.
        b: as in `matmul`. The weight of a layer, (n, k), is passed as its transposed view, which is not copied.
        bias: a vector of floats, one per column; None: 0.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``, ``("leaky_relu", negative_slope)``, or a
            function of a number that kernels can call; None: the identity.
        residual: an array of floats of the result's shape and any layout, which may be `out` itself; None: 0.
        alpha: scales `a @ b`. For 8-bit floats: both scales, multiplied.
        beta: scales the residual.
        dtype: of the result: ``weft.f32``, a name such as ``"float32"``, or a type of the array library; None: out's,
            else a's, or bfloat16 for 8-bit floats.
        out: as in `matmul`.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `matmul`; for an activation or dtype of another kind; for `alpha` or `beta` that is not a number.
        ValueError: as `matmul`; for an unknown activation; for a bias or residual of another shape.

    Example:
        >>> import numpy as np, weft
        >>> a, weight = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [-5.0, 1.0]])
        >>> weft.kernels.gemm(a, weight.T, bias=np.array([1.0, 1.0]), activation="relu").tolist()
        [[12.0, 0.0]]
        >>> weft.kernels.gemm(a, weight.T, activation=lambda x: x * x, dtype="float32").tolist()
        [[121.0, 9.0]]
    """
    return _call(gemm_problem(a, b, bias, activation, residual, alpha, beta, dtype, out))


def _like_grouped(
    a: Array,
    b: Array,
    offsets: Array,
    bias: Array = None,
    activation: Activation = None,
    alpha: float = 1.0,
    dtype: str | None = None,
) -> Array:
    return _like(a, b[0], dtype)


def _accept_grouped(
    a: Array,
    b: Array,
    offsets: Array,
    bias: Array = None,
    activation: Activation = None,
    alpha: Number = 1.0,
    dtype: ElementType = None,
) -> Arguments:
    """The arguments of torch's operator."""
    activation, dtype = activation_text(activation), _type_name(dtype)
    a, alpha = _scaled_operand(a, alpha, "alpha")
    return a, b, offsets, bias, activation, alpha, dtype


def _grouped_flops(_: object, a: Array, b: Array, *__: object) -> int:
    return _flops(_, a, b[0])


def _grouped_backward(
    gradient: Array,
    _: object,
    a: Array,
    b: Array,
    offsets: Array,
    bias: Array,
    activation: str | None,
    alpha: float,
    __: object,
) -> Array:
    gradient = widest(gradient, a)
    if activation is not None:
        gradient = _activation_backward(gradient, a, b, activation, bias, alpha, offsets)
    grad_a = grad_b = grad_bias = None
    if bias is not None and bias.requires_grad:
        ones, wide = gradient.new_ones((a.shape[0], 1)), accumulator_type(gradient)
        sums = _gemm_grouped_k(ones, gradient, offsets, dtype=str(wide).rpartition(".")[-1])
        grad_bias = sums.squeeze(1).to(bias.dtype)
    wide_a, wide_b = _wide_operand(a), _wide_operand(b)
    if a.requires_grad or b.requires_grad:
        gradient = gradient.to(wide_a.dtype)
    if a.requires_grad:
        grad_a = grouped_gemm(gradient, wide_b.mT, offsets, alpha=alpha)
    if b.requires_grad:
        if is_transposed(b.stride(), b.shape):
            grad_b = _gemm_grouped_k(gradient, wide_a, offsets, alpha).mT
        else:
            grad_b = _gemm_grouped_k(wide_a, gradient, offsets, alpha)
    return grad_a, grad_b, None, grad_bias, None, None, None


def _like_grouped_k(
    a: Array, b: Array, offsets: Array, alpha: float = 1.0, dtype: str | None = None
) -> Array:
    one = _like(a.mT, b, dtype)
    return one.new_empty((offsets.shape[0] - 1, *one.shape))


def _grouped_k_backward(
    gradient: Array, _: object, a: Array, b: Array, offsets: Array, alpha: float, __: object
) -> Array:
    a, b = _wide_operand(a), _wide_operand(b)
    gradient = gradient.to(a.dtype)
    grad_a = grouped_gemm(b, gradient.mT, offsets, alpha=alpha)
    return grad_a, grouped_gemm(a, gradient, offsets, alpha=alpha), None, None, None


def _grouped_k_flops(_: object, a: Array, b: Array, *__: object) -> int:
    return 2 * a.shape[0] * a.shape[1] * b.shape[1]


@differentiable(_like_grouped_k, _grouped_k_backward, flops=_grouped_k_flops)
def _gemm_grouped_k(
    a: Array, b: Array, offsets: Array, alpha: float = 1.0, dtype: ElementType = None
) -> Array:
    """``alpha · a[rows].T @ b[rows]`` for the rows of each group: groups along K."""
    left, right = operand(a.mT, "a"), operand(b, "b")
    shape = describe(offsets, "offsets").shape[0] - 1, left.shape[0], right.shape[1]
    out = output(left, shape, *result_type(left, dtype, None))
    return run(GemmProblem(left, right, describe(out, "out"), epilogue_of(alpha=alpha), offsets))


@differentiable(
    _like_grouped, _grouped_backward, _accept_grouped, autocast=NARROW, flops=_grouped_flops
)
@cached_dispatch
def grouped_gemm(
    a: Array,
    b: Array,
    offsets: Array,
    bias: Array = None,
    activation: Activation = None,
    alpha: float = 1.0,
    dtype: ElementType = None,
    out: Array = None,
) -> Array:
    """GEMM by groups of rows: in a mixture of experts, tokens times the weight of their expert.

    Row i of group g is ``activation(alpha · a[i] @ b[g] + bias[g])``. Rows outside of all groups, before the first
    offset and from the last one on, are 0.

    Args:
        a: an array of floats, (rows, k), sorted by groups, of any layout. Sums are as in `gemm`.
        b: an array of floats, (groups, k, n), of a's type; 8-bit types may differ. Weights (groups, n, k) are passed
            as their transposed view, which is not copied.
        offsets: the first row of each group, and the end of the last one, an array of 32-bit integers, (groups + 1,).
            Groups may be empty. It is read on the device alone.
        bias: an array of floats, (groups, n); None: 0.
        activation: as in `gemm`.
        alpha: as in `gemm`.
        dtype: as in `gemm`.
        out: as in `gemm`.

    Returns:
        `out`, or the new array, (rows, n).

    Raises:
        TypeError: as `gemm`; for offsets that are not 32-bit integers.
        ValueError: as `gemm`; for offsets of another shape.
        AssertionError: for offsets beyond `a`, or that decrease, on the CPU. A GPU stays within the arrays.

    Example:
        >>> import numpy as np, weft
        >>> a, b = np.ones((3, 2)), np.array([[[1.0], [1.0]], [[2.0], [3.0]]])
        >>> weft.kernels.grouped_gemm(a, b, np.array([0, 1, 3], np.int32)).tolist()
        [[2.0], [5.0], [5.0]]
    """
    return _call(
        gemm_problem(a, b, bias, activation, None, alpha, dtype=dtype, out=out, offsets=offsets)
    )


def _like_scaled(
    a: Array,
    b: Array,
    scale_a: Array,
    scale_b: Array,
    bias: Array = None,
    activation: Activation = None,
    residual: Array = None,
    dtype: str | None = None,
) -> Array:
    return _like(a, b, dtype)


def _accept_scaled(
    a: Array,
    b: Array,
    scale_a: Array,
    scale_b: Array,
    bias: Array = None,
    activation: Activation = None,
    residual: Array = None,
    dtype: ElementType = None,
) -> Arguments:
    """The arguments of torch's operator."""
    rest = bias, activation_text(activation), residual, _type_name(dtype)
    return a, b, scale_a, scale_b, *rest


def _scaled_by_torch(
    a: Array,
    b: Array,
    scale_a: Array,
    scale_b: Array,
    bias: Array,
    activation: str | None,
    residual: Array,
    dtype: str | None,
) -> Array:
    left = a * scale_a.repeat_interleave(SCALE_BLOCK, -1)[..., : a.shape[-1]]
    rows = scale_b.repeat_interleave(SCALE_BLOCK, -2)[..., : b.shape[-2], :]
    total = left @ (b * rows.repeat_interleave(SCALE_BLOCK, -1)[..., : b.shape[-1]])
    if bias is not None:
        total = total + bias
    if activation is not None:
        total = activate(activation, total)
    return total if residual is None else total + residual


def _scaled_backward(gradient: Array, found: Array, a: Array, b: Array, *others: Array) -> Array:
    """In f32: 8-bit floats would not hold the gradients."""
    return composite_backward(_scaled_by_torch)(gradient, found, a.float(), b.float(), *others)


@differentiable(_like_scaled, _scaled_backward, _accept_scaled, flops=_flops)
@cached_dispatch
def scaled_gemm(
    a: Array,
    b: Array,
    scale_a: Array,
    scale_b: Array,
    bias: Array = None,
    activation: Activation = None,
    residual: Array = None,
    dtype: ElementType = None,
    out: Array = None,
) -> Array:
    """GEMM of 8-bit floats with block scales: ``activation(A @ B + bias) + residual``.

    A is `a` with a scale for each 1 x 128 elements, B is `b` with a scale for each 128 x 128 elements (DeepSeek-V3's
    recipe). On sm_90, for K-major operands, tensor cores sum 128 terms at a time, and these sums are scaled and
    added in f32.

    Args:
        a: an array of 8-bit floats, (..., m, k).
        b: an array of 8-bit floats, (..., k, n). The weight of a layer, (n, k), is passed as its transposed view.
        scale_a: an array of 32-bit floats, (..., m, ⌈k / 128⌉), of any layout.
        scale_b: an array of 32-bit floats, (..., ⌈k / 128⌉, ⌈n / 128⌉); for a weight's (⌈n / 128⌉, ⌈k / 128⌉) the
            transposed view.
        bias: as in `gemm`.
        activation: as in `gemm`.
        residual: as in `gemm`.
        dtype: as in `gemm`.
        out: as in `gemm`.

    Returns:
        `out`, or a new array, of bfloat16 unless `dtype` says otherwise.

    Raises:
        TypeError: as `gemm`; for operands that do not have 8 bits, or scales that do not have 32.
        ValueError: as `gemm`; for scales of another shape.

    Example:
        >>> import ml_dtypes, numpy as np, weft
        >>> ones = np.ones((128, 256), ml_dtypes.float8_e4m3fn)
        >>> scales = np.array([[0.5, 2.0]], np.float32)
        >>> found = weft.kernels.scaled_gemm(ones, ones.T, scales.repeat(128, axis=0), scales.T)
        >>> float(found[0, 0])  # 128 · 0.25 + 128 · 4
        544.0
    """
    scales = Scales(scale_a, scale_b)
    return _call(
        gemm_problem(a, b, bias, activation, residual, dtype=dtype, out=out, scales=scales)
    )
