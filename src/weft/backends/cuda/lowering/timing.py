# SPDX-License-Identifier: Apache-2.0
"""Clocks and the multiprocessor's number on a GPU, and times stored directly into memory.

In: simt.timer, simt.sm_id, simt.record. Out: reads of special registers; those of clocks have an effect, so that
each stays in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.types import llvm_type
from weft.dialects.simt.profiling import RecordOp, SmIdOp, TimerOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_LOW_REGISTERS: Final = {
    "globaltimer": "globaltimer_lo",
    "clock64": "clock",
    "clock32": "clock",
}
_REGISTERS: Final = {"globaltimer": "globaltimer", "clock64": "clock64", "clock32": "clock"}


def _print_timer(printer: FunctionPrinter, op: Any) -> None:
    _read(printer, op, _REGISTERS[op.kind.data])


def _print_sm_id(printer: FunctionPrinter, op: Operation) -> None:
    _read(printer, op, "smid")


def _print_record(printer: FunctionPrinter, op: RecordOp) -> None:
    """A clock read and a predicated store as one piece of PTX: LLVM moves no memory access into or across it."""
    register = _LOW_REGISTERS[op.kind.data]
    address = printer.tensors[op.tensor].address(printer, [op.index])
    condition, tag = printer.values[op.condition], printer.values[op.tag]
    printer.line(
        'call void asm sideeffect "{ .reg .b32 %time; mov.u32 %time, %'
        f"{register}; "
        '@$0 st.global.v2.b32 [$1], {$2, %time}; }", "b,l,r,~{memory}"'
        f"(i1 {condition}, ptr addrspace(1) {address}, i32 {tag}) convergent nounwind"
    )


def _read(printer: FunctionPrinter, op: Operation, register: str) -> None:
    callee = printer.module.intrinsic(f"llvm.nvvm.read.ptx.sreg.{register}")
    printer.define(op.results[0], f"call {llvm_type(op.results[0].type)} {callee}()")


TIMING: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TimerOp: _print_timer,
    SmIdOp: _print_sm_id,
    RecordOp: _print_record,
}
