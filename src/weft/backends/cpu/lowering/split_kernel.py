# SPDX-License-Identifier: Apache-2.0
"""A kernel whose threads wait as loops over threads, split where they wait.

In: a simt.kernel without obstacles (`fission.find_obstacle`). Out: a function that runs one block;
`@weft.kernel.<name>`, which calls it for a range of blocks; `@weft.scratch.<name>`, the memory needed for that.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from weft.backends.cpu.lowering.budget import BUDGET, BUDGET_PLACE, work
from weft.backends.cpu.lowering.coroutine import scratch_symbol
from weft.backends.cpu.lowering.local import SCRATCH_ALIGNMENT
from weft.backends.cpu.lowering.sharing import Group
from weft.backends.cpu.lowering.slots import ALIGNMENT
from weft.backends.cpu.lowering.split_regions import RegionPrinter
from weft.backends.cpu.lowering.thread_loop import (
    blocks,
    kernel_symbol,
    print_parameters,
    print_sizes,
)
from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.llvm.names import global_name
from weft.dialects.flow import walk
from weft.dialects.simt.memory import SharedOp
from weft.types.launch_limits import MOST_THREADS, WARP_SIZE

if TYPE_CHECKING:
    from weft.backends.cpu.lowering.fission import Waits
    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.dialects.simt.kernel import KernelOp

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
    """The offsets of the kernel's shared arrays, each of which is a parameter of the block's function."""
    offsets = (op.offset for op in walk(kernel) if isinstance(op, SharedOp))
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
    """Where each array begins and ends, in the scratch memory after `end`; elements of whole warps."""
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
    """Of a launch beyond the limits, which is refused later, the size just does not overflow."""
    printer = FunctionPrinter(module)
    most = kernel.max_threads or MOST_THREADS
    if kernel.block_size:
        threads = str(prod(kernel.block_size))
    else:
        sizes: list[str] = []
        for axis in range(3):
            place = printer.let(f"getelementptr i8, ptr %launch, i64 {abi.LAUNCH_BLOCK + 8 * axis}")
            size = printer.let(f"load i64, ptr {place}, align 8")
            sizes.append(printer.intrinsic("llvm.umin", "i64", size, str(most)))
        plane = printer.let(f"mul i64 {sizes[0]}, {sizes[1]}")
        product = printer.let(f"mul i64 {plane}, {sizes[2]}")
        threads = printer.intrinsic("llvm.umin", "i64", product, str(most))
    place = printer.let(f"getelementptr i8, ptr %launch, i64 {abi.LAUNCH_SHARED_MEMORY}")
    end = printer.let(f"load i64, ptr {place}, align 8", "shared")
    for _, after in _print_places(printer, arrays, threads, end):
        end = after
    printer.line(f"ret i64 {end}")
    module.add_function(
        f"define i64 {scratch_symbol(kernel.sym_name.data)}(ptr %table, ptr %launch) nounwind "
        f"{{\n{printer.body()}\n}}\n"
    )
