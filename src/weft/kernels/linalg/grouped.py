# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.grouped_gemm``: rows that lie group after group, each group times a matrix of its own.

In: an array of rows, a stack of matrices, where the groups begin. Out: an array of rows. By the kernels of `gemm`, in
one launch after one that lists the groups' tiles.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.host.arrays import Given, given, number, output, output_like
from weft.kernels.host.autograd import NARROW, ElementType, differentiable
from weft.kernels.host.calls import remembered
from weft.kernels.host.compositions import composed
from weft.kernels.linalg.dispatch import multiply, product_of
from weft.kernels.linalg.epilogue import Activation, Ending, activation_of, slope_of
from weft.kernels.linalg.gemm import (
    accepted_ending,
    activated,
    like_gradient,
    like_product,
    result_type,
    rounded_up,
    sum_name,
    wider,
    with_factor,
)
from weft.kernels.linalg.operands import factor
from weft.types.dtype import i32


def _accepted(
    a: Any,
    b: Any,
    starts: Any,
    bias: Any = None,
    activation: Any = None,
    alpha: Any = 1.0,
    dtype: Any = None,
) -> tuple[Any, ...]:
    activation, dtype = accepted_ending(activation, dtype)
    a, alpha = with_factor(a, alpha, "alpha")
    return a, b, starts, bias, activation, alpha, dtype


def _like(
    a: Any,
    b: Any,
    starts: Any,
    bias: Any = None,
    activation: Any = None,
    alpha: float = 1.0,
    dtype: str | None = None,
) -> Any:
    return like_product(a, b[0], dtype)


def _flops(_: Any, a: Any, b: Any, *__: Any) -> int:
    return 2 * a.shape[0] * a.shape[1] * b.shape[-1]


def _slope_flops(_: Any, __: Any, a: Any, b: Any, *___: Any) -> int:
    return _flops(_, a, b)


def _sum_flops(_: Any, a: Any, b: Any, *__: Any) -> int:
    return 2 * a.shape[0] * a.shape[1] * b.shape[1]


def _backward(
    gradient: Any,
    _: Any,
    a: Any,
    b: Any,
    starts: Any,
    bias: Any,
    activation: str | None,
    alpha: float,
    __: Any,
) -> Any:
    slope = wider(gradient, a)
    if activation is not None:
        slope = _grouped_slope(slope, a, b, starts, activation, bias, alpha)
    by_a = by_b = by_bias = None
    if bias is not None and bias.requires_grad:
        ones = slope.new_ones((a.shape[0], 1))
        sums = _grouped_sums(ones, slope, starts, dtype=sum_name(slope))
        by_bias = sums.squeeze(1).to(bias.dtype)
    own, others = rounded_up(a), rounded_up(b)
    if a.requires_grad or b.requires_grad:
        slope = slope.to(own.dtype)
    if a.requires_grad:
        by_a = grouped_gemm(slope, others.mT, starts, alpha=alpha)
    if b.requires_grad:
        by_b = _grouped_sums(own, slope, starts, alpha)
    return by_a, by_b, None, by_bias, None, None, None


def _slope_by_torch(
    gradient: Any, a: Any, b: Any, starts: Any, activation: str, bias: Any, alpha: float
) -> Any:
    total = grouped_gemm(a, b, starts, bias, alpha=alpha, dtype=sum_name(a))
    return activated(activation, gradient, total).to(gradient.dtype)


@differentiable(like_gradient, composed(_slope_by_torch), flops=_slope_flops)
def _grouped_slope(
    gradient: Any,
    a: Any,
    b: Any,
    starts: Any,
    activation: str,
    bias: Any = None,
    alpha: float = 1.0,
) -> Any:
    """The gradient times the activation's derivative, for which the products are computed once more."""
    left, right = factor(a, "a"), factor(b, "b")
    out = output_like(given(gradient, "gradient"))
    ending = Ending(alpha, bias, None, None, gradient, slope_of(activation))
    multiply(left, right, given(out, "out"), ending, starts)
    return out


def _like_sums(a: Any, b: Any, starts: Any, alpha: float = 1.0, dtype: str | None = None) -> Any:
    product = like_product(a.mT, b, dtype)
    return product.new_empty((starts.shape[0] - 1, *product.shape))


def _sums_backward(
    gradient: Any, _: Any, a: Any, b: Any, starts: Any, alpha: float, __: Any
) -> Any:
    gradient = gradient.to(rounded_up(a).dtype)
    by_a = grouped_gemm(rounded_up(b), gradient.mT, starts, alpha=alpha)
    return by_a, grouped_gemm(rounded_up(a), gradient, starts, alpha=alpha), None, None, None


