# SPDX-License-Identifier: Apache-2.0
"""Scalar operations missing in arith and math: Python's floor division and remainder; `prmt`, `lop3`, `dp4a`.

In: two values of one type. Out: one. Integer division by zero is defined, since a target may trap on it:
the quotient has all bits set, the remainder is the dividend (RISC-V's rule). In: words of 32 bits. Out: one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.irdl import (
    AnyAttr,
    VarConstraint,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import (
    BaseOperation,
    fixed_result,
    flag,
    integer,
    operand,
    operation_definition,
    result_of,
)

if TYPE_CHECKING:
    from xdsl.ir import OpResult
    from xdsl.irdl import Operand

    from weft.dialects.definition import Flag, Integer


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


@operation_definition
class PrmtOp(BaseOperation):
    """PTX's `prmt`: for each four bits of the selector a byte of `high:low`, or only its sign if the last is set."""

    name = "simt.prmt"

    low: Operand = operand(i32)
    high: Operand = operand(i32)
    selector: Operand = operand(i32)
    result = fixed_result(i32)
    traits = traits_def(Pure())
    assembly_format = "$low `,` $high `,` $selector attr-dict `:` type($result)"


@operation_definition
class Lop3Op(BaseOperation):
    """PTX's `lop3`: each bit comes from a table of eight, at the number of three operands' bits, highest first."""

    name = "simt.lop3"

    first: Operand = operand(i32)
    second: Operand = operand(i32)
    third: Operand = operand(i32)
    table: Integer = integer(i32)
    result = fixed_result(i32)
    traits = traits_def(Pure())
    assembly_format = "$first `,` $second `,` $third `table` $table attr-dict `:` type($result)"

    def verify_(self) -> None:
        if not 0 <= self.table.value.data <= 255:
            raise VerifyException(f"a table has 8 bits, received {self.table.value.data}")


@operation_definition
class Dp4aOp(BaseOperation):
    """PTX's `dp4a`: a sum of the products of two words' bytes, each signed or not, and a third; it wraps."""

    name = "simt.dp4a"

    first: Operand = operand(i32)
    second: Operand = operand(i32)
    total: Operand = operand(i32)
    first_signed: Flag = flag(default=False)
    second_signed: Flag = flag(default=False)
    result = fixed_result(i32)
    traits = traits_def(Pure())
    assembly_format = (
        "$first (`signed` $first_signed^)? `,` $second (`signed` $second_signed^)? `,` $total attr-dict "
        "`:` type($result)"
    )
