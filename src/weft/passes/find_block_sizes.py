# SPDX-License-Identifier: Apache-2.0
"""Finds the block size common to all launches of a kernel, so that its code is made for that size.

In: a traced module. Out: each kernel whose launches all have the same constant block with that `block_size`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp

from weft.dialects.builder import constant_integer, source_location
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp, LaunchExOp, sizes_attribute
from weft.dialects.simt.threads import MaxClustersOp
from weft.errors import CompileError
from weft.types.launch_limits import BLOCK, MOST_THREADS

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def find_block_sizes(module: ModuleOp) -> None:
    """Records block sizes on the kernels.

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
    return within and prod(block) <= (kernel.max_threads or MOST_THREADS)
