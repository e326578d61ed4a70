# SPDX-License-Identifier: Apache-2.0
"""Shapes: tuples of dims that cross the ABI as `ffi.Shape` and not as an array of ints.

In: dims. Out: a tuple. Next: string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Shape(tuple[int, ...]):
    """Dims of a tensor. It equals the tuple of the same dims.

    Raises:
        TypeError: if a dim is no integer.
        OverflowError: if a dim has more than 64 bits.

    Example:
        >>> Shape((2, 3)) == (2, 3), Shape([4])
        (True, Shape((4,)))
    """

    __slots__ = ()

    def __new__(cls, dims: Iterable[int] = ()) -> Shape:
        if not hasattr(dims, "__iter__"):
            raise TypeError(f"Shape: expected a sequence of dims, received {dims!r}")
        made = super().__new__(cls, dims)
        for dim in made:
            if not isinstance(dim, int) or isinstance(dim, bool):
                raise TypeError(f"Shape: expected dims as ints, received {dim!r}")
            if not -(1 << 63) <= dim < 1 << 63:
                raise OverflowError(f"Shape: expected dims of at most 64 bits, received {dim}")
        return made

    def __repr__(self) -> str:
        return f"Shape({super().__repr__()})"
