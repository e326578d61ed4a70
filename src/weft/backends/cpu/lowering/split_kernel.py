# SPDX-License-Identifier: Apache-2.0
"""A kernel whose threads wait: as loops over threads, split where they wait, or as one coroutine per thread.

In: simt.kernel, for the loops one without obstacles (`fission.find_obstacle`). Out: a function that runs one block, or
the coroutine of one thread; `@weft.kernel.<name>`, which runs a range of blocks, coroutines through the runtime's
scheduler; `@weft.scratch.<name>`, the memory needed for that. Coroutines are always correct; the thread loop is faster
if no thread waits.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from xdsl.dialects import scf

from weft.backends.cpu.lowering.affine import Group
from weft.backends.cpu.lowering.check import has_orders, reports_barriers
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.lowering.coroutine_printer import EXITED, FAILED, SITE, CoroutinePrinter
from weft.backends.cpu.lowering.loops import BUDGET, BUDGET_PLACE, coresident_blocks, may_wait, work
from weft.backends.cpu.lowering.memory import SCRATCH_ALIGNMENT, LocalMemory
from weft.backends.cpu.lowering.split_regions import RegionPrinter
from weft.backends.cpu.lowering.split_threads import ALIGNMENT
from weft.backends.cpu.lowering.thread_loop import (
    blocks,
    kernel_symbol,
    print_parameters,
    print_sizes,
)
from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.llvm.types import global_name
from weft.codegen.runtime_abi import call_row
from weft.dialects.definition import DependsOnWarps
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp, ReturnOp
from weft.dialects.simt.memory import SharedOp
from weft.passes.blocks import overlapping_arrays
from weft.passes.instrument_memory import reaches_others
from weft.types.launch_limits import MAX_THREADS, WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.backends.cpu.lowering.fission import Waits
    from weft.codegen.llvm.module_printer import ModulePrinter


_AXES: Final = ("x", "y", "z")


def print_split_kernel(
    module: ModulePrinter, kernel: KernelOp, waits: Waits, masks_stores: bool
) -> None:
    """Prints one kernel and the function that says how much memory it needs.

    Args:
        module: receives the text.
        kernel: whose threads wait.
        waits: where.
        masks_stores: see `print_kernel`.
    """
    arrays = _print_block(module, kernel, waits, masks_stores)
    _print_blocks(module, kernel, arrays)
    _print_scratch_bytes(module, kernel, arrays)


def _symbol(kernel: KernelOp) -> str:
    return global_name(f"weft.block.{kernel.sym_name.data}")


def _shared_arrays(kernel: KernelOp) -> list[int]:
    """The offsets of the shared arrays that no other overlaps, each a parameter of the block's function."""
    overlapping = set(overlapping_arrays(kernel))
    arrays = (op for op in walk(kernel) if isinstance(op, SharedOp) and op not in overlapping)
    offsets = (op.offset for op in arrays)
    return sorted({offset.value.data for offset in offsets if offset is not None})


def _print_block(
    module: ModulePrinter, kernel: KernelOp, waits: Waits, masks_stores: bool
) -> list[tuple[str, int]]:
    """The function of one block; returns the arrays of its threads' values, which it is given.

    It is a function of its own so that its memory can be promised not to overlap.
    """
    scope = module.debug.subprogram(kernel.sym_name.data, kernel.location) if module.debug else None
    printer = FunctionPrinter(module, scope)
    printer.failure_label = "fail"
    printer.coordinates.update({BUDGET_PLACE: "%budget", "block": "%block", "shared": "%shared"})
    for letter in _AXES:
        printer.coordinates[f"block_idx.{letter}"] = f"%block_idx_{letter}"
        printer.coordinates[f"thread_idx.{letter}"] = "0"
    for offset in _shared_arrays(kernel):
        printer.coordinates[f"shared at {offset}"] = f"%shared.{offset}"
    print_parameters(printer, kernel)
    print_sizes(printer, kernel)
    regions = RegionPrinter(printer, kernel, waits, masks_stores)
    regions.print_region(kernel.body.block.ops, Group.BLOCK)
    printer.place(None)
    printer.branch("exited")
    printer.start("exited")
    printer.line("ret i32 0")
    printer.start("fail")
    printer.line("ret i32 1")
    arrays = regions.slots.arrays
    kept = "".join(f", ptr noalias align {ALIGNMENT} {name}" for name, _ in arrays)
    shared = "".join(f", ptr noalias %shared.{offset}" for offset in _shared_arrays(kernel))
    module.add_function(
        f"define internal i32 {_symbol(kernel)}(ptr %parameters, ptr %launch, i64 %block, "
        "i32 %block_idx_x, i32 %block_idx_y, i32 %block_idx_z, ptr noalias %budget, "
        f"ptr noalias %shared{shared}{kept}) noinline nounwind{printer.scope_suffix()} "
        f"{{\n{printer.body()}\n}}\n"
    )
    return arrays


