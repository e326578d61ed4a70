# SPDX-License-Identifier: Apache-2.0
"""Integer operations: arithmetic that wraps, division and shifts with every input defined.

In: arith's integer operations, simt.floor_div and simt.floor_mod of integers. Out: LLVM instructions. Division
by zero gives all bits set, its remainder the dividend; MIN / -1 wraps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith, math

from weft.codegen.llvm.types import float_text, integer_text, llvm_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

_PREDICATES: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def _wrapping(instruction: str) -> Callable[[FunctionPrinter, Operation], None]:
    """A row for addition and similar operations, which may carry overflow flags."""

    def print_it(printer: FunctionPrinter, op: Any) -> None:
        lhs, rhs = op.operands
        flags = "".join(f" {flag.value}" for flag in op.overflow_flags.data)
        printer.define(
            op.results[0],
            f"{instruction}{flags} {printer.typed(lhs)}, {printer.values[rhs]}",
        )

    return print_it


def _binary(instruction: str) -> Callable[[FunctionPrinter, Operation], None]:
    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        lhs, rhs = op.operands
        printer.define(op.results[0], f"{instruction} {printer.typed(lhs)}, {printer.values[rhs]}")

    return print_it


def _intrinsic(name: str, extra: str = "") -> Callable[[FunctionPrinter, Operation], None]:
    """A row for an operation with an LLVM intrinsic of its operands' type."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        text = llvm_type(op.results[0].type)
        callee = printer.module.intrinsic(name, f".{text}")
        arguments = ", ".join(printer.typed(operand) for operand in op.operands)
        printer.define(op.results[0], f"call {text} {callee}({arguments}{extra})")

    return print_it


def print_constant(printer: FunctionPrinter, op: Any) -> None:
    """Constants are written where they are used; this prints nothing."""
    attribute, result = op.value, op.results[0]
    data = attribute.value.data
    if isinstance(data, float):
        printer.values[result] = float_text(data, result.type)
    else:
        bits = result.type.width.data if hasattr(result.type, "width") else 64
        printer.values[result] = integer_text(data, bits)


def _constant(printer: FunctionPrinter, ssa: SSAValue) -> int | None:
    """The value of a constant integer operand, signed."""
    text = printer.values[ssa]
    return int(text) if text.lstrip("-").isdigit() else None


def _unsigned_division(remainder: bool) -> Callable[[FunctionPrinter, Operation], None]:
    """Rows for division of unsigned integers; simt.floor_div and simt.floor_mod divide signed ones."""
    instruction = "urem" if remainder else "udiv"

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        lhs, rhs = op.operands
        text, dividend, divisor = llvm_type(lhs.type), printer.values[lhs], printer.values[rhs]
        result = op.results[0]
        if _constant(printer, rhs):
            printer.define(result, f"{instruction} {text} {dividend}, {divisor}")
            return
        is_zero = printer.let(f"icmp eq {text} {divisor}, 0")
        safe = printer.let(f"select i1 {is_zero}, {text} 1, {text} {divisor}")
        value = printer.let(f"{instruction} {text} {dividend}, {safe}")
        otherwise = dividend if remainder else "-1"
        printer.define(result, f"select i1 {is_zero}, {text} {otherwise}, {text} {value}")

    return print_it


def _safe_divisor(
    printer: FunctionPrinter, text: str, dividend: str, divisor: str
) -> tuple[str, str]:
    """Whether a signed divisor is zero, and a non-trapping divisor: 1 for zero and for MIN / -1."""
    is_zero = printer.let(f"icmp eq {text} {divisor}, 0")
    lowest = integer_text(1 << (int(text[1:]) - 1), int(text[1:]))
    is_lowest = printer.let(f"icmp eq {text} {dividend}, {lowest}")
    is_minus_one = printer.let(f"icmp eq {text} {divisor}, -1")
    overflows = printer.let(f"and i1 {is_lowest}, {is_minus_one}")
    unsafe = printer.let(f"or i1 {is_zero}, {overflows}")
    return is_zero, printer.let(f"select i1 {unsafe}, {text} 1, {text} {divisor}")


