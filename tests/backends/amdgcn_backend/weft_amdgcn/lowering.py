# SPDX-License-Identifier: Apache-2.0
"""What AMD GPUs say in other words than codegen does: entries, barriers, warps; and what they do not have.

In: kernels and launches. Out: LLVM text. `KERNEL_ROWS`, `HOST_ROWS` and `UNSUPPORTED` are the tables.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.codegen.gpu import KERNEL_OPERATIONS, SHARED, Warp, launch_rows, warp_rows
from weft.codegen.gpu import print_kernel as print_entry
from weft.codegen.llvm.types import ascii_name
from weft.codegen.tables import HOST_FUNCTION, KERNEL
from weft.dialects.builder import source_location
from weft.dialects.flow import walk
from weft.dialects.nvgpu import NVGPU
from weft.dialects.nvgpu.inline_ptx import InlinePtxOp
from weft.dialects.nvgpu.threads import ClusterBarrierOp, ClusterRankOp, MapSharedOp
from weft.dialects.simt import SIMT, fragment
from weft.dialects.simt.debug import (
    AssertOp,
    AssumeOp,
    CheckOp,
    EventOp,
    PrintfOp,
    WatchCopyOp,
    WatchEventOp,
    WatchOp,
)
from weft.dialects.simt.profiling import RecordOp, SmIdOp, TimerOp
from weft.dialects.simt.threads import (
    BarrierOp,
    BarrierReduceOp,
    BlockDimOp,
    GridBarrierOp,
    GridDimOp,
    LaneIdOp,
    MatchOp,
    VoteOp,
    WarpBarrierOp,
    WarpIdOp,
)
from weft.errors import UnavailableError
from weft.types.launch_limits import MAX_THREADS

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter, OperationPrinter
    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.dialects.simt.kernel import KernelOp, LaunchExOp

# What the hidden arguments of a kernel hold (code object 5 and later), from their start: sizes along x, y and z.
_HIDDEN: Final = {"grid_dim": ("i32", 0), "block_dim": ("i16", 12)}
_READ_BY: Final = {
    "grid_dim": (GridDimOp,),
    "block_dim": (BlockDimOp, WarpIdOp),
}


def print_kernel(module: ModulePrinter, kernel: KernelOp) -> None:
    """Prints one kernel."""
    if kernel.cluster is not None or kernel.min_blocks is not None:
        word = "cluster" if kernel.cluster is not None else "min_blocks"
        raise _unavailable(kernel, f"a kernel with {word}=")
    threads = f"1,{kernel.max_threads or MAX_THREADS}"
    if kernel.block_size is not None:
        threads = "{0},{0}".format(math.prod(kernel.block_size))
    attributes = {"amdgpu-flat-work-group-size": threads, "uniform-work-group-size": "true"}
    if kernel.max_registers is not None:
        attributes["amdgpu-num-vgpr"] = str(kernel.max_registers)
    name = ascii_name(kernel.sym_name.data)
    print_entry(module, kernel, name, "amdgpu_kernel", attributes, _print_sizes)


def _print_sizes(printer: FunctionPrinter, kernel: KernelOp) -> None:
    """Reads the sizes of the grid and the block that the kernel asks for."""
    operations = {type(op) for op in walk(kernel)}
    hidden = ""
    for name, (kind, offset) in _HIDDEN.items():
        known = f"{name}.x" in printer.coordinates
        if known or operations.isdisjoint(_READ_BY[name]):
            continue
        callee = printer.module.intrinsic("llvm.amdgcn.implicitarg.ptr")
        pointer = printer.module.target.pointer("constant")
        hidden = hidden or printer.let(f"call {pointer} {callee}()", "hidden")
        for index, axis in enumerate("xyz"):
            place = offset + index * int(kind[1:]) // 8
            address = printer.let(f"getelementptr i8, {pointer} {hidden}, i64 {place}")
            size = printer.let(f"load {kind}, {pointer} {address}, align 2", name)
            if kind != "i32":
                size = printer.let(f"zext {kind} {size} to i32", name)
            printer.coordinates[f"{name}.{axis}"] = size


def launch_attributes(op: LaunchExOp) -> list[tuple[int, bytes]]:
    """None: there is no driver that takes one."""
    for said, what in (
        (op.is_cooperative, "cooperative=True"),
        (op.is_programmatic, "programmatic=True"),
        (op.launch_attributes, "attributes of CUDA's driver"),
    ):
        if said:
            raise _unavailable(op, f"a launch with {what}")
    return []


def _unavailable(op: Operation, what: str) -> UnavailableError:
    return UnavailableError(
        "TARGET_OPERATION",
        f"{what} is for NVIDIA's GPUs, and this is compiled for amdgcn",
        location=source_location(op.location),
    )


def _call(printer: FunctionPrinter, result: str, name: str, *arguments: str) -> str:
    suffix = f".{result}" if name == "ballot" else ""
    callee = printer.module.intrinsic(f"llvm.amdgcn.{name}", suffix)
    text = f"call {result} {callee}({', '.join(arguments)})"
    if result == "void":
        printer.line(text)
        return ""
    return printer.let(text)


def _print_barrier(printer: FunctionPrinter, op: Operation) -> None:
    printer.line('fence syncscope("workgroup") release')
    _call(printer, "void", "s.barrier")
    printer.line('fence syncscope("workgroup") acquire')


def _print_warp_barrier(printer: FunctionPrinter, op: Operation) -> None:
    """The threads of a warp go together; only what they wrote has to be seen."""
    printer.line('fence syncscope("wavefront") release')
    _call(printer, "void", "wave.barrier")
    printer.line('fence syncscope("wavefront") acquire')


def _lane(printer: FunctionPrinter) -> str:
    return _call(printer, "i32", "mbcnt.lo", "i32 -1", "i32 0")


def _ballot(printer: FunctionPrinter, mask: str, predicate: str) -> str:
    lanes = _call(printer, "i32", "ballot", f"i1 {predicate}")
    return printer.let(f"and i32 {lanes}, {mask}")


class _AmdWarp(Warp):
    """Warps of 32 threads; architectures with 64 are refused before."""

    def exchange(self, kind: str, mask: str, register: str, lane: str, width: int) -> str:
        let, own = self.printer.let, _lane(self.printer)
        first = let(f"and i32 {own}, {-width}")
        end = let(f"add i32 {first}, {width}")
        given = let(f"and i32 {lane}, 31")
        if kind == "idx":
            source = let(f"or i32 {first}, {let(f'and i32 {given}, {width - 1}')}")
        else:
            instruction = {"up": "sub", "down": "add", "xor": "xor"}[kind]
            there = let(f"{instruction} i32 {own}, {given}")
            bound = f"sge i32 {there}, {first}" if kind == "up" else f"slt i32 {there}, {end}"
            source = let(f"select i1 {let(f'icmp {bound}')}, i32 {there}, i32 {own}")
        address = let(f"shl i32 {source}, 2")
        return _call(self.printer, "i32", "ds.bpermute", f"i32 {address}", f"i32 {register}")

    def present(self) -> str:
        return _ballot(self.printer, self.mask, "true")

    def lanes_after(self) -> str:
        return self.printer.let(f"shl i32 -2, {_lane(self.printer)}")


def _print_vote(printer: FunctionPrinter, op: Any) -> None:
    kind, mask, predicate = op.kind.data, printer.values[op.mask], printer.values[op.predicate]
    if kind == "all":
        predicate = printer.let(f"xor i1 {predicate}, true")
    lanes = _ballot(printer, mask, predicate)
    if kind == "ballot":
        printer.values[op.results[0]] = lanes
    else:
        printer.define(op.results[0], f"icmp {'eq' if kind == 'all' else 'ne'} i32 {lanes}, 0")


def _print_lane_id(printer: FunctionPrinter, op: Operation) -> None:
    printer.values[op.results[0]] = _lane(printer)


def _print_assume(printer: FunctionPrinter, op: AssumeOp) -> None:
    callee = printer.module.declare("llvm.assume", "void (i1)")
    printer.line(f"call void {callee}(i1 {printer.values[op.condition]})")


def _print_assert(printer: FunctionPrinter, op: Operation) -> None:
    if printer.module.enable_assertions:
        raise UnavailableError(
            "TARGET_OPERATION",
            "an assert with --enable-assertions: amdgcn cannot report its failure",
            hint="leave out --enable-assertions",
            location=source_location(op.location),
        )


KERNEL_ROWS: Final[dict[type[Operation], OperationPrinter]] = {
    **KERNEL,
    **KERNEL_OPERATIONS,
    **SHARED,
    **warp_rows(_AmdWarp),
    BarrierOp: _print_barrier,
    WarpBarrierOp: _print_warp_barrier,
    LaneIdOp: _print_lane_id,
    VoteOp: _print_vote,
    AssertOp: _print_assert,
    AssumeOp: _print_assume,
}
HOST_ROWS: Final[dict[type[Operation], OperationPrinter]] = {
    **HOST_FUNCTION,
    **launch_rows(launch_attributes),
}
FRAGMENTS: Final = tuple(op for op in SIMT.operations if op.__module__ == fragment.__name__)
UNSUPPORTED: Final[dict[type[Operation], str]] = {
    **{op: f"{op.name.removeprefix('nvgpu.')} is NVIDIA's" for op in NVGPU.operations},
    **dict.fromkeys(FRAGMENTS, "amdgcn lays the tiles of its matrix cores out in another way"),
    InlinePtxOp: "PTX is for NVIDIA's GPUs; amdgcn has no inline_ptx",
    PrintfOp: "amdgcn cannot print",
    MatchOp: "amdgcn has no instruction that compares lanes",
    BarrierReduceOp: "amdgcn has no barrier that counts",
    GridBarrierOp: "amdgcn has no barrier of the whole grid",
    **dict.fromkeys(
        (CheckOp, WatchOp, WatchCopyOp, WatchEventOp, EventOp),
        "the sanitizer checks kernels on the CPU",
    ),
    **dict.fromkeys(
        (ClusterBarrierOp, ClusterRankOp, MapSharedOp), "amdgcn has no clusters of blocks"
    ),
    TimerOp: "amdgcn has no clock that counts as the language's",
    RecordOp: "amdgcn has no clock that counts as the language's",
    SmIdOp: "amdgcn does not number its multiprocessors",
}
