# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and comparison of integers and floats; the math dialect.

In: operations of arith and math, simt.floor_div and simt.floor_mod. Out: LLVM instructions. Integers wrap, and division
and shifts have every input defined: division by zero gives all bits set, its remainder the dividend; MIN / -1 wraps.
Small floats compute in float and round after each operation; fast-math flags come only from the operation. Functions
are intrinsics supported everywhere, or calls of weft's own `math_library`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr

from weft.codegen.llvm.types import FLOAT_NAMES, float_text, integer_text, llvm_type
from weft.codegen.operations.conversions import (
    as_native,
    convert_float,
    float_name,
    from_f32,
    from_native,
    has_arithmetic,
    is_wide,
    to_f32,
)
from weft.dialects.simt.scalar import (
    APPROXIMATE,
    Dp4aOp,
    FloorDivOp,
    FloorModOp,
    Lop3Op,
    PrmtOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


_INTEGER_PREDICATES: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


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


def _integer_intrinsic(name: str, extra: str = "") -> Callable[[FunctionPrinter, Operation], None]:
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
        multiple = printer.let(f"mul {text} {quotient}, {divisor}")
        printer.define(op.results[0], f"sub {text} {dividend}, {multiple}")
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
    predicate = _INTEGER_PREDICATES[int(op.properties["predicate"].value.data)]
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


def _print_permute_bytes(printer: FunctionPrinter, op: PrmtOp) -> None:
    low, high, selector = (printer.values[operand] for operand in op.operands)
    wide = printer.let(f"zext i32 {high} to i64")
    wide = printer.let(f"shl i64 {wide}, 32")
    low = printer.let(f"zext i32 {low} to i64")
    wide = printer.let(f"or i64 {wide}, {low}")
    found = "0"
    for place in range(4):
        field = printer.let(f"lshr i32 {selector}, {4 * place}")
        begin = printer.let(f"and i32 {field}, 7")
        begin = printer.let(f"shl i32 {begin}, 3")
        begin = printer.let(f"zext i32 {begin} to i64")
        byte = printer.let(f"lshr i64 {wide}, {begin}")
        byte = printer.let(f"trunc i64 {byte} to i8")
        sign = printer.let(f"ashr i8 {byte}, 7")
        is_sign = printer.let(f"lshr i32 {field}, 3")
        is_sign = printer.let(f"trunc i32 {is_sign} to i1")
        byte = printer.let(f"select i1 {is_sign}, i8 {sign}, i8 {byte}")
        byte = printer.let(f"zext i8 {byte} to i32")
        byte = printer.let(f"shl i32 {byte}, {8 * place}")
        found = printer.let(f"or i32 {found}, {byte}")
    printer.values[op.results[0]] = found


def _print_lop3(printer: FunctionPrinter, op: Lop3Op) -> None:
    """A choice by the third operand's bits among constants, by the second's among these, by the first's among those."""
    table = op.table.value.data
    choices = [str(-(table >> number & 1)) for number in range(8)]
    for operand in reversed(op.operands):
        pairs = zip(choices[::2], choices[1::2], strict=True)
        choices = [_choice(printer, printer.values[operand], *pair) for pair in pairs]
    printer.values[op.results[0]] = choices[0]


def _choice(printer: FunctionPrinter, word: str, where_0: str, where_1: str) -> str:
    if where_0 == where_1:
        return where_0
    differ = printer.let(f"xor i32 {where_0}, {where_1}")
    taken = printer.let(f"and i32 {word}, {differ}")
    return printer.let(f"xor i32 {taken}, {where_0}")


def _print_dot_bytes(printer: FunctionPrinter, op: Dp4aOp) -> None:
    total = printer.values[op.total]
    signed = (op.first_signed is not None, op.second_signed is not None)
    for place in range(4):
        factors: list[str] = []
        for operand, is_signed in zip((op.first, op.second), signed, strict=True):
            byte = printer.let(f"lshr i32 {printer.values[operand]}, {8 * place}")
            byte = printer.let(f"trunc i32 {byte} to i8")
            factors.append(printer.let(f"{'sext' if is_signed else 'zext'} i8 {byte} to i32"))
        product = printer.let(f"mul i32 {factors[0]}, {factors[1]}")
        total = printer.let(f"add i32 {total}, {product}")
    printer.values[op.results[0]] = total


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
    arith.MinSIOp: _integer_intrinsic("llvm.smin"),
    arith.MaxSIOp: _integer_intrinsic("llvm.smax"),
    arith.MinUIOp: _integer_intrinsic("llvm.umin"),
    arith.MaxUIOp: _integer_intrinsic("llvm.umax"),
    arith.CmpiOp: print_compare,
    arith.SelectOp: print_select,
    arith.ExtSIOp: _cast("sext"),
    arith.ExtUIOp: _cast("zext"),
    arith.TruncIOp: _cast("trunc"),
    PrmtOp: _print_permute_bytes,
    Lop3Op: _print_lop3,
    Dp4aOp: _print_dot_bytes,
    math.AbsIOp: _integer_intrinsic("llvm.abs", ", i1 false"),
    math.CtPopOp: _integer_intrinsic("llvm.ctpop"),
    math.CountLeadingZerosOp: _integer_intrinsic("llvm.ctlz", ", i1 false"),
    math.CountTrailingZerosOp: _integer_intrinsic("llvm.cttz", ", i1 false"),
}


