# SPDX-License-Identifier: Apache-2.0
"""Structured control flow as basic blocks with phis.

In: scf.if, scf.for, scf.while. Out: branches; no value goes through memory. For a condition known while printing only
the taken side is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf, ub

from weft.codegen.llvm.types import llvm_type
from weft.dialects.flow import constant_trips, is_positive, unroll_factor
from weft.dialects.simt.kernel import ExitOp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Block, Operation, Region, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


def print_if(printer: FunctionPrinter, op: Operation) -> None:
    """`scf.if`, with or without results, with or without an else."""
    condition = printer.values[op.operands[0]]
    then_region, else_region = op.regions
    if condition in ("true", "false"):
        _print_taken(printer, op, then_region if condition == "true" else else_region)
        return
    location = op.location
    then_label, end_label = printer.new_label("then"), printer.new_label("endif")
    has_else = bool(else_region.blocks) and (
        bool(op.results)
        or else_region.block.first_op is not else_region.block.last_op
        or _leaves(printer, else_region)
    )
    else_label = printer.new_label("else") if has_else else end_label
    printer.branch_if(condition, then_label, else_label)
    arms = [_print_arm(printer, then_region, then_label, end_label)]
    if has_else:
        arms.append(_print_arm(printer, else_region, else_label, end_label))
    printer.place(location)
    printer.start(end_label)
    merged: list[str] = []
    for index, (kind, stem) in enumerate(printer.part_types(op.results)):
        incoming = [(values[index], last) for values, last in arms if last is not None]
        texts = dict.fromkeys(text for text, _ in incoming) or {"poison": None}
        merged.append(next(iter(texts)) if len(texts) == 1 else printer.phi(kind, incoming, stem))
    printer.take(op.results, merged)


def _print_taken(printer: FunctionPrinter, op: Operation, region: Region) -> None:
    """The known taken side of an `scf.if`, without a branch."""
    if not region.blocks:
        return
    printer.print_block(region.block)
    values = _yielded(printer, region.block)
    if _leaves(printer, region):
        assert printer.exit_label is not None
        printer.branch(printer.exit_label)
        printer.start(printer.new_label("left"))
    printer.take(op.results, values)


def _print_arm(
    printer: FunctionPrinter, region: Region, label: str, end_label: str
) -> tuple[list[str], str | None]:
    """Prints one side; returns its results and the label of its last basic block.

    The label is None if the thread leaves before the end.
    """
    printer.start(label)
    printer.print_block(region.block)
    values = _yielded(printer, region.block)
    if _leaves(printer, region):
        assert printer.exit_label is not None
        printer.branch(printer.exit_label)
        return values, None
    last = printer.label
    printer.branch(end_label)
    return values, last


def _leaves(printer: FunctionPrinter, region: Region) -> bool:
    """Whether a thread at the end of a region has returned and may exit at once.

    On a GPU it must not reach the point where its warp's lanes reconverge: they may wait there at a barrier that waits
    only for threads that have not exited.
    """
    if printer.exit_label is None or not region.blocks:
        return False
    last = region.block.last_op
    return last is not None and isinstance(last.prev_op, ExitOp)


def _yielded(printer: FunctionPrinter, block: Block) -> list[str]:
    last = block.last_op
    return printer.parts(last.operands) if isinstance(last, scf.YieldOp) else []


class LoopHeader:
    """The phis at a loop's head, whose second values are known only after the body."""

    __slots__ = ("entry_label", "initial", "label", "names", "place", "printer", "types")

    def __init__(
        self, printer: FunctionPrinter, arguments: Sequence[SSAValue], initial: list[str]
    ) -> None:
        self.printer = printer
        kinds = printer.part_types(arguments)
        self.types = [kind for kind, _ in kinds]
        self.initial = initial
        self.entry_label = printer.label
        self.label = printer.new_label("loop")
        self.names = [printer.fresh(stem) for _, stem in kinds]
        printer.branch(self.label)
        printer.start(self.label)
        self.place = printer.reserve()
        printer.take(arguments, self.names)

    def following(self, next_values: list[str]) -> list[str]:
        """The next values of all variables, including the header's own."""
        return next_values

    def jump(
        self, following: list[str], hint: str, condition: str = "", otherwise: str = ""
    ) -> None:
        """Ends the current block with the jump back, if given a condition, only when it holds.

        Args:
            following: values of the next iteration.
            hint: of the loop, see `DebugInfo.loop`.
            condition: an i1, or nothing.
            otherwise: the alternative label.
        """
        latch = self.printer.label
        if condition:
            self.printer.branch_if(condition, self.label, otherwise, hint)
        else:
            self.printer.branch(self.label, hint)
        self.printer.fill(
            self.place,
            [
                f"{name} = phi {kind} [ {first}, %{self.entry_label} ], [ {value}, %{latch} ]"
                for name, kind, first, value in zip(
                    self.names, self.types, self.initial, following, strict=True
                )
            ],
        )