@differentiable(_like_sums, _sums_backward, flops=_sum_flops)
def _grouped_sums(
    a: Any, b: Any, starts: Any, alpha: float = 1.0, dtype: ElementType = None
) -> Any:
    """For each group, its rows of `a`, transposed, times its rows of `b`."""
    left, right = factor(a.mT, "a"), factor(b, "b")
    shape = given(starts, "starts").shape[0] - 1, left.shape[0], right.shape[1]
    out = output(left, shape, *result_type(left, dtype, None))
    multiply(left, right, given(out, "out"), Ending(None if alpha == 1 else alpha), starts)
    return out


@differentiable(_like, _backward, _accepted, autocast=NARROW, flops=_flops)
@remembered
def grouped_gemm(
    a: Any,
    b: Any,
    starts: Any,
    bias: Any = None,
    activation: Activation = None,
    alpha: float = 1.0,
    dtype: ElementType = None,
    out: Any = None,
) -> Any:
    """Each group of rows times the matrix of that group: of a mixture of experts, tokens times their expert's weight.

    Row i of group g is ``activation(alpha · a[i] @ b[g] + bias[g])``. Rows of no group, before the first start and from
    the last on, are 0.

    Args:
        a: an array of floats, (rows, k), sorted by groups, of any layout. Summed as in `gemm`.
        b: an array of floats, (groups, k, n), of a's type; 8-bit types may differ. Weights (groups, n, k) are passed
            as their transposed view, which is not copied.
        starts: where each group begins, and where the last one ends, an array of 32-bit integers, (groups + 1,). Groups
            may be empty. It is read on the device alone.
        bias: an array of floats, (groups, n); None: 0.
        activation: as in `gemm`.
        alpha: as in `gemm`.
        dtype: as in `gemm`.
        out: as in `gemm`.

    Returns:
        `out`, or the new array, (rows, n).

    Raises:
        TypeError: as `gemm`; for starts that are not of 32-bit integers.
        ValueError: as `gemm`; for another number of starts.
        AssertionError: for starts beyond `a`, or that decrease, on the CPU. A GPU stays within the arrays.

    Example:
        >>> import numpy as np, weft
        >>> a, b = np.ones((3, 2)), np.array([[[1.0], [1.0]], [[2.0], [3.0]]])
        >>> weft.kernels.grouped_gemm(a, b, np.array([0, 1, 3], np.int32)).tolist()
        [[2.0], [5.0], [5.0]]
    """
    left, right = factor(a, "a"), factor(b, "b")
    _check(left, right, starts, bias)
    shape = left.shape[0], right.shape[-1]
    kind, name = result_type(left, dtype, out)
    out = output(left, shape, kind, name, out, a=a, b=b, starts=starts, bias=bias)
    alpha = number(alpha, "alpha")
    ending = Ending(None if alpha == 1 else alpha, bias, activation_of(activation))
    if 0 not in shape:
        return product_of(left, right, given(out, "out"), ending, starts)._replace(result=out)
    return out


def _check(left: Given, right: Given, starts: object, bias: object) -> None:
    if len(left.shape) != 2:
        raise ValueError(f"a has shape {left.shape}, expected a matrix")
    if len(right.shape) != 3:
        raise ValueError(f"b has shape {right.shape}, expected a stack of matrices")
    if left.dtype is not right.dtype and not (left.dtype.is_float8 and right.dtype.is_float8):
        raise TypeError(f"b has elements of {right.type_name}, expected {left.type_name} as a")
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"b has shape {right.shape}, expected {left.shape[1]} rows, as a has columns"
        )
    groups, _, columns = right.shape
    bounds = given(starts, "starts")
    if bounds.dtype is not i32:
        raise TypeError(f"starts has elements of {bounds.type_name}, expected int32")
    if bounds.shape != (groups + 1,):
        raise ValueError(
            f"starts has shape {bounds.shape}, expected ({groups + 1},): the bounds of b's groups"
        )
    vectors = [("b", right), ("starts", bounds)]
    if bias is not None:
        found = given(bias, "bias", is_float=True)
        if found.shape != (groups, columns):
            raise ValueError(f"bias has shape {found.shape}, expected {(groups, columns)}")
        vectors.append(("bias", found))
    for name, found in vectors:
        if found.device != left.device:
            raise ValueError(f"{name} is on {found.device}, expected {left.device}")
