# SPDX-License-Identifier: Apache-2.0
"""Block memory beyond shared memory: ``global_scratch``.

In: a shape and an element type. Out: a `Tensor` in global memory, of which each block has its own; each launch
allocates it.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from weft.dialects.simt.memory import GlobalScratchOp
from weft.dialects.simt.views import VECTOR_BYTES
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_tensor_type
from weft.language.memory.local import static_shape
from weft.language.operation import operation
from weft.language.values import Tensor, describe
from weft.types.dtype import DType

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

SCRATCH_BYTES = 1 << 30
"""Most bytes of one array, per block."""


@operation
def global_scratch(builder: Builder, shape: object, dtype: object) -> Tensor:
    """An uninitialized array in global memory, one per block, shared by its threads.

    Use it like `shared`, with the same barriers, for arrays that do not fit there. Each call in the source makes one
    array; in a loop, every round gets the same one. Each launch allocates and frees it for all blocks of its grid;
    `KernelInfo.global_scratch_bytes` is the size per block. On a GPU this happens in stream order, even under graph
    capture; the memory comes from the driver's pool or the allocator of `weft.set_allocator`.

    Args:
        builder: where operations go; users leave it out.
        shape: an int, or a tuple of at most 7; constants of at least 1.
        dtype: type of the elements, such as ``weft.f32``.

    Raises:
        TypeMismatchError: for a shape that is not constant, or no element type.
        ValueRangeError: for a dim below 1, a rank above 7, or more than 2^30 bytes per block.

    Example:
        ``histogram = weft.global_scratch(1 << 16, weft.u32)``
    """
    if not isinstance(dtype, DType):
        raise TypeMismatchError(
            "SCRATCH_DTYPE",
            f"global_scratch: the second argument must be an element type, received {describe(dtype)}",
            hint="write global_scratch((1024, 64), weft.f32)",
        )
    dims = static_shape(shape, "global_scratch")
    total = dtype.itemsize
    for dim in dims:
        total *= dim
    if total > SCRATCH_BYTES or len(dims) > 7:
        raise ValueRangeError(
            "SCRATCH_TOO_LARGE",
            f"global_scratch({dims}, {dtype}) takes {total} bytes per block in {len(dims)} dimensions; "
            f"at most {SCRATCH_BYTES} and 7 are allowed",
            hint="pass a tensor as an argument",
        )
    kind = ir_tensor_type(dtype, dims, dim_bits=64, alignment_bytes=gcd(total, VECTOR_BYTES))
    made = builder.entry_operation(GlobalScratchOp(kind), "scratch")
    return Tensor(made.result, dtype, "global_scratch")
