# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.scaled_gemm``: products of 8-bit floats whose blocks have scales.

In: factors and their scales. Out: an array. By the kernels of `gemm`: on a Hopper GPU the sums of 128 products each are
scaled and added in f32; elsewhere each element is scaled.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.host.arrays import Given, given, output
from weft.kernels.host.autograd import ElementType, differentiable
from weft.kernels.host.calls import remembered
from weft.kernels.host.compositions import composed
from weft.kernels.linalg.dispatch import product_of
from weft.kernels.linalg.epilogue import Activation, Ending, activation_of
from weft.kernels.linalg.gemm import (
    accepted_ending,
    applied,
    check_bias,
    check_factors,
    check_residual,
    like_product,
    product_flops,
    result_type,
)
from weft.kernels.linalg.operands import factor
from weft.kernels.linalg.scales import BLOCK, Scales
from weft.types.dtype import f32


def _accepted(
    a: Any,
    b: Any,
    a_scales: Any,
    b_scales: Any,
    bias: Any = None,
    activation: Any = None,
    residual: Any = None,
    dtype: Any = None,
) -> tuple[Any, ...]:
    activation, dtype = accepted_ending(activation, dtype)
    return a, b, a_scales, b_scales, bias, activation, residual, dtype


def _like(
    a: Any,
    b: Any,
    a_scales: Any,
    b_scales: Any,
    bias: Any = None,
    activation: Any = None,
    residual: Any = None,
    dtype: str | None = None,
) -> Any:
    return like_product(a, b, dtype)


def _by_torch(
    a: Any,
    b: Any,
    a_scales: Any,
    b_scales: Any,
    bias: Any,
    activation: str | None,
    residual: Any,
    dtype: str | None,
) -> Any:
    left = a * a_scales.repeat_interleave(BLOCK, -1)[..., : a.shape[-1]]
    by_rows = b_scales.repeat_interleave(BLOCK, -2)[..., : b.shape[-2], :]
    right = b * by_rows.repeat_interleave(BLOCK, -1)[..., : b.shape[-1]]
    total = left @ right
    if bias is not None:
        total = total + bias
    if activation is not None:
        total = applied(activation, total)
    return total if residual is None else total + residual


def _backward(gradient: Any, found: Any, a: Any, b: Any, *others: Any) -> Any:
    """In f32, which holds what 8 bits would not."""
    return composed(_by_torch)(gradient, found, a.float(), b.float(), *others)


@differentiable(_like, _backward, _accepted, flops=product_flops)
@remembered
def scaled_gemm(
    a: Any,
    b: Any,
    a_scales: Any,
    b_scales: Any,
    bias: Any = None,
    activation: Activation = None,
    residual: Any = None,
    dtype: ElementType = None,
    out: Any = None,
) -> Any:
    """A product of 8-bit floats in which every 128 elements have a scale: ``activation(A @ B + bias) + residual``.

    A is `a` with each 128 neighbors of a row times their scale, B is `b` with each 128 x 128 elements times theirs. On
    sm_90, where both factors lie along k, tensor cores sum 128 products at a time, and what they give is scaled and
    added in f32; so no more is lost than their sums of 128 lose.

    Args:
        a: an array of 8-bit floats, (..., m, k).
        b: an array of 8-bit floats, (..., k, n). A layer's weight, (n, k), is passed as its transposed view.
        a_scales: an array of 32-bit floats, (..., m, ⌈k / 128⌉), of any layout.
        b_scales: an array of 32-bit floats, (..., ⌈k / 128⌉, ⌈n / 128⌉): of a weight's (⌈n / 128⌉, ⌈k / 128⌉) the
            transposed view.
        bias: as in `gemm`.
        activation: as in `gemm`.
        residual: as in `gemm`.
        dtype: as in `gemm`.
        out: as in `gemm`.

    Returns:
        `out`, or a new array, of bfloat16 unless `dtype` says otherwise.

    Raises:
        TypeError: as `gemm`; for factors that have not 8 bits, or scales that have not 32.
        ValueError: as `gemm`; for scales of another shape.

    Example:
        >>> import ml_dtypes, numpy as np, weft
        >>> ones = np.ones((128, 256), ml_dtypes.float8_e4m3fn)
        >>> scales = np.array([[0.5, 2.0]], np.float32)
        >>> found = weft.kernels.scaled_gemm(ones, ones.T, scales.repeat(128, axis=0), scales.T)
        >>> float(found[0, 0])  # 128 · 0.25 + 128 · 4
        544.0
    """
    left, right = factor(a, "a"), factor(b, "b")
    for name, found in (("a", left), ("b", right)):
        if not found.dtype.is_float8:
            raise TypeError(f"{name} has elements of {found.type_name}, expected 8-bit floats")
    check_factors(left, right)
    shape = *(left.shape[:-2] or right.shape[:-2]), left.shape[-2], right.shape[-1]
    *of_a, m, k = left.shape
    *of_b, _, n = right.shape
    _check_scales(left, a_scales, "a_scales", (*of_a, m, -(-k // BLOCK)))
    _check_scales(left, b_scales, "b_scales", (*of_b, -(-k // BLOCK), -(-n // BLOCK)))
    kind, name = result_type(left, dtype, out)
    check_bias(left, bias, n)
    check_residual(left, residual, shape)
    inputs = {"a": a, "b": b, "a_scales": a_scales, "b_scales": b_scales, "bias": bias}
    out = output(left, shape, kind, name, out, ("residual",), **inputs, residual=residual)
    ending = Ending(None, bias, activation_of(activation), None, residual)
    if 0 not in shape:
        scales = Scales(a_scales, b_scales)
        call = product_of(left, right, given(out, "out"), ending, None, scales)
        return call._replace(result=out)
    return out


def _check_scales(left: Given, scales: object, name: str, shape: tuple[int, ...]) -> None:
    found = given(scales, name)
    if found.dtype is not f32:
        raise TypeError(f"{name} has elements of {found.type_name}, expected float32")
    if found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape}, expected {shape}: one for each block")
    if found.device != left.device:
        raise ValueError(f"{name} is on {found.device}, expected {left.device}")
