# SPDX-License-Identifier: Apache-2.0
"""The math dialect: intrinsics supported everywhere, weft's own library for the rest.

In: math's operations on floats. Out: intrinsics and calls of `math_library` functions. f16, bf16 and 8-bit
floats compute in float.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import math

from weft.codegen.llvm.types import llvm_type
from weft.codegen.operations.conversions import float_name, is_wide
from weft.codegen.operations.floating_point import (
    call_rounded,
    define_rounded,
    faster,
    operands_in_f32,
    operation_float,
    or_faster,
    with_bits,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _intrinsic(name: str) -> Callable[[FunctionPrinter, Operation], None]:
    """A row for an operation that is correctly rounded in hardware or exact."""

    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        _, kind, texts = operands_in_f32(printer, op)
        define_rounded(printer, op, printer.intrinsic(name, kind, *texts))

    return print_it


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
    math.FmaOp: _intrinsic("llvm.fma"),
    math.SqrtOp: or_faster("sqrt", _intrinsic("llvm.sqrt")),
    math.FloorOp: _intrinsic("llvm.floor"),
    math.CeilOp: _intrinsic("llvm.ceil"),
    math.TruncOp: _intrinsic("llvm.trunc"),
    math.RoundEvenOp: _intrinsic("llvm.roundeven"),
    math.CopySignOp: _intrinsic("llvm.copysign"),
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
