# SPDX-License-Identifier: Apache-2.0
"""Starts loads before divisions, roots and functions whose machine code branches.

In: a traced module, for a GPU. Out: the same, with loads of global memory moved up in their block, and what computes
their addresses. An assembler moves loads among the instructions of a basic block, but a division's rare cases are a
branch: a load after one waits for what was loaded before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, math
from xdsl.ir import Operation
from xdsl.traits import Pure

from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import LoadOp, LoadVectorOp
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block

    from weft.dialects.simt.types import TensorType

_SIMPLE: Final = (math.FmaOp, math.AbsFOp, math.AbsIOp, math.CopySignOp, math.RsqrtOp)
# Loads that are moved to one place; each takes registers from there on.
_MOST_LOADS: Final = 8


def hoist_loads(module: ModuleOp, on_host: bool = False) -> None:
    """Moves loads of every kernel, but over nothing that writes, waits or branches.

    Args:
        module: with kernels and a host function.
        on_host: whether the kernels run on the CPU, which needs none of it.
    """
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp) and not on_host:
            blocks = [
                block for op in walk(kernel) for region in op.regions for block in region.blocks
            ]
            for block in blocks:
                _start_early(block)


def is_long(operation: Operation) -> bool:
    """Whether an operation is a division or function of mathematics, and so many instructions."""
    if isinstance(operation, arith.DivfOp | FloorDivOp | FloorModOp):
        return True
    return operation.dialect_name() == "math" and not isinstance(operation, _SIMPLE)


def _start_early(block: Block) -> None:
    place: Operation | None = None
    after: dict[Operation, None] = {}  # what stands at the place and after it
    moved = 0
    for op in list(block.ops):
        needed = _needed(op, after) if place is not None and moved < _MOST_LOADS else None
        if needed is not None and place is not None:
            for one in needed:
                after.pop(one, None)
                one.detach()
                block.insert_op_before(one, place)
            moved += 1
            continue
        if not _is_plain(op) and not _only_reads(op):
            place = None
        elif is_long(op) and (place is None or moved == _MOST_LOADS):
            place, moved = op, 0
            after.clear()
        if place is not None:
            after[op] = None


def _is_plain(op: Operation) -> bool:
    return op.has_trait(Pure) and not op.regions


def _only_reads(op: Operation) -> bool:
    """Whether an operation reads memory, and may do so earlier."""
    return isinstance(op, LoadVectorOp) or (isinstance(op, LoadOp) and op.volatile is None)


def _needed(load: Operation, after: dict[Operation, None]) -> list[Operation] | None:
    """A load of global memory and what its address is computed from there, in order; None if it cannot move."""
    if not _only_reads(load) or cast("TensorType", load.operands[0].type).space.data != "global":
        return None
    found: dict[Operation, None] = {load: None}
    for op in (waiting := [load]):
        for operand in op.operands:
            owner = operand.owner
            if isinstance(owner, Operation) and owner in after and owner not in found:
                if not _is_plain(owner) or is_long(owner):
                    return None
                found[owner] = None
                waiting.append(owner)
    return [op for op in after if op in found] + [load]