class Trips:
    """The counter of an `scf.for`: its induction variable or, for steps other than 1, a hidden counter.

    Counting trips keeps the loop right when the last step would overflow. For loop-carried values, phis hold the
    variables of the numbers `carried`, by default all.
    """

    __slots__ = (
        "arguments",
        "body",
        "carried",
        "counted",
        "flags",
        "limit",
        "predicate",
        "printer",
        "starts",
        "step",
        "text",
    )

    def __init__(
        self,
        printer: FunctionPrinter,
        op: scf.ForOp,
        carried: Sequence[int] | None = None,
        *,
        counted: bool = False,
    ) -> None:
        lower, upper, step, *initial = op.operands
        self.printer = printer
        self.body = op.regions[0].block
        self.carried = range(len(initial)) if carried is None else carried
        self.arguments = [self.body.args[0], *(self.body.args[1 + n] for n in self.carried)]
        self.text = llvm_type(self.body.args[0].type)
        first, last, self.step = (printer.values[bound] for bound in (lower, upper, step))
        self.starts = [first, *printer.parts(initial[number] for number in self.carried)]
        self.counted = counted or self.step != "1"
        self.predicate = "ult" if self.counted else "slt"
        self.limit = last
        self.flags = "" if self.step != "1" else " nsw"
        if self.counted:
            self.limit = _trip_count(printer, self.text, first, last, self.step)
        is_gpu = bool(printer.module.target.coordinates)
        if is_gpu and self.step.startswith("%") and is_positive(step):
            # The sum after the last iteration may overflow, and is not read. A multiplication that wrapped may be
            # negative.
            self.flags = " nsw"
            callee = printer.module.intrinsic("llvm.smax", f".{self.text}")
            self.step = printer.let(
                f"call {self.text} {callee}({self.text} {self.step}, {self.text} 0)"
            )

    def header(self, starts: list[str], counter: str = "0") -> LoopHeader:
        """A loop's head, whose variables begin with `starts`, and the hidden counter with `counter`."""
        if self.counted:
            return _CountedHeader(self.printer, self.text, self.arguments, starts, counter)
        return LoopHeader(self.printer, self.arguments, starts)

    def counter(self, header: LoopHeader) -> str:
        """The value compared with the limit."""
        if isinstance(header, _CountedHeader):
            return header.counter
        return self.printer.values[self.body.args[0]]

    def enter(self, header: LoopHeader) -> str:
        """Continues if the counter is below the limit; returns the label after the loop."""
        printer = self.printer
        body_label, end_label = printer.new_label("body"), printer.new_label("endloop")
        counter = self.counter(header)
        condition = printer.let(f"icmp {self.predicate} {self.text} {counter}, {self.limit}")
        printer.branch_if(condition, body_label, end_label)
        printer.start(body_label)
        return end_label

    def next_values(self) -> list[str]:
        """The variables of the next iteration."""
        induction = self.printer.values[self.body.args[0]]
        following = self.printer.let(f"add{self.flags} {self.text} {induction}, {self.step}")
        last = self.body.last_op
        yielded = last.operands if isinstance(last, scf.YieldOp) else ()
        return [following, *self.printer.parts(yielded[number] for number in self.carried)]


