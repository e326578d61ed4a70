# SPDX-License-Identifier: Apache-2.0
"""A thread's own memory: ``local`` arrays.

In: a static shape and an element type. Out: a `Tensor` in the thread's own memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from weft.dialects.simt.memory import VECTOR_BYTES, AllocaOp
from weft.dialects.simt.types import MAX_RANK
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_tensor_type
from weft.language.operation import operation
from weft.language.values import Tensor, describe
from weft.types.dtype import DType

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

LOCAL_BYTES: Final = 65536
"""A thread's largest array. Past a few hundred bytes it does not fit registers anyway."""


@operation
def local(builder: Builder, shape: object, dtype: object) -> Tensor:
    """An array of this thread's own, uninitialized, read and written like any tensor.

    Small arrays with constant indices (unroll with `static_range`) live in registers. In loops, iterations get the
    same memory, uninitialized again.

    Args:
        shape: an int, or a tuple of at most 8; constants of at least 1.
        dtype: type of the elements, such as ``weft.f32``.

    Raises:
        TypeMismatchError: for a shape that is not constant, or a missing element type.
        ValueRangeError: for a dim below 1, a rank above 8, or more than 65536 bytes.

    Example:
        ``window = weft.local((3, 3), weft.f32)``
    """
    element = element_type(dtype, "local")
    dims = static_shape(shape, "local")
    total = element.itemsize
    for dim in dims:
        total *= dim
    if total > LOCAL_BYTES:
        raise ValueRangeError(
            "LOCAL_TOO_LARGE",
            f"local({dims}, {element}) takes {total} bytes per thread; at most {LOCAL_BYTES} are allowed",
            hint="every thread has its own; keep large arrays in a tensor argument",
        )
    alignment = VECTOR_BYTES if total >= VECTOR_BYTES else element.itemsize
    made = AllocaOp(
        ir_tensor_type(element, dims, space="local", offset_bits=32, alignment_bytes=alignment)
    )
    return Tensor(builder.entry_operation(made, "local").result, element, "local")


def element_type(dtype: object, what: str) -> DType:
    """An array's element type.

    Args:
        dtype: what a user gave.
        what: name of the operation, for messages.

    Raises:
        TypeMismatchError: for anything else.

    Example:
        >>> element_type(weft.f32, "local")
        weft.f32
    """
    if isinstance(dtype, DType) and not dtype.is_packed:
        return dtype
    if isinstance(dtype, DType):
        raise TypeMismatchError(
            "PACKED_ELEMENTS",
            f"{what} makes no array of {dtype}, of which several lie in a byte",
            hint=f"make one of bytes, and take it as packed elements: weft.packed({what}(..., weft.u8), weft.{dtype})",
        )
    raise TypeMismatchError(
        "ARRAY_DTYPE",
        f"{what}: the second argument must be an element type, received {describe(dtype)}",
        hint=f"write {what}((32, 32), weft.f32)",
    )


def static_shape(shape: object, what: str) -> tuple[int, ...]:
    """A shape of constants, as a tuple.

    Args:
        shape: an int or a tuple of ints.
        what: name of the operation, for messages.

    Raises:
        TypeMismatchError, ValueRangeError: as `local`.

    Example:
        >>> static_shape(4, "local"), static_shape((2, 3), "local")
        ((4,), (2, 3))
    """
    parts = cast("tuple[object, ...]", shape) if isinstance(shape, tuple) else (shape,)
    dims: list[int] = []
    for part in parts:
        if not isinstance(part, int) or isinstance(part, bool):
            raise TypeMismatchError(
                "SHAPE_NOT_CONSTANT",
                f"{what}: a shape holds integers known at compile time, received {describe(part)}",
                hint="use a literal, a global or a weft.Constexpr[int] parameter"
                + (
                    "; weft.dynamic_shared uses memory reserved by the launch"
                    if what == "shared"
                    else ""
                ),
            )
        if part < 1:
            raise ValueRangeError("SHAPE_EMPTY", f"{what}: shape {shape} has the dimension {part}")
        dims.append(part)
    if len(dims) > MAX_RANK:
        raise ValueRangeError(
            "SHAPE_RANK",
            f"{what}: shape {shape} has rank {len(dims)}; at most {MAX_RANK} is allowed",
        )
    return tuple(dims)
