# SPDX-License-Identifier: Apache-2.0
"""Makes arguments of the arrays in global memory that blocks have of their own, which launches allocate.

In: kernels that hold `simt.global_scratch`. Out: each array as an argument after all others, with one row per block,
and in its place a view of the block's own row; the kernel's `scratch_arguments` says which these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64

from weft.dialects.builder import Builder, source_location
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp, sizes_attribute
from weft.dialects.simt.memory import GlobalScratchOp, ViewOp
from weft.dialects.simt.threads import DIMENSIONS, BlockIdxOp, GridDimOp
from weft.dialects.simt.types import DYNAMIC, TensorType
from weft.location import UNKNOWN_LOCATION

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue


def add_scratch_arguments(module: ModuleOp) -> None:
    """Does so in every kernel; what launches pass stays as it is."""
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            arrays = [op for op in walk(kernel) if isinstance(op, GlobalScratchOp)]
            if arrays:
                _add_arguments(kernel, arrays)


def _add_arguments(kernel: KernelOp, arrays: list[GlobalScratchOp]) -> None:
    builder = Builder(kernel.body.block)
    builder.location = source_location(arrays[0].location) or UNKNOWN_LOCATION
    block_number = _block_number(builder)
    zero = builder.constant(i32, 0)
    added: list[int] = []
    for number, array in enumerate(arrays):
        own: TensorType = array.result.type
        all_blocks = TensorType.get(
            own.element_type,
            (DYNAMIC, *own.dims),
            dim_bits=own.dim_bits.data,
            alignment_bytes=own.alignment_bytes.data,
        )
        argument = kernel.add_argument(f"scratch_{number}", all_blocks)
        added.append(argument.index)
        starts, steps = [block_number, *[zero] * own.rank], [1] * own.rank
        view = ViewOp(argument, starts, [], range(1, own.rank + 1), steps, own)
        view.location = array.location
        block = array.parent
        assert block is not None
        block.insert_op_before(view, array)
        array.result.replace_all_uses_with(view.result)
        block.erase_op(array)
    kernel.scratch_arguments_attr = sizes_attribute(added)


def _block_number(builder: Builder) -> SSAValue:
    """The block's place in the grid, as an i64."""

    def wide(coordinate: BlockIdxOp | GridDimOp) -> SSAValue:
        return builder.entry_operation(
            arith.ExtSIOp(builder.entry_operation(coordinate).result, i64)
        ).result

    number = wide(BlockIdxOp(DIMENSIONS[-1]))
    for name in reversed(DIMENSIONS[:-1]):
        scaled = builder.entry_operation(arith.MuliOp(number, wide(GridDimOp(name)))).result
        number = builder.entry_operation(arith.AddiOp(scaled, wide(BlockIdxOp(name)))).result
    return number
