# SPDX-License-Identifier: Apache-2.0
"""What the reductions of ``weft.kernels`` combine: of a kind, two values, and what changes none of them.

Traced in kernels. In: elements and their places. Out: what they are carried as: a value, or a value and its place.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from weft.kernels.device.row import sum_type
from weft.kernels.host.arrays import Constant, Scalar
from weft.language.control import where
from weft.language.memory.scratch import scratch
from weft.types.dtype import f64, i32, i64

PLACES: Final = frozenset(("argmax", "argmin"))


class How(NamedTuple):
    """A reduction.

    Attributes:
        kind: ``"sum"``, ``"mean"``, ``"max"``, ``"min"``, ``"argmax"``, ``"argmin"`` or ``"function"``; a constant.
        function: of a user, for the last one; a constant.
        neutral: what changes none of its results, an argument.
    """

    kind: Constant
    function: Constant = None
    neutral: Scalar | None = None


def carried_type(how: How, dtype: Any) -> Any:
    """The type of a value while it is combined."""
    if how.kind == "mean" and not dtype.is_float and dtype.itemsize == 8:
        return f64  # 64-bit integers would wrap
    if how.kind == "function":
        return dtype
    # Short floats are compared as f32 anyway.
    return sum_type(dtype) if dtype.is_float or how.kind in ("sum", "mean") else dtype


def carried_bytes(how: How, dtype: Any) -> int:
    """Bytes of a value while it is combined, and of its place."""
    return carried_type(how, dtype).itemsize + (i32.itemsize if how.kind in PLACES else 0)


def begin(how: How, dtype: Any, first: Any, end: Any) -> Any:
    """What changes nothing, at the place of a thread's first element if that is before the end."""
    wide = carried_type(how, dtype)
    if how.kind in PLACES:
        place = where(first < end, i32(first), i32(i32.maximum))
        return wide(extreme(dtype, how.kind == "argmin")), place
    if how.kind in ("sum", "mean"):
        return wide(0)
    return wide(extreme(dtype, how.kind == "min")) if how.neutral is None else how.neutral.of(wide)


def partial_results(how: How, dtype: Any, shape: Any) -> Any:
    """Memory for what parts give: values, and places where the kind has them; traced in host functions."""
    wide = carried_type(how, dtype)
    return scratch(shape, wide), scratch(shape, i64) if how.kind in PLACES else None


def extreme(dtype: Any, is_largest: bool) -> Any:
    """The largest or the smallest number of a type; computed when compiling."""
    if dtype.is_float:
        return math.inf if is_largest else -math.inf
    if dtype.is_bool:
        return is_largest
    return dtype.maximum if is_largest else dtype.minimum


def followed(how: How, carried: Any, value: Any, place: Any) -> Any:
    """With a later element of the same thread."""
    if how.kind in PLACES:
        best, found = carried
        value = best.dtype(value)
        # False for NaN, which is the first one to stay.
        is_kept = (value >= best) if how.kind == "argmin" else (value <= best)
        is_kept = is_kept | (best != best)
        return where(is_kept, best, value), where(is_kept, found, place)
    return combiner(how)(carried, carried.dtype(value))


def combiner(how: How) -> Any:
    """The function of two carried values, in any order."""
    return how.function if how.kind == "function" else _COMBINERS[how.kind]


def finished(how: How, carried: Any, count: Any, dtype: Any) -> Any:
    """The result, in its type."""
    if how.kind in PLACES:
        return carried[1]
    if how.kind == "mean":
        wide = carried.dtype if carried.dtype.is_float else f64
        return dtype(wide(carried) / wide(count))
    return dtype(carried)


def added(one: Any, other: Any) -> Any:
    """The sum of two values."""
    return one + other


def larger(one: Any, other: Any) -> Any:
    """The larger value, or NaN."""
    return where((one > other) | (one != one), one, other)


def smaller(one: Any, other: Any) -> Any:
    """The smaller value, or NaN."""
    return where((one < other) | (one != one), one, other)


def place_of_larger(one: Any, other: Any) -> Any:
    """The larger value and its place, NaN first; of equal ones the first."""
    return _first(one, other, one[0] > other[0])


def place_of_smaller(one: Any, other: Any) -> Any:
    """The smaller value and its place, NaN first; of equal ones the first."""
    return _first(one, other, one[0] < other[0])


def _first(one: Any, other: Any, is_before: Any) -> Any:
    (value, place), (other_value, other_place) = one, other
    is_nan, is_other_nan = value != value, other_value != other_value
    is_equal = (value == other_value) | (is_nan & is_other_nan)
    is_first = where(is_equal, place <= other_place, is_before | (is_nan & (is_other_nan == 0)))
    return where(is_first, value, other_value), where(is_first, place, other_place)


_COMBINERS: Final = {
    "sum": added,
    "mean": added,
    "max": larger,
    "min": smaller,
    "argmax": place_of_larger,
    "argmin": place_of_smaller,
}
