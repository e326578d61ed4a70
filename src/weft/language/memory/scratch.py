# SPDX-License-Identifier: Apache-2.0
"""Memory for the time of a launch or a call: ``global_scratch`` in kernels, ``scratch`` in host functions.

In: a shape and an element type. Out: a `Tensor` in global memory: each block's own, allocated by each launch, or the
launches' of a host function, allocated by each call.
"""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING, Final, cast

from weft.dialects.simt.memory import GlobalScratchOp, ScratchOp
from weft.dialects.simt.types import DYNAMIC, MAX_RANK
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_tensor_type
from weft.language.memory.local import element_type, static_shape
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.numbers.promotion import index_dtype
from weft.language.operation import operation
from weft.language.values import Scalar, Stream, Tensor, describe, item_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

SCRATCH_BYTES = 1 << 30
"""Most bytes of one array, per block."""
_MOST_BYTES: Final = 1 << 62  # of constant sizes; the call checks the others
SCRATCH_ALIGNMENT: Final = 256
"""Of a host function's arrays, in bytes; native/runtime/launch/call_scratch.cpp keeps it."""


@operation
def global_scratch(builder: Builder, shape: object, dtype: object) -> Tensor:
    """An uninitialized array in global memory, one per block, shared by its threads.

    Use it like `shared`, with the same barriers, for arrays that do not fit there. Each call in the source makes one
    array; in a loop, every iteration gets the same one. Each launch allocates and frees it for all blocks of its grid;
    `KernelInfo.global_scratch_bytes` is the size per block. On a GPU this happens in stream order, even under graph
    capture; the memory comes from the driver's pool or the allocator of `weft.set_allocator`.

    Args:
        shape: an int, or a tuple of at most 7; constants of at least 1.
        dtype: type of the elements, such as ``weft.f32``.

    Raises:
        TypeMismatchError: for a shape that is not constant, or no element type.
        ValueRangeError: for a dim below 1, a rank above 7, or more than 2^30 bytes per block.

    Example:
        ``histogram = weft.global_scratch(1 << 16, weft.u32)``
    """
    element = element_type(dtype, "global_scratch")
    dims = static_shape(shape, "global_scratch")
    total = element.itemsize
    for dim in dims:
        total *= dim
    if total > SCRATCH_BYTES or len(dims) > 7:
        raise ValueRangeError(
            "SCRATCH_TOO_LARGE",
            f"global_scratch({dims}, {element}) takes {total} bytes per block in {len(dims)} dimensions; "
            f"at most {SCRATCH_BYTES} and 7 are allowed",
            hint="pass a tensor as an argument",
        )
    kind = ir_tensor_type(element, dims, dim_bits=64, alignment_bytes=gcd(total, SCRATCH_ALIGNMENT))
    made = builder.entry_operation(GlobalScratchOp(kind), "scratch")
    return Tensor(made.result, element, "global_scratch")


@operation(on_host=True, in_kernels=False)
def scratch(builder: Builder, shape: object, dtype: object, *, stream: object = None) -> Tensor:
    """An uninitialized, contiguous array in a host function, for what its launches leave to each other.

    Each evaluation makes an array, also in a loop: make what every iteration can use before the loop.
    The call gives all of them back when the host function ends, whatever happened. On a GPU both are in stream order,
    even under graph capture; the memory comes from the driver's pool or the allocator of `weft.set_allocator`. On the
    CPU each thread keeps up to 64 MiB for its next calls. ``fn.scratch`` lists the arrays of a compiled function.

    It can be sliced and passed to kernels and helpers like an argument, and not be returned. Its address is a multiple
    of 256. A size that is negative at run time, or an array of more bytes than there are, is an error of the call.

    Args:
        shape: an integer, or a tuple of at most 8; from 0 up, known at compile time or not.
        dtype: type of the elements, such as ``weft.f32``.
        stream: a `weft.Stream` parameter, that of the launches which use the array; by default the call's.

    Raises:
        TypeMismatchError: for a size that is not an integer, no element type, or no stream.
        ValueRangeError: for a negative constant, a rank above 8, or more than 2^62 bytes.

    Example:
        ``partial = weft.scratch((2, len(a)), weft.f32); kernel(partial[0]).launch(grid=1, block=32)``
    """
    element = element_type(dtype, "scratch")
    if stream is not None and not isinstance(stream, Stream):
        raise TypeMismatchError(
            "SCRATCH_STREAM",
            f"scratch: stream must be a weft.Stream parameter of the host function, received {describe(stream)}",
            hint="annotate a parameter with weft.Stream and pass it on",
        )
    parts = cast("tuple[object, ...]", shape) if isinstance(shape, tuple) else (shape,)
    sizes = [_size(builder, part) for part in parts]
    constants = [size for size in sizes if isinstance(size, int)]
    total = element.itemsize * prod(constants)
    if len(sizes) > MAX_RANK or max(total, *constants, 0) > _MOST_BYTES:
        raise ValueRangeError(
            "SCRATCH_TOO_LARGE",
            f"scratch({item_text(cast('object', shape))}, {element}) takes {total} bytes in {len(sizes)} dimensions; "
            f"at most 2^62 and {MAX_RANK} are allowed",
        )
    found = [size for size in sizes if isinstance(size, Scalar)]
    is_wide = (
        any(size.dtype is types.i64 for size in found)
        or max(constants, default=0) > types.i32.maximum
    )
    dim = types.i64 if is_wide else types.i32
    fits = not found and prod(constants) <= types.i32.maximum
    kind = ir_tensor_type(
        element,
        [size if isinstance(size, int) else DYNAMIC for size in sizes],
        dim_bits=dim.bits,
        offset_bits=32 if fits or (not is_wide and len(sizes) == 1) else 64,
        alignment_bytes=SCRATCH_ALIGNMENT,
    )
    operands = [convert(builder, size, dim).ssa for size in found]
    text = builder.location.span() or "weft.scratch"
    made = ScratchOp(text, operands, None if stream is None else stream.ssa, kind)
    return Tensor(builder.emit(made, "scratch").result, element, "scratch")


def _size(builder: Builder, part: object) -> int | Scalar:
    """A size as an int, or as an i32 or i64."""
    size = expect_scalar(builder, part, "scratch: a dimension")
    known = size.constant if isinstance(size, Scalar) else size
    if known is None and isinstance(size, Scalar):
        dtype = index_dtype(size.dtype)
        if dtype is not None:
            return convert(builder, size, dtype)
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "SHAPE_NOT_AN_INTEGER",
            f"scratch: a shape holds integers, received {describe(size)}",
            hint="use // instead of /, or convert it, such as weft.i32(x)",
        )
    if known < 0:
        raise ValueRangeError("SHAPE_NEGATIVE", f"scratch: the shape has the dimension {known}")
    return known
