# SPDX-License-Identifier: Apache-2.0
"""Warpgroups on NVIDIA's GPUs.

In: the operations of dialects/nvgpu/warpgroup. Out: a shuffle, which makes a number uniform; `elect.sync`; a named
barrier of each warpgroup, the last eight of a block's sixteen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent, has
from weft.codegen.gpu.kernel import thread_number
from weft.dialects.nvgpu.threads import ElectOneOp, WarpgroupBarrierOp, WarpgroupIdOp
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_SIZE: Final = 128
_FIRST_BARRIER: Final = 8


def _print_warpgroup_id(printer: FunctionPrinter, op: WarpgroupIdOp) -> None:
    own = printer.let(f"lshr i32 {thread_number(printer)}, {_SIZE.bit_length() - 1}")
    arguments = "i32 -1", f"i32 {own}", "i32 0", f"i32 {WARP_SIZE - 1}"
    printer.values[op.result] = call_convergent(printer, "i32", "shfl.sync.idx.i32", *arguments)


def _print_warpgroup_barrier(printer: FunctionPrinter, op: WarpgroupBarrierOp) -> None:
    number = printer.let(f"add i32 {printer.values[op.warpgroup]}, {_FIRST_BARRIER}")
    arguments = f"i32 {number}", f"i32 {_SIZE}"
    call_convergent(printer, "void", "barrier.cta.sync.aligned.count", *arguments)


def _print_elect_one(printer: FunctionPrinter, op: ElectOneOp) -> None:
    if has(printer, "elect"):
        pair = call_convergent(printer, "{ i32, i1 }", "elect.sync", "i32 -1")
        printer.define(op.result, f"extractvalue {{ i32, i1 }} {pair}, 1")
    else:
        lane = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.laneid")
        printer.define(op.result, f"icmp eq i32 {printer.let(f'call i32 {lane}()')}, 0")


WARPGROUP: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    WarpgroupIdOp: _print_warpgroup_id,
    WarpgroupBarrierOp: _print_warpgroup_barrier,
    ElectOneOp: _print_elect_one,
}