_FLOAT_PREDICATES: Final = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


def flags_of(op: Any) -> str:
    """The fast-math flags of an operation in LLVM text, with a leading blank; LLVM approximates in its own ways."""
    attribute = op.properties.get("fastmath")
    if attribute is None or not attribute.data or attribute == APPROXIMATE:
        return ""
    names = sorted(flag.value for flag in attribute.data)
    return " fast" if len(names) == 7 else "".join(f" {name}" for name in names)


def operands_in_f32(printer: FunctionPrinter, op: Operation) -> tuple[str, str, list[str]]:
    """The type to compute in, as weft's name and LLVM's, and the operands in it."""
    texts = [printer.values[operand] for operand in op.operands]
    name = float_name(op.operands[0].type)
    if is_wide(name):
        return name, llvm_type(op.operands[0].type), texts
    return "f32", "float", [to_f32(printer, text, name) for text in texts]


def define_rounded(printer: FunctionPrinter, op: Operation, text: str) -> None:
    """Defines the operation's result as `text`, computed in the type of `operands_in_f32`."""
    name = float_name(op.results[0].type)
    printer.values[op.results[0]] = text if is_wide(name) else from_f32(printer, text, name)


def _arithmetic(instruction: str) -> Callable[[FunctionPrinter, Operation], None]:
    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        lhs, rhs = op.operands
        name = FLOAT_NAMES[type(lhs.type)]
        text = f"{instruction}{flags_of(op)}"
        if is_wide(name):
            printer.define(op.results[0], f"{text} {printer.typed(lhs)}, {printer.values[rhs]}")
            return
        if has_arithmetic(printer, name):
            left = as_native(printer, printer.values[lhs], name)
            right = as_native(printer, printer.values[rhs], name).partition(" ")[2]
            printer.values[op.results[0]] = from_native(printer, f"{text} {left}, {right}", name)
            return
        _, kind, (left, right) = operands_in_f32(printer, op)
        define_rounded(printer, op, printer.let(f"{text} {kind} {left}, {right}"))

    return print_it


def faster(printer: FunctionPrinter, op: Operation, name: str) -> str | None:
    """The library's approximate or fast form of an operation, if it is allowed and the target has one."""
    module = printer.module
    forms = [("approx", op.properties.get("fastmath") == APPROXIMATE), ("fast", module.fast_math)]
    for form, allowed in forms:
        function = f"{form}.{name}.{operation_float(op)}"
        if allowed and function in module.library_functions:
            return function
    return None


def operation_float(op: Operation) -> str:
    """The type that an operation is computed in: f64 or f32."""
    return "f64" if float_name(op.operands[0].type) == "f64" else "f32"


def call_rounded(printer: FunctionPrinter, op: Operation, function: str) -> None:
    """Defines the operation's result as that of a library function of `operands_in_f32`."""
    _, kind, texts = operands_in_f32(printer, op)
    arguments = [f"{kind} {text}" for text in texts]
    define_rounded(printer, op, printer.call_library(function, kind, *arguments))


