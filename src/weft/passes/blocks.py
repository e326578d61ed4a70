# SPDX-License-Identifier: Apache-2.0
"""Facts about a kernel's blocks: the size common to all its launches, and where shared arrays lie.

In: a traced module. Out: each kernel whose launches all have the same constant block with that `block_size`, so that
its code is made for that size; each `simt.shared` with its `offset` in the block's one buffer, and each kernel with the
bytes of all its arrays as `shared_memory_bytes`, which launches add to their own request.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

from weft.dialects.builder import constant_integer, source_location
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import SHARED_MEMORY_ALIGNMENT, KernelOp, LaunchExOp, sizes_attribute
from weft.dialects.simt.memory import DynamicSharedOp, SharedOp
from weft.dialects.simt.threads import MaxClustersOp
from weft.dialects.simt.types import array_bytes
from weft.errors import CompileError, ValueRangeError
from weft.types.launch_limits import BLOCK, MAX_THREADS, MOST_SHARED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xdsl.dialects.builtin import ModuleOp


def find_block_sizes(module: ModuleOp) -> None:
    """Finds the block size common to all launches of a kernel, so that its code is made for that size.

    Raises:
        CompileError: if the host function asks how many clusters of a kernel without one fit the device.

    Blocks with more threads than the kernel may have are left out: their launches are refused.
    """
    blocks: dict[str, set[tuple[int, ...]]] = {}
    for host in module.body.block.ops:
        for op in walk(host) if isinstance(host, FuncOp) else ():
            if isinstance(op, LaunchExOp):
                blocks.setdefault(op.kernel.string_value(), set()).add(_constant_block(op))
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            sizes = blocks.get(kernel.sym_name.data, set())
            if len(sizes) == 1 and _fits(kernel, size := sizes.pop()):
                kernel.block_size_attr = sizes_attribute(size)
    _check_questions(module)


def _check_questions(module: ModuleOp) -> None:
    """Refuses questions about kernels whose blocks only the run knows."""
    sizes = {
        op.sym_name.data: op.block_size for op in module.body.block.ops if isinstance(op, KernelOp)
    }
    for host in module.body.block.ops:
        for op in walk(host) if isinstance(host, FuncOp) else ():
            if isinstance(op, MaxClustersOp):
                for name in op.symbols:
                    if sizes.get(name) is None:
                        raise CompileError(
                            "MAX_CLUSTERS",
                            f"{name}.max_clusters: the launches of {name} have no block of one constant size",
                            hint="write the block as a constant",
                            location=source_location(op.location),
                        )


def _constant_block(launch: LaunchExOp) -> tuple[int, ...]:
    """The three sizes; 0 for one that only the run can tell."""
    return tuple(constant_integer(size) or 0 for size in launch.block)


def _fits(kernel: KernelOp, block: tuple[int, ...]) -> bool:
    within = all(1 <= size <= most for size, most in zip(block, BLOCK[1], strict=True))
    return within and prod(block) <= (kernel.max_threads or MAX_THREADS)


_SMALLER: Final = "use smaller tiles or fewer of them"
_FEWER_THREADS: Final = (
    "it is made for blocks of any size; launch a constant one, or say @weft.kernel(max_threads=256)"
)


def lay_out_shared_memory(module: ModuleOp) -> None:
    """Places each kernel's shared arrays in the block's one buffer, in program order, aligned as types require.

    Arrays with elements per thread get them for the kernel's block size, or for its most threads. An array that reuses
    others begins where the first of those does, which is aligned for both.

    Raises:
        ValueRangeError: if a kernel's arrays exceed a block's shared memory; located at the first array that does not
            fit; or if one does not fit the memory that it reuses.
    """
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            _lay_out(kernel)


def _lay_out(kernel: KernelOp) -> None:
    arrays = list(_arrays(kernel))
    aligned: dict[SharedOp, int] = {}
    while (first := _place(kernel, arrays, aligned)) is not None:
        array, alignment = first
        aligned[array] = alignment


def _place(
    kernel: KernelOp, arrays: Sequence[SharedOp], aligned: dict[SharedOp, int]
) -> tuple[SharedOp, int] | None:
    """Places the arrays; returns one that has to be aligned better, for an array in its memory.

    Args:
        kernel: whose arrays they are.
        arrays: in program order, in which those whose memory is reused come first.
        aligned: what arrays are aligned to beyond what their types say.
    """
    end = 0
    places: dict[SharedOp, tuple[int, int]] = {}
    firsts: dict[SharedOp, SharedOp] = {}
    for array in arrays:
        alignment = array.result.type.alignment_bytes.data
        size = _used_bytes(kernel, array)
        if array.reused:
            first = min(array.reused_arrays, key=lambda one: places[one][0])
            firsts[array] = firsts.get(first, first)
            offset = places[first][0]
            if offset % alignment:
                return firsts[array], alignment
            _check_reused(array, offset + size, places)
        else:
            offset = _aligned(end, max(alignment, aligned.get(array, 1)))
            end = offset + size
        if end > MOST_SHARED_BYTES:
            raise ValueRangeError(
                "SHARED_TOO_LARGE",
                f"the shared arrays of '{kernel.sym_name.data}' take {end} bytes up to this one; "
                f"a block has at most {MOST_SHARED_BYTES}",
                hint=_SMALLER if array.per_thread is None or kernel.block_size else _FEWER_THREADS,
                location=source_location(array.location),
            )
        places[array] = offset, offset + size
        array.offset = IntegerAttr(offset, i64)
    if end:
        dynamic = (op for op in walk(kernel) if isinstance(op, DynamicSharedOp))  # begin there
        needed = max((op.result.type.alignment_bytes.data for op in dynamic), default=1)
        total = _aligned(end, max(SHARED_MEMORY_ALIGNMENT, needed))
        kernel.shared_memory_bytes_attr = IntegerAttr(total, i64)
    return None


def _check_reused(array: SharedOp, end: int, places: Mapping[SharedOp, tuple[int, int]]) -> None:
    """An array fits the memory of those that it reuses, and reaches no other's."""
    begin = min(places[one][0] for one in array.reused_arrays)
    last = max(places[one][1] for one in array.reused_arrays)
    location = source_location(array.location)
    if end > last:
        raise ValueRangeError(
            "SHARED_REUSE",
            f"the array takes {end - begin} bytes; the memory of reuse= has {last - begin}",
            hint="name more arrays, made one after the other, as a tuple, or use a smaller array",
            location=location,
        )
    reached = set(array.reused_arrays)
    for one in reversed(list(places)):  # whose memory is reused comes before
        if one in reached:
            reached.update(one.reused_arrays)
    for other, (start, stop) in places.items():
        if not other.reused and other not in reached and start < end and begin < stop:
            raise ValueRangeError(
                "SHARED_REUSE",
                f"the arrays of reuse= do not lie side by side: an array of {stop - start} bytes is between them",
                hint="make the arrays of reuse= one after the other",
                location=location,
            )


def _used_bytes(kernel: KernelOp, array: SharedOp) -> int:
    tensor_type = array.result.type
    dims = tensor_type.dims
    if array.per_thread is not None:
        most = kernel.max_threads or MAX_THREADS
        threads = most if kernel.block_size is None else prod(kernel.block_size)
        dims = (array.per_thread.value.data * threads,)
    return array_bytes(dims, tensor_type.element_type)


def overlapping_arrays(kernel: KernelOp) -> list[SharedOp]:
    """The shared arrays that lie in each other's memory, in program order."""
    arrays = list(_arrays(kernel))
    found = {one for array in arrays if array.reused for one in (array, *array.reused_arrays)}
    return [array for array in arrays if array in found]


def _arrays(kernel: KernelOp) -> Iterator[SharedOp]:
    return (operation for operation in walk(kernel) if isinstance(operation, SharedOp))


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
