# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and comparison of floats; small floats compute in float and round after each operation.

In: arith's float operations, simt.floor_div and simt.floor_mod of floats. Out: LLVM instructions. Fast-math flags come
only from the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith

from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type
from weft.codegen.operations.conversions import (
    as_native,
    float_name,
    from_f32,
    from_native,
    has_arithmetic,
    is_wide,
    to_f32,
)
from weft.codegen.operations.integer import print_floor_division
from weft.dialects.simt.scalar import APPROXIMATE, FloorDivOp, FloorModOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_PREDICATES: Final = (
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


def _extremum(intrinsic: str) -> Callable[[FunctionPrinter, Operation], None]:
    """Rows for minimum and maximum; a small float's result is one of its operands, so rounding changes nothing."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        _, kind, (left, right) = operands_in_f32(printer, op)
        define_rounded(printer, op, printer.intrinsic(intrinsic, kind, left, right))

    return print_it


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
    predicate = _PREDICATES[int(op.properties["predicate"].value.data)]
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
    arith.DivfOp: or_faster("divide", _arithmetic("fdiv")),
    arith.NegfOp: _print_negate,
    arith.MaxnumfOp: _extremum("llvm.maxnum"),
    arith.MinnumfOp: _extremum("llvm.minnum"),
    arith.CmpfOp: _print_compare,
    FloorDivOp: _floor(remainder=False),
    FloorModOp: _floor(remainder=True),
}
