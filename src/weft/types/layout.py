# SPDX-License-Identifier: Apache-2.0
"""Layout classes: what compiled code assumes about a tensor's strides.

In: a shape, or two classes. Out: strides in elements, or whether one class includes the other. One function tells the
class of a tensor, for a call's key and for what is compiled: `layout_of` in `native/python/call/argument_key.cpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

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
