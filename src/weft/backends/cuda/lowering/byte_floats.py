# SPDX-License-Identifier: Apache-2.0
"""Conversions of 8-bit floats by pairs, from sm_89 on.

In: arith.extf and arith.truncf. Out: for two that stand next to one another, as those of a vector's elements do, one
`cvt.rn.satfinite.e4m3x2.f32` or `cvt.rn.f16x2.e4m3x2`; for one by itself, and for other types, what codegen prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith

from weft.backends.cuda.lowering.convergent import has
from weft.backends.cuda.units import BYTE_PAIRS
from weft.codegen.operations.conversions import CONVERSIONS, convert_float, float_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _kind(op: Operation | None) -> tuple[object, ...]:
    """Common facts of two conversions that make a pair."""
    if not isinstance(op, arith.ExtFOp | arith.TruncFOp):
        return ()
    return type(op), op.operands[0].type, op.results[0].type


def _partner(op: Operation) -> tuple[bool, Operation | None]:
    """Whether the operation is the second of a pair, or else what follows it as one."""
    kind, before = _kind(op), 0
    other = op.prev_op
    while other is not None and _kind(other) == kind:
        other, before = other.prev_op, before + 1
    following = op.next_op
    return before % 2 == 1, following if _kind(following) == kind else None


def _print_cast(printer: FunctionPrinter, op: Operation) -> None:
    source, result = float_name(op.operands[0].type), float_name(op.results[0].type)
    has_pairs = has(printer, "cvt_f8")
    if not has_pairs or (source in BYTE_PAIRS) == (result in BYTE_PAIRS):
        CONVERSIONS[type(op)](printer, op)
        return
    is_second, other = _partner(op)
    if is_second:
        return  # printed with the first
    if other is None:
        CONVERSIONS[type(op)](printer, op)
        return
    texts = [printer.values[one.operands[0]] for one in (op, other)]
    print_them = _widened if source in BYTE_PAIRS else _narrowed
    found = print_them(printer, texts, source, result)
    for one, text in zip((op, other), found, strict=True):
        printer.values[one.results[0]] = text


def _narrowed(printer: FunctionPrinter, texts: list[str], source: str, result: str) -> list[str]:
    """Two floats rounded to 8 bits."""
    low, high = (_as_f32(printer, text, source) for text in texts)
    callee = printer.module.intrinsic(f"llvm.nvvm.ff.to.{BYTE_PAIRS[result]}.rn")
    pair = printer.let(f"call i16 {callee}(float {high}, float {low})", "pair")
    vector = printer.let(f"bitcast i16 {pair} to <2 x i8>")
    return [printer.let(f"extractelement <2 x i8> {vector}, i32 {lane}") for lane in range(2)]


def _as_f32(printer: FunctionPrinter, text: str, source: str) -> str:
    """A float that rounds to 8 bits as the original does."""
    if source == "f64":
        return printer.call_library("f64_to_f32_odd", "float", f"double {text}")
    return convert_float(printer, text, source, "f32")


def _widened(printer: FunctionPrinter, texts: list[str], source: str, result: str) -> list[str]:
    """Two 8-bit floats, which f16 holds exactly, in another type."""
    vector = "poison"
    for lane, text in enumerate(texts):
        vector = printer.let(f"insertelement <2 x i8> {vector}, i8 {text}, i32 {lane}")
    pair = printer.let(f"bitcast <2 x i8> {vector} to i16", "pair")
    callee = printer.module.intrinsic(f"llvm.nvvm.{BYTE_PAIRS[source]}.to.f16x2.rn")
    halves = printer.let(f"call <2 x half> {callee}(i16 {pair})", "halves")
    found: list[str] = []
    for lane in range(2):
        half = printer.let(f"extractelement <2 x half> {halves}, i32 {lane}")
        bits = printer.let(f"bitcast half {half} to i16")
        found.append(convert_float(printer, bits, "f16", result))
    return found


BYTE_FLOATS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    arith.ExtFOp: _print_cast,
    arith.TruncFOp: _print_cast,
}
