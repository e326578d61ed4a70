# SPDX-License-Identifier: Apache-2.0
"""Named barriers on the CPU, where a thread suspends and the scheduler counts (native/cpu/rendezvous.cpp).

In: the operations of dialects/nvgpu/named_barrier. Out: the barrier's number and its threads in the slot, a suspension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.coroutine_printer import NAMED, CoroutinePrinter
from weft.dialects.nvgpu.threads import (
    NamedBarrierArriveOp,
    NamedBarriersOp,
    NamedBarrierSyncOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def print_nothing(_printer: FunctionPrinter, _op: NamedBarriersOp) -> None:
    """Barriers need no preparation."""


def _print(
    printer: CoroutinePrinter, op: NamedBarrierSyncOp | NamedBarrierArriveOp, site: str
) -> None:
    printer.post(op.number, mask="0", lane=str(op.threads.value.data))
    printer.suspend(NAMED, printer.add_site(site, op.location))


def _print_sync(printer: CoroutinePrinter, op: NamedBarrierSyncOp) -> None:
    _print(printer, op, "named_barrier_sync")


def _print_arrive(printer: CoroutinePrinter, op: NamedBarrierArriveOp) -> None:
    _print(printer, op, "named_barrier_arrive")


NAMED_BARRIERS: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    NamedBarrierSyncOp: _print_sync,
    NamedBarrierArriveOp: _print_arrive,
}
