# SPDX-License-Identifier: Apache-2.0
"""Shapes: tuples of dims that cross the ABI as `ffi.Shape`, not as an array of ints.

In: dims. Out: a tuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from weft.ffi.registry import standard_function

if TYPE_CHECKING:
    from collections.abc import Iterable


def _dim(dim: SupportsIndex) -> int:
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"Shape: expected dims as ints, received {dim!r}")
    number = dim.__index__()
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"Shape: expected dims of at most 64 bits, received {number}")
    return number


class Shape(tuple[int, ...]):
    """Dims of a tensor. Equal to the tuple of the same dims.

    Raises:
        TypeError: if a dim is not an integer.
        OverflowError: if a dim has more than 64 bits.

    Example:
        >>> Shape((2, 3)) == (2, 3), Shape([4])
        (True, Shape((4,)))
    """

    __slots__ = ()

    def __new__(cls, dims: Iterable[SupportsIndex] = ()) -> Shape:
        if not hasattr(dims, "__iter__"):
            raise TypeError(f"Shape: expected a sequence of dims, received {dims!r}")
        return super().__new__(cls, [_dim(dim) for dim in dims])

    def __tvm_ffi_object__(self) -> object:
        """The same shape in the tvm_ffi package."""
        made: Any = standard_function("ffi.Shape", "tvm_ffi")(*self)
        return made._tvm_ffi_cached_object  # of that package's Shape, which is a tuple

    def __repr__(self) -> str:
        return f"Shape({super().__repr__()})"
