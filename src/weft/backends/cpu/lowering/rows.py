# SPDX-License-Identifier: Apache-2.0
"""A row of threads as loops: one, or several if an affine guard splits it.

In: operations that threads of a row run one after the other, without waiting. Out: loops over the threads that LLVM may
vectorize, and in each of them the guard's condition is known: `if block_idx.x * block_dim.x + thread_idx.x < n` is a
range of threads, as bounds of a loop that then needs no mask (index-set splitting).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from xdsl.dialects import arith, scf
from xdsl.ir import Block

from weft.backends.cpu.lowering.affine import Checkpoint, RowAnalysis, is_pure
from weft.codegen.llvm.types import llvm_type, local_stem
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
    from collections.abc import Generator, Iterable, Sequence

    from xdsl.ir import Operation, SSAValue

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
        limits = [
            text if text == "0" else printer.let(f"trunc i64 {text} to i32")
            for text in (low, high, size)
        ]
        ranges = [
            ("0", limits[0], False),
            (limits[0], limits[1], True),
            (limits[1], limits[2], False),
        ]
        for first, last, inside in ranges:
            if first != last:
                self._print_range(guard, start, (first, last), inside, exact)
        following = printer.let(f"add nuw nsw i32 {start}, {limits[2]}")
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


_PREDICATES: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_SWAPPED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_NEGATED: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


class AffineTerm(NamedTuple):
    """`value <relation> bound`, where the value grows along the row and the bound is uniform."""

    value: SSAValue
    relation: str
    bound: SSAValue
    growth: int
    signed: bool
    checkpoints: list[Checkpoint]


class UniformTerm(NamedTuple):
    """A condition that is the same for the whole row."""

    condition: SSAValue
    negated: bool


Term = AffineTerm | UniformTerm


class Guard(NamedTuple):
    """A condition that holds for one range of a row's threads, or fails for one range.

    Attributes:
        operation: the `scf.if`.
        terms: their conjunction is the condition, or its negation.
        negated: the terms describe where the condition is false.
    """

    operation: scf.IfOp
    terms: list[Term]
    negated: bool


def find_guard(operations: Iterable[Operation], analysis: RowAnalysis) -> Guard | None:
    """The first `scf.if` among a thread's operations, if threads can be split by it."""
    for operation in operations:
        if not isinstance(operation, scf.IfOp):
            continue
        if not analysis.varies(operation.cond):
            return None  # LLVM hoists a uniform condition out of the loop.
        for negated in (False, True):
            terms = _conjunction(operation.cond, negated, analysis)
            if terms is not None:
                return Guard(operation, terms, negated)
        return None
    return None


def _conjunction(condition: SSAValue, negated: bool, analysis: RowAnalysis) -> list[Term] | None:
    """Terms whose conjunction is the condition (or its negation); None if it has no such form."""
    if not analysis.varies(condition):
        return [UniformTerm(condition, negated)]
    owner = condition.owner
    if isinstance(owner, arith.CmpiOp):
        term = _affine_term(owner, negated, analysis)
        return None if term is None else [term]
    joined = arith.OrIOp if negated else arith.AndIOp
    if isinstance(owner, joined):
        parts = [_conjunction(operand, negated, analysis) for operand in owner.operands]
    elif isinstance(owner, scf.IfOp):
        parts = _short_circuit(owner, negated, analysis)
    else:
        return None
    terms: list[Term] = []
    for part in parts:
        if part is None:
            return None
        terms += part
    return terms


def _short_circuit(
    operation: scf.IfOp, negated: bool, analysis: RowAnalysis
) -> list[list[Term] | None]:
    """`a and b` as `if a {b} else {false}`; negated, `a or b` as `if a {true} else {b}`."""
    then_block, else_block = (region.block for region in operation.regions if region.blocks)
    if len(operation.results) != 1:
        return [None]
    constant_side, other_side = (then_block, else_block) if negated else (else_block, then_block)
    constant = _yielded(constant_side)
    other = _yielded(other_side)
    if not all(is_pure(inner) for inner in other_side.ops if inner is not other_side.last_op):
        return [None]
    if not isinstance(constant.owner, arith.ConstantOp):
        return [None]
    if bool(constant.owner.value.value.data) != negated:  # pyright: ignore
        return [None]
    return [
        _conjunction(operation.cond, negated, analysis),
        _conjunction(other, negated, analysis),
    ]


def _yielded(block: Block) -> SSAValue:
    last = block.last_op
    assert last is not None
    return last.operands[0]


def _affine_term(
    comparison: arith.CmpiOp, negated: bool, analysis: RowAnalysis
) -> AffineTerm | None:
    name = _PREDICATES[comparison.predicate.value.data]
    relation, signed = (name, True) if name in ("eq", "ne") else (name[1:], name[0] == "s")
    value, bound = comparison.lhs, comparison.rhs
    if not analysis.varies(value):
        value, bound = bound, value
        relation = _SWAPPED.get(relation, relation)
    if analysis.varies(bound):
        return None
    if relation in ("eq", "ne"):
        if (relation == "eq") == negated:
            return None
        relation = "eq"
    elif negated:
        relation = _NEGATED[relation]
    checkpoints: list[Checkpoint] = []
    growth = analysis.growth(value, checkpoints)
    width = value.type.width.data  # pyright: ignore
    if growth is None or growth <= 0 or (relation == "eq" and growth != 1):
        return None
    if width not in (32, 64) or (width == 64 and not signed):
        return None
    checkpoints.append(Checkpoint(value, growth, signed))
    return AffineTerm(value, relation, bound, growth, signed, checkpoints)