def or_faster(
    name: str, exact: Callable[[FunctionPrinter, Operation], None]
) -> Callable[[FunctionPrinter, Operation], None]:
    """A row for an operation that may have a faster form, and is otherwise printed by `exact`."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        function = faster(printer, op, name)
        if function is None:
            exact(printer, op)
        else:
            call_rounded(printer, op, function)

    return print_it


def _print_divide(printer: FunctionPrinter, op: Operation) -> None:
    """`arith.divf`; an approximate ``1 / x`` is the machine's reciprocal, where it has one."""
    numerator = op.operands[0].owner
    number = numerator.value if isinstance(numerator, arith.ConstantOp) else None
    if isinstance(number, FloatAttr) and number.value.data == 1.0:
        function = faster(printer, op, "rcp")
        if function is not None:
            _, kind, texts = operands_in_f32(printer, op)
            value = printer.call_library(function, kind, f"{kind} {texts[1]}")
            define_rounded(printer, op, value)
            return
    or_faster("divide", _arithmetic("fdiv"))(printer, op)


def _extremum(intrinsic: str) -> Callable[[FunctionPrinter, Operation], None]:
    """Rows for minimum and maximum; a small float's result is one of its operands, so rounding changes nothing."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        if has_arithmetic(printer, float_name(op.operands[0].type)):
            print_native(printer, op, intrinsic)
            return
        _, kind, (left, right) = operands_in_f32(printer, op)
        define_rounded(printer, op, printer.intrinsic(intrinsic, kind, left, right))

    return print_it


def print_native(printer: FunctionPrinter, op: Operation, intrinsic: str) -> None:
    """Calls an intrinsic of f16 or bf16, which the target must have."""
    name = float_name(op.operands[0].type)
    values = [as_native(printer, printer.values[operand], name) for operand in op.operands]
    kind = values[0].partition(" ")[0]
    callee = printer.module.intrinsic(intrinsic, f".{name}")
    call = f"call {kind} {callee}({', '.join(values)})"
    printer.values[op.results[0]] = from_native(printer, call, name)


def _print_negate(printer: FunctionPrinter, op: Operation) -> None:
    (operand,) = op.operands
    name, text = float_name(operand.type), printer.values[operand]
    if is_wide(name):
        printer.define(op.results[0], f"fneg{flags_of(op)} {printer.typed(operand)}")
    else:
        printer.values[op.results[0]] = with_bits(printer, text, name, "xor", 1)


def with_bits(printer: FunctionPrinter, text: str, name: str, instruction: str, sign: int) -> str:
    """A small float with its sign bit changed: `xor` flips it; `and` with sign 0 clears it."""
    bits = 8 if name.startswith("f8") else 16
    mask = (1 << (bits - 1)) if sign else (1 << (bits - 1)) - 1
    signed = mask - (1 << bits) if mask >> (bits - 1) else mask
    return printer.let(f"{instruction} i{bits} {text}, {signed}")


def _print_compare(printer: FunctionPrinter, op: Any) -> None:
    predicate = _FLOAT_PREDICATES[int(op.properties["predicate"].value.data)]
    _, kind, (left, right) = operands_in_f32(printer, op)
    printer.define(op.results[0], f"fcmp{flags_of(op)} {predicate} {kind} {left}, {right}")


def _floor(remainder: bool) -> Callable[[FunctionPrinter, Operation], None]:
    """Rows for `//` and `%` of integers and floats."""
    name = "floor_mod" if remainder else "floor_div"

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        if type(op.operands[0].type) not in FLOAT_NAMES:
            print_floor_division(printer, op, remainder)
            return
        wide, kind, (left, right) = operands_in_f32(printer, op)
        value = printer.call_library(f"{name}.{wide}", kind, f"{kind} {left}", f"{kind} {right}")
        define_rounded(printer, op, value)

    return print_it


FLOATING_POINT: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    arith.AddfOp: _arithmetic("fadd"),
    arith.SubfOp: _arithmetic("fsub"),
    arith.MulfOp: _arithmetic("fmul"),
    arith.DivfOp: _print_divide,
    arith.NegfOp: _print_negate,
    arith.MaxnumfOp: _extremum("llvm.maxnum"),
    arith.MinnumfOp: _extremum("llvm.minnum"),
    arith.CmpfOp: _print_compare,
    FloorDivOp: _floor(remainder=False),
    FloorModOp: _floor(remainder=True),
}


def _float_intrinsic(name: str) -> Callable[[FunctionPrinter, Operation], None]:
    """A row for an operation that is correctly rounded in hardware or exact."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        _, kind, texts = operands_in_f32(printer, op)
        define_rounded(printer, op, printer.intrinsic(name, kind, *texts))

    return print_it


