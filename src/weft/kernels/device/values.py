# SPDX-License-Identifier: Apache-2.0
"""Operations on a value of a thread: a number, or a tuple of numbers.

Traced in kernels. In: such a value. Out: one of the same form; shared memory of an array per number.
"""

from __future__ import annotations

from typing import Any

import weft
from weft.kernels.annotations import Function, Int, Number


@weft.device
def map_numbers(function: Function, value: Number) -> Number:
    """Applies a function to a number, or to each of a tuple."""
    if isinstance(value, tuple):
        return tuple(function(one) for one in value)
    return function(value)


@weft.device
def shared_values(like: Number, slots: weft.Constexpr[int]) -> Any:
    """Allocates shared memory of `slots` values: an array per number."""
    return map_numbers(lambda one: weft.shared(slots, one.dtype), like)


@weft.device
def put(arrays: Any, slot: Int, value: Number) -> None:
    """Stores a value in a slot of `shared_values`."""
    if isinstance(value, tuple):
        for array, one in zip(arrays, value, strict=True):
            array[slot] = one
    else:
        arrays[slot] = value


@weft.device
def take(arrays: Any, slot: Int) -> Number:
    """Loads a value from a slot of `shared_values`."""
    return map_numbers(lambda array: array[slot], arrays)
