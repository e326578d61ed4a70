# SPDX-License-Identifier: Apache-2.0
"""GEMM operands: their layout in memory, and the scales of blocks of 8-bit floats.

In: arrays of floats of any layout. Out: the views that kernels take, and which kernels take them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import weft
from weft.kernels.annotations import Array, Int, Number
from weft.kernels.host.arrays import ArrayInfo, describe
from weft.kernels.host.dispatch_cache import View
from weft.kernels.linalg.scheduler import TileCoord

_ALIGNMENT: Final = 16  # bytes; of TMA's strides, and of asynchronous copies of 16 bytes
_MAX_TMA_RANK: Final = 5


def operand(array: object, name: str) -> ArrayInfo:
    """Describes an operand.

    Raises:
        TypeError: for something else than an array of floats.
        ValueError: for a vector.
    """
    found = describe(array, name)
    if not found.dtype.is_float:
        raise TypeError(f"{name} has elements of {found.type_name}, expected floats")
    if len(found.shape) < 2:
        raise ValueError(f"{name} has shape {found.shape}, expected a matrix or a stack of them")
    return found


class Layout(NamedTuple):
    """The layout of an operand.

    Attributes:
        array: the user's, or its transposed view.
        is_transposed: whether it is the transposed view.
        is_contiguous: whether elements of a row of `array` are contiguous.
        is_aligned: whether they are, and each row begins at a multiple of 16 bytes.
        is_vectorized: whether, in addition, the length of rows is a multiple of 16 bytes.
    """

    array: Any
    is_transposed: bool
    is_contiguous: bool
    is_aligned: bool
    is_vectorized: bool


def layout_of(operand: ArrayInfo, views: list[View]) -> Layout:
    """The layout of an operand, row-major if possible, else column-major; a transposed view is added to `views`."""
    *stack, row_stride, column_stride = operand.strides
    rows, columns = operand.shape[-2:]
    array, is_transposed = operand.array, False
    if column_stride != 1 and (row_stride == 1 or rows == 1):
        view = transposed(operand.array)
        if view is not None:
            array, is_transposed = view, True
            views.append(View(array, operand.array, transposed))
            row_stride, column_stride, columns = column_stride, row_stride, rows
    itemsize = operand.dtype.itemsize
    strides = [
        stride for stride, length in zip(stack, operand.shape[:-2], strict=True) if length != 1
    ]
    is_aligned = (
        column_stride == 1
        and operand.address % _ALIGNMENT == 0
        and all(
            stride > 0 and stride * itemsize % _ALIGNMENT == 0 for stride in (*strides, row_stride)
        )
    )
    is_vectorized = is_aligned and columns * itemsize % _ALIGNMENT == 0
    return Layout(array, is_transposed, column_stride == 1, is_aligned, is_vectorized)


def transposed(array: Array) -> Array:
    """A view with the last two dimensions exchanged; None where the library has none."""
    for name in ("swapaxes", "transpose"):  # of NumPy and CuPy, of torch
        method = getattr(array, name, None)
        if method is not None:
            return method(-1, -2)
    return None


def suits_tma(a: ArrayInfo, b: ArrayInfo, a_layout: Layout, b_layout: Layout) -> bool:
    """Whether TMA loads both operands as WGMMA takes them: 8-bit operands have to be K-major."""
    if a.dtype.itemsize == 1 and (a_layout.is_transposed or not b_layout.is_transposed):
        return False
    is_aligned = a_layout.is_aligned and b_layout.is_aligned
    return is_aligned and max(len(a.shape), len(b.shape)) <= _MAX_TMA_RANK


SCALE_BLOCK: Final = 128


class Scales(NamedTuple):
    """The scales of 8-bit operands; None for unscaled ones.

    Attributes:
        a: (..., m, ⌈k / 128⌉).
        b: (..., ⌈k / 128⌉, ⌈n / 128⌉).
    """

    a: weft.Tensor | None = None
    b: weft.Tensor | None = None

    def of_a(self, coord: TileCoord, row: Int, k: Int) -> Number:
        """The scale of an element of A; traced in kernels."""
        a: Any = self.a
        batch = coord.batch if a.ndim > 2 else ()
        return a[(*batch, row, k // SCALE_BLOCK)]

    def of_b(self, coord: TileCoord, k: Int, column: Int) -> Number:
        """The scale of an element of B; traced in kernels."""
        b: Any = self.b
        batch = coord.batch if b.ndim > 2 else ()
        return b[(*batch, k // SCALE_BLOCK, column // SCALE_BLOCK)]

    def of_rows(self, coord: TileCoord, k: Int) -> Any:
        """A function of a row of a tile: the scale of its sum over a block of K, 0 beyond the end of K.

        Traced in kernels.
        """
        a: Any = self.a
        last_row, blocks = a.shape[-2] - 1, a.shape[-1]
        inside, k = k < SCALE_BLOCK * blocks, min(k, SCALE_BLOCK * blocks - 1)
        scale_b = self.of_b(coord, k, coord.column)

        def of_row(i: Int) -> Any:
            scale = self.of_a(coord, min(coord.row + i, last_row), k) * scale_b
            return scale if inside else 0.0

        return of_row


UNSCALED: Final = Scales()
