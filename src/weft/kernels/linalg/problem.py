# SPDX-License-Identifier: Apache-2.0
"""A GEMM problem: operands, result and epilogue, validated before anything runs.

In: arrays of any library, as users pass them to `gemm`, `grouped_gemm` and `scaled_gemm`. Out: a `GemmProblem`, which
`dispatch` turns into a call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft.kernels.annotations import Array, ElementType, Number
from weft.kernels.host.arrays import (
    ArrayInfo,
    check_device,
    check_shape,
    describe,
    element_type,
    output,
    unexpected,
)
from weft.kernels.linalg.epilogue import IDENTITY, Activation, Epilogue, epilogue_of
from weft.kernels.linalg.operands import SCALE_BLOCK, UNSCALED, Scales, operand


class GemmProblem(NamedTuple):
    """C = epilogue(A · B).

    Attributes:
        a: (..., m, k), or (m, k).
        b: (..., k, n); (groups, k, n) with groups of rows.
        c: (..., m, n); (groups, m, n) with groups along K.
        epilogue: applied to the sums.
        offsets: the bounds of groups of rows; of groups along K, where A and B are matrices and C is a stack.
        scales: of 8-bit operands.
    """

    a: ArrayInfo
    b: ArrayInfo
    c: ArrayInfo
    epilogue: Epilogue = IDENTITY
    offsets: Any = None
    scales: Scales = UNSCALED


def gemm_problem(
    a: Array,
    b: Array,
    bias: Array = None,
    activation: Activation = None,
    residual: Array = None,
    alpha: Number = 1.0,
    beta: Number = 1.0,
    dtype: ElementType = None,
    out: Array = None,
    *,
    offsets: Array = None,
    scales: Scales = UNSCALED,
) -> GemmProblem:
    """Validates a problem, and allocates its result unless `out` is given; parameters as in the public functions.

    Raises:
        TypeError: for something else than arrays and numbers of the expected types.
        ValueError: for shapes that do not fit, arrays on different devices, and `out` that overlaps an input.
    """
    left, right = operand(a, "a"), operand(b, "b")
    if scales.a is not None:
        for name, found in (("a", left), ("b", right)):
            if not found.dtype.is_float8:
                raise TypeError(f"{name} has elements of {found.type_name}, expected 8-bit floats")
    _check_operands(left, right, is_grouped=offsets is not None)
    *stack, m, k = left.shape
    n = right.shape[-1]
    if offsets is None:
        shape = (*(stack or right.shape[:-2]), m, n)
        bias_shape: tuple[int, ...] = (n,)
    else:
        shape, groups = (m, n), right.shape[0]
        bias_shape = groups, n
        _expect(left, offsets, "offsets", (groups + 1,), weft.i32, "the bounds of b's groups")
    if scales.a is not None:
        blocks, each = -(-k // SCALE_BLOCK), "one for each block"
        _expect(left, scales.a, "scale_a", (*stack, m, blocks), weft.f32, each)
        shape_b = (*right.shape[:-2], blocks, -(-n // SCALE_BLOCK))
        _expect(left, scales.b, "scale_b", shape_b, weft.f32, each)
    _expect(left, bias, "bias", bias_shape)
    _expect(left, residual, "residual", shape)
    epilogue = epilogue_of(bias, activation, residual, alpha, beta)
    inputs = {"a": a, "b": b, "offsets": offsets, "bias": bias, "residual": residual}
    inputs |= {"scale_a": scales.a, "scale_b": scales.b}
    out = output(left, shape, *result_type(left, dtype, out), out, ("residual",), **inputs)
    return GemmProblem(left, right, describe(out, "out"), epilogue, offsets, scales)


def _check_operands(left: ArrayInfo, right: ArrayInfo, *, is_grouped: bool) -> None:
    if is_grouped:
        if len(left.shape) != 2:
            raise ValueError(f"a has shape {left.shape}, expected a matrix")
        if len(right.shape) != 3:
            raise ValueError(f"b has shape {right.shape}, expected a stack of matrices")
    if left.dtype is not right.dtype and not (left.dtype.is_float8 and right.dtype.is_float8):
        raise TypeError(f"b has elements of {right.type_name}, expected {left.type_name} as a")
    check_device(right, "b", left)
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"b has shape {right.shape}, expected {left.shape[-1]} rows, as a has columns"
        )
    stacks = left.shape[:-2], right.shape[:-2]
    if all(stacks) and stacks[0] != stacks[1]:
        raise ValueError(f"b is a stack of {stacks[1]} matrices, expected {stacks[0]} as a, or one")


def _expect(
    like: ArrayInfo,
    array: object,
    name: str,
    shape: tuple[int, ...],
    dtype: weft.DType | None = None,
    reason: str = "",
) -> None:
    """Raises an error unless an array is None, or has the shape, the device of `like` and the type, any float's."""
    if array is None:
        return
    found = describe(array, name, is_float=dtype is None)
    if dtype is not None and found.dtype is not dtype:
        expected = "int32" if dtype is weft.i32 else "float32"
        raise TypeError(f"{name} has elements of {found.type_name}, expected {expected}")
    check_shape(found, name, like, shape, reason)


def result_type(left: ArrayInfo, dtype: ElementType, out: Array) -> tuple[weft.DType, str]:
    """The element type of a result, and its name in array libraries."""
    if dtype is not None:
        return named_type(dtype)
    if out is not None:
        found = describe(out, "out", is_float=True)
        return found.dtype, found.type_name
    if left.dtype.is_float8:
        return element_type(weft.ffi.DataType("bfloat16"))  # type: ignore[return-value]
    return left.dtype, left.type_name


def named_type(dtype: ElementType) -> tuple[weft.DType, str]:
    """The element type that a user has named, and its name in array libraries."""
    try:
        name = str(getattr(dtype, "__name__", dtype)).rpartition(".")[-1]
        kind, name = element_type(
            weft.ffi.DataType(dtype if isinstance(dtype, weft.DType) else name)
        )
    except (TypeError, ValueError):
        raise TypeError(unexpected("dtype", dtype, "a type of floats")) from None
    if kind is None or not kind.is_float or kind.is_float8:
        raise TypeError(unexpected("dtype", dtype, "16, 32 or 64-bit floats"))
    return kind, name
