# SPDX-License-Identifier: Apache-2.0
"""Places each kernel's shared arrays in the block's one buffer.

In: a module whose kernels hold `simt.shared`. Out: each with its `offset`; each kernel with the bytes of all its
arrays as `shared_memory_bytes`, which launches add to their own request.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, i64

from weft.dialects.builder import source_location
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import SHARED_MEMORY_ALIGNMENT, KernelOp
from weft.dialects.simt.memory import SharedOp
from weft.dialects.simt.types import array_bytes
from weft.errors import ValueRangeError
from weft.types.launch_limits import MOST_SHARED_BYTES, MOST_THREADS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.dialects.builtin import ModuleOp

_SMALLER: Final = "use smaller tiles or fewer of them"
_FEWER_THREADS: Final = (
    "it is made for blocks of any size; launch a constant one, or say @weft.kernel(max_threads=256)"
)


def lay_out_shared_memory(module: ModuleOp) -> None:
    """Gives every shared array its offset, in program order, aligned as its type requires.

    Arrays with elements per thread get them for the kernel's block size, or for its most threads.

    Raises:
        ValueRangeError: if a kernel's arrays exceed a block's shared memory; located at the first array that does not
            fit.
    """
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            _lay_out(kernel)


def _lay_out(kernel: KernelOp) -> None:
    end = 0
    for array in _arrays(kernel):
        tensor_type = array.result.type
        offset = _aligned(end, tensor_type.alignment_bytes.data)
        end = offset + _used_bytes(kernel, array)
        if end > MOST_SHARED_BYTES:
            raise ValueRangeError(
                "SHARED_TOO_LARGE",
                f"the shared arrays of '{kernel.sym_name.data}' take {end} bytes up to this one; "
                f"a block has at most {MOST_SHARED_BYTES}",
                hint=_SMALLER if array.per_thread is None or kernel.block_size else _FEWER_THREADS,
                location=source_location(array.location),
            )
        array.offset = IntegerAttr(offset, i64)
    if end:
        total = _aligned(end, SHARED_MEMORY_ALIGNMENT)
        kernel.shared_memory_bytes_attr = IntegerAttr(total, i64)


def _used_bytes(kernel: KernelOp, array: SharedOp) -> int:
    tensor_type = array.result.type
    dims = tensor_type.dims
    if array.per_thread is not None:
        most = kernel.max_threads or MOST_THREADS
        threads = most if kernel.block_size is None else prod(kernel.block_size)
        dims = (array.per_thread.value.data * threads,)
    return array_bytes(dims, tensor_type.element_type)


def _arrays(kernel: KernelOp) -> Iterator[SharedOp]:
    return (operation for operation in walk(kernel) if isinstance(operation, SharedOp))


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
