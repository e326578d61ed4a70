# SPDX-License-Identifier: Apache-2.0
"""How often loops are unrolled: short ones of known length as a whole, others as far as their loads fit the registers.

In: scf.for in a kernel. Out: the loop, with a factor for LLVM, whose own limits at level 2 are half of nvcc's; then
another of the iterations that the largest factor leaves, as short rows have no others.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf
from xdsl.traits import Pure

from weft.codegen.operations.control_flow import print_for, print_for_by_factors
from weft.dialects.flow import constant_trips, unroll_factor, walk
from weft.dialects.nvgpu.mma import WgmmaMmaOp
from weft.passes.hoist_loads import is_long
from weft.passes.split_addresses import has_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Block, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_WHOLE: Final = 512  # operations of a loop that is unrolled as a whole
_FACTORS: Final = (8, 4, 2)
_REST: Final = 4  # of what the largest factor leaves
_ROUND: Final = 96  # operations in an iteration of an unrolled loop; a third are loads, at most, of a register each
_CALL: Final = 12  # operations that a division or function of mathematics counts as


def _factor(loop: scf.ForOp) -> int | None:
    """How often to unroll a loop; None leaves it to LLVM."""
    if any(isinstance(operation, WgmmaMmaOp) for operation in walk(loop)):
        return 1  # ptxas takes seconds for eight iterations of products, and no time is won
    operations, trips = _operations(loop.body.block), constant_trips(loop)
    if trips and trips * operations <= _WHOLE:
        return trips
    fitting = [factor for factor in _FACTORS if factor * operations <= _ROUND]
    return next((factor for factor in fitting if (trips or 0) % factor == 0), None)


def _operations(block: Block) -> float:
    """Operations of one run through a block, without end if it has a loop that stays one."""
    total = 0.0
    for operation in block.ops:
        inside = sum(_operations(region.block) for region in operation.regions if region.blocks)
        if isinstance(operation, scf.ForOp | scf.WhileOp):
            trips = constant_trips(operation)
            total += inf if trips is None or unroll_factor(operation) else trips * inside
        else:
            total += inside + (_CALL if is_long(operation) else 1)
    return total


def _print_for(printer: FunctionPrinter, op: scf.ForOp) -> None:
    factor = _factor(op)
    is_short = factor == _FACTORS[0] and not unroll_factor(op) and not constant_trips(op)
    if is_short and all(map(_is_plain, op.body.block.ops)):
        print_for_by_factors(printer, op, (_FACTORS[0], _REST))
    else:
        print_for(printer, op, factor=factor)


def _is_plain(operation: Operation) -> bool:
    """Whether an operation computes, or accesses memory, without a branch or a wait."""
    is_pure = not operation.regions and operation.has_trait(Pure)
    return is_pure or isinstance(operation, scf.YieldOp) or has_address(operation)


LOOPS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    scf.ForOp: _print_for,
}
