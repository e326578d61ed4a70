# SPDX-License-Identifier: Apache-2.0
"""Scalar operations missing in arith and math: Python's floor division and remainder.

In: two values of one type. Out: one. Integer division by zero is defined, since a target may trap on it:
the quotient has all bits set, the remainder is the dividend (RISC-V's rule).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from xdsl.dialects import arith
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.irdl import (
    AnyAttr,
    VarConstraint,
    traits_def,
)
from xdsl.traits import Pure

from weft.dialects.definition import BaseOperation, operand, operation_definition, result_of

if TYPE_CHECKING:
    from xdsl.ir import OpResult
    from xdsl.irdl import Operand


# The mark of a multiplication that may be fused with a sum, see `weft.passes.arithmetic`.
CONTRACT: Final = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
# The mark of a function or quotient that the user wants from the machine's approximate instruction, where it has one.
APPROXIMATE: Final = arith.FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
# Of terms of an index, see `weft.passes.arithmetic`; also of sums that are known not to wrap.
NO_WRAP: Final = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])


class _FloorOp(BaseOperation):
    """Two operands and a result of one type: a signed integer or a float."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs: Operand = operand(T)
    rhs: Operand = operand(T)
    result: OpResult = result_of("lhs", T)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


@operation_definition
class FloorDivOp(_FloorOp):
    """Python's `//`: the quotient rounded toward minus infinity."""

    name = "simt.floor_div"


@operation_definition
class FloorModOp(_FloorOp):
    """Python's `%`: the remainder has the sign of the divisor."""

    name = "simt.floor_mod"
