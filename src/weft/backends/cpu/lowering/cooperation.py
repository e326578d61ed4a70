# SPDX-License-Identifier: Apache-2.0
"""Barriers and warp collectives on the CPU, where a thread's coroutine suspends.

In: simt.barrier and its family, simt.shuffle and its family. Out: the posted values, a suspension, the
scheduler's answer (native/cpu/scheduler.cpp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.async_copies import BULK_COPIES, CP_ASYNC, TMA_COPIES
from weft.backends.cpu.lowering.barriers import CLUSTER_BARRIERS, MBARRIERS, NAMED_BARRIERS
from weft.backends.cpu.lowering.coroutine_printer import (
    BARRIER,
    COLLECTIVE,
    DEPENDENCY,
    GRID,
    WARPGROUP,
    CoroutinePrinter,
)
from weft.backends.cpu.lowering.tensor_cores import MMA, WGMMA
from weft.codegen.operations.registers import register_share
from weft.dialects.nvgpu.threads import (
    ElectOneOp,
    GridDependencyWaitOp,
    SetmaxnregOp,
    WarpgroupBarrierOp,
)
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.threads import (
    BarrierOp,
    BarrierReduceOp,
    GridBarrierOp,
    MatchOp,
    ShuffleOp,
    VoteOp,
    WarpBarrierOp,
    WarpReduceOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation


def _print_barrier(printer: CoroutinePrinter, op: BarrierOp) -> None:
    printer.suspend(BARRIER, printer.add_site("barrier", op.location))


def _print_barrier_reduce(printer: CoroutinePrinter, op: BarrierReduceOp) -> None:
    printer.post(op.operands[0])
    printer.suspend(BARRIER, printer.add_site(f"barrier_{op.kind.data}", op.location))
    printer.answer(op.results[0])


def _print_grid_barrier(printer: CoroutinePrinter, op: GridBarrierOp) -> None:
    printer.suspend(GRID, printer.add_site("grid_barrier", op.location))


def _print_warp_barrier(printer: CoroutinePrinter, op: WarpBarrierOp) -> None:
    printer.post(mask=printer.values[op.operands[0]])
    printer.suspend(COLLECTIVE, printer.add_site("warp_barrier", op.location))


def _print_shuffle(printer: CoroutinePrinter, op: ShuffleOp) -> None:
    printer.post(op.value, printer.values[op.mask], printer.values[op.lane])
    width = op.width.value.data
    site = printer.add_site(f"shuffle_{op.kind.data}", op.location, width)
    printer.suspend(COLLECTIVE, site)
    printer.answer(op.results[0])


def _print_vote(printer: CoroutinePrinter, op: VoteOp) -> None:
    printer.post(op.predicate, printer.values[op.mask])
    printer.suspend(COLLECTIVE, printer.add_site(f"vote_{op.kind.data}", op.location))
    printer.answer(op.results[0])


def _print_match(printer: CoroutinePrinter, op: MatchOp) -> None:
    printer.post(op.value, printer.values[op.mask])
    printer.suspend(COLLECTIVE, printer.add_site(f"match_{op.kind.data}", op.location))
    printer.answer(op.results[0])


def _print_reduce(printer: CoroutinePrinter, op: WarpReduceOp) -> None:
    printer.post(op.value, printer.values[op.mask])
    site = printer.add_site(f"reduce_{op.kind.data}", op.location, value_type=op.value.type)
    printer.suspend(COLLECTIVE, site)
    printer.answer(op.results[0])


def _print_elect_one(printer: CoroutinePrinter, op: ElectOneOp) -> None:
    """All lanes have to come: a GPU has no defined answer for a part of them."""
    printer.post(mask="-1")
    printer.suspend(COLLECTIVE, printer.add_site("elect_one", op.location))
    printer.answer(op.result)


def _print_warpgroup_barrier(printer: CoroutinePrinter, op: WarpgroupBarrierOp) -> None:
    printer.suspend(WARPGROUP, printer.add_site("warpgroup_barrier", op.location))


def _print_setmaxnreg(printer: CoroutinePrinter, op: SetmaxnregOp) -> None:
    """Registers are the compiler's; but waits that would hang a GPU, and undefined uses, are refused."""
    register_share(kernel_of(op))
    printer.suspend(WARPGROUP, printer.add_site("setmaxnreg", op.location))


def _print_dependency_wait(printer: CoroutinePrinter, op: GridDependencyWaitOp) -> None:
    printer.suspend(DEPENDENCY, printer.add_site("grid_dependency_wait", op.location))


COOPERATION: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    BarrierOp: _print_barrier,
    BarrierReduceOp: _print_barrier_reduce,
    GridBarrierOp: _print_grid_barrier,
    WarpBarrierOp: _print_warp_barrier,
    ShuffleOp: _print_shuffle,
    VoteOp: _print_vote,
    MatchOp: _print_match,
    WarpReduceOp: _print_reduce,
    ElectOneOp: _print_elect_one,
    **BULK_COPIES,
    **CP_ASYNC,
    **MBARRIERS,
    **CLUSTER_BARRIERS,
    **MMA,
    **NAMED_BARRIERS,
    **TMA_COPIES,
    **WGMMA,
    GridDependencyWaitOp: _print_dependency_wait,
    SetmaxnregOp: _print_setmaxnreg,
    WarpgroupBarrierOp: _print_warpgroup_barrier,
}