def _print_blocks(module: ModulePrinter, kernel: KernelOp, arrays: list[tuple[str, int]]) -> None:
    printer = FunctionPrinter(module)
    printer.failure_label = "fail"
    sizes = print_sizes(printer, kernel)
    place = printer.let(f"getelementptr i8, ptr %launch, i64 {abi.CPU_LAUNCH_SHARED_MEMORY}")
    shared = printer.let(f"load i32, ptr {place}, align 4")
    threads = [sizes[f"block_dim.{letter}"] for letter in _AXES]
    plane = printer.let(f"mul i32 {threads[0]}, {threads[1]}")
    count = printer.let(f"zext i32 {printer.let(f'mul i32 {plane}, {threads[2]}')} to i64")
    end = printer.let(f"zext i32 {shared} to i64")
    pointers: list[str] = []
    for begin, after in _print_places(printer, arrays, count, end):
        pointers.append(printer.let(f"getelementptr i8, ptr %scratch, i64 {begin}"))
        end = after
    shared_arrays = [
        printer.let(f"getelementptr i8, ptr %scratch, i64 {offset}")
        for offset in _shared_arrays(kernel)
    ]
    budget = printer.coordinates[BUDGET_PLACE] = printer.alloca("i32", 4, BUDGET_PLACE)
    printer.line(f"store i32 {BUDGET}, ptr {budget}, align 4")
    with blocks(printer, sizes, work(kernel.body.block)):
        indices = [f"i32 {printer.coordinates[f'block_idx.{letter}']}" for letter in _AXES]
        memory = [f"ptr {name}" for name in (budget, "%scratch", *shared_arrays, *pointers)]
        arguments = ", ".join(
            (
                "ptr %parameters",
                "ptr %launch",
                f"i64 {printer.coordinates['block']}",
                *indices,
                *memory,
            )
        )
        code = printer.let(f"call i32 {_symbol(kernel)}({arguments})")
        failed, goes_on = printer.let(f"icmp ne i32 {code}, 0"), printer.new_label("ran")
        printer.branch_if(failed, "fail", goes_on)
        printer.start(goes_on)
    printer.line("ret i32 0")
    printer.start("fail")
    printer.line("ret i32 1")
    module.add_function(
        f"define i32 {kernel_symbol(kernel.sym_name.data)}(ptr %parameters, ptr %launch, "
        f"i64 %first, i64 %last, ptr %scratch) nounwind {{\n{printer.body()}\n}}\n"
    )


def _print_places(
    printer: FunctionPrinter, arrays: list[tuple[str, int]], threads: str, end: str
) -> list[tuple[str, str]]:
    """Prints start and end of each array, in the scratch memory after `end`; elements of whole warps."""
    more = printer.let(f"add i64 {threads}, {WARP_SIZE - 1}")
    whole = printer.let(f"and i64 {more}, {-WARP_SIZE}", "threads")
    places: list[tuple[str, str]] = []
    for _, size in arrays:
        up = printer.let(f"add i64 {end}, {SCRATCH_ALIGNMENT - 1}")
        begin = printer.let(f"and i64 {up}, {-SCRATCH_ALIGNMENT}")
        end = printer.let(f"add i64 {begin}, {printer.let(f'mul i64 {whole}, {size}')}")
        places.append((begin, end))
    return places


def _print_scratch_bytes(
    module: ModulePrinter, kernel: KernelOp, arrays: list[tuple[str, int]]
) -> None:
    """Prints the scratch size of a launch; beyond the limits, which are refused later, it just does not overflow."""
    printer = FunctionPrinter(module)
    most = kernel.max_threads or MAX_THREADS
    if kernel.block_size:
        threads = str(prod(kernel.block_size))
    else:
        sizes: list[str] = []
        for axis in range(3):
            place = printer.let(f"getelementptr i8, ptr %launch, i64 {abi.LAUNCH_BLOCK + 8 * axis}")
            size = printer.let(f"load i64, ptr {place}, align 8")
            sizes.append(printer.intrinsic("llvm.umin", "i64", size, str(most)))
        plane = printer.let(f"mul i64 {sizes[0]}, {sizes[1]}")
        volume = printer.let(f"mul i64 {plane}, {sizes[2]}")
        threads = printer.intrinsic("llvm.umin", "i64", volume, str(most))
    place = printer.let(f"getelementptr i8, ptr %launch, i64 {abi.LAUNCH_SHARED_MEMORY}")
    end = printer.let(f"load i64, ptr {place}, align 8", "shared")
    for _, after in _print_places(printer, arrays, threads, end):
        end = after
    printer.line(f"ret i64 {end}")
    module.add_function(
        f"define i64 {scratch_symbol(kernel.sym_name.data)}(ptr %table, ptr %launch) nounwind "
        f"{{\n{printer.body()}\n}}\n"
    )


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
    _print_coroutine_blocks(module, kernel, descriptor)


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


def _print_coroutine_blocks(module: ModulePrinter, kernel: KernelOp, descriptor: str) -> None:
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
