# SPDX-License-Identifier: Apache-2.0
"""A kernel as loops over blocks and threads, for kernels whose threads do not wait for each other.

In: simt.kernel. Out: `i32 @weft.kernel.<name>(ptr %parameters, ptr %launch, i64 %first, i64 %last, ptr %scratch)`,
which runs blocks [first, last) in index order; nonzero: an error is recorded.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf

from weft.backends.cpu.lowering.affine import RowAnalysis
from weft.backends.cpu.lowering.budget import (
    BUDGET,
    BUDGET_PLACE,
    print_cancellation_check,
    print_work,
    work,
)
from weft.backends.cpu.lowering.check import continues
from weft.backends.cpu.lowering.guard import AffineTerm, GuardPrinter, find_guard
from weft.backends.cpu.lowering.local import SCRATCH_ALIGNMENT, LocalMemory
from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.llvm.names import global_name, local_stem
from weft.codegen.llvm.types import llvm_type
from weft.codegen.operations.kernel_parameters import MAP, kernel_parameters, take_parameters
from weft.dialects.flow import walk
from weft.dialects.simt.check import CheckOp
from weft.dialects.simt.debug import AssertOp, AssumeOp, PrintfOp
from weft.dialects.simt.grid import BlockDimOp, BlockIdxOp, CoordinateOp, GridDimOp, ThreadIdxOp
from weft.dialects.simt.kernel import KernelOp, ReturnOp
from weft.dialects.simt.memory import AtomicCasOp, AtomicRmwOp, AtomicStoreOp, StoreOp
from weft.dialects.simt.reductions import RedAddOp
from weft.dialects.simt.timing import RecordOp
from weft.dialects.simt.views import StoreVectorOp
from weft.dialects.simt.watch import WatchCopyOp, WatchEventOp, WatchOp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from xdsl.ir import Operation, SSAValue

    from weft.backends.cpu.lowering.guard import Guard
    from weft.codegen.llvm.module_printer import ModulePrinter

_EFFECTS: Final = (
    *(StoreOp, StoreVectorOp, AtomicStoreOp, AtomicRmwOp, AtomicCasOp, RedAddOp),
    *(PrintfOp, AssertOp, AssumeOp, RecordOp, CheckOp, WatchOp, WatchCopyOp, WatchEventOp),
)
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
    with _blocks(printer, sizes, work(kernel.body.block)):
        rows = _RowPrinter(printer, kernel, sizes["block_dim.x"], masks_stores)
        with (
            _counted(printer, sizes["block_dim.z"], "z"),
            _counted(printer, sizes["block_dim.y"], "y"),
        ):
            rows.print_row()
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
def _blocks(printer: FunctionPrinter, sizes: dict[str, str], each: int) -> Generator[None]:
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


@contextmanager
def _counted(printer: FunctionPrinter, size: str, letter: str) -> Generator[None]:
    """A loop over thread_idx.y or .z; none for a size of one."""
    if size == "1":
        printer.coordinates[f"thread_idx.{letter}"] = "0"
        yield
        return
    with counted_loop(printer, "0", size, f"thread_idx_{letter}") as index:
        printer.coordinates[f"thread_idx.{letter}"] = index
        yield


@contextmanager
def counted_loop(
    printer: FunctionPrinter, low: str, high: str, stem: str, metadata: str = ""
) -> Generator[str]:
    """A loop of an i32 over [low, high), entered only if that is not empty."""
    body, end = printer.new_label(stem), printer.new_label("next")
    some = printer.let(f"icmp slt i32 {low}, {high}")
    entry = printer.label
    printer.branch_if(some, body, end)
    printer.start(body)
    place, index = printer.reserve(), printer.fresh(stem)
    yield index
    printer.place(None)
    following = printer.let(f"add nuw nsw i32 {index}, 1")
    more = printer.let(f"icmp slt i32 {following}, {high}")
    latch = printer.label
    printer.branch_if(more, body, end, metadata)
    printer.fill(place, [f"{index} = phi i32 [ {low}, %{entry} ], [ {following}, %{latch} ]"])
    printer.start(end)


class _RowPrinter:
    """Prints the threads of one row (all x of one y and z), split by the kernel's first guard."""

    def __init__(
        self, printer: FunctionPrinter, kernel: KernelOp, block_dim: str, masks_stores: bool
    ) -> None:
        analysis = RowAnalysis()
        body = kernel.body.block
        self._printer = printer
        self._kernel = kernel
        self._block_dim = block_dim
        self._guard = find_guard(body, analysis)
        self._threads: list[SSAValue] = [
            op.results[0]
            for op in walk(kernel)
            if isinstance(op, ThreadIdxOp) and op.dimension.data == "x"
        ]
        split = self._guard.operation if self._guard else None
        masked = not masks_stores and _stores_conditionally(kernel, split, analysis)
        self._masked = masked

    def print_row(self) -> None:
        """Prints the loops over thread_idx.x."""
        if self._guard is None:
            hints = _loop_hints(self._printer, self._masked)
            with counted_loop(self._printer, "0", self._block_dim, "thread_idx_x", hints) as index:
                self._print_thread(index, {})
            return
        self._print_runs(self._guard)

    def _print_runs(self, guard: Guard) -> None:
        """Runs of threads in which no guarded value wraps: nearly always one run, the whole row."""
        printer = self._printer
        head, end = printer.new_label("run"), printer.new_label("row")
        threads = printer.let(f"zext i32 {self._block_dim} to i64")
        entry = printer.label
        printer.branch(head)
        printer.start(head)
        place, start = printer.reserve(), printer.fresh("start")
        start_wide = printer.let(f"zext i32 {start} to i64")
        rest = printer.let(f"sub nuw nsw i64 {threads}, {start_wide}")
        bounds = GuardPrinter(printer, start, rest, self._threads)
        size = bounds.size_of_run(guard.terms)
        low, high = bounds.range_of(guard.terms, size)
        exact = {
            term.value: (bounds.base(term.value), term.growth)
            for term in guard.terms
            if isinstance(term, AffineTerm) and term.value.owner.parent_block() is self._body
        }
        cuts = [
            text if text == "0" else printer.let(f"trunc i64 {text} to i32")
            for text in (low, high, size)
        ]
        ranges = [("0", cuts[0], False), (cuts[0], cuts[1], True), (cuts[1], cuts[2], False)]
        for first, last, inside in ranges:
            if first != last:
                self._print_range(guard, start, (first, last), inside, exact)
        following = printer.let(f"add nuw nsw i32 {start}, {cuts[2]}")
        more = printer.let(f"icmp slt i32 {following}, {self._block_dim}")
        latch = printer.label
        printer.branch_if(more, head, end)
        printer.fill(place, [f"{start} = phi i32 [ 0, %{entry} ], [ {following}, %{latch} ]"])
        printer.start(end)

    @property
    def _body(self) -> Any:
        return self._kernel.body.block

    def _has_work(self, guard: Guard, inside: bool) -> bool:
        """Whether threads do anything where the terms hold (inside) or do not."""
        condition = inside != guard.negated
        region = guard.operation.regions[0 if condition else 1]
        if region.blocks and any(_has_effects(op) for op in region.block.ops):
            return True
        return any(_has_effects(op) for op in self._body.ops if op is not guard.operation)

    def _print_range(
        self,
        guard: Guard,
        start: str,
        bounds: tuple[str, str],
        inside: bool,
        exact: dict[SSAValue, tuple[str, int]],
    ) -> None:
        """One loop, over threads start + [first, last), in which the guard's condition is known."""
        printer = self._printer
        if not self._has_work(guard, inside):
            return
        hints = _loop_hints(printer, self._masked)
        with counted_loop(printer, *bounds, "thread", hints) as index:
            thread = printer.let(f"add nuw nsw i32 {start}, {index}", "thread_idx_x")
            known = {
                guard.operation.cond: "true" if inside != guard.negated else "false",
                **{
                    value: _grown(printer, value, base, growth, index)
                    for value, (base, growth) in exact.items()
                },
            }
            self._print_thread(thread, known)

    def _print_thread(self, thread: str, known: dict[SSAValue, str]) -> None:
        """One thread's code; operations whose results are known are not printed."""
        printer = self._printer
        printer.coordinates["thread_idx.x"] = thread
        outer = printer.values
        printer.values = {**outer, **known}
        printer.end_label = printer.new_label("ended") if continues(self._kernel) else None
        for operation in self._body.ops:
            if isinstance(operation, ReturnOp):
                continue
            if operation.results and all(result in known for result in operation.results):
                continue
            printer.print_operation(operation)
        printer.values = outer
        if printer.end_label is not None:
            printer.branch(printer.end_label)
            printer.start(printer.end_label)


