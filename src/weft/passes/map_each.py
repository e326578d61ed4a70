# SPDX-License-Identifier: Apache-2.0
"""Maps the iterations of `weft.each` to the grid's threads, and chooses the grid of launches `over` iterations.

In: a traced module with `simt.each`. Out: loops in its place. On a CPU each thread runs adjacent iterations, a plain
loop that vectorizes. On a GPU adjacent threads run adjacent iterations, several at a time, with vector accesses where
the run finds the addresses aligned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint, Rewriter

from weft.dialects.builder import constant_integer
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp, LaunchExOp
from weft.dialects.simt.threads import EachOp
from weft.passes.iterations.body import reuse_loads
from weft.passes.iterations.emitter import Emitter
from weft.passes.iterations.on_cpu import iterations_per_block, map_on_cpu
from weft.passes.iterations.on_gpu import Plan, map_on_gpu
from weft.types.launch_limits import GRID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

_THREADS = 256
"""Of a block, on a GPU."""


def map_each(module: ModuleOp, on_host: bool = False) -> None:
    """Replaces the iterations of every kernel.

    Args:
        module: with kernels and a host function.
        on_host: whether the kernels run on the CPU.
    """
    operations = list(module.body.block.ops)
    loops = {
        kernel.sym_name.data: (kernel, found)
        for kernel in operations
        if isinstance(kernel, KernelOp)
        and (found := [op for op in walk(kernel) if isinstance(op, EachOp)])
    }
    if not loops:
        return
    launches: dict[str, list[LaunchExOp]] = {name: [] for name in loops}
    for host in operations:
        for op in walk(host) if isinstance(host, FuncOp) else ():
            if isinstance(op, LaunchExOp) and op.kernel.string_value() in launches:
                launches[op.kernel.string_value()].append(op)
    for name, (kernel, found) in loops.items():
        for loop in found:
            reuse_loads(loop)
        plans = [Plan.of(loop) for loop in found]
        iterations = min(
            map(iterations_per_block, found) if on_host else (p.iterations for p in plans)
        )
        threads = 1 if on_host else min(_THREADS, kernel.max_threads or _THREADS)
        for launch in launches[name]:
            if launch.over is not None:
                _choose_grid(launch, launch.over, iterations, threads)
        is_row = all(map(_is_row, launches[name]))
        for loop, plan in zip(found, plans, strict=True):
            block = Block()
            emitter = Emitter(block, loop.location)
            if on_host:
                map_on_cpu(emitter, loop, is_row=is_row)
            else:
                map_on_gpu(emitter, loop, plan, is_row=is_row)
            Rewriter.inline_block(block, InsertPoint.before(loop))
            Rewriter.erase_op(loop)


def _choose_grid(launch: LaunchExOp, over: SSAValue, iterations: int, threads: int) -> None:
    """Sets the number of blocks: `iterations` for each thread of `threads`, or of the launch's own block."""
    block = Block()
    emitter = Emitter(block, launch.location)
    sizes: Sequence[SSAValue] = launch.block or [emitter.number(size) for size in (threads, 1, 1)]
    each = emitter.number(iterations)
    for size in sizes:
        each = emitter.times(each, size)
    most = emitter.least(emitter.most(over, 1), emitter.times(each, GRID[1][0]))
    blocks = emitter.quotient(emitter.plus(most, emitter.plus(each, -1)), each)
    one = emitter.number(1)
    Rewriter.inline_block(block, InsertPoint.before(launch))
    launch.set_sizes([blocks, one, one], sizes)


def _is_row(launch: LaunchExOp) -> bool:
    """Whether grid and block have only a size along x."""
    return all(constant_integer(size) == 1 for size in (*launch.grid[1:], *launch.block[1:]))