def print_floor_division(printer: FunctionPrinter, op: Operation, remainder: bool) -> None:
    """Python's `//` and `%` of signed integers."""
    lhs, rhs = op.operands
    text, dividend, divisor = llvm_type(lhs.type), printer.values[lhs], printer.values[rhs]
    result = op.results[0]
    constant = _constant(printer, rhs)
    if constant is not None and constant > 0 and constant & (constant - 1) == 0:
        if remainder:
            printer.define(result, f"and {text} {dividend}, {constant - 1}")
        else:
            printer.define(result, f"ashr {text} {dividend}, {constant.bit_length() - 1}")
        return
    if (constant is None and text == "i32") or (constant is not None and constant < 0):
        _divide_magnitudes(printer, op, remainder, may_be_zero=constant is None)
        return
    is_zero, safe = "", divisor
    if not constant:
        is_zero, safe = _safe_divisor(printer, text, dividend, divisor)
    rest = printer.let(f"srem {text} {dividend}, {safe}")
    # Truncation rounded the wrong way if the remainder's sign differs from the divisor's.
    signs = printer.let(f"xor {text} {rest}, {safe}")
    differ = printer.let(f"icmp slt {text} {signs}, 0")
    inexact = printer.let(f"icmp ne {text} {rest}, 0")
    adjust = printer.let(f"and i1 {differ}, {inexact}")
    if remainder:
        moved = printer.let(f"add {text} {rest}, {safe}")
        value = printer.let(f"select i1 {adjust}, {text} {moved}, {text} {rest}")
        otherwise = dividend
    else:
        quotient = printer.let(f"sdiv {text} {dividend}, {safe}")
        lower = printer.let(f"add {text} {quotient}, -1")
        value = printer.let(f"select i1 {adjust}, {text} {lower}, {text} {quotient}")
        otherwise = "-1"
    if is_zero:
        value = printer.let(f"select i1 {is_zero}, {text} {otherwise}, {text} {value}")
    printer.values[result] = value


def _divide_magnitudes(
    printer: FunctionPrinter, op: Operation, remainder: bool, may_be_zero: bool
) -> None:
    """The same by an unsigned division, for which no pair of operands is special but a divisor of 0.

    Where the signs differ, the quotient is rounded away from 0: it is -1 - (|a| - 1) // |b|, and -1 - n is ~n.
    """
    lhs, rhs = op.operands
    text, dividend, divisor = llvm_type(lhs.type), printer.values[lhs], printer.values[rhs]
    down = printer.let(f"icmp slt {text} {divisor}, 0")
    above = printer.let(f"icmp sgt {text} {dividend}, 0")
    below = printer.let(f"icmp slt {text} {dividend}, 0")
    differ = printer.let(f"select i1 {down}, i1 {above}, i1 {below}")
    flipped = printer.let(f"sext i1 {differ} to {text}")
    size = printer.module.intrinsic("llvm.abs", f".{text}")
    numerator = printer.let(f"call {text} {size}({text} {dividend}, i1 false)")
    numerator = printer.let(f"add {text} {numerator}, {flipped}")
    denominator = printer.let(f"call {text} {size}({text} {divisor}, i1 false)")
    if may_be_zero:
        larger = printer.module.intrinsic("llvm.umax", f".{text}")
        denominator = printer.let(f"call {text} {larger}({text} {denominator}, {text} 1)")
    quotient = printer.let(f"udiv {text} {numerator}, {denominator}")
    quotient = printer.let(f"xor {text} {quotient}, {flipped}")
    if remainder:
        # A divisor of 0 leaves the dividend.
        product = printer.let(f"mul {text} {quotient}, {divisor}")
        printer.define(op.results[0], f"sub {text} {dividend}, {product}")
        return
    if may_be_zero:
        is_zero = printer.let(f"icmp eq {text} {divisor}, 0")
        quotient = printer.let(f"select i1 {is_zero}, {text} -1, {text} {quotient}")
    printer.values[op.results[0]] = quotient


