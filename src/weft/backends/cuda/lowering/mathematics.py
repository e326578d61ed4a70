# SPDX-License-Identifier: Apache-2.0
"""Functions with a GPU instruction as exact as the library.

In: math.rsqrt of f32. Out: `rsqrt.approx.f32`, within 2 ulp, also for subnormal numbers. The rest is codegen's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import math

from weft.codegen.operations.floating_point import define_rounded, operands_in_f32

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_reciprocal_root(printer: FunctionPrinter, op: Operation) -> None:
    wide, kind, (value,) = operands_in_f32(printer, op)
    if wide == "f64":
        result = printer.call_library("rsqrt.f64", kind, f"double {value}")
    else:
        callee = printer.module.intrinsic("llvm.nvvm.rsqrt.approx.f")
        result = printer.let(f"call float {callee}(float {value})")
    define_rounded(printer, op, result)


MATHEMATICS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    math.RsqrtOp: _print_reciprocal_root,
}
