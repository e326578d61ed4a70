# SPDX-License-Identifier: Apache-2.0
"""Atomic maximum and minimum of floats without a compare-and-swap loop.

In: cuda.atomic_rmw of kind max or min on f32 and f64. Out: an integer atomic on the bits, which order as the
floats do once the sign is known. All else is codegen's. Next: mathematics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.atomics import AtomicAccess, atomic_instruction, atomic_value
from weft.codegen.llvm_types import llvm_type
from weft.dialects.cuda.memory import AtomicRmwOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.function_printer import FunctionPrinter


def _print_atomic(printer: FunctionPrinter, op: Any) -> None:
    operand, tensor, *indices = op.operands
    access = AtomicAccess(printer, op, tensor, indices)
    kind, text = op.properties["kind"].data, llvm_type(operand.type)
    value = printer.values[operand]
    if kind in ("max", "min") and text in ("float", "double"):
        printer.values[op.results[0]] = _float_extremum(printer, access, kind, text, value)
    else:
        printer.values[op.results[0]] = atomic_value(printer, access, kind, operand.type, value)


def _float_extremum(
    printer: FunctionPrinter, access: AtomicAccess, kind: str, text: str, value: str
) -> str:
    """Positive floats order as signed integers, negative ones in reverse as unsigned integers.

    A NaN is no candidate (as for C's fmax): it is replaced by the value that changes nothing.
    """
    bits = "i32" if text == "float" else "i64"
    is_nan = printer.let(f"fcmp uno {text} {value}, 0.0")
    neutral = "0xFFF0000000000000" if kind == "max" else "0x7FF0000000000000"
    candidate = printer.let(f"select i1 {is_nan}, {text} {neutral}, {text} {value}")
    integer = printer.let(f"bitcast {text} {candidate} to {bits}")
    negative = printer.let(f"icmp slt {bits} {integer}, 0")
    below, above, end = (printer.new_label(stem) for stem in ("negative", "positive", "merged"))
    printer.branch_if(negative, below, above)
    printer.start(below)
    old_below = atomic_instruction(
        printer, access, "umin" if kind == "max" else "umax", bits, integer
    )
    printer.branch(end)
    printer.start(above)
    old_above = atomic_instruction(printer, access, kind, bits, integer)
    printer.branch(end)
    printer.start(end)
    old = printer.phi(bits, [(old_below, below), (old_above, above)], "old")
    return printer.let(f"bitcast {bits} {old} to {text}")


ATOMICS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    AtomicRmwOp: _print_atomic,
}
