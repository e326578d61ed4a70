# SPDX-License-Identifier: Apache-2.0
"""Named barriers on NVIDIA's GPUs.

In: the operations of dialects/nvgpu/named_barrier. Out: NVVM's barriers, by number and count of threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent
from weft.dialects.nvgpu.threads import (
    NamedBarrierArriveOp,
    NamedBarriersOp,
    NamedBarrierSyncOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _print_nothing(_printer: FunctionPrinter, _op: NamedBarriersOp) -> None:
    pass


def _print(printer: FunctionPrinter, op: Any, verb: str) -> None:
    arguments = f"i32 {printer.values[op.number]}", f"i32 {op.threads.value.data}"
    call_convergent(printer, "void", f"barrier.cta.{verb}.aligned.count", *arguments)


NAMED_BARRIERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    NamedBarriersOp: _print_nothing,
    NamedBarrierSyncOp: lambda printer, op: _print(printer, op, "sync"),
    NamedBarrierArriveOp: lambda printer, op: _print(printer, op, "arrive"),
}
