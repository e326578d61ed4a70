# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.gemm`` and ``matmul``: products of matrices and of stacks of them, by the kernel that suits.

In: arrays of floats of any layout. Out: an array.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from weft.errors import brief
from weft.ffi.data_type import DataType
from weft.kernels.host.arrays import Given, element_type, given, number, output, output_like
from weft.kernels.host.autograd import NARROW, ElementType, differentiable
from weft.kernels.host.calls import remembered
from weft.kernels.host.compositions import composed, pulled_back
from weft.kernels.linalg.dispatch import multiply, product_of
from weft.kernels.linalg.epilogue import Activation, Ending, activation_of, slope_of
from weft.kernels.linalg.operands import factor
from weft.types.dtype import DType


def like_product(a: Any, b: Any, dtype: str | None = None) -> Any:
    """A new tensor of torch like a product."""
    if dtype is None:
        dtype = "bfloat16" if a.dtype.itemsize == 1 else None
    kind = a.dtype if dtype is None else getattr(sys.modules["torch"], dtype)
    shape = *(a.shape[:-2] or b.shape[:-2]), a.shape[-2], b.shape[-1]
    return a.new_empty(shape, dtype=kind)


def _like_gemm(
    a: Any,
    b: Any,
    bias: Any = None,
    activation: Any = None,
    residual: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    dtype: str | None = None,
) -> Any:
    return like_product(a, b, dtype)


def _by_factors(gradient: Any, a: Any, b: Any, alpha: float = 1.0) -> tuple[Any, Any]:
    """The derivatives of ``alpha · a @ b`` by the factors that need one."""
    by_left = by_right = None
    of_left, of_right = a.requires_grad, b.requires_grad
    if of_left or of_right:
        a, b = rounded_up(a), rounded_up(b)
        gradient = gradient.to(a.dtype)
    if of_left:
        by_left = gemm(gradient, b.mT, alpha=alpha)
        if a.ndim < by_left.ndim:
            by_left = by_left.flatten(0, -3).sum(0)
    if of_right:
        if b.ndim < gradient.ndim:  # one matrix: the rows of all of a's together
            a, gradient = (one.reshape(-1, one.shape[-1]) for one in (a, gradient))
        by_right = gemm(a.mT, gradient, alpha=alpha)
    return by_left, by_right


def rounded_up(factor: Any) -> Any:
    """A factor as derivatives are computed from it: 8-bit floats, which hold no gradients without a scale, in bf16."""
    return factor.bfloat16() if factor.itemsize == 1 else factor


def _matmul_backward(gradient: Any, _: Any, a: Any, b: Any) -> Any:
    return _by_factors(gradient, a, b)


def product_flops(_: Any, a: Any, b: Any, *__: Any) -> int:
    """The operations of a product."""
    stack = a.shape[:-2] or b.shape[:-2]
    return 2 * math.prod(stack) * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _slope_flops(_: Any, __: Any, a: Any, b: Any, *___: Any) -> int:
    return product_flops(_, a, b)


