# SPDX-License-Identifier: Apache-2.0
"""Walks operations, and values to where they come from; tells what all lanes of a warp share.

In: an operation or a block; a value. Out: all operations inside, in text order; the values that it is one of, or for
a tensor, those whose memory it may be. Of a loop: its trips and its factor. Uniformity follows from the text alone:
yes only where each condition around an operation is computed from what all lanes share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, BlockArgument, OpResult

from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.tensor_map import MakeTensorMapOp
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import AdvanceOp, DimOp, ReinterpretOp, ReshapeOp, StrideOp, ViewOp
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp
from weft.dialects.simt.threads import BarrierReduceOp, BlockDimOp, BlockIdxOp, GridDimOp, WarpIdOp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.ir import Operation, SSAValue


_UNROLL: Final = "unroll"

CARRIERS = (arith.SelectOp, scf.YieldOp, scf.ConditionOp, scf.ForOp, scf.WhileOp)
"""Operations that pass a tensor on, and do not look into it."""
_VIEWS = (ViewOp, AdvanceOp, ReinterpretOp, ReshapeOp, MakeTensorMapOp)


def alternatives(value: SSAValue) -> Sequence[SSAValue]:
    """The values that control flow makes this one from; none if it is computed."""
    owner = value.owner
    if isinstance(value, BlockArgument):
        return _carried(value)
    assert isinstance(value, OpResult)
    if isinstance(owner, arith.SelectOp):
        return owner.lhs, owner.rhs
    if isinstance(owner, scf.IfOp):
        return [end_of(region.block).operands[value.index] for region in owner.regions]
    if isinstance(owner, scf.WhileOp):
        return (end_of(owner.before_region.block).operands[1 + value.index],)
    if isinstance(owner, scf.ForOp):
        return owner.iter_args[value.index], end_of(owner.body.block).operands[value.index]
    return ()


def _carried(argument: BlockArgument) -> Sequence[SSAValue]:
    """The values that a loop carries into one of its block arguments."""
    loop, index = argument.block.parent_op(), argument.index
    if isinstance(loop, scf.WhileOp):
        before, after = loop.before_region.block, loop.after_region.block
        if argument.block is after:
            return (end_of(before).operands[1 + index],)
        following: SSAValue = end_of(after).operands[index]
        if isinstance(following, BlockArgument) and following.block is after:
            following = end_of(before).operands[1 + following.index]
        return loop.operands[index], following
    if isinstance(loop, scf.ForOp) and index:
        return loop.iter_args[index - 1], end_of(loop.body.block).operands[index - 1]
    return ()


def sources(value: SSAValue) -> Iterator[SSAValue]:
    """The values that a value is computed from, and those that select it among several."""
    owner = value.owner
    yield from alternatives(value)
    if isinstance(owner, Block):
        loop = owner.parent_op()
        if isinstance(loop, scf.ForOp):
            yield from loop.operands
    elif isinstance(owner, scf.IfOp):
        yield owner.cond
    elif isinstance(owner, scf.WhileOp):
        yield end_of(owner.before_region.block).operands[0]
    else:
        yield from owner.operands


def origins(tensor: SSAValue, *, through_views: bool = True) -> set[SSAValue]:
    """The tensors that this one may be, or may be a view of, none of which control flow or a view made.

    Args:
        tensor: of the IR.
        through_views: whether a view or a tensor map leads on to its source.
    """
    found: set[SSAValue] = set()
    seen, waiting = {tensor}, [tensor]
    while waiting:
        value = waiting.pop()
        sources = alternatives(value)
        if not sources and through_views and isinstance(value.owner, _VIEWS):
            sources = (value.owner.source,)
        if not sources:
            found.add(value)
        waiting += [source for source in sources if source not in seen]
        seen.update(sources)
    return found


def constant_trips(loop: Operation) -> int | None:
    """Trip count of a loop; None if it is known only at run time."""
    if not isinstance(loop, scf.ForOp):
        return None
    lower, upper, step = (constant_integer(value) for value in (loop.lb, loop.ub, loop.step))
    if lower is None or upper is None or step is None or step < 1:
        return None
    return len(range(lower, upper, step))


def is_positive(value: SSAValue) -> bool:
    """Whether a step is surely positive: a size of the grid, or a product of such sizes."""
    known, owner = constant_integer(value), value.owner
    if known is not None:
        return known > 0
    if isinstance(owner, BlockDimOp | GridDimOp):
        return True
    if isinstance(owner, arith.MuliOp):
        return is_positive(owner.lhs) and is_positive(owner.rhs)
    if isinstance(owner, arith.ExtSIOp):
        return is_positive(owner.input)
    return False


def unroll_factor(loop: Operation) -> int | None:
    """Unroll factor of a loop in the program; None without one."""
    factor = loop.attributes.get(_UNROLL)
    return factor.value.data if isinstance(factor, IntegerAttr) else None


def set_unroll_factor(loop: Operation, factor: int | None) -> None:
    """Notes what `unroll_factor` returns."""
    if factor is not None:
        loop.attributes[_UNROLL] = IntegerAttr(factor, i32)


def end_of(block: Block) -> Operation:
    """The last operation of a block, which says what leaves it."""
    end = block.last_op
    assert end is not None
    return end


def walk(root: Operation | Block) -> Iterator[Operation]:
    """The operation itself, if it is one, and all operations inside, outer ones first.

    xDSL's `walk` passes each operation through a generator per level.
    """
    waiting = list(root.ops)[::-1] if isinstance(root, Block) else [root]
    while waiting:
        operation = waiting.pop()
        yield operation
        if operation.regions:
            inner = [
                op for region in operation.regions for block in region.blocks for op in block.ops
            ]
            waiting += reversed(inner)


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
    """Values on which the executed region and the trip count depend."""
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
            # Lanes that leave a loop in different iterations have different values of its carried variables.
            found += _deciding(around)
        waiting += [one for one in found if one not in seen]
        seen.update(found)
    return True


def _is_pure(owner: Operation | Block) -> bool:
    return not isinstance(owner, Block) and owner.name.startswith(("arith.", "math."))


def _is_parameter(value: SSAValue) -> bool:
    return isinstance(value, BlockArgument) and isinstance(value.block.parent_op(), KernelOp)
