# SPDX-License-Identifier: Apache-2.0
"""Whether all lanes of a warp take the same way to an operation.

In: an operation in a kernel. Out: an answer from the text alone: yes only where each condition around the operation is
computed from what all lanes share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument

from weft.dialects.flow import end_of, sources
from weft.dialects.simt.barrier import BarrierReduceOp
from weft.dialects.simt.grid import BlockDimOp, BlockIdxOp, GridDimOp
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import DimOp, StrideOp
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp
from weft.dialects.simt.warp import WarpIdOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation, SSAValue

# The same in all lanes whatever their operands are.
_SHARED: Final = (BlockIdxOp, BlockDimOp, GridDimOp, WarpIdOp, DimOp, StrideOp, BarrierReduceOp)
# The same where their operands are, or what they yield and what decides between it.
_COMPUTED: Final = (Block, FloorDivOp, FloorModOp, scf.IfOp, scf.ForOp, scf.WhileOp)


def is_reached_together(operation: Operation) -> bool:
    """Whether either all lanes of a warp come to an operation or none, in each iteration of the loops around it."""
    deciding: list[SSAValue] = []
    around = operation.parent_op()
    while around is not None and not isinstance(around, KernelOp):
        if not isinstance(around, scf.IfOp | scf.ForOp | scf.WhileOp):
            return False
        deciding += _deciding(around)
        around = around.parent_op()
    return around is not None and _are_shared(deciding)


def _deciding(operation: scf.IfOp | scf.ForOp | scf.WhileOp) -> Sequence[SSAValue]:
    """What decides which region runs, and how often."""
    if isinstance(operation, scf.IfOp):
        return (operation.cond,)
    if isinstance(operation, scf.ForOp):
        return operation.lb, operation.ub, operation.step
    return (end_of(operation.before_region.block).operands[0],)


def _are_shared(values: Sequence[SSAValue]) -> bool:
    """Whether each value is the same in all lanes that have it."""
    seen, waiting = set(values), list(values)
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if isinstance(owner, _SHARED) or _is_parameter(value):
            continue
        if not (isinstance(owner, _COMPUTED) or _is_pure(owner)):
            return False
        found = [*sources(value)]
        around = owner.parent_op() if isinstance(owner, Block) else owner
        if isinstance(around, scf.ForOp | scf.WhileOp):
            # Lanes that leave a loop in different iterations have different values of what it carries.
            found += _deciding(around)
        waiting += [one for one in found if one not in seen]
        seen.update(found)
    return True


def _is_pure(owner: Operation | Block) -> bool:
    return not isinstance(owner, Block) and owner.name.startswith(("arith.", "math."))


def _is_parameter(value: SSAValue) -> bool:
    return isinstance(value, BlockArgument) and isinstance(value.block.parent_op(), KernelOp)
