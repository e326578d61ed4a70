# SPDX-License-Identifier: Apache-2.0
"""Rounds a product and the sum or difference that it is an operand of once and not twice, on every target alike.

In: a traced module, in which `fastmath<contract>` marks the products that are operands of `+` or `-` in the program's
text. Out: `math.fma` in their place, for f32 and f64, and no mark: no backend fuses anything by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.rewriter import Rewriter

from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.scalar import CONTRACT

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue


def fuse_multiply_adds(module: ModuleOp, by_default: bool = True) -> None:
    """Fuses the left operand where both are products.

    Args:
        module: with kernels and a host function.
        by_default: whether it is done in functions that say nothing; kernels may, see `KernelOp.fp_contract`.
    """
    for function in module.body.block.ops:
        own = function.fp_contract if isinstance(function, KernelOp) else None
        if by_default if own is None else own:
            for op in list(walk(function)):
                if isinstance(op, arith.AddfOp | arith.SubfOp):
                    _fuse(op)
        for op in walk(function):
            if isinstance(op, arith.MulfOp):
                op.fastmath = arith.FastMathFlagsAttr("none")


def _fuse(total: arith.AddfOp | arith.SubfOp) -> None:
    """``a * b + c``, ``c + a * b``, ``a * b - c`` as ``a * b + -c``, and ``c - a * b`` as ``-a * b + c``."""
    left, right = total.lhs, total.rhs
    difference = isinstance(total, arith.SubfOp)
    if (product := _product(left, total)) is not None:
        a, b, c = product.lhs, product.rhs, _negated(right, total) if difference else right
    elif (product := _product(right, total)) is not None:
        a, b, c = _negated(product.lhs, total) if difference else product.lhs, product.rhs, left
    else:
        return
    fused = math.FmaOp(a, b, c)
    fused.location = total.location
    fused.result.name_hint = total.result.name_hint
    Rewriter.replace_op(total, fused)
    Rewriter.erase_op(product)


def _product(value: SSAValue, total: Operation) -> arith.MulfOp | None:
    """The marked product that a value is, of which the sum is the only use."""
    product = value.owner
    if not isinstance(product, arith.MulfOp) or product.fastmath != CONTRACT:
        return None
    alone = value.has_one_use() and product.parent is total.parent
    return product if alone and isinstance(value.type, Float32Type | Float64Type) else None


def _negated(value: SSAValue, before: Operation) -> SSAValue:
    negation = arith.NegfOp(value)
    negation.location = before.location
    assert before.parent is not None
    before.parent.insert_op_before(negation, before)
    return negation.result