def _shift(instruction: str) -> Callable[[FunctionPrinter, Operation], None]:
    """Rows for shifts; a count at or above the width, or negative, shifts everything out."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        lhs, rhs = op.operands
        text, value, count = llvm_type(lhs.type), printer.values[lhs], printer.values[rhs]
        bits, result = int(text[1:]), op.results[0]
        constant = _constant(printer, rhs)
        if constant is not None and 0 <= constant < bits:
            printer.define(result, f"{instruction} {text} {value}, {count}")
            return
        if instruction == "ashr":
            in_range = printer.let(f"icmp ult {text} {count}, {bits}")
            clamped = printer.let(f"select i1 {in_range}, {text} {count}, {text} {bits - 1}")
            printer.define(result, f"ashr {text} {value}, {clamped}")
            return
        in_range = printer.let(f"icmp ult {text} {count}, {bits}")
        masked = printer.let(f"select i1 {in_range}, {text} {count}, {text} 0")
        shifted = printer.let(f"{instruction} {text} {value}, {masked}")
        printer.define(result, f"select i1 {in_range}, {text} {shifted}, {text} 0")

    return print_it


def print_compare(printer: FunctionPrinter, op: Any) -> None:
    """`arith.cmpi`."""
    lhs, rhs = op.operands
    predicate = _PREDICATES[int(op.properties["predicate"].value.data)]
    printer.define(op.results[0], f"icmp {predicate} {printer.typed(lhs)}, {printer.values[rhs]}")


def _cast(instruction: str) -> Callable[[FunctionPrinter, Operation], None]:
    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        (operand,) = op.operands
        result = op.results[0]
        printer.define(
            result, f"{instruction} {printer.typed(operand)} to {llvm_type(result.type)}"
        )

    return print_it


def print_select(printer: FunctionPrinter, op: Operation) -> None:
    """`arith.select` of scalars, or of two tensors' parts."""
    condition, *sides = op.operands
    kinds = printer.part_types(op.results)
    parts = zip(kinds, *(printer.parts([side]) for side in sides), strict=True)
    test = printer.values[condition]
    printer.take(
        op.results,
        [
            printer.let(f"select i1 {test}, {kind} {one}, {kind} {other}", stem)
            for (kind, stem), one, other in parts
        ],
    )


INTEGER: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    arith.ConstantOp: print_constant,
    arith.AddiOp: _wrapping("add"),
    arith.SubiOp: _wrapping("sub"),
    arith.MuliOp: _wrapping("mul"),
    arith.DivUIOp: _unsigned_division(remainder=False),
    arith.RemUIOp: _unsigned_division(remainder=True),
    arith.AndIOp: _binary("and"),
    arith.OrIOp: _binary("or"),
    arith.XOrIOp: _binary("xor"),
    arith.ShLIOp: _shift("shl"),
    arith.ShRUIOp: _shift("lshr"),
    arith.ShRSIOp: _shift("ashr"),
    arith.MinSIOp: _intrinsic("llvm.smin"),
    arith.MaxSIOp: _intrinsic("llvm.smax"),
    arith.MinUIOp: _intrinsic("llvm.umin"),
    arith.MaxUIOp: _intrinsic("llvm.umax"),
    arith.CmpiOp: print_compare,
    arith.SelectOp: print_select,
    arith.ExtSIOp: _cast("sext"),
    arith.ExtUIOp: _cast("zext"),
    arith.TruncIOp: _cast("trunc"),
    math.AbsIOp: _intrinsic("llvm.abs", ", i1 false"),
    math.CtPopOp: _intrinsic("llvm.ctpop"),
    math.CountLeadingZerosOp: _intrinsic("llvm.ctlz", ", i1 false"),
    math.CountTrailingZerosOp: _intrinsic("llvm.cttz", ", i1 false"),
}
