# SPDX-License-Identifier: Apache-2.0
"""A kernel as one coroutine per thread, for kernels whose threads wait for each other.

In: simt.kernel. Out: the coroutine of one thread; `@weft.kernel.<name>`, which runs blocks through the runtime's
scheduler; `@weft.scratch.<name>`, the memory needed for that. Always correct; the thread loop is
faster if no thread waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import scf

from weft.backends.cpu.lowering.budget import BUDGET_PLACE, work
from weft.backends.cpu.lowering.check import has_orders, reports_barriers
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.lowering.coroutine_printer import EXITED, FAILED, SITE, CoroutinePrinter
from weft.backends.cpu.lowering.local import LocalMemory
from weft.backends.cpu.lowering.loops import coresident_blocks, may_wait
from weft.backends.cpu.lowering.thread_loop import kernel_symbol, print_parameters, print_sizes
from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.llvm.names import global_name
from weft.codegen.runtime_abi import call_row
from weft.dialects.definition import DependsOnWarps
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp, ReturnOp
from weft.passes.instrument_memory import reaches_others

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.llvm.module_printer import ModulePrinter

_AXES: Final = ("x", "y", "z")
# Offsets in weft_cpu_block.
_BLOCK_BUDGET: Final = 12
_BLOCK_LINEAR: Final = 16
_BLOCK_SHARED: Final = 24
_BLOCK_CLUSTER: Final = 40
_SLOT_BYTES: Final = 32  # of weft_thread_slot; the thread's arrays follow

_BEGIN: Final = """\
  %id = call token @llvm.coro.id(i32 32, ptr null, ptr null, ptr null)
  %size = call i64 @llvm.coro.size.i64()
  %asked = icmp eq ptr %frame, null
  br i1 %asked, label %tell_size, label %begin
tell_size:
  %size_as_pointer = inttoptr i64 %size to ptr
  ret ptr %size_as_pointer
begin:
  %handle = call ptr @llvm.coro.begin(token %id, ptr %frame)"""
# LLVM allows one final suspension, so every exit goes through it.
_END: Final = f"""\
exited:
  store i32 {EXITED}, ptr %slot, align 8
  br label %final
failed:
  store i32 {FAILED}, ptr %slot, align 8
  br label %final
final:
  %last = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %last, label %suspended [i8 0, label %never i8 1, label %suspended]
never:
  unreachable
suspended:
  call void @llvm.coro.end(ptr %handle, i1 false, token none)
  ret ptr %handle"""


def waiting_operation(kernel: KernelOp) -> Operation | None:
    """The first operation at which a thread of the kernel may wait for another, or None.

    It is the kernel itself if its threads run in the order of a test.
    """
    if has_orders(kernel):
        return kernel
    for operation in walk(kernel):
        if type(operation) in COOPERATION:
            return operation
        if isinstance(operation, scf.WhileOp) and may_wait(operation):
            return operation
    return None


def scratch_symbol(name: str) -> str:
    """The LLVM name of the function that returns a launch's scratch size: `i64 (ptr %table, ptr %launch)`."""
    return global_name(f"weft.scratch.{name}")


def print_cooperative_kernel(module: ModulePrinter, kernel: KernelOp) -> None:
    """Prints one kernel's coroutine and the two functions that the host code uses."""
    name = kernel.sym_name.data
    local = LocalMemory(kernel)
    sites = _print_thread(module, kernel, local, global_name(f"weft.thread.{name}"))
    body = ", ".join(sites)
    site_type = SITE
    table = module.add_global(
        f"private unnamed_addr constant [{len(sites)} x {site_type}] [{body}], align 8", "sites"
    )
    uses_collectives = any(
        type(op) in COOPERATION and op.has_trait(DependsOnWarps) for op in walk(kernel)
    )
    cluster = ", ".join(f"i32 {size}" for size in kernel.cluster or (1, 1, 1))
    maps_shared = any(reaches_others(op) for op in walk(kernel))
    descriptor = module.add_global(
        "private unnamed_addr constant { ptr, ptr, i32, i32, i32, i32, [3 x i32], i32 } "
        f"{{ ptr @weft.thread.{name}, ptr {table}, i32 {int(uses_collectives)}, "
        f"i32 {coresident_blocks(kernel)}, i32 {work(kernel.body.block)}, i32 {local.bytes}, "
        f"[3 x i32] [{cluster}], i32 {int(maps_shared)} }}, align 8",
        "cooperative",
    )
    _print_blocks(module, kernel, descriptor)


