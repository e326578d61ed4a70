# SPDX-License-Identifier: Apache-2.0
"""The operators of reductions: identity, accumulation of an element, combination of accumulators, result.

Traced in kernels. An accumulator is a value, or for argmax and argmin a value and its index.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import ElementType, Function, Int, Number, Numbers, Shape
from weft.kernels.device.row import sum_type
from weft.kernels.host.arrays import Scalar

INDEX_KINDS: Final = frozenset(("argmax", "argmin"))


class Reduction(NamedTuple):
    """The operator of a reduction.

    Attributes:
        kind: ``"sum"``, ``"mean"``, ``"max"``, ``"min"``, ``"argmax"``, ``"argmin"`` or ``"function"``; a constant.
        function: the user's, for ``"function"``; a constant.
        identity: the user's identity element, an argument.
    """

    kind: weft.Constexpr[str]
    function: weft.Constexpr[object] = None
    identity: Scalar | None = None


def acc_type(op: Reduction, dtype: ElementType) -> ElementType:
    """The accumulator's type."""
    if op.kind == "mean" and not dtype.is_float and dtype.itemsize == 8:
        return weft.f64  # 64-bit integers would wrap
    if op.kind == "function":
        return dtype
    # GPUs compare 16-bit floats as f32.
    return sum_type(dtype) if dtype.is_float or op.kind in ("sum", "mean") else dtype


def acc_bytes(op: Reduction, dtype: ElementType) -> int:
    """Bytes of an accumulator."""
    return acc_type(op, dtype).itemsize + (weft.i32.itemsize if op.kind in INDEX_KINDS else 0)


@weft.device
def identity_acc(op: Reduction, dtype: ElementType, first: Int, end: Int) -> Number:
    """The identity as an accumulator; its index is that of a thread's first element, if there is one."""
    wide = acc_type(op, dtype)
    if op.kind in INDEX_KINDS:
        index = weft.where(first < end, weft.i32(first), weft.i32(weft.i32.maximum))
        return wide(extreme(dtype, op.kind == "argmin")), index
    if op.kind in ("sum", "mean"):
        return wide(0)
    return wide(extreme(dtype, op.kind == "min")) if op.identity is None else op.identity.of(wide)


def partials_scratch(op: Reduction, dtype: ElementType, shape: Shape) -> Numbers:
    """Scratch for partial results: values, and indices for argmax and argmin; traced in host functions."""
    wide = acc_type(op, dtype)
    return weft.scratch(shape, wide), weft.scratch(
        shape, weft.i64
    ) if op.kind in INDEX_KINDS else None


def extreme(dtype: ElementType, is_largest: bool) -> Number:
    """The largest or smallest number of a type; computed when compiling."""
    if dtype.is_float:
        return math.inf if is_largest else -math.inf
    if dtype.is_bool:
        return is_largest
    return dtype.maximum if is_largest else dtype.minimum


@weft.device
def accumulate(op: Reduction, acc: Number, value: Number, index: Int) -> Number:
    """Accumulates a later element of the same thread."""
    if op.kind in INDEX_KINDS:
        best, found = acc
        value = best.dtype(value)
        # False for NaN, which is the first one to stay.
        is_kept = (value >= best) if op.kind == "argmin" else (value <= best)
        is_kept = is_kept | (best != best)
        return weft.where(is_kept, best, value), weft.where(is_kept, found, index)
    return combine_function(op)(acc, acc.dtype(value))


def combine_function(op: Reduction) -> Function:
    """The function that combines two accumulators, in any order."""
    return op.function if op.kind == "function" else _COMBINERS[op.kind]


@weft.device
def finalize(op: Reduction, acc: Number, count: Int, dtype: ElementType) -> Number:
    """The result of an accumulator, in its own type."""
    if op.kind in INDEX_KINDS:
        return acc[1]
    if op.kind == "mean":
        wide = acc.dtype if acc.dtype.is_float else weft.f64
        return dtype(wide(acc) / wide(count))
    return dtype(acc)


@weft.device
def of_one_type(function: Function, one: Number, other: Number) -> Number:
    """The value that a user's function makes of two numbers, checked to be of their type; literals are converted."""
    found = function(one, other)
    if not hasattr(found, "dtype"):
        return one.dtype(found)
    weft.static_assert(
        found.dtype is one.dtype,
        f"the function makes {found.dtype} of two values that are {one.dtype}: convert its result",
    )
    return found


def add(one: Number, other: Number) -> Number:
    """The sum of two values."""
    return one + other


def maximum(one: Number, other: Number) -> Number:
    """The larger value; NaN if either is."""
    return weft.where((one > other) | (one != one), one, other)


def minimum(one: Number, other: Number) -> Number:
    """The smaller value; NaN if either is."""
    return weft.where((one < other) | (one != one), one, other)


def argmax_pair(one: Number, other: Number) -> Number:
    """The larger value and its index; NaN before all, of equal ones the first."""
    return _first(one, other, one[0] > other[0])


def argmin_pair(one: Number, other: Number) -> Number:
    """The smaller value and its index; NaN before all, of equal ones the first."""
    return _first(one, other, one[0] < other[0])


def _first(one: Number, other: Number, is_before: Any) -> Any:
    (value, index), (other_value, other_index) = one, other
    is_nan, is_other_nan = value != value, other_value != other_value
    is_equal = (value == other_value) | (is_nan & is_other_nan)
    is_first = weft.where(
        is_equal, index <= other_index, is_before | (is_nan & (is_other_nan == 0))
    )
    return weft.where(is_first, value, other_value), weft.where(is_first, index, other_index)


_COMBINERS: Final = {
    "sum": add,
    "mean": add,
    "max": maximum,
    "min": minimum,
    "argmax": argmax_pair,
    "argmin": argmin_pair,
}
