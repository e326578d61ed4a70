# SPDX-License-Identifier: Apache-2.0
"""What is known to divide an integer: from its arithmetic, and from ``weft.sym(..., divisibility=8)``.

In: a value of the IR. Out: a power of two that divides it; a value whose operations show what its signature promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith
from xdsl.ir import Block

from weft.dialects.builder import constant_integer
from weft.language.ir_types import ir_type
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

    from weft.dialects.builder import Builder

_MOST: Final = 1 << 16
# What divides both operands divides the result.
_OF_BOTH: Final = (
    arith.AddiOp,
    arith.SubiOp,
    arith.MinSIOp,
    arith.MaxSIOp,
    arith.MinUIOp,
    arith.MaxUIOp,
)


class CountedBlock(Block):
    """A loop's body while it is traced; its first argument counts from `lower` in steps of `step`.

    Attributes:
        factor: a power of two that divides each of its values.
    """

    factor: int

    def __init__(self, types: Sequence[Attribute], lower: SSAValue, step: SSAValue) -> None:
        super().__init__(arg_types=types)
        self.factor = min(factor_of(lower), factor_of(step))


def promised(builder: Builder, value: Scalar, divisibility: int) -> Scalar:
    """The value with its low bits cleared, which the caller has checked to be zero.

    So everything computed from it shows the power of two in its divisor, here and in LLVM: ``n % 8`` is 0.
    """
    factor = divisibility & -divisibility
    if factor == 1:
        return value
    mask = builder.constant(ir_type(value.dtype), -factor)
    return Scalar(builder.emit(arith.AndIOp(value.ssa, mask), "multiple").result, value.dtype)


def factor_of(value: SSAValue) -> int:
    """A power of two, at most 65,536, that divides an integer, as far as its arithmetic shows.

    Valid even if the arithmetic wraps.
    """
    owner, number = value.owner, constant_integer(value)
    if number is not None:
        return _power_of_two(number)
    if isinstance(owner, arith.MuliOp):
        return min(factor_of(owner.lhs) * factor_of(owner.rhs), _MOST)
    if isinstance(owner, _OF_BOTH):
        return min(factor_of(owner.lhs), factor_of(owner.rhs))
    if isinstance(owner, arith.AndIOp):
        return max(factor_of(owner.lhs), factor_of(owner.rhs))
    if isinstance(owner, CountedBlock):
        return owner.factor if value is owner.args[0] else 1
    if isinstance(owner, arith.ExtSIOp | arith.ExtUIOp | arith.TruncIOp):
        return factor_of(owner.input)
    return 1


def _power_of_two(number: int) -> int:
    return min(number & -number, _MOST) if number else _MOST
