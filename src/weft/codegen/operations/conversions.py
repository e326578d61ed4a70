# SPDX-License-Identifier: Apache-2.0
"""Conversions between number types, exact if possible, else rounded to nearest even.

In: arith's casts between floats and integers, of every width. Out: LLVM casts, or library calls where a machine has no
instruction. Floats to integers saturate, NaN gives 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith

from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def float_name(value_type: Attribute) -> str:
    """The name of a float type, such as ``"bf16"``."""
    return FLOAT_NAMES[type(value_type)]


def is_wide(name: str) -> bool:
    """Whether machines compute in this type directly: f32 and f64."""
    return name in ("f32", "f64")


def as_native(printer: FunctionPrinter, text: str, name: str) -> str:
    """The bits of an f16 or bf16 as an operand of LLVM's own type: `half %v.3`."""
    kind = _NATIVE[name]
    return f"{kind} {printer.let(f'bitcast i16 {text} to {kind}')}"


def from_native(printer: FunctionPrinter, expression: str, name: str) -> str:
    """The bits of an instruction's result in LLVM's own type for f16 or bf16."""
    return printer.let(f"bitcast {_NATIVE[name]} {printer.let(expression)} to i16")


def has_arithmetic(printer: FunctionPrinter, name: str) -> bool:
    """Whether LLVM may see arithmetic of this small float."""
    return printer.module.target.native_small_floats and name in _NATIVE


def _has_cast(printer: FunctionPrinter, name: str) -> bool:
    """Whether LLVM's fpext and fptrunc between this small float and float are instructions."""
    if name == "f16" and printer.module.target.half_conversions:
        return True
    return has_arithmetic(printer, name)


def to_f32(printer: FunctionPrinter, text: str, name: str) -> str:
    """A small float as `float`, exactly."""
    if name == "f32":
        return text
    if _has_cast(printer, name):
        return printer.let(f"fpext {as_native(printer, text, name)} to float")
    return printer.call_library(f"{name}_to_f32", "float", f"{_LLVM[name]} {text}")


def from_f32(printer: FunctionPrinter, text: str, name: str) -> str:
    """A `float` rounded to a small float; 8-bit ones saturate to the largest finite value."""
    if name == "f32":
        return text
    if _has_cast(printer, name):
        return from_native(printer, f"fptrunc float {text} to {_NATIVE[name]}", name)
    return printer.call_library(f"f32_to_{name}", _LLVM[name], f"float {text}")


def convert_float(printer: FunctionPrinter, text: str, source: str, result: str) -> str:
    """A float in another float type, rounded once."""
    if source == result:
        return text
    if source == "f64":
        if result == "f32":
            return printer.let(f"fptrunc double {text} to float")
        if has_arithmetic(printer, result):
            return from_native(printer, f"fptrunc double {text} to {_NATIVE[result]}", result)
        # Rounding to odd first keeps the second rounding from seeing a false tie.
        odd = printer.call_library("f64_to_f32_odd", "float", f"double {text}")
        return from_f32(printer, odd, result)
    value = to_f32(printer, text, source)
    if result == "f64":
        return printer.let(f"fpext float {value} to double")
    return from_f32(printer, value, result)


def _print_float_cast(printer: FunctionPrinter, op: Operation) -> None:
    (operand,) = op.operands
    result = op.results[0]
    printer.values[result] = convert_float(
        printer, printer.values[operand], float_name(operand.type), float_name(result.type)
    )


def _from_integer(instruction: str) -> Callable[[FunctionPrinter, Operation], None]:
    """Rows for `sitofp` and `uitofp`."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        (operand,) = op.operands
        result = op.results[0]
        name, source, text = (
            float_name(result.type),
            llvm_type(operand.type),
            printer.values[operand],
        )
        if is_wide(name):
            printer.define(result, f"{instruction} {source} {text} to {_LLVM[name]}")
            return
        if int(source[1:]) <= 16:
            exact = printer.let(f"{instruction} {source} {text} to float")
            printer.values[result] = from_f32(printer, exact, name)
            return
        if source == "i64":
            text = _sticky(printer, text, instruction)
        exact = printer.let(f"{instruction} {source} {text} to double")
        printer.values[result] = convert_float(printer, exact, "f64", name)

    return print_it


def _sticky(printer: FunctionPrinter, text: str, instruction: str) -> str:
    """A 64-bit integer cut to 53 bits that rounds to any smaller format like the original."""
    low = printer.let(f"and i64 {text}, 2047")
    any_low = printer.let(f"icmp ne i64 {low}, 0")
    high = printer.let(f"and i64 {text}, -2048")
    marked = printer.let(f"or i64 {high}, 2048")
    cut = printer.let(f"select i1 {any_low}, i64 {marked}, i64 {high}")
    if instruction == "sitofp":
        moved = printer.let(f"add i64 {text}, {1 << 52}")
        large = printer.let(f"icmp ugt i64 {moved}, {1 << 53}")
    else:
        large = printer.let(f"icmp ugt i64 {text}, {1 << 52}")
    return printer.let(f"select i1 {large}, i64 {cut}, i64 {text}")


def _to_integer(intrinsic: str) -> Callable[[FunctionPrinter, Operation], None]:
    """Rows for `fptosi` and `fptoui`: saturating, so that no input is undefined."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        (operand,) = op.operands
        result = op.results[0]
        name, text = float_name(operand.type), printer.values[operand]
        if not is_wide(name):
            text, name = to_f32(printer, text, name), "f32"
        integer = llvm_type(result.type)
        callee = printer.module.intrinsic(intrinsic, f".{integer}.{name}")
        printer.define(result, f"call {integer} {callee}({_LLVM[name]} {text})")

    return print_it


def _print_bitcast(printer: FunctionPrinter, op: Operation) -> None:
    (operand,) = op.operands
    before, after = llvm_type(operand.type), llvm_type(op.results[0].type)
    if before == after:
        printer.values[op.results[0]] = printer.values[operand]
    else:
        printer.define(op.results[0], f"bitcast {before} {printer.values[operand]} to {after}")


# The representation of each float type, as in `types.llvm_type`.
_LLVM: Final = {name: info.llvm for name, info in INFO.items() if info.format is not None}
# LLVM's own types, for machines that have them.
_NATIVE: Final = {name: info.llvm_float for name, info in INFO.items() if info.llvm_float}

CONVERSIONS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    arith.ExtFOp: _print_float_cast,
    arith.TruncFOp: _print_float_cast,
    arith.SIToFPOp: _from_integer("sitofp"),
    arith.UIToFPOp: _from_integer("uitofp"),
    arith.FPToSIOp: _to_integer("llvm.fptosi.sat"),
    arith.FPToUIOp: _to_integer("llvm.fptoui.sat"),
    arith.BitcastOp: _print_bitcast,
}
