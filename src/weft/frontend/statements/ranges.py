# SPDX-License-Identifier: Apache-2.0
"""Loops over a `range`: any step becomes a counter that increases.

In: a `StagedRange`. Out: `Course`: bounds, a positive step, and the variable's value for a counter. Flipping all bits
reverses the order, and flipping the sign bit makes unsigned order signed; neither can overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1

from weft.dialects.builder import constant_integer
from weft.dialects.flow import is_positive
from weft.dialects.simt.debug import AssertOp
from weft.errors import TypeMismatchError
from weft.language.ir_types import ir_type
from weft.language.numbers.convert import to_common
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

    from weft.dialects.builder import Builder
    from weft.language.control import StagedRange
    from weft.types.dtype import DType


@dataclass(slots=True, eq=False)
class Course:
    """The counter of a loop.

    Attributes:
        dtype: of counter and variable, i32, i64 or u64.
        lower, upper: of the counter, which increases in signed order.
        step: of the counter; positive as an unsigned number.
        flipped: the bits in which variable and counter differ, or None.
        may_pass_the_limit: whether the last round's counter plus the step may overflow.
    """

    dtype: DType
    lower: SSAValue
    upper: SSAValue
    step: SSAValue
    flipped: SSAValue | None
    may_pass_the_limit: bool = True

    @property
    def type(self) -> Attribute:
        """The counter's type in the IR."""
        return ir_type(self.dtype)

    def variable(self, builder: Builder, counter: SSAValue) -> Scalar:
        """The loop's variable for this value of the counter."""
        return Scalar(_flip(builder, counter, self.flipped), self.dtype)

    @property
    def state_types(self) -> list[Attribute]:
        """The state carried by a loop with exits: the counter, and whether it runs if it may overflow."""
        return [self.type, i1] if self.may_pass_the_limit else [self.type]

    def first(self, builder: Builder) -> list[SSAValue]:
        """The state of the first round."""
        if not self.may_pass_the_limit:
            return [self.lower]
        return [self.lower, builder.emit(arith.CmpiOp(self.lower, self.upper, "slt")).result]

    def goes_on(self, builder: Builder, state: Sequence[SSAValue]) -> SSAValue:
        """Whether an iteration follows, as an i1."""
        if self.may_pass_the_limit:
            return state[1]
        return builder.emit(arith.CmpiOp(state[0], self.upper, "slt")).result

    def following(self, builder: Builder, state: Sequence[SSAValue]) -> list[SSAValue]:
        """The state of the next round."""
        counter = state[0]
        if not self.may_pass_the_limit:
            flags = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
            return [builder.emit(arith.AddiOp(counter, self.step, overflow=flags)).result]
        # An iteration ran, so the rest is positive, as an unsigned number.
        left = builder.emit(arith.SubiOp(self.upper, counter)).result
        more = builder.emit(arith.CmpiOp(left, self.step, "ugt")).result
        return [builder.emit(arith.AddiOp(counter, self.step)).result, more]
        # An iteration ran, so the rest is positive, as an unsigned number.
        left = builder.emit(arith.SubiOp(self.upper, counter)).result
        more = builder.emit(arith.CmpiOp(left, self.step, "ugt")).result
        # The sum after the last round may overflow, and is not read.
        rises = (constant_integer(self.step) or 0) > 0
        flags = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW] if rises else "none")
        return [builder.emit(arith.AddiOp(counter, self.step, overflow=flags)).result, more]


def course(builder: Builder, staged: StagedRange, *, on_host: bool = False) -> Course:
    """The counter of a range; a signed run-time step may have either sign.

    Raises:
        TypeMismatchError: for a run-time step in a host function that may be 0, which cannot be asserted there.
    """
    if isinstance(staged.step, int):
        return _constant_course(builder, staged, staged.step)
    dtype = staged.dtype
    start, stop, typed = (end.ssa for end in staged.bounds(builder))
    sign = None if dtype.is_signed else builder.constant(ir_type(dtype), dtype.maximum // 2 + 1)
    if is_positive(typed):
        lower, upper = (_flip(builder, end, sign) for end in (start, stop))
        return Course(dtype, lower, upper, typed, sign)
    if on_host:
        raise TypeMismatchError(
            "HOST_STEP",
            "the step of a range in a host function must be known at compile time",
            hint="count with a step of 1 and multiply, or make it a weft.Constexpr[int] parameter",
        )
    zero = builder.constant(ir_type(dtype), 0)
    builder.emit(
        AssertOp(builder.emit(arith.CmpiOp(typed, zero, "ne")).result, "range: the step is 0")
    )
    flipped, step_up = sign, typed
    if dtype.is_signed:
        goes_down = builder.emit(arith.CmpiOp(typed, zero, "slt")).result
        negated = builder.emit(arith.SubiOp(zero, typed)).result
        step_up = builder.emit(arith.SelectOp(goes_down, negated, typed)).result
        ones = builder.constant(ir_type(dtype), -1)
        flipped = builder.emit(arith.SelectOp(goes_down, ones, zero)).result
    lower, upper = (_flip(builder, end, flipped) for end in (start, stop))
    # Without assertions, a step of 0 makes the loop empty rather than endless.
    is_zero = builder.emit(arith.CmpiOp(typed, zero, "eq")).result
    upper = builder.emit(arith.SelectOp(is_zero, lower, upper)).result
    return Course(dtype, lower, upper, step_up, flipped)


def _constant_course(builder: Builder, staged: StagedRange, step: int) -> Course:
    dtype = staged.dtype
    ends = (to_common(builder, end, dtype).ssa for end in (staged.start, staged.stop))
    bits = 0 if dtype.is_signed else dtype.maximum // 2 + 1
    bits = ~bits if step < 0 else bits
    flipped = builder.constant(ir_type(dtype), bits) if bits else None
    lower, upper = (_flip(builder, end, flipped) for end in ends)
    last = constant_integer(upper)
    most = (1 << (dtype.bits - 1)) - 1
    size = abs(step)
    may_pass = size != 1 and (last is None or size > most or last + size - 1 > most)
    step_up = builder.constant(ir_type(dtype), size)
    return Course(dtype, lower, upper, step_up, flipped, may_pass_the_limit=may_pass)


def _flip(builder: Builder, value: SSAValue, bits: SSAValue | None) -> SSAValue:
    if bits is None:
        return value
    known, mask = constant_integer(value), constant_integer(bits)
    if known is not None and mask is not None:
        return builder.constant(value.type, known ^ mask)
    return builder.emit(arith.XOrIOp(value, bits)).result
