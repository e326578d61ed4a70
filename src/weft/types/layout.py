# SPDX-License-Identifier: Apache-2.0
"""Layout classes: what compiled code assumes about a tensor's strides.

In: a shape and strides in elements. Out: the narrowest class that fits.
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


def layout_of(shape: Sequence[int], strides: Sequence[int] | None) -> str:
    """The narrowest layout class of a tensor.

    Strides that reach no element are ignored: that of a dimension of size 1, and all of an empty tensor.

    Args:
        shape: sizes.
        strides: in elements, or None for contiguous.

    Example:
        >>> layout_of((4, 3), (6, 1)), layout_of((4, 3), (1, 4)), layout_of((1, 3), (77, 1))
        ('inner', 'strided', 'contiguous')
    """
    if strides is None or not shape or 0 in shape:
        return CONTIGUOUS
    expected = 1
    contiguous = True
    for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
        contiguous = contiguous and (dim == 1 or stride == expected)
        expected *= dim
    if contiguous:
        return CONTIGUOUS
    return INNER if strides[-1] == 1 or shape[-1] == 1 else STRIDED


def layout_holds(layout: str, narrower: str) -> bool:
    """Whether every tensor of class `narrower` may be passed where `layout` was compiled.

    Example:
        >>> layout_holds("strided", "inner"), layout_holds("contiguous", "inner")
        (True, False)
    """
    return LAYOUTS.index(layout) >= LAYOUTS.index(narrower)
