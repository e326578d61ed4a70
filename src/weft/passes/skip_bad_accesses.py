# SPDX-License-Identifier: Apache-2.0
"""Leaves out the accesses whose checks fail, for targets where a check does not end the launch.

In: a module after check_accesses. Out: each checked access in an `scf.if` of its checks' conditions; a read that is
left out gives 0. So a GPU's thread goes on to the barriers that others wait at. Where others wait for the access
itself, the check ends the launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Block, Region

from weft.dialects.flow import walk
from weft.dialects.simt.debug import CheckOp
from weft.dialects.simt.fragment import FragmentFillOp, FragmentType
from weft.dialects.simt.kernel import KernelOp
from weft.passes.check_accesses import is_checked

if TYPE_CHECKING:
    from xdsl.dialects.builtin import AnyFloat, ModuleOp
    from xdsl.ir import Attribute, Operation, SSAValue


def skip_bad_accesses(module: ModuleOp) -> None:
    """Puts each access under its checks, which stand before it."""
    for kernel in module.body.block.ops:
        conditions: list[SSAValue] = []
        for op in list(walk(kernel)) if isinstance(kernel, KernelOp) else ():
            if isinstance(op, CheckOp):
                if op.ends is None:
                    conditions.append(op.condition)
            elif conditions and is_checked(op):
                _put_under(op, conditions)
                conditions = []


def _put_under(access: Operation, conditions: list[SSAValue]) -> None:
    """Makes an access depend on all of the conditions."""
    block = access.parent
    assert block is not None
    added: list[Operation] = []
    condition = conditions[0]
    for other in conditions[1:]:
        added.append(arith.AndIOp(condition, other))
        condition = added[-1].results[0]
    otherwise = Block()
    zeros = [_zero(otherwise, result.type) for result in access.results]
    otherwise.add_op(scf.YieldOp(*zeros))
    body = Block()
    kinds = [result.type for result in access.results]
    choice = scf.IfOp(condition, kinds, Region(body), Region(otherwise) if kinds else None)
    for op in (*added, choice):
        op.location = access.location  # pyright: ignore[reportAttributeAccessIssue]
        block.insert_op_before(op, access)
    for result, chosen in zip(access.results, choice.results, strict=True):
        chosen.name_hint = result.name_hint
        result.replace_all_uses_with(chosen)
    access.detach()
    body.add_ops([access, scf.YieldOp(*access.results)])


def _zero(block: Block, kind: Attribute) -> SSAValue:
    """Adds what makes a zero."""
    if isinstance(kind, FragmentType):
        made: Operation = FragmentFillOp(_zero(block, kind.element_type), kind)
    elif isinstance(kind, IntegerType):
        made = arith.ConstantOp(IntegerAttr(0, cast("IntegerType", kind)))
    else:
        made = arith.ConstantOp(FloatAttr(0.0, cast("AnyFloat", kind)))
    block.add_op(made)
    return made.results[0]
