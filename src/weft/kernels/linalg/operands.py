# SPDX-License-Identifier: Apache-2.0
"""The factors of matrix products: how they lie in memory, and on which GPU.

In: arrays of floats of any layout. Out: which kernels take them, and the view that they take.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.kernels.host.arrays import Given, given
from weft.kernels.host.calls import View

_CHUNK: Final = (
    16  # bytes, of which the copy engine's strides and the threads' copies are multiples
)
_MOST_RANK: Final = 5  # of a tensor map


def factor(array: object, name: str) -> Given:
    """What a factor is.

    Raises:
        TypeError: for something else than an array of floats.
        ValueError: for a vector.
    """
    found = given(array, name)
    if not found.dtype.is_float:
        raise TypeError(f"{name} has elements of {found.type_name}, expected floats")
    if len(found.shape) < 2:
        raise ValueError(f"{name} has shape {found.shape}, expected a matrix or a stack of them")
    return found


class Stored(NamedTuple):
    """A factor as it lies in memory.

    Attributes:
        array: the user's, or a view of it with the last two dimensions exchanged.
        is_exchanged: whether it is such a view.
        has_rows: whether rows of `array` have no gaps between elements.
        has_chunks: whether all rows of `array` begin at multiples of 16 bytes, without gaps between elements.
        is_whole: whether their lengths are such multiples, too.
    """

    array: Any
    is_exchanged: bool
    has_rows: bool
    has_chunks: bool
    is_whole: bool


def stored(factor: Given, views: list[View]) -> Stored:
    """How a factor lies: along its rows, or else along its columns. A view is added to `views`."""
    *leading, pitch, step = factor.strides
    rows, columns = factor.shape[-2:]
    array, is_exchanged = factor.array, False
    if step != 1 and (pitch == 1 or rows == 1):
        array = exchanged(factor.array)
        is_exchanged = array is not None
        if array is None:
            array = factor.array
        else:
            views.append(View(array, factor.array, exchanged))
            pitch, step, columns = step, pitch, rows
    size = factor.dtype.itemsize
    strides = [
        stride for stride, length in zip(leading, factor.shape[:-2], strict=True) if length != 1
    ]
    has_chunks = (
        step == 1
        and factor.address % _CHUNK == 0
        and all(stride > 0 and stride * size % _CHUNK == 0 for stride in (*strides, pitch))
    )
    is_whole = has_chunks and columns * size % _CHUNK == 0
    return Stored(array, is_exchanged, step == 1, has_chunks, is_whole)


def exchanged(array: Any) -> Any:
    """A view with the last two dimensions exchanged; None where the library has none."""
    for name in ("swapaxes", "transpose"):  # of NumPy and CuPy, of torch
        method = getattr(array, name, None)
        if method is not None:
            return method(-1, -2)
    return None


def suits_copy_engine(left: Given, right: Given, a: Stored, b: Stored) -> bool:
    """Whether the copy engine reads both factors as warpgroups multiply them."""
    if left.dtype.itemsize == 1 and (a.is_exchanged or not b.is_exchanged):
        return False  # of 8-bit elements neighbors have to lie along k
    return a.has_chunks and b.has_chunks and max(len(left.shape), len(right.shape)) <= _MOST_RANK
