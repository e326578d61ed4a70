# SPDX-License-Identifier: Apache-2.0
"""Remarks on how a kernel's threads run on the CPU, and which line decided.

In: simt.kernel. Out: a `Remark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import scf

from weft.backends.cpu.lowering.affine import RowAnalysis
from weft.backends.cpu.lowering.fission import Waits, find_obstacle
from weft.backends.cpu.lowering.guard import find_guard
from weft.dialects.access import CalledAs, trait_of
from weft.dialects.builder import source_location
from weft.dialects.simt.kernel import KernelOp
from weft.runtime.object_code import Remark

if TYPE_CHECKING:
    from xdsl.ir import Operation


# Operations that a program does not call, and that may wait.
_NAMES: Final[dict[type[Operation], str]] = {
    KernelOp: "--sanitize=orders",
    scf.WhileOp: "a loop that may wait for what other threads write",
}


def engine_remark(kernel: KernelOp) -> Remark:
    """Whether a kernel is loops over threads or one coroutine per thread, and why.

    Example:
        ``reduce.py:12: one coroutine per thread, because of sync_threads (kernel reduce_kernel)``
    """
    waits = Waits(kernel)
    if waits.first is not None:
        obstacle = find_obstacle(kernel, waits)
        if obstacle is None:
            return _remark(kernel, f"thread loops, split at {_name(waits.first)}", waits.first)
        reason = f"one coroutine per thread, because of {_name(obstacle.waiting)}"
        if obstacle.others:
            reason += f" and {obstacle.others} more places to wait at: the loops would be too many"
        if obstacle.around is None:
            return _remark(kernel, reason, obstacle.waiting)
        what = "branch" if isinstance(obstacle.around, scf.IfOp) else "loop"
        return _remark(
            kernel, f"{reason} in a {what} that threads may take differently", obstacle.around
        )
    guard = find_guard(kernel.body.block.ops, RowAnalysis())
    if guard is not None:
        return _remark(kernel, "thread loop; this condition is its bounds", guard.operation)
    return _remark(kernel, "thread loop", None)


def _name(waiting: Operation) -> str:
    called = trait_of(waiting, CalledAs)
    return _NAMES[type(waiting)] if called is None else called.of(waiting)


def _remark(kernel: KernelOp, message: str, cause: Operation | None) -> Remark:
    place = source_location(cause.location) if cause is not None else None
    return Remark(
        kernel.sym_name.data,
        message,
        file=place.file if place else "",
        line=place.line if place else 0,
    )
