# SPDX-License-Identifier: Apache-2.0
"""Symbolic dimensions: name, divisibility and width; layout classes: what code assumes about strides.

In: `weft.sym(...)` or a name in an annotation; a shape, or two classes. Out: `Dim`, compared by value; equal names are
equal dimensions within one signature. Strides in elements, or whether one class includes the other. One function tells
the class of a tensor, for a call's key and for the compiler: `layout_of` in `native/python/call/argument_key.cpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.errors import brief
from weft.types.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence


MAX_RANK: Final = 8
"""Dimensions a tensor may have."""

_WIDTHS: Final = (32, 64)


class Dim(Frozen):
    """A dimension known only at run time.

    Attributes:
        name: the symbol, or None for an independent dimension.
        divisibility: a number that divides the dimension; checked at each call.
        width: bits of the integer in kernels, 32 or 64; 32 is range-checked.
    """

    name: str | None
    divisibility: int = 1
    width: int = 32

    @property
    def text(self) -> str:
        """As printed in a signature.

        Example:
            >>> Dim("n").text, Dim(None).text, Dim("n", 16).text
            ('n', 'None', 'sym(n, divisibility=16)')
        """
        facts = ""
        if self.divisibility != 1:
            facts += f", divisibility={self.divisibility}"
        if self.width != 32:
            facts += f", width={self.width}"
        return f"sym({self.name}{facts})" if facts else f"{self.name}"

    def __repr__(self) -> str:
        return f"weft.sym({self.name!r}, divisibility={self.divisibility}, width={self.width})"

    def widened(self) -> Dim:
        """The same dimension with 64 bits."""
        return self.replaced(width=64)


def sym(name: str | None, divisibility: int = 1, width: int = 32) -> Dim:
    """A symbolic dimension, for `weft.fake_tensor`, annotations of tensors, and ``n: weft.sym("n")`` of numbers.

    As a parameter's annotation it is a number of at least 0 that each call checks: equal to dimensions of its name, and
    divisible as promised, which the compiler uses.

    Args:
        name: within one function, dimensions of the same name are equal, which each call checks; None makes every
            mention independent.
        divisibility: a number that divides every value; checked at each call.
        width: bits, 32 or 64. A 32-bit dimension is at most 2147483647; checked at each call.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if the name is not an identifier, divisibility is below 1, or width neither 32 nor 64.

    Example:
        >>> weft.sym("n", divisibility=16).text
        'sym(n, divisibility=16)'
    """
    if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"sym: name must be a str or None, received {brief(name)}")
    if name is not None and not name.isidentifier():
        raise ValueError(f"sym: {brief(name)} is not an identifier such as 'n'")
    for what, value in (("divisibility", divisibility), ("width", width)):
        if type(value) is not int:
            raise TypeError(f"sym: {what} must be an int, received {brief(value)}")
    if not 1 <= divisibility < 1 << 31:
        raise ValueError(f"sym: divisibility is {divisibility}, expected 1 to 2147483647")
    if width not in _WIDTHS:
        raise ValueError(f"sym: width is {width}, expected 32 or 64")
    return Dim(name, divisibility, width)


CONTIGUOUS: Final = "contiguous"
INNER: Final = "inner"
STRIDED: Final = "strided"

LAYOUTS: Final = (CONTIGUOUS, INNER, STRIDED)
"""contiguous: strides follow from dims; inner: the last stride is 1; strided: any, also 0 and negative.

Each class includes those before it.
"""


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a row-major tensor without gaps.

    Example:
        >>> contiguous_strides((2, 3, 4))
        (12, 4, 1)
    """
    strides: list[int] = []
    stride = 1
    for dim in reversed(shape):
        strides.append(stride)
        stride *= dim
    return tuple(reversed(strides))


def layout_holds(layout: str, narrower: str) -> bool:
    """Whether every tensor of class `narrower` may be passed where `layout` was compiled.

    Example:
        >>> layout_holds("strided", "inner"), layout_holds("contiguous", "inner")
        (True, False)
    """
    return LAYOUTS.index(layout) >= LAYOUTS.index(narrower)