class GuardPrinter:
    """Prints a guard's bounds for a run of threads.

    Args:
        printer: of the kernel.
        rest: name of the number of threads from the run's first one to the end of the row, i64.
        indices: the first thread's, which grow by one from thread to thread.
    """

    def __init__(self, printer: FunctionPrinter, rest: str, indices: dict[SSAValue, str]) -> None:
        self._printer = printer
        self._rest = rest
        # Values at the first thread; those of the kernel's arguments are shared.
        self._values = {**printer.values, **indices}

    def base(self, value: SSAValue) -> str:
        """A value at thread `start`."""
        self._compute(value)
        return self._values[value]

    def _compute(self, value: SSAValue) -> None:
        if value not in self._values and value not in self._printer.tensors:
            owner = value.owner
            assert not isinstance(owner, Block)
            self._print(owner)

    def _print(self, operation: Operation) -> None:
        for operand in operation.operands:
            self._compute(operand)
        outer, self._printer.values = self._printer.values, self._values
        try:
            self._printer.print_operation(operation)
        finally:
            self._printer.values = outer

    def size_of_run(self, terms: list[Term]) -> str:
        """Number of threads of a run: all that remain, or one if a value would wrap."""
        printer = self._printer
        safe = ""
        for term in terms:
            for checkpoint in term.checkpoints if isinstance(term, AffineTerm) else ():
                fits = self._fits(checkpoint)
                safe = printer.let(f"and i1 {safe}, {fits}") if safe else fits
        if not safe:
            return self._rest
        return printer.let(f"select i1 {safe}, i64 {self._rest}, i64 1", "run")

    def _fits(self, checkpoint: Checkpoint) -> str:
        """Whether the value of the row's last thread does not wrap."""
        printer = self._printer
        base = self.base(checkpoint.value)
        steps = printer.let(f"sub nsw i64 {self._rest}, 1")
        distance = printer.let(f"mul nsw i64 {steps}, {checkpoint.growth}")
        width = checkpoint.value.type.width.data  # pyright: ignore
        if width == 64:
            callee = printer.module.intrinsic("llvm.sadd.with.overflow", ".i64")
            pair = printer.let(f"call {{ i64, i1 }} {callee}(i64 {base}, i64 {distance})")
            overflows = printer.let(f"extractvalue {{ i64, i1 }} {pair}, 1")
            return printer.let(f"xor i1 {overflows}, true")
        extend = "sext" if checkpoint.signed else "zext"
        wide = printer.let(f"{extend} i{width} {base} to i64")
        last = printer.let(f"add i64 {wide}, {distance}")
        cut = printer.let(f"trunc i64 {last} to i{width}")
        back = printer.let(f"{extend} i{width} {cut} to i64")
        return printer.let(f"icmp eq i64 {back}, {last}")

    def range_of(self, terms: list[Term], size: str) -> tuple[str, str]:
        """The threads [low, high), counted from the first, for which all terms hold; i64."""
        low, high = "0", size
        for term in terms:
            if isinstance(term, UniformTerm):
                condition = self.base(term.condition)
                both = (size, "0") if term.negated else ("0", size)
                picked = self._printer.let(f"select i1 {condition}, i64 {both[1]}, i64 {both[0]}")
                high = self._pick("smin", high, picked)
                continue
            first, last = self._range_of_term(term, size)
            low = first if low == "0" else self._pick("smax", low, first) if first != "0" else low
            high = last if high == size else self._pick("smin", high, last)
        # An empty range ends where it begins, and begins inside the run.
        return low, high if low == "0" else self._pick("smax", low, high)

    def _range_of_term(self, term: AffineTerm, size: str) -> tuple[str, str]:
        printer = self._printer
        distance = self._distance(term)
        if term.relation == "eq":
            following = printer.let(f"add i64 {distance}, 1")
            return self._clamped(distance, size), self._clamped(following, size)
        # Threads before the first that reaches the bound (lt, ge), or passes it (le, gt).
        reach = term.growth - 1 if term.relation in ("lt", "ge") else term.growth
        count = distance
        if reach:
            count = printer.let(f"add i64 {count}, {reach}")
        if term.growth > 1:
            count = printer.let(f"sdiv i64 {count}, {term.growth}")
        count = self._clamped(count, size)
        return ("0", count) if term.relation in ("lt", "le") else (count, size)

    def _distance(self, term: AffineTerm) -> str:
        """The bound minus the first thread's value, in 64 bits, saturated."""
        printer = self._printer
        base, bound = self.base(term.value), self.base(term.bound)
        width = term.value.type.width.data  # pyright: ignore
        if width == 64:
            saturated = printer.intrinsic("llvm.ssub.sat", "i64", bound, base)
            return printer.intrinsic("llvm.smin", "i64", saturated, str(1 << 62))
        extend = "sext" if term.signed else "zext"
        texts = [
            text if not text.startswith("%") and term.signed
            else printer.let(f"{extend} i{width} {text} to i64")
            for text in (bound, base)
        ]  # fmt: skip
        return printer.let(f"sub i64 {texts[0]}, {texts[1]}")

    def _clamped(self, count: str, size: str) -> str:
        return self._pick("smin", self._pick("smax", count, "0"), size)

    def _pick(self, intrinsic: str, a: str, b: str) -> str:
        return self._printer.intrinsic(f"llvm.{intrinsic}", "i64", a, b)
