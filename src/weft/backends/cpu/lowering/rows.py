# SPDX-License-Identifier: Apache-2.0
"""A row of threads as loops: one, or several if an affine guard splits it.

In: operations that threads of a row run one after the other, without waiting. Out: loops over the threads that LLVM may
vectorize, in each of which the guard's condition is known.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from xdsl.dialects import scf

from weft.backends.cpu.lowering.guard import AffineTerm, GuardPrinter, find_guard
from weft.codegen.llvm.names import local_stem
from weft.codegen.llvm.types import llvm_type
from weft.dialects.access import element_access
from weft.dialects.flow import walk
from weft.dialects.nvgpu.async_copy import WatchBoxOp
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
from weft.dialects.simt.memory import StoreOp, StoreVectorOp
from weft.dialects.simt.profiling import RecordOp

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.backends.cpu.lowering.affine import RowAnalysis
    from weft.backends.cpu.lowering.guard import Guard
    from weft.codegen.llvm.function_printer import FunctionPrinter

_EFFECTS: Final = (
    *(
        PrintfOp,
        AssertOp,
        AssumeOp,
        RecordOp,
        CheckOp,
        WatchOp,
        WatchCopyOp,
        WatchBoxOp,
        WatchEventOp,
    ),
    EventOp,
)


class Row(Protocol):
    """The threads of one row, and what each of them runs.

    Attributes:
        operations: of a thread, in order.
        analysis: of values along the row.
        size: how many threads the row has, an i32.
        masks_stores: the CPU has fast masked stores, so a loop with conditional stores is worth vectorizing.
        keeps: a thread's values are read after these operations.
    """

    operations: Sequence[Operation]
    analysis: RowAnalysis
    size: str
    masks_stores: bool
    keeps: bool

    def indices(self, start: str) -> dict[SSAValue, str]:
        """The values that count the row's threads, for thread number `start`."""
        ...

    def print_thread(self, number: str, known: dict[SSAValue, str]) -> None:
        """Prints one thread's code; operations whose results are known need not be printed."""
        ...


@contextmanager
def counted(printer: FunctionPrinter, size: str, letter: str) -> Generator[None]:
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


class RowPrinter:
    """Prints the threads of one row, split by the operations' first guard."""

    def __init__(self, printer: FunctionPrinter, row: Row, splits: bool = True) -> None:
        self._printer = printer
        self._row = row
        self._guard = find_guard(row.operations, row.analysis) if splits else None
        split = self._guard.operation if self._guard else None
        masked = not row.masks_stores and _stores_conditionally(row, split)
        self._hints = _loop_hints(printer, masked)

    def print_row(self) -> None:
        """Prints the loops over the row's threads."""
        if self._guard is not None:
            self._print_runs(self._guard)
            return
        with counted_loop(self._printer, "0", self._row.size, "thread", self._hints) as number:
            self._row.print_thread(number, {})

    def _print_runs(self, guard: Guard) -> None:
        """Runs of threads in which no guarded value wraps: nearly always one run, the whole row."""
        printer = self._printer
        head, end = printer.new_label("run"), printer.new_label("row")
        threads = printer.let(f"zext i32 {self._row.size} to i64")
        entry = printer.label
        printer.branch(head)
        printer.start(head)
        place, start = printer.reserve(), printer.fresh("start")
        start_wide = printer.let(f"zext i32 {start} to i64")
        rest = printer.let(f"sub nuw nsw i64 {threads}, {start_wide}")
        bounds = GuardPrinter(printer, rest, self._row.indices(start))
        size = bounds.size_of_run(guard.terms)
        low, high = bounds.range_of(guard.terms, size)
        exact = {
            term.value: (bounds.base(term.value), term.growth)
            for term in guard.terms
            if isinstance(term, AffineTerm) and self._is_at_top(term.value)
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
        more = printer.let(f"icmp slt i32 {following}, {self._row.size}")
        latch = printer.label
        printer.branch_if(more, head, end)
        printer.fill(place, [f"{start} = phi i32 [ 0, %{entry} ], [ {following}, %{latch} ]"])
        printer.start(end)

    def _is_at_top(self, value: SSAValue) -> bool:
        """Whether a guarded value is one of the row's operations itself."""
        return value.owner in self._row.operations

    def _has_work(self, guard: Guard, inside: bool) -> bool:
        """Whether threads do anything where the terms hold (inside) or do not."""
        condition = inside != guard.negated
        region = guard.operation.regions[0 if condition else 1]
        if self._row.keeps or (region.blocks and any(map(_has_effects, region.block.ops))):
            return True
        return any(_has_effects(op) for op in self._row.operations if op is not guard.operation)

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
        with counted_loop(printer, *bounds, "thread", self._hints) as index:
            thread = printer.let(f"add nuw nsw i32 {start}, {index}", "thread_idx_x")
            known = {
                guard.operation.cond: "true" if inside != guard.negated else "false",
                **{
                    value: _grown(printer, value, base, growth, index)
                    for value, (base, growth) in exact.items()
                },
            }
            self._row.print_thread(thread, known)


def _grown(printer: FunctionPrinter, value: SSAValue, base: str, growth: int, index: str) -> str:
    """A guarded value of thread start + index; it does not wrap within a run."""
    text = llvm_type(value.type)
    steps = index if text == "i32" else printer.let(f"zext i32 {index} to {text}")
    if growth != 1:
        steps = printer.let(f"mul nsw {text} {steps}, {growth}")
    return printer.let(f"add nsw {text} {base}, {steps}", local_stem(value))


def _has_effects(operation: Operation) -> bool:
    """Whether running an operation can be seen from outside the thread."""
    return any(isinstance(inner, _EFFECTS) or _writes(inner) for inner in walk(operation))


def _stores_conditionally(row: Row, split: Operation | None) -> bool:
    """Whether a store is under a condition that differs between threads of a row."""
    looked_at: set[Operation] = set()
    for operation in (inner for op in row.operations for inner in walk(op)):
        if not isinstance(operation, StoreOp | StoreVectorOp):
            continue
        parent = operation.parent_op()
        while parent is not None and parent not in looked_at:
            looked_at.add(parent)
            if (
                isinstance(parent, scf.IfOp)
                and parent is not split
                and row.analysis.varies(parent.cond)
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


def _writes(operation: Operation) -> bool:
    access = element_access(operation)
    return access is not None and access.kind != "read"
