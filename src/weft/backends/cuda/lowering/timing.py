# SPDX-License-Identifier: Apache-2.0
"""Clocks and the multiprocessor's number on a GPU.

In: cuda.timer, cuda.sm_id. Out: reads of special registers; those of clocks have an effect, so that each stays
where it stands. Next: atomics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm_types import llvm_type
from weft.dialects.cuda.timing import SmIdOp, TimerOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.function_printer import FunctionPrinter

_REGISTERS: Final = {"globaltimer": "globaltimer", "clock64": "clock64", "clock32": "clock"}


def _print_timer(printer: FunctionPrinter, op: Any) -> None:
    _read(printer, op, _REGISTERS[op.kind.data])


def _print_sm_id(printer: FunctionPrinter, op: Operation) -> None:
    _read(printer, op, "smid")


def _read(printer: FunctionPrinter, op: Operation, register: str) -> None:
    callee = printer.module.intrinsic(f"llvm.nvvm.read.ptx.sreg.{register}")
    printer.define(op.results[0], f"call {llvm_type(op.results[0].type)} {callee}()")


TIMING: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TimerOp: _print_timer,
    SmIdOp: _print_sm_id,
}
