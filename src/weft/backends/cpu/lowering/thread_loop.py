# SPDX-License-Identifier: Apache-2.0
"""A kernel as loops over blocks and threads, for kernels whose threads do not wait for each other.

In: simt.kernel. Out: `i32 @weft.kernel.<name>(ptr %parameters, ptr %launch, i64 %first, i64 %last, ptr %scratch)`,
which runs blocks [first, last) in index order; nonzero: an error is recorded.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.affine import RowAnalysis
from weft.backends.cpu.lowering.check import continues
from weft.backends.cpu.lowering.loops import (
    BUDGET,
    BUDGET_PLACE,
    print_cancellation_check,
    print_work,
    work,
)
from weft.backends.cpu.lowering.memory import SCRATCH_ALIGNMENT, LocalMemory
from weft.backends.cpu.lowering.rows import RowPrinter, counted
from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.llvm.types import global_name
from weft.codegen.operations.launch import MAP, kernel_parameters, take_parameters
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp, ReturnOp
from weft.dialects.simt.threads import BlockDimOp, BlockIdxOp, CoordinateOp, GridDimOp, ThreadIdxOp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.module_printer import ModulePrinter

_AXES: Final = ("x", "y", "z")


def kernel_symbol(name: str) -> str:
    """The LLVM name of a kernel's blocks function, prefixed to avoid libc's names."""
    return global_name(f"weft.kernel.{name}")


def print_kernel(module: ModulePrinter, kernel: KernelOp, masks_stores: bool) -> None:
    """Prints one kernel.

    Args:
        module: receives the text.
        kernel: without barriers and collectives.
        masks_stores: the CPU has fast masked stores, so a loop with conditional stores is
            worth vectorizing.
    """
    name = kernel.sym_name.data
    scope = module.debug.subprogram(name, kernel.location) if module.debug else None
    printer = FunctionPrinter(module, scope)
    printer.failure_label = "fail"
    printer.coordinates["shared"] = "%scratch"
    print_parameters(printer, kernel)
    sizes = print_sizes(printer, kernel)
    _print_local_memory(printer, kernel)
    printer.coordinates[BUDGET_PLACE] = printer.alloca("i32", 4, BUDGET_PLACE)
    printer.line(f"store i32 {BUDGET}, ptr {printer.coordinates[BUDGET_PLACE]}, align 4")
    with blocks(printer, sizes, work(kernel.body.block)):
        row = RowPrinter(printer, _Threads(printer, kernel, masks_stores))
        with (
            counted(printer, sizes["block_dim.z"], "z"),
            counted(printer, sizes["block_dim.y"], "y"),
        ):
            row.print_row()
    printer.place(None)
    printer.line("ret i32 0")
    printer.start("fail")
    printer.line("ret i32 1")
    module.add_function(
        f"define i32 {kernel_symbol(name)}(ptr %parameters, ptr %launch, i64 %first, i64 %last, "
        f"ptr %scratch) nounwind{printer.scope_suffix()} {{\n{printer.body()}\n}}\n"
    )


def _print_local_memory(printer: FunctionPrinter, kernel: KernelOp) -> None:
    """The arrays in scratch memory, after the shared memory: one thread at a time uses them."""
    local = LocalMemory(kernel)
    if local.bytes:
        place = printer.let(f"getelementptr i8, ptr %launch, i64 {abi.CPU_LAUNCH_SHARED_MEMORY}")
        shared = printer.let(f"load i32, ptr {place}, align 4")
        end = printer.let(f"add i32 {shared}, {SCRATCH_ALIGNMENT - 1}")
        offset = printer.let(f"and i32 {end}, {-SCRATCH_ALIGNMENT}")
        wide = printer.let(f"zext i32 {offset} to i64")
        local.print_arrays(printer, printer.let(f"getelementptr i8, ptr %scratch, i64 {wide}"))


def print_parameters(printer: FunctionPrinter, kernel: KernelOp) -> None:
    """Loads the parameters and gives them to the kernel's arguments."""
    names: list[str] = []
    for parameter in kernel_parameters(kernel):
        address, kind = "%parameters", parameter.llvm_type
        if parameter.offset_bytes:
            address = printer.let(
                f"getelementptr i8, ptr %parameters, i64 {parameter.offset_bytes}"
            )
        if parameter.part == MAP:
            names.append(address)
            continue
        load = f"load {kind}, ptr {address}, align {parameter.size_bytes}"
        names.append(printer.let(load, "argument"))
    take_parameters(printer, kernel, names)


def print_sizes(printer: FunctionPrinter, kernel: KernelOp) -> dict[str, str]:
    """Sizes of grid and block as i32; a block size common to all launches is constant."""
    constants = [str(size) for size in kernel.block_size or ()]
    for stem, offset in (("grid_dim", abi.CPU_LAUNCH_GRID), ("block_dim", abi.CPU_LAUNCH_BLOCK)):
        for axis, letter in enumerate(_AXES):
            if stem == "block_dim" and constants:
                text = constants[axis]
            else:
                address = printer.let(f"getelementptr i8, ptr %launch, i64 {offset + 4 * axis}")
                text = printer.let(f"load i32, ptr {address}, align 4", stem)
            printer.coordinates[f"{stem}.{letter}"] = text
    return printer.coordinates