@differentiable(
    like_product,
    _matmul_backward,
    autocast=NARROW,
    rows={"a": 2, "b": 2},
    flops=product_flops,
)
def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """The product of two matrices, or of two stacks of them: ``a @ b``.

    Args:
        a: an array of floats, (..., m, k), of 8, 16, 32 or 64 bits and any layout. Summed in f32, or f64 for f64.
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


def _accepted(
    a: Any,
    b: Any,
    bias: Any = None,
    activation: Any = None,
    residual: Any = None,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    dtype: Any = None,
) -> tuple[Any, ...]:
    activation, dtype = accepted_ending(activation, dtype)
    a, alpha = with_factor(a, alpha, "alpha")
    if residual is not None:
        residual, beta = with_factor(residual, beta, "beta")
    return a, b, bias, activation, residual, alpha, number(beta, "beta"), dtype


def with_factor(tensor: Any, factor: Any, name: str) -> tuple[Any, float]:
    """A tensor and its factor as torch's operators take them: a number, the derivative by which the tensor has.

    Raises:
        TypeError: for something else than a number; for one that has a derivative with 8-bit floats.
    """
    if not getattr(factor, "requires_grad", False):
        return tensor, number(factor, name)
    value = number(factor.detach(), name)
    if tensor.itemsize == 1:
        raise TypeError(
            f"{name} requires a gradient, which products of 8-bit floats do not give; pass {name}.item(), or "
            "multiply the result"
        )
    if value == 0:
        return tensor * factor.to(tensor.dtype), 1.0
    # One, of which the derivative is 1 / factor.
    return tensor * (factor / value).to(tensor.dtype), value


def accepted_ending(activation: Any, dtype: Any) -> tuple[str | None, str | None]:
    """An activation and an element type as torch's operators take them.

    Raises:
        TypeError: for a function, or another type.
        ValueError: for another activation.
    """
    if activation_of(activation) is activation and activation is not None:
        raise TypeError(
            "activation is a function, of which torch does not know the derivative; expected a name, or a call under "
            "torch.no_grad() and outside of torch.compile"
        )
    return activation, None if dtype is None else _type_name(dtype)


def _gemm_backward(
    gradient: Any,
    _: Any,
    a: Any,
    b: Any,
    bias: Any,
    activation: str | None,
    residual: Any,
    alpha: float,
    beta: float,
    __: Any,
) -> Any:
    by_bias = by_residual = None
    if residual is not None:
        by_residual = (beta * wider(gradient, residual)).to(residual.dtype)
    slope = wider(gradient, a)
    if activation is not None:
        slope = _gemm_slope(slope, a, b, activation, bias, alpha)
    if bias is not None and bias.requires_grad:
        wide = getattr(sys.modules["torch"], sum_name(slope))
        by_bias = slope.flatten(0, -2).sum(0, dtype=wide).to(bias.dtype)
    return *_by_factors(slope, a, b, alpha), by_bias, None, by_residual, None, None, None


def wider(gradient: Any, other: Any) -> Any:
    """A gradient, in the other tensor's type if that has more bits: 16-bit sums of wider gradients overflow."""
    return gradient.to(other.dtype) if gradient.itemsize < other.itemsize else gradient


def sum_name(slope: Any) -> str:
    """The type in which a tensor of torch is summed."""
    return "float64" if slope.itemsize == 8 else "float32"


def like_gradient(gradient: Any, *_: Any) -> Any:
    """A new tensor like a gradient."""
    return gradient.new_empty(gradient.shape)


def activated(name: str, gradient: Any, total: Any) -> Any:
    """The gradient times an activation's derivative, by torch."""

    def own(total: Any) -> Any:
        return applied(name, total)

    return pulled_back(own, gradient, total)[0]


def applied(name: str, total: Any) -> Any:
    """An activation, by torch."""
    functional: Any = sys.modules["torch"].nn.functional
    if name == "gelu_tanh":
        return functional.gelu(total, approximate="tanh")
    return getattr(functional, name)(total)


def _slope_by_torch(gradient: Any, a: Any, b: Any, activation: str, bias: Any, alpha: float) -> Any:
    total = gemm(a, b, bias, alpha=alpha, dtype=sum_name(a))
    return activated(activation, gradient, total).to(gradient.dtype)


@differentiable(like_gradient, composed(_slope_by_torch), flops=_slope_flops)
def _gemm_slope(
    gradient: Any, a: Any, b: Any, activation: str, bias: Any = None, alpha: float = 1.0
) -> Any:
    """The gradient times the activation's derivative, for which the product is computed once more."""
    left, right = factor(a, "a"), factor(b, "b")
    out = output_like(given(gradient, "gradient"))
    ending = Ending(alpha, bias, None, None, gradient, slope_of(activation))
    if 0 not in gradient.shape:
        multiply(left, right, given(out, "out"), ending)
    return out


