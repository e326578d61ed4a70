# SPDX-License-Identifier: Apache-2.0
"""Affine guards: `if block_idx.x * block_dim.x + thread_idx.x < n` as a range of threads.

In: the condition of an `scf.if` at the top of a kernel. Out: for a run of a row's threads, the range in which
it is true, as bounds of a loop that then needs no mask (index-set splitting).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.dialects import arith, scf
from xdsl.ir import Block

from weft.backends.cpu.lowering.affine import Checkpoint, RowAnalysis, is_pure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

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
        """How many threads form a run: all that remain, or one if a value would wrap."""
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