def print_for(
    printer: FunctionPrinter,
    op: scf.ForOp,
    before_jump: Callable[[FunctionPrinter], None] | None = None,
    factor: int | None = None,
) -> None:
    """`scf.for`: signed, with a positive step, exact up to the largest integer.

    Args:
        printer: of the function.
        op: the loop.
        before_jump: prints a target's code before each further iteration.
        factor: how often to unroll it if the program does not say; None leaves it to LLVM.
    """
    location = op.location
    trips = Trips(printer, op)
    header = trips.header(trips.starts)
    end_label = trips.enter(header)
    printer.print_block(trips.body)
    printer.place(location)
    following = header.following(trips.next_values())
    if before_jump is not None:
        before_jump(printer)
    header.jump(following, _unrolling(printer, op, header, factor))
    printer.start(end_label)
    printer.take(op.results, printer.parts(trips.body.args[1:]))


def print_for_by_factors(
    printer: FunctionPrinter, op: scf.ForOp, unroll_factors: Sequence[int]
) -> None:
    """`scf.for` as one loop after the other, each of as many of the iterations that are left as its factor divides.

    Args:
        printer: of the function.
        op: the loop, in which threads do not meet.
        unroll_factors: how often each is unrolled; powers of two, the last of which leaves iterations that LLVM runs
        one by one.
    """
    location = op.location
    trips = Trips(printer, op, counted=True)
    limit, starts, counter = trips.limit, trips.starts, "0"
    for factor in unroll_factors:
        is_last = factor == unroll_factors[-1]
        trips.limit = limit if is_last else printer.let(f"and {trips.text} {limit}, {-factor}")
        header = trips.header(starts, counter)
        end_label = trips.enter(header)
        printer.print_block(trips.body)
        printer.place(location)
        following = header.following(trips.next_values())
        header.jump(following, _unrolling(printer, op, header, factor))
        printer.start(end_label)
        *starts, counter = header.names
        printer.take(trips.body.args, starts)
    printer.take(op.results, starts[1:])


def _unrolling(
    printer: FunctionPrinter, op: Operation, header: LoopHeader, otherwise: int | None = None
) -> str:
    """The hint that unrolls a loop as the program says, or otherwise by the given factor; one does not unroll it."""
    factor, debug = unroll_factor(op) or otherwise, printer.module.debug
    if factor is None or debug is None:
        return ""
    if factor == 1:
        return debug.loop('"llvm.loop.unroll.disable"')
    # LLVM warns of hints that it cannot follow: threads that meet there must not do so in a loop for the rest too.
    trips = constant_trips(op)
    if (trips is None or trips % factor) and printer.is_convergent_since(header.place):
        return ""
    return debug.loop(f'"llvm.loop.unroll.count", i32 {factor}')


def print_for_in_strips(
    printer: FunctionPrinter,
    op: scf.ForOp,
    most: int,
    after_strip: Callable[[FunctionPrinter, str, str], None],
    before_next: Callable[[FunctionPrinter], None],
) -> None:
    """`scf.for` as a loop over strips of iterations, each a plain loop that LLVM may vectorize.

    Args:
        printer: of the function.
        op: the loop.
        most: iterations of a strip.
        after_strip: prints code after each strip, given the type and number of its iterations.
        before_next: prints code before each further strip.
    """
    location = op.location
    trips = Trips(printer, op)
    text = trips.text
    first = "0" if trips.counted else trips.starts[0]
    some = printer.let(f"icmp {trips.predicate} {text} {first}, {trips.limit}")
    begin_label, end_label = printer.new_label("begin"), printer.new_label("endloop")
    entry_label = printer.label
    printer.branch_if(some, begin_label, end_label)
    printer.start(begin_label)
    strips = trips.header(trips.starts)
    first = trips.counter(strips)
    # The rest is positive, as an unsigned number.
    rest = printer.let(f"sub {text} {trips.limit}, {first}", "rest")
    is_last = printer.let(f"icmp ule {text} {rest}, {most}", "last")
    count = printer.let(f"select i1 {is_last}, {text} {rest}, {text} {most}", "count")
    flags = "nuw" if trips.counted else "nsw"
    limit = printer.let(f"add {flags} {text} {first}, {count}", "strip")
    header = trips.header(printer.parts(trips.body.args), first)
    printer.print_block(trips.body)
    printer.place(location)
    following = header.following(trips.next_values())
    reached = following[-1] if trips.counted else following[0]
    after_label = printer.new_label("after")
    more = printer.let(f"icmp {trips.predicate} {text} {reached}, {limit}")
    header.jump(following, _unrolling(printer, op, header), more, after_label)
    printer.start(after_label)
    after_strip(printer, text, count)
    last_label, next_label = printer.label, printer.new_label("next")
    printer.branch_if(is_last, end_label, next_label)
    printer.start(next_label)
    before_next(printer)
    strips.jump(following, "")
    printer.start(end_label)
    ends = zip(printer.part_types(op.results), trips.starts[1:], following[1:], strict=False)
    merged = [
        printer.phi(kind, [(start, entry_label), (value, last_label)], stem)
        for (kind, stem), start, value in ends
    ]
    printer.take(op.results, merged)