def print_multiply_add(printer: FunctionPrinter, op: Operation) -> None:
    """`math.fma`, rounded once: a product of two f16 or bf16 is exact in f64, and their sum is rounded to odd there.

    Of f16, no sum needs more bits than an f64 has where they matter to the result.
    """
    name = float_name(op.operands[0].type)
    if is_wide(name):
        _float_intrinsic("llvm.fma")(printer, op)
        return
    left, right, term = (
        convert_float(printer, printer.values[operand], name, "f64") for operand in op.operands
    )
    product = printer.let(f"fmul double {left}, {right}")
    total = printer.let(f"fadd double {product}, {term}")
    if name != "f16":
        total = _sum_to_odd(printer, total, product, term)
    printer.values[op.results[0]] = convert_float(printer, total, "f64", name)


def _sum_to_odd(printer: FunctionPrinter, total: str, left: str, right: str) -> str:
    """A sum of two f64 whose last bit is set if it is not exact."""
    second = printer.let(f"fsub double {total}, {left}")
    first = printer.let(f"fsub double {total}, {second}")
    lost = printer.let(f"fsub double {left}, {first}")
    lost_too = printer.let(f"fsub double {right}, {second}")
    rest = printer.let(f"fadd double {lost}, {lost_too}")
    is_inexact = printer.let(f"fcmp one double {rest}, 0.0")
    bits = printer.let(f"bitcast double {total} to i64")
    is_odd = printer.let(f"trunc i64 {bits} to i1")
    # Toward the rest: away from 0 if it has the sum's sign.
    signs = printer.let(f"bitcast double {rest} to i64")
    signs = printer.let(f"xor i64 {signs}, {bits}")
    step = printer.let(f"ashr i64 {signs}, 63")
    step = printer.let(f"or i64 {step}, 1")
    moved = printer.let(f"add i64 {bits}, {step}")
    kept = printer.let(f"xor i1 {is_inexact}, true")
    kept = printer.let(f"or i1 {kept}, {is_odd}")
    bits = printer.let(f"select i1 {kept}, i64 {bits}, i64 {moved}")
    return printer.let(f"bitcast i64 {bits} to double")


def _library(name: str) -> Callable[[FunctionPrinter, Operation], None]:
    """A row for a function of the library, which has it for f32 and for f64."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        call_rounded(printer, op, faster(printer, op, name) or f"{name}.{operation_float(op)}")

    return print_it


def _print_absolute(printer: FunctionPrinter, op: Operation) -> None:
    (operand,) = op.operands
    name, text = float_name(operand.type), printer.values[operand]
    if is_wide(name):
        printer.values[op.results[0]] = printer.intrinsic(
            "llvm.fabs", llvm_type(operand.type), text
        )
    else:
        printer.values[op.results[0]] = with_bits(printer, text, name, "and", 0)


MATHEMATICS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    math.AbsFOp: _print_absolute,
    math.FmaOp: print_multiply_add,
    math.SqrtOp: or_faster("sqrt", _float_intrinsic("llvm.sqrt")),
    math.FloorOp: _float_intrinsic("llvm.floor"),
    math.CeilOp: _float_intrinsic("llvm.ceil"),
    math.TruncOp: _float_intrinsic("llvm.trunc"),
    math.RoundEvenOp: _float_intrinsic("llvm.roundeven"),
    math.CopySignOp: _float_intrinsic("llvm.copysign"),
    math.RsqrtOp: _library("rsqrt"),
    math.CbrtOp: _library("cbrt"),
    math.ExpOp: _library("exp"),
    math.Exp2Op: _library("exp2"),
    math.ExpM1Op: _library("expm1"),
    math.LogOp: _library("log"),
    math.Log2Op: _library("log2"),
    math.Log10Op: _library("log10"),
    math.Log1pOp: _library("log1p"),
    math.PowFOp: _library("pow"),
    math.SinOp: _library("sin"),
    math.CosOp: _library("cos"),
    math.TanOp: _library("tan"),
    math.AsinOp: _library("asin"),
    math.AcosOp: _library("acos"),
    math.AtanOp: _library("atan"),
    math.Atan2Op: _library("atan2"),
    math.SinhOp: _library("sinh"),
    math.CoshOp: _library("cosh"),
    math.TanhOp: _library("tanh"),
    math.AsinhOp: _library("asinh"),
    math.AcoshOp: _library("acosh"),
    math.AtanhOp: _library("atanh"),
    math.ErfOp: _library("erf"),
}
