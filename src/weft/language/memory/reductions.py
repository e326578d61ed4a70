# SPDX-License-Identifier: Apache-2.0
"""Sums into memory that return nothing: ``red_add``.

In: a tensor, an index, a number or a tuple. Out: one atomic sum, or one of a vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from weft.dialects.simt.atomics import RedAddOp
from weft.errors import TypeMismatchError
from weft.language.memory.atomics import atomic_add
from weft.language.memory.vectors import vector_element, vector_place
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

RED_DTYPES: Final = (
    *(types.f16, types.bf16, types.f32, types.f64),
    *(types.i32, types.u32, types.i64, types.u64),
)
"""Element types of which a GPU adds one in an instruction, or several."""


@operation
def red_add(builder: Builder, tensor: object, index: object, values: object) -> None:
    """Adds a number to an element, or a tuple of numbers to adjacent elements, each in one step; returns nothing.

    Relaxed and for the whole device, as `atomic_add`. A vector as a whole is not one step: another thread may see some
    of its sums before the others. In global memory GPUs from sm_90 on add up to 16 bytes of f32, f16 and bf16 with one
    instruction, and since sm_60 pairs of f16; everything else is added element by element, with the same meaning.
    There, a GPU treats subnormal f32 numbers as 0.

    Args:
        tensor: in global or shared memory, of f16, bf16, f32, f64, i32, u32, i64 or u64; for a tuple with a last stride
            of 1 and known to be aligned to the whole size, as for `load_vector`.
        index: of the first element: an integer, or a tuple with one per dimension.
        values: a number, or a tuple of 2, 4 or 8 of at most 16 bytes in all. They are rounded to the element type as in
            a store.

    Raises:
        TypeMismatchError: for a non-tensor, another element type, a thread's own memory, a wrong index, a layout whose
            last stride is not 1, or too little known alignment.
        ValueRangeError: for another count, more than 16 bytes, or an unaligned constant index.

    Example:
        ``weft.red_add(weft.shared(8, weft.f32), 4, (x, y, z, 1.0))``
    """
    found = _checked(tensor)
    if not isinstance(values, tuple | list):
        element = Scalar(vector_element(builder, "red_add", found, 0, values), found.dtype)
        atomic_add.emit(builder, found, index, element)
        return
    items = cast("tuple[object, ...]", values)
    _, places, _ = vector_place(builder, "red_add", found, index, len(items))
    elements = [
        vector_element(builder, "red_add", found, number, item) for number, item in enumerate(items)
    ]
    builder.emit(RedAddOp(elements, found.ssa, places))


def _checked(tensor: object) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeMismatchError(
            "ATOMIC_TENSOR",
            f"red_add: the first argument must be a tensor, received {describe(tensor)}",
            hint="write red_add(tensor, index, values), not red_add(tensor[index], values)",
        )
    if tensor.type.space.data == "local":
        raise TypeMismatchError(
            "ATOMIC_SPACE",
            f"red_add: {tensor.name} is in the thread's own memory, which no other thread can reach",
            hint="use a plain load and store",
        )
    if tensor.dtype not in RED_DTYPES:
        listed = ", ".join(dtype.name for dtype in RED_DTYPES)
        raise TypeMismatchError(
            "ATOMIC_DTYPE",
            f"red_add: {tensor.name} holds {tensor.dtype}; expected one of {listed}",
            hint="use atomic_add, which loops over the word around a smaller element",
        )
    return tensor