class _CountedHeader(LoopHeader):
    """A loop header with a hidden counter of trips from 0 up."""

    __slots__ = ("counter", "counter_type")

    def __init__(
        self,
        printer: FunctionPrinter,
        counter_type: str,
        arguments: Sequence[SSAValue],
        initial: list[str],
        first: str,
    ) -> None:
        super().__init__(printer, arguments, initial)
        self.counter = printer.fresh("trip")
        self.counter_type = counter_type
        self.names.append(self.counter)
        self.types.append(counter_type)
        self.initial.append(first)

    def following(self, next_values: list[str]) -> list[str]:
        """As for any loop, plus the counter's step."""
        counter = self.printer.let(f"add nuw {self.counter_type} {self.counter}, 1")
        return [*next_values, counter]


def _trip_count(printer: FunctionPrinter, text: str, lower: str, upper: str, step: str) -> str:
    """Trips of a loop, as an unsigned integer."""
    runs = printer.let(f"icmp slt {text} {lower}, {upper}")
    distance = printer.let(f"sub {text} {upper}, {lower}")
    last = printer.let(f"sub {text} {distance}, 1")
    # A step of zero raises in Python; here the loop runs once instead of trapping.
    safe = step
    if step.startswith("%"):
        is_zero = printer.let(f"icmp eq {text} {step}, 0")
        safe = printer.let(f"select i1 {is_zero}, {text} -1, {text} {step}")
    whole = printer.let(f"udiv {text} {last}, {safe}")
    count = printer.let(f"add {text} {whole}, 1")
    return printer.let(f"select i1 {runs}, {text} {count}, {text} 0", "trips")


def print_while(
    printer: FunctionPrinter,
    op: Operation,
    before_jump: Callable[[FunctionPrinter], None] | None = None,
) -> None:
    """`scf.while`: the first region computes the condition, the second is the body.

    Args:
        printer: of the function.
        op: the loop.
        before_jump: prints a target's code before each further iteration.
    """
    before, after = (region.block for region in op.regions)
    location = op.location
    header = LoopHeader(printer, before.args, printer.parts(op.operands))
    printer.print_block(before)
    condition, *passed = list(before.last_op.operands if before.last_op else ())
    values = printer.parts(passed)
    body_label, end_label = printer.new_label("body"), printer.new_label("endloop")
    printer.branch_if(printer.values[condition], body_label, end_label)
    printer.start(body_label)
    printer.take(after.args, values)
    printer.print_block(after)
    following = _yielded(printer, after)
    printer.place(location)
    if before_jump is not None:
        before_jump(printer)
    header.jump(following, _unrolling(printer, op, header))
    printer.start(end_label)
    printer.take(op.results, values)


def _print_poison(printer: FunctionPrinter, op: ub.PoisonOp) -> None:
    """`ub.poison`: a value that is never read."""
    printer.take(op.results, ["poison" for _ in printer.part_types(op.results)])


def print_nothing(printer: FunctionPrinter, op: Operation) -> None:
    """An operation that the enclosing one handles."""


CONTROL_FLOW: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ub.PoisonOp: _print_poison,
    scf.IfOp: print_if,
    scf.ForOp: print_for,
    scf.WhileOp: print_while,
    scf.YieldOp: print_nothing,
    scf.ConditionOp: print_nothing,
    ExitOp: print_nothing,
}