@differentiable(
    _like_gemm,
    _gemm_backward,
    _accepted,
    autocast=NARROW,
    rows={"a": 2, "b": 2, "residual": 2},
    flops=product_flops,
)
@remembered
def gemm(
    a: Any,
    b: Any,
    bias: Any = None,
    activation: Activation = None,
    residual: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    dtype: ElementType = None,
    out: Any = None,
) -> Any:
    """A product and what follows it: ``activation(alpha · a @ b + bias) + beta · residual``, rounded once.

    Args:
        a: as in `matmul`.
        b: as in `matmul`. A layer's weight, (n, k), is passed as its transposed view, which is not copied.
        bias: a vector of floats, one per column; None: 0.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``, or a function of a number that kernels can
            call; None: the number itself.
        residual: an array of floats of the result's shape and any layout, which may be `out` itself; None: 0.
        alpha: a factor of the product. For 8-bit floats: the product of both scales.
        beta: a factor of the residual.
        dtype: of the result: ``weft.f32``, a name such as ``"float32"``, or a type of the array library; None: out's,
            else a's, or bfloat16 for 8-bit floats.
        out: as in `matmul`.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `matmul`; for another activation or dtype; for factors that are not numbers.
        ValueError: as `matmul`; for a bias or residual of another shape.

    Example:
        >>> import numpy as np, weft
        >>> a, weight = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [-5.0, 1.0]])
        >>> weft.kernels.gemm(a, weight.T, bias=np.array([1.0, 1.0]), activation="relu").tolist()
        [[12.0, 0.0]]
        >>> weft.kernels.gemm(a, weight.T, activation=lambda x: x * x, dtype="float32").tolist()
        [[121.0, 9.0]]
    """
    left, right = factor(a, "a"), factor(b, "b")
    check_factors(left, right)
    stack = left.shape[:-2] or right.shape[:-2]
    shape = (*stack, left.shape[-2], right.shape[-1])
    kind, name = result_type(left, dtype, out)
    check_bias(left, bias, shape[-1])
    check_residual(left, residual, shape)
    inputs = {"a": a, "b": b, "bias": bias, "residual": residual}
    out = output(left, shape, kind, name, out, ("residual",), **inputs)
    alpha, beta = number(alpha, "alpha"), number(beta, "beta")
    ending = Ending(
        None if alpha == 1 else alpha,
        bias,
        activation_of(activation),
        None if residual is None or beta == 1 else beta,
        residual,
    )
    if 0 not in shape:
        call = product_of(left, right, given(out, "out"), ending)
        return call._replace(result=out)
    return out


def check_factors(left: Given, right: Given) -> None:
    """Raises an error unless factors fit each other."""
    if left.dtype is not right.dtype and not (left.dtype.is_float8 and right.dtype.is_float8):
        raise TypeError(f"b has elements of {right.type_name}, expected {left.type_name} as a")
    if left.device != right.device:
        raise ValueError(f"b is on {right.device}, expected {left.device}")
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"b has shape {right.shape}, expected {left.shape[-1]} rows, as a has columns"
        )
    stacks = left.shape[:-2], right.shape[:-2]
    if all(stacks) and stacks[0] != stacks[1]:
        raise ValueError(f"b is a stack of {stacks[1]} matrices, expected {stacks[0]} as a, or one")


def result_type(left: Given, dtype: Any, out: Any) -> tuple[DType, str]:
    """The element type of a product, and its name in array libraries."""
    if dtype is None:
        if out is not None:
            found = given(out, "out", is_float=True)
            return found.dtype, found.type_name
        if left.dtype.is_float8:
            return element_type(DataType("bfloat16"))  # type: ignore[return-value]
        return left.dtype, left.type_name
    return _named(dtype)


def _named(dtype: Any) -> tuple[DType, str]:
    """The type of a result that a user has named."""
    try:
        name = str(getattr(dtype, "__name__", dtype)).rpartition(".")[-1]
        kind, name = element_type(DataType(dtype if isinstance(dtype, DType) else name))
    except (TypeError, ValueError):
        raise TypeError(f"dtype is {brief(dtype)}, expected a type of floats") from None
    if kind is None or not kind.is_float or kind.is_float8:
        raise TypeError(f"dtype is {brief(dtype)}, expected 16, 32 or 64-bit floats")
    return kind, name


def _type_name(dtype: Any) -> str:
    """Its name in array libraries."""
    return _named(dtype)[1]


_type_name._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch's tracer calls it


def check_bias(left: Given, bias: object, columns: int) -> None:
    """Raises an error unless a bias is None, or fits."""
    if bias is None:
        return
    found = given(bias, "bias", is_float=True)
    if found.shape != (columns,):
        raise ValueError(f"bias has shape {found.shape}, expected ({columns},)")
    if found.device != left.device:
        raise ValueError(f"bias is on {found.device}, expected {left.device}")


def check_residual(left: Given, residual: object, shape: tuple[int, ...]) -> None:
    """Raises an error unless a residual is None, or fits."""
    if residual is None:
        return
    found = given(residual, "residual", is_float=True)
    if found.shape != shape:
        raise ValueError(f"residual has shape {found.shape}, expected {shape}")
    if found.device != left.device:
        raise ValueError(f"residual is on {found.device}, expected {left.device}")
