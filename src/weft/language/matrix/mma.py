# SPDX-License-Identifier: Apache-2.0
"""`weft.mma`: products of a warp, from sm_80 on.

In: tiles in shared memory, fragments. Out: fragments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.matrix.fragment import filled
from weft.language.operation import operation
from weft.language.values import Fragment, describe
from weft.types import dtype as types
from weft.types.dtype import DType

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

_SUMS = (types.f32, types.f16, types.f64, types.i32)


@operation(name="mma.zeros")
def zeros(builder: Builder, shape: tuple[int, int], dtype: DType = types.f32) -> Fragment:
    """A sum of products of a warp that begins with 0.

    Args:
        shape: rows, a multiple of 16, and columns, a multiple of 8, which the warp computes.
        dtype: of the sums: f32, f16, f64 or i32.

    Raises:
        TypeMismatchError: for another type, or a shape that is not known at compile time.
        ValueRangeError: for other multiples.

    Example:
        ``acc = weft.mma.zeros((64, 32), weft.f32)``
    """
    if dtype not in _SUMS:
        names = ", ".join(one.name for one in _SUMS)
        raise TypeMismatchError(
            "MMA_TYPE", f"mma.zeros: sums are {names}, received {describe(dtype)}"
        )
    rows, columns = checked_shape(shape, "mma.zeros")
    return filled(builder, (rows, columns), 0, dtype, "mma", "c")


def checked_shape(shape: Any, name: str) -> tuple[int, int]:
    """Rows and columns of what a warp computes.

    Raises:
        TypeMismatchError, ValueRangeError: as `zeros`.
    """
    parts: tuple[Any, ...] = shape if isinstance(shape, tuple) else ()  # pyright: ignore[reportUnknownVariableType]
    if len(parts) != 2 or any(type(part) is not int for part in parts):
        raise TypeMismatchError(
            "MMA_SHAPE",
            f"{name}: the shape is two constants, rows and columns, received {describe(cast(object, shape))}",
            hint=f"write {name}((64, 32), weft.f32)",
        )
    rows, columns = parts
    if rows < 16 or columns < 8 or rows % 16 or columns % 8:
        raise ValueRangeError(
            "MMA_SHAPE",
            f"{name}: the shape is {shape}; rows come in multiples of 16, and columns of 8",
        )
    return rows, columns
