# SPDX-License-Identifier: Apache-2.0
"""Adds checks to arithmetic, for the sanitizer: results that the language defines, but few programs mean.

In: a traced module, whose sums of signed integers are marked. Out: `simt.check` after each operation that may wrap,
divide by zero, shift past the width, convert out of range or make a NaN of numbers, by the checks asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, Float64Type, FloatAttr, IntegerType, f64, i64
from xdsl.rewriter import InsertPoint, Rewriter

from weft.dialects.builder import SIGNED, constant_integer
from weft.dialects.flow import walk
from weft.dialects.simt.debug import CheckOp
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

    from weft.dialects.builder import OperationT

ARITHMETIC: Final = ("overflow", "division", "shifts", "conversions", "nan")
"""The checks that this pass adds."""
_SUMS: Final = {arith.AddiOp: "+", arith.SubiOp: "-", arith.MuliOp: "*"}
_DIVISIONS: Final = {FloorDivOp: "//", FloorModOp: "%", arith.DivUIOp: "//", arith.RemUIOp: "%"}
_SHIFTS: Final = {arith.ShLIOp: "<<", arith.ShRSIOp: ">>", arith.ShRUIOp: ">>"}
_CONVERSIONS: Final = {arith.FPToSIOp: "i", arith.FPToUIOp: "u"}
_FLOATS: Final = {
    **{arith.AddfOp: "+", arith.SubfOp: "-", arith.MulfOp: "*", arith.DivfOp: "/"},
    **{FloorDivOp: "//", FloorModOp: "%"},
    **{
        kind: kind.name.removeprefix("math.").replace("powf", "pow")
        for kind in (
            *(math.AcosOp, math.AcoshOp, math.AsinOp, math.AtanhOp, math.CosOp, math.SinOp),
            *(math.TanOp, math.Log10Op, math.Log1pOp, math.Log2Op, math.LogOp, math.PowFOp),
            *(math.SqrtOp, math.RsqrtOp, math.FmaOp),
        )
    },
}


def check_arithmetic(module: ModuleOp, checks: str) -> None:
    """Checks the arithmetic of each kernel.

    Args:
        module: traced.
        checks: words of the option ``--sanitize``, separated by commas.
    """
    wanted = frozenset(checks.split(","))
    for kernel in module.body.block.ops:
        for op in list(walk(kernel)) if isinstance(kernel, KernelOp) else ():
            _Checker(op).check(wanted)


class _Checker:
    """Adds the checks of one operation, after it."""

    def __init__(self, op: Operation) -> None:
        self._op = op
        self._last = op

    def check(self, wanted: frozenset[str]) -> None:
        """Those that are asked for."""
        kind = type(self._op)
        is_float = bool(self._op.results) and isinstance(self._op.results[0].type, AnyFloat)
        if "overflow" in wanted and SIGNED in self._op.attributes:
            self._check_sum(_SUMS[cast("type[arith.AddiOp]", kind)])
        elif "division" in wanted and kind in _DIVISIONS and not is_float:
            self._check_division(_DIVISIONS[cast("type[FloorDivOp]", kind)])
        elif "shifts" in wanted and kind in _SHIFTS:
            self._check_shift(_SHIFTS[cast("type[arith.ShLIOp]", kind)])
        elif "conversions" in wanted and kind in _CONVERSIONS:
            self._check_conversion(_CONVERSIONS[cast("type[arith.FPToSIOp]", kind)])
        elif "nan" in wanted and kind in _FLOATS and is_float:
            self._check_float(_FLOATS[cast("type[arith.AddfOp]", kind)])

    def _check_sum(self, operator: str) -> None:
        left, right = self._op.operands
        width = cast("IntegerType", left.type).width.data
        wide = IntegerType(2 * width)
        operands = [self._add(arith.ExtSIOp(value, wide)).result for value in (left, right)]
        exact = self._add(type(self._op)(*operands)).results[0]  # pyright: ignore[reportCallIssue]
        back = self._add(arith.ExtSIOp(self._op.results[0], wide)).result
        fits = self._add(arith.CmpiOp(exact, back, "eq")).result
        self._report("overflow", f"i{width}", operator, fits, self._integers((left, right)))

    def _check_division(self, operator: str) -> None:
        left, right = self._op.operands
        if constant_integer(right) is not None:
            return
        width = cast("IntegerType", right.type).width.data
        is_signed = isinstance(self._op, FloorDivOp | FloorModOp)
        zero = self._add(arith.ConstantOp.from_int_and_width(0, width)).result
        is_fine = self._add(arith.CmpiOp(right, zero, "ne")).result
        values = self._integers((left, right), is_signed=is_signed)
        self._report("division_by_zero", f"{'iu'[not is_signed]}{width}", operator, is_fine, values)

    def _check_shift(self, operator: str) -> None:
        number, count = self._op.operands
        if isinstance(count.owner, arith.ExtSIOp | arith.ExtUIOp | arith.TruncIOp):
            count = count.owner.input
        if isinstance(count.owner, arith.MinUIOp):  # a shift of a signed number to the right
            count = count.owner.lhs
        if constant_integer(count) is not None:
            return
        width = cast("IntegerType", number.type).width.data
        bits = cast("IntegerType", count.type).width.data
        limit = self._add(arith.ConstantOp.from_int_and_width(width, bits)).result
        is_fine = self._add(arith.CmpiOp(count, limit, "ult")).result
        values = self._integers((number, count), is_signed=not isinstance(self._op, arith.ShRUIOp))
        self._report("shift_past_the_width", f"{width} bits", operator, is_fine, values)

    def _check_conversion(self, letter: str) -> None:
        (number,) = self._op.operands
        width = cast("IntegerType", self._op.results[0].type).width.data
        is_signed = letter == "i"
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1)) if is_signed else (0, 2**width)
        wide = self._double(number)
        # Truncation reaches the limit from up to one below, where a double holds that.
        below, predicate = (low - 1, "ogt") if width <= 32 or not is_signed else (low, "oge")
        bounds = [
            self._add(arith.ConstantOp(_double_attribute(bound))).result for bound in (below, high)
        ]
        is_above = self._add(arith.CmpfOp(wide, bounds[0], predicate)).result
        is_below = self._add(arith.CmpfOp(wide, bounds[1], "olt")).result
        fits = self._add(arith.AndIOp(is_above, is_below)).result
        name = f"{letter}{width}"
        self._report("conversion_out_of_range", name, name, fits, [self._bits(wide)])

    def _check_float(self, operator: str) -> None:
        result = self._op.results[0]
        is_fine = self._add(arith.CmpfOp(result, result, "ord")).result
        for operand in self._op.operands:
            is_nan = self._add(arith.CmpfOp(operand, operand, "uno")).result
            is_fine = self._add(arith.OrIOp(is_fine, is_nan)).result
        values = [self._bits(self._double(operand)) for operand in self._op.operands]
        self._report("new_nan", str(result.type), operator, is_fine, values)

    def _report(
        self, kind: str, name: str, operator: str, is_fine: SSAValue, values: Sequence[SSAValue]
    ) -> None:
        self._add(CheckOp(is_fine, kind, name, operator, 1, values))

    def _integers(
        self, values: Sequence[SSAValue], *, is_signed: bool = True
    ) -> list[SSAValue[IntegerType]]:
        """The values in 64 bits."""
        extend = arith.ExtSIOp if is_signed else arith.ExtUIOp
        return [
            value if value.type == i64 else self._add(extend(value, i64)).result for value in values
        ]  # pyright: ignore[reportReturnType]

    def _double(self, value: SSAValue) -> SSAValue:
        return value if value.type == f64 else self._add(arith.ExtFOp(value, f64)).result

    def _bits(self, value: SSAValue) -> SSAValue:
        return self._add(arith.BitcastOp(value, i64)).result

    def _add(self, operation: OperationT) -> OperationT:
        operation.location = self._op.location  # pyright: ignore[reportAttributeAccessIssue]
        Rewriter.insert_op(operation, InsertPoint.after(self._last))
        self._last = operation
        return operation


def _double_attribute(value: int) -> FloatAttr[Float64Type]:
    return FloatAttr(float(value), f64)