def _print_thread(
    module: ModulePrinter, kernel: KernelOp, local: LocalMemory, symbol: str
) -> list[str]:
    scope = module.debug.subprogram(kernel.sym_name.data, kernel.location) if module.debug else None
    printer = CoroutinePrinter(module, scope)
    printer.failure_label = "failed"
    printer.end_label = "exited"
    printer.tells_places = reports_barriers(kernel)
    printer.label = "begin"
    printer.place(None)
    print_parameters(printer, kernel)
    print_sizes(printer, kernel)
    _print_coordinates(printer)
    if local.bytes:
        memory = printer.let(f"getelementptr i8, ptr %slot, i64 {_SLOT_BYTES}")
        local.print_arrays(printer, memory)
    for operation in kernel.body.block.ops:
        if not isinstance(operation, ReturnOp):
            printer.print_operation(operation)
    printer.branch("exited")
    module.add_function(
        f"define internal ptr {symbol}(ptr %parameters, ptr %launch, ptr %block, i32 %thread_x, "
        f"i32 %thread_y, i32 %thread_z, ptr %slot, ptr %frame) presplitcoroutine nounwind"
        f"{printer.scope_suffix()} {{\n{printer.body(_BEGIN)}\n{_END}\n}}\n"
    )
    return printer.sites


def _print_coordinates(printer: CoroutinePrinter) -> None:
    for axis, letter in enumerate(_AXES):
        printer.coordinates[f"thread_idx.{letter}"] = f"%thread_{letter}"
        address = printer.let(f"getelementptr i8, ptr %block, i64 {4 * axis}")
        index = printer.let(f"load i32, ptr {address}, align 4", f"block_idx_{letter}")
        printer.coordinates[f"block_idx.{letter}"] = index
    address = printer.let(f"getelementptr i8, ptr %block, i64 {_BLOCK_LINEAR}")
    printer.coordinates["block"] = printer.let(f"load i64, ptr {address}, align 8")
    address = printer.let(f"getelementptr i8, ptr %block, i64 {_BLOCK_SHARED}")
    printer.coordinates["shared"] = printer.let(f"load ptr, ptr {address}, align 8", "shared")
    address = printer.let(f"getelementptr i8, ptr %block, i64 {_BLOCK_CLUSTER}")
    printer.coordinates["cluster"] = printer.let(f"load i64, ptr {address}, align 8")
    printer.coordinates[BUDGET_PLACE] = printer.let(
        f"getelementptr i8, ptr %block, i64 {_BLOCK_BUDGET}"
    )


def _print_blocks(module: ModulePrinter, kernel: KernelOp, descriptor: str) -> None:
    name = kernel.sym_name.data
    blocks = FunctionPrinter(module)
    table = blocks.let("load ptr, ptr %launch, align 8", "table")
    code = call_row(
        blocks,
        table,
        "run_cooperative",
        f"ptr {descriptor}",
        "ptr %parameters",
        "ptr %launch",
        "i64 %first",
        "i64 %last",
        "ptr %scratch",
    )
    blocks.line(f"ret i32 {code}")
    module.add_function(
        f"define i32 {kernel_symbol(name)}(ptr %parameters, ptr %launch, i64 %first, i64 %last, "
        f"ptr %scratch) nounwind {{\n{blocks.body()}\n}}\n"
    )
    scratch = FunctionPrinter(module)
    size = call_row(
        scratch, "%table", "cooperative_scratch_bytes", f"ptr {descriptor}", "ptr %launch"
    )
    scratch.line(f"ret i64 {size}")
    module.add_function(
        f"define i64 {scratch_symbol(name)}(ptr %table, ptr %launch) nounwind "
        f"{{\n{scratch.body()}\n}}\n"
    )
