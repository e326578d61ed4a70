# SPDX-License-Identifier: Apache-2.0
"""Memory that the threads of a block share: ``shared`` and ``dynamic_shared`` arrays.

In: a shape and an element type. Out: a `Tensor` in the shared space. All arrays of a kernel lie in one buffer, whose
size weft adds to each launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import i64

from weft.dialects.simt.memory import VECTOR_BYTES, DynamicSharedOp, SharedOp
from weft.dialects.simt.types import (
    DYNAMIC,
    MAX_RANK,
    SWIZZLED_ALIGNMENT,
    SWIZZLES,
    TILE_ALIGNMENT,
    Swizzle,
)
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_tensor_type
from weft.language.memory.local import element_type, static_shape
from weft.language.memory.packed import reinterpreted
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.dtype import DType
from weft.types.launch_limits import MOST_SHARED_BYTES, MOST_THREADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


@operation
def shared(builder: Builder, shape: object, dtype: object, swizzle: object = None) -> Tensor:
    """An uninitialized array shared by the threads of a block, read and written like any tensor.

    Each call makes an array: a helper that is called twice makes two, and so do unrolled iterations. All iterations of
    a loop at run time get the same one. After a barrier, such as `sync_threads`, threads see what others wrote. All
    arrays of a kernel together may take 227 kB (less on GPUs before sm_90 and on sm_120); their size is added to each
    launch.

    Args:
        shape: an int, or a tuple of at most 8; constants of at least 1.
        dtype: type of the elements, such as ``weft.f32``.
        swizzle: None, or 32, 64 or 128: the last two dims lie in panels of rows of so many bytes, in which adjacent
            rows exchange their 16-byte chunks, as the tensor cores and `tma` read and write them. Everything that
            accesses the array knows of it. Rows are as wide as a panel or a multiple of it, and 8 of them a multiple.

    Raises:
        TypeMismatchError: for a shape that is not constant, no element type, or a swizzle of another type.
        ValueRangeError: for a dim below 1, a rank above 8, more than a block's shared memory, another swizzle, or rows
            that it does not suit.

    Example:
        ``tile = weft.shared((32, 33), weft.f32); ring = weft.shared((4, 128, 64), weft.bf16, swizzle=128)``
    """
    if isinstance(dtype, DType) and dtype.is_packed:
        return _shared_packed(builder, static_shape(shape, "shared"), dtype, swizzle)
    element = element_type(dtype, "shared")
    dims = static_shape(shape, "shared")
    total = element.itemsize
    for dim in dims:
        total *= dim
    if total > MOST_SHARED_BYTES:
        raise ValueRangeError(
            "SHARED_TOO_LARGE",
            f"shared({dims}, {element}) takes {total} bytes; a block has at most {MOST_SHARED_BYTES}",
            hint="use a smaller tile, or keep large arrays in a tensor argument",
        )
    panels = _panels(dims, element, swizzle)
    alignment = next((n for n in (TILE_ALIGNMENT, VECTOR_BYTES) if total >= n), element.itemsize)
    made = SharedOp(
        ir_tensor_type(
            element,
            dims,
            space="shared",
            offset_bits=32,
            alignment_bytes=alignment if panels is None else SWIZZLED_ALIGNMENT,
            swizzle=panels,
        )
    )
    return Tensor(builder.entry_operation(made, "shared").result, element, "shared")


def _shared_packed(
    builder: Builder, dims: tuple[int, ...], dtype: DType, swizzle: object
) -> Tensor:
    """An array of packed elements: one of bytes."""
    each = 8 // dtype.bits
    if dims[-1] % each:
        raise ValueRangeError(
            "PACKED_ROWS",
            f"shared({dims}, {dtype}): rows of {dims[-1]} do not take whole bytes, of {each} {dtype} each",
            hint=f"use rows of {dims[-1] + each - dims[-1] % each}",
        )
    shape = (*dims[:-1], dims[-1] // each)
    if swizzle is not None:
        raise ValueRangeError(
            "SWIZZLE",
            f"shared({dims}, {dtype}): an array of packed elements is not swizzled",
            hint="make one of bytes for copies that swizzle: weft.shared(shape, weft.u8, swizzle=128)",
        )
    return reinterpreted(builder, shared.emit(builder, shape, types.u8), dtype)


def shared_per_thread(builder: Builder, element: DType, count: int) -> Tensor:
    """A shared array with so many elements for each thread of a block, whatever block that is.

    Its size is that for the largest block; its memory, that for the kernel's own.
    """
    made = SharedOp(
        ir_tensor_type(
            element,
            (count * MOST_THREADS,),
            space="shared",
            offset_bits=32,
            alignment_bytes=VECTOR_BYTES,
        ),
        count,
    )
    return Tensor(builder.entry_operation(made, "shared").result, element, "shared")


def _panels(dims: Sequence[int], element: DType, swizzle: object) -> Swizzle | None:
    """How the last two dims lie in panels."""
    if swizzle is None:
        return None
    if not isinstance(swizzle, int) or isinstance(swizzle, bool):
        raise TypeMismatchError(
            "SWIZZLE", f"shared: the swizzle is {describe(swizzle)}; expected None, 32, 64 or 128"
        )
    if swizzle not in SWIZZLES:
        raise ValueRangeError(
            "SWIZZLE", f"shared: the swizzle is {swizzle}; expected 32, 64 or 128"
        )
    if len(dims) < 2:
        raise ValueRangeError(
            "SWIZZLE",
            f"shared: an array of rank {len(dims)} has no rows to swizzle",
            hint="a swizzled array has rank 2 or more",
        )
    rows, columns = dims[-2:]
    row_bytes = columns * element.itemsize
    if row_bytes % swizzle:
        fitting = [other for other in SWIZZLES if row_bytes % other == 0]
        raise ValueRangeError(
            "SWIZZLE",
            f"shared({tuple(dims)}, {element}, swizzle={swizzle}): a row takes {row_bytes} bytes, which is not a "
            f"multiple of {swizzle}",
            hint=f"use swizzle={fitting[-1]}, or other rows" if fitting else "use other rows",
        )
    if rows % 8:
        raise ValueRangeError(
            "SWIZZLE",
            f"shared({tuple(dims)}, {element}, swizzle={swizzle}): {rows} rows; a swizzle repeats every 8",
            hint=f"use {-(-rows // 8) * 8} rows",
        )
    return Swizzle.get(swizzle, rows * swizzle // element.itemsize)


@operation
def dynamic_shared(builder: Builder, shape: object, dtype: object, offset: object = 0) -> Tensor:
    """A view of the shared memory requested by the launch with ``shared_memory_bytes``.

    Views may overlap. The launch must request enough bytes for all views: if shape, offset and ``shared_memory_bytes``
    are constants, too few are refused at compile time, otherwise on the CPU at run time, like an `assert`. A GPU does
    not check the rest.

    Args:
        shape: an integer, or a tuple of at most 8; its entries may be known only at run time.
        dtype: type of the elements.
        offset: start of the view, in bytes from the start of the launch's bytes, which is aligned to 16; a multiple of
            the element's size.

    Raises:
        TypeMismatchError: for a dim or offset that is not an integer; or for a missing element type.
        ValueRangeError: for a constant dim below 1, a rank above 8, a constant offset that is negative or not a
            multiple of the element's size.

    Example:
        ``keys = weft.dynamic_shared(n, weft.f32); ranks = weft.dynamic_shared(n, weft.i32, 4 * n)``
    """
    element = element_type(dtype, "dynamic_shared")
    parts = cast("tuple[object, ...]", shape) if isinstance(shape, tuple) else (shape,)
    dims: list[int] = []
    operands: list[SSAValue] = []
    for part in parts:
        found = _dim(builder, part)
        dims.append(found if isinstance(found, int) else DYNAMIC)
        if isinstance(found, Scalar):
            operands.append(found.ssa)
    if len(dims) > MAX_RANK:
        raise ValueRangeError(
            "SHAPE_RANK",
            f"dynamic_shared: the shape has rank {len(dims)}; at most {MAX_RANK} is allowed",
        )
    start = _offset(builder, offset, element)
    made = DynamicSharedOp(
        start, operands, ir_tensor_type(element, dims, space="shared", offset_bits=32)
    )
    return Tensor(builder.emit(made, "dynamic").result, element, "dynamic_shared")


def _dim(builder: Builder, part: object) -> int | Scalar:
    """A dimension as an int, or as an i32."""
    found = expect_scalar(builder, part, "dynamic_shared: a dimension")
    known = found.constant if isinstance(found, Scalar) else found
    if known is None and isinstance(found, Scalar) and found.dtype.is_integer:
        return convert(builder, found, types.i32)
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "SHAPE_NOT_AN_INTEGER",
            f"dynamic_shared: a shape holds integers, received {describe(found)}",
        )
    if known < 1:
        raise ValueRangeError("SHAPE_EMPTY", f"dynamic_shared: the shape has the dimension {known}")
    return known


def _offset(builder: Builder, offset: object, element: DType) -> SSAValue:
    """The offset as an i64."""
    found = expect_scalar(builder, offset, "dynamic_shared: the offset")
    known = found.constant if isinstance(found, Scalar) else found
    if known is None and isinstance(found, Scalar) and found.dtype.is_integer:
        return convert(builder, found, types.i64).ssa
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "SHARED_OFFSET",
            f"dynamic_shared: the offset is {describe(found)}; expected an integer, in bytes",
        )
    if known < 0 or known % element.itemsize:
        raise ValueRangeError(
            "SHARED_OFFSET",
            f"dynamic_shared: the offset is {known} bytes; expected a multiple of {element.itemsize}, "
            f"the size of {element}, from 0 up",
        )
    return builder.constant(i64, known)
