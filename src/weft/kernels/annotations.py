# SPDX-License-Identifier: Apache-2.0
"""Annotations of parameters: those that the compiler reads, and words for those that no type checker can follow.

An array of any library and a number of a kernel have whatever attributes and operators they have: checkers see `Any`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft

if TYPE_CHECKING:
    # As type checkers see the parameters of kernels.
    Array = Any
    Constant = Any
    Float64 = Any
    Int32 = Any
    Int64 = Any
else:
    Array, Constant, Float64, Int32, Int64 = (
        weft.Tensor,
        weft.Constexpr,
        weft.f64,
        weft.i32,
        weft.i64,
    )

ElementType = Any
"""An element type, by any name; torch's operators take names."""
Function = Any
"""A function that kernels call; torch's operators take its name, as `name_of_function` says."""
Number = Any
"""A number of an array's type."""
Numbers = Any
"""Several, in a tuple or a list."""
Int = Any
"""An integer of a kernel or host function, or one that is known at compile time."""
Bool = Any
"""A condition, likewise."""
Shape = Any
"""Lengths or indices, one per dimension."""
Arguments = tuple[Any, ...]
"""Positional arguments of a call."""
Keywords = dict[str, Any]
"""Keyword arguments of a call."""