def _grown(printer: FunctionPrinter, value: SSAValue, base: str, growth: int, index: str) -> str:
    """A guarded value of thread start + index; it does not wrap within a run."""
    text = llvm_type(value.type)
    steps = index if text == "i32" else printer.let(f"zext i32 {index} to {text}")
    if growth != 1:
        steps = printer.let(f"mul nsw {text} {steps}, {growth}")
    return printer.let(f"add nsw {text} {base}, {steps}", local_stem(value))


def _has_effects(operation: Operation) -> bool:
    """Whether running an operation can be seen from outside the thread."""
    return any(isinstance(inner, _EFFECTS) for inner in walk(operation))


def _stores_conditionally(kernel: KernelOp, split: Operation | None, analysis: RowAnalysis) -> bool:
    """Whether a store is under a condition that differs between threads of a row."""
    looked_at: set[Operation] = set()
    for operation in walk(kernel):
        if not isinstance(operation, StoreOp | StoreVectorOp):
            continue
        parent = operation.parent_op()
        while parent is not None and parent not in looked_at:
            looked_at.add(parent)
            if (
                isinstance(parent, scf.IfOp)
                and parent is not split
                and analysis.varies(parent.cond)
            ):
                return True
            parent = parent.parent_op()
    return False


def _loop_hints(printer: FunctionPrinter, masked: bool) -> str:
    """Metadata of the loop over a row's threads.

    It is never unrolled: the remainder after vectorization is short, and unrolling doubles compile time.
    A loop with conditional stores is not vectorized if the CPU's masked stores are slow.
    """
    debug = printer.module.debug
    if debug is None:
        return ""
    hints = ['"llvm.loop.unroll.disable"']
    if masked:
        hints.append('"llvm.loop.vectorize.enable", i1 false')
    return debug.loop(*hints)


def _print_coordinate(printer: FunctionPrinter, op: CoordinateOp) -> None:
    """The loops around a thread's code have defined it."""
    printer.values[op.results[0]] = printer.coordinates[f"{op.name[5:]}.{op.dimension.data}"]


COORDINATES: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ThreadIdxOp: _print_coordinate,
    BlockIdxOp: _print_coordinate,
    BlockDimOp: _print_coordinate,
    GridDimOp: _print_coordinate,
}
