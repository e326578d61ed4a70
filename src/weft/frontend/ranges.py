# SPDX-License-Identifier: Apache-2.0
"""The course of a loop over a `range`: any step becomes a counter that goes up.

In: a `StagedRange`. Out: `Course`: bounds and a positive step, and the variable's value for a counter. Going
down is going up in the bitwise complement, which reverses the order and cannot overflow. Next: loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith

from weft.dialects.cuda.debug import AssertOp
from weft.dialects.cuda.grid import BlockDimOp, GridDimOp
from weft.errors import TypeMismatchError
from weft.language.control import StagedRange
from weft.language.convert import constant, convert
from weft.language.ir_types import ir_type
from weft.language.values import Scalar

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType


class Course:
    """How a loop counts.

    Attributes:
        lower, upper, step: of the counter; it goes up.
        dtype: of counter and variable, i32 or i64.
    """

    __slots__ = ("_down", "dtype", "lower", "step", "upper")

    def __init__(
        self,
        dtype: DType,
        lower: SSAValue,
        upper: SSAValue,
        step: SSAValue,
        down: bool | SSAValue,
    ) -> None:
        self.dtype = dtype
        self.lower = lower
        self.upper = upper
        self.step = step
        # Whether the variable is the counter's complement: known, or an i1.
        self._down = down

    @property
    def type(self) -> Attribute:
        """The counter's type in the IR."""
        return ir_type(self.dtype)

    def variable(self, builder: Builder, counter: SSAValue) -> Scalar:
        """The loop's variable where the counter has this value."""
        if self._down is False:
            return Scalar(counter, self.dtype)
        complement = _complement(builder, counter)
        if self._down is True:
            return Scalar(complement, self.dtype)
        chosen = builder.emit(arith.SelectOp(self._down, complement, counter))
        return Scalar(chosen.result, self.dtype)

    def goes_on(self, builder: Builder, counter: SSAValue) -> SSAValue:
        """Whether a round follows, as an i1."""
        return builder.emit(arith.CmpiOp(counter, self.upper, "slt")).result

    def following(self, builder: Builder, counter: SSAValue) -> SSAValue:
        """The counter of the next round."""
        flags = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
        return builder.emit(arith.AddiOp(counter, self.step, overflow=flags)).result


def course(builder: Builder, staged: StagedRange, *, on_host: bool = False) -> Course:
    """The course of a range; a step that is only known at run time may have either sign.

    Raises:
        TypeMismatchError: for such a step in a host function, where nothing can assert that it is not 0.
    """
    dtype, step = staged.dtype, staged.step
    if isinstance(step, int):
        down = step < 0
        start, stop = (_end(builder, end, dtype, down=down) for end in (staged.start, staged.stop))
        return Course(dtype, start, stop, constant(builder, abs(step), dtype).ssa, down)
    start, stop, typed = (value.ssa for value in staged.bounds(builder))
    if _is_positive(typed):
        return Course(dtype, start, stop, typed, False)
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
    goes_down = builder.emit(arith.CmpiOp(typed, zero, "slt")).result
    negated = builder.emit(arith.SubiOp(zero, typed)).result
    step_up = builder.emit(arith.SelectOp(goes_down, negated, typed)).result
    lower, upper = (
        builder.emit(arith.SelectOp(goes_down, _complement(builder, end), end)).result
        for end in (start, stop)
    )
    # A step of 0, where assertions are off, makes the loop empty rather than endless.
    is_zero = builder.emit(arith.CmpiOp(typed, zero, "eq")).result
    upper = builder.emit(arith.SelectOp(is_zero, lower, upper)).result
    return Course(dtype, lower, upper, step_up, goes_down)


def _end(builder: Builder, end: Scalar | int, dtype: DType, *, down: bool) -> SSAValue:
    if isinstance(end, int):
        return constant(builder, ~end if down else end, dtype).ssa
    typed = convert(builder, end, dtype).ssa
    return _complement(builder, typed) if down else typed


def _complement(builder: Builder, value: SSAValue) -> SSAValue:
    ones = builder.constant(value.type, -1)
    return builder.emit(arith.XOrIOp(value, ones)).result


def _is_positive(value: SSAValue) -> bool:
    """Whether a step is surely above 0: a size of the grid, or a product of such sizes."""
    owner = value.owner
    if isinstance(owner, BlockDimOp | GridDimOp):
        return True
    if isinstance(owner, arith.ConstantOp):
        return owner.value.value.data > 0  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(owner, arith.MuliOp):
        return _is_positive(owner.lhs) and _is_positive(owner.rhs)
    if isinstance(owner, arith.ExtSIOp):
        return _is_positive(owner.input)
    return False