@contextmanager
def blocks(printer: FunctionPrinter, sizes: dict[str, str], each: int) -> Generator[None]:
    """The loop over blocks; their coordinates count up without a division.

    Args:
        printer: of the kernel.
        sizes: of grid and block.
        each: the work of one thread, without loops that count their own.
    """
    rows = printer.let(f"mul i32 {sizes['block_dim.y']}, {sizes['block_dim.z']}")
    threads = printer.let(f"mul i32 {rows}, {sizes['block_dim.x']}")
    amount = printer.let(f"mul i32 {threads}, {each}", "work")
    grid = [printer.let(f"zext i32 {sizes[f'grid_dim.{letter}']} to i64") for letter in _AXES[:2]]
    some = printer.let("icmp slt i64 %first, %last")
    start, head, end = (printer.new_label(stem) for stem in ("start", "block", "done"))
    printer.branch_if(some, start, end)
    printer.start(start)
    row = printer.let(f"udiv i64 %first, {grid[0]}")
    first = [printer.let(f"urem i64 %first, {grid[0]}"), printer.let(f"urem i64 {row}, {grid[1]}")]
    first.append(printer.let(f"udiv i64 {row}, {grid[1]}"))
    first = [printer.let(f"trunc i64 {text} to i32") for text in first]
    names = [printer.fresh(f"block_idx_{letter}") for letter in _AXES]
    block = printer.fresh("block")
    printer.branch(head)
    printer.start(head)
    place = printer.reserve()
    for letter, name in zip(_AXES, names, strict=True):
        printer.coordinates[f"block_idx.{letter}"] = name
    printer.coordinates["block"] = block
    yield
    printer.place(None)
    print_work(printer, amount)
    print_cancellation_check(printer)
    following = printer.let(f"add nuw nsw i64 {block}, 1")
    next_x, wraps_x = _step(printer, names[0], "true", sizes["grid_dim.x"])
    next_y, wraps_y = _step(printer, names[1], wraps_x, sizes["grid_dim.y"])
    next_z, _ = _step(printer, names[2], wraps_y, sizes["grid_dim.z"])
    more = printer.let(f"icmp slt i64 {following}, %last")
    latch = printer.label
    printer.branch_if(more, head, end)
    incoming = [("i64", block, "%first", following)]
    incoming += [
        ("i32", name, begin, after)
        for name, begin, after in zip(names, first, (next_x, next_y, next_z), strict=True)
    ]
    printer.fill(
        place,
        [
            f"{name} = phi {kind} [ {begin}, %{start} ], [ {after}, %{latch} ]"
            for kind, name, begin, after in incoming
        ],
    )
    printer.start(end)


def _step(printer: FunctionPrinter, name: str, carry: str, size: str) -> tuple[str, str]:
    """One digit of the block counter: its next value, and whether the digit after it moves."""
    up = printer.let(f"zext i1 {carry} to i32") if carry != "true" else "1"
    moved = printer.let(f"add i32 {name}, {up}")
    wraps = printer.let(f"icmp eq i32 {moved}, {size}")
    return printer.let(f"select i1 {wraps}, i32 0, i32 {moved}"), wraps


class _Threads:
    """A row of all x of one y and z, whose threads run the whole kernel: see `rows.Row`."""

    keeps = False

    def __init__(self, printer: FunctionPrinter, kernel: KernelOp, masks_stores: bool) -> None:
        self._printer = printer
        self._continues = continues(kernel)
        self.operations: Sequence[Operation] = [
            op for op in kernel.body.block.ops if not isinstance(op, ReturnOp)
        ]
        self.analysis = RowAnalysis()
        self.size = printer.coordinates["block_dim.x"]
        self.masks_stores = masks_stores
        self._threads = thread_numbers(kernel)

    def indices(self, start: str) -> dict[SSAValue, str]:
        """See `rows.Row`."""
        return dict.fromkeys(self._threads, start)

    def print_thread(self, number: str, known: dict[SSAValue, str]) -> None:
        """See `rows.Row`."""
        printer = self._printer
        printer.coordinates["thread_idx.x"] = number
        outer = printer.values
        printer.values = {**outer, **known}
        printer.end_label = printer.new_label("ended") if self._continues else None
        for operation in self.operations:
            if operation.results and all(result in known for result in operation.results):
                continue
            printer.print_operation(operation)
        printer.values = outer
        if printer.end_label is not None:
            printer.branch(printer.end_label)
            printer.start(printer.end_label)


def thread_numbers(kernel: KernelOp) -> list[SSAValue]:
    """The values of a kernel that are thread_idx.x."""
    return [
        op.results[0]
        for op in walk(kernel)
        if isinstance(op, ThreadIdxOp) and op.dimension.data == "x"
    ]


def _print_coordinate(printer: FunctionPrinter, op: CoordinateOp) -> None:
    """The loops around a thread's code have defined it."""
    printer.values[op.results[0]] = printer.coordinates[f"{op.name[5:]}.{op.dimension.data}"]


COORDINATES: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ThreadIdxOp: _print_coordinate,
    BlockIdxOp: _print_coordinate,
    BlockDimOp: _print_coordinate,
    GridDimOp: _print_coordinate,
}
