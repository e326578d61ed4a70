# SPDX-License-Identifier: Apache-2.0
"""Control flow that all threads of a block or warp take together, around loops over those threads.

In: regions of a kernel without obstacles. Out: branches and loops that the block (or each warp) runs once, with loops
over threads between the operations at which threads wait for each other. Values that follow each other, as those that
branches yield and loops carry, have one place; where that is not possible, each thread copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import scf, ub
from xdsl.ir import Block

from weft.backends.cpu.lowering.affine import Group, enclosing, is_pure
from weft.backends.cpu.lowering.check import print_rendezvous
from weft.backends.cpu.lowering.fission import AROUND, deciding, leaving_arm
from weft.backends.cpu.lowering.loops import print_cancellation_check, print_work
from weft.backends.cpu.lowering.rows import counted_loop
from weft.backends.cpu.lowering.split_threads import Tail, ThreadsPrinter, needed_values
from weft.backends.cpu.lowering.warp_vectors import collective_tail, print_collective
from weft.codegen.operations.control_flow import LoopHeader, Trips
from weft.dialects.flow import end_of, walk
from weft.dialects.simt.kernel import ExitOp, ReturnOp
from weft.dialects.simt.memory import DynamicSharedOp, SharedOp
from weft.dialects.simt.threads import BarrierOp, BarrierReduceOp, CoordinateOp, WarpIdOp
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.backends.cpu.lowering.fission import Waits
    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp


_ENDS: Final = (scf.YieldOp, scf.ConditionOp, ReturnOp, ExitOp)
_DECLARATIONS: Final = (CoordinateOp, SharedOp, DynamicSharedOp, ub.PoisonOp, WarpIdOp)


class RegionPrinter:
    """Prints a kernel's regions for a group: the block, or within a loop over warps one warp."""

    def __init__(
        self, printer: FunctionPrinter, kernel: KernelOp, waits: Waits, masks_stores: bool
    ) -> None:
        self._printer = printer
        self._kernel = kernel
        self._waits = waits
        self._threads = ThreadsPrinter(printer, kernel, masks_stores)
        self._sharing = self._threads.sharing
        self.slots = self._threads.slots
        self._places = Places(printer, self._threads, self._splits)
        self._any = ""
        if any(self._is_leaving(operation) for operation in walk(kernel)):
            self._print_living()

    def print_region(
        self, operations: Iterable[Operation], group: Group, tail: Tail | None = None
    ) -> None:
        """Prints operations that all threads of a group come to.

        Args:
            operations: of one block, in order.
            group: the block, or the running warp.
            tail: what each thread does after them.
        """
        pending: list[Operation] = []
        for operation in operations:
            if isinstance(operation, _ENDS):
                continue
            if self._is_shared(operation, group):
                self._print_shared(operation, group)
            elif self._splits(operation, group):
                before = self._before(operation, group)
                self._print_pending(pending, group, before)
                pending = []
                self._meet(operation, group)
                self._export(operation.results, operation, group)
            else:
                pending.append(operation)
        self._print_pending(pending, group, tail)

    # ---- which operations

    def _is_shared(self, operation: Operation, group: Group) -> bool:
        """Whether the group computes an operation once: it has no effect, and all threads the same results."""
        results = operation.results
        if not results or any(self._sharing.of(result) > group for result in results):
            return False
        if not operation.regions:
            return is_pure(operation) or isinstance(operation, _DECLARATIONS)
        return all(
            (is_pure(inner) or inner.regions or isinstance(inner, _ENDS))
            and all(self._sharing.of(operand) <= group for operand in inner.operands)
            for inner in walk(operation)
        )

    def _splits(self, operation: Operation, group: Group) -> bool:
        """Whether the group comes to an operation together: to wait, or for a value that all of it will have."""
        if self._waits.of(operation, group) or self._goes_around(operation, group):
            return True
        return bool(operation.regions) and any(
            self._sharing.of(result) <= group and result.uses for result in operation.results
        )

    def _goes_around(self, operation: Operation, group: Group) -> bool:
        """Whether it is a loop whose iterations the group runs together, each for all its threads."""
        return AROUND in operation.attributes and all(
            self._sharing.of(value) <= group for value in deciding(operation)
        )

    def _is_leaving(self, operation: Operation) -> bool:
        """Whether it is a branch in which some threads of the block return, while the others wait."""
        return (
            leaving_arm(operation) is not None
            and self._waits.of(operation, Group.BLOCK)
            and self._sharing.of(deciding(operation)[0]) is not Group.BLOCK
        )

    # ---- straight code

    def _print_shared(self, operation: Operation, group: Group) -> None:
        for value in needed_values([operation]):
            self._threads.take(value)
        if not all(map(self._threads.has, operation.results)):
            self._printer.print_operation(operation)
        self._export(operation.results, operation, group)

    def _export(self, values: Sequence[SSAValue], user: Operation, group: Group) -> None:
        """Keeps warp-uniform values for code outside the loop over warps."""
        if group is not Group.WARP:
            return
        for value in values:
            if self._sharing.of(value) is not Group.WARP or self._threads.computes_again(value):
                continue
            if value in self.slots or self._threads.group_of_slot([value], group) is Group.WARP:
                continue
            self.slots.make(value, Group.BLOCK)
            self._print_pending([], group, self._places.copies([(value, value)], user))

    def _print_pending(self, pending: Sequence[Operation], group: Group, tail: Tail | None) -> None:
        if group is Group.BLOCK and any(self._waits.of(op, Group.WARP) for op in pending):
            self._print_warps(pending, tail)
        elif pending or tail is not None:
            self._threads.print_threads(pending, group, tail)

    def _print_warps(self, operations: Sequence[Operation], tail: Tail | None) -> None:
        """A loop over the block's warps; each runs the operations."""
        printer, threads = self._printer, self._threads
        count = threads.count()
        is_whole = not count.startswith("%") and int(count) % WARP_SIZE == 0
        more = printer.let(f"add nuw nsw i32 {count}, {WARP_SIZE - 1}")
        warps = printer.let(f"udiv i32 {more}, {WARP_SIZE}", "warps")
        with counted_loop(printer, "0", warps, "warp") as warp, threads.scope():
            of = printer.coordinates
            of["warp_id"] = warp
            of["first"] = printer.let(f"mul nuw nsw i32 {warp}, {WARP_SIZE}", "first")
            of["lanes"] = str(WARP_SIZE)
            if not is_whole:
                rest = printer.let(f"sub nuw nsw i32 {count}, {of['first']}")
                of["lanes"] = printer.intrinsic("llvm.umin", "i32", rest, str(WARP_SIZE))
            threads.place_lane("0")
            skip = self._skip_returned_warp()
            threads.warp = frozenset(operations)
            self.print_region(operations, Group.WARP, tail)
            threads.warp = frozenset()
            if skip:
                printer.branch(skip)
                printer.start(skip)

    def _skip_returned_warp(self) -> str:
        living = self._threads.living
        return "" if living is None else self._threads.skip_unless_living(living)

    # ---- where threads wait

    def _before(self, operation: Operation, group: Group) -> Tail | None:
        """Runs each thread up to an operation of the group."""
        if isinstance(operation, scf.ForOp):
            return self._places.enter(
                operation.body.block.args[1:], operation.iter_args, operation, group
            )
        if isinstance(operation, scf.WhileOp):
            before = operation.before_region.block
            return self._places.enter(before.args, operation.operands, operation, group)
        if isinstance(operation, BarrierReduceOp):
            return self._count(operation)
        if isinstance(operation, scf.IfOp):
            return self._leave(operation) if self._is_leaving(operation) else None
        return collective_tail(self._threads, operation)

    def _meet(self, operation: Operation, group: Group) -> None:
        if isinstance(operation, scf.IfOp):
            if self._is_leaving(operation):
                self._print_stayed(operation, group)
            else:
                self._print_if(operation, group)
        elif isinstance(operation, scf.ForOp):
            self._print_for(operation, group)
        elif isinstance(operation, scf.WhileOp):
            self._print_while(operation, group)
        elif isinstance(operation, BarrierReduceOp | BarrierOp):
            print_rendezvous(self._printer, self._kernel, self._threads.count())
            if isinstance(operation, BarrierReduceOp):
                self._print_count(operation)
        else:
            print_collective(self._threads, operation)

    def _count(self, operation: BarrierReduceOp) -> Tail:
        """Counts the threads whose predicate is true, or for `and` false."""
        printer, predicate = self._printer, operation.predicate
        self._any = printer.alloca("i32", 4, "count")
        printer.line(f"store i32 0, ptr {self._any}, align 4")

        def run() -> None:
            text = printer.values[predicate]
            if operation.kind.data == "and":
                text = printer.let(f"xor i1 {text}, true")
            one = printer.let(f"zext i1 {text} to i32")
            count = printer.let(f"load i32, ptr {self._any}, align 4")
            printer.line(
                f"store i32 {printer.let(f'add i32 {count}, {one}')}, ptr {self._any}, align 4"
            )

        return Tail([predicate], operation, run)

    def _print_count(self, operation: BarrierReduceOp) -> None:
        printer, result = self._printer, operation.result
        count = printer.let(f"load i32, ptr {self._any}, align 4", "count")
        if operation.kind.data == "count":
            printer.values[result] = count
        else:
            test = "eq" if operation.kind.data == "and" else "ne"
            printer.define(result, f"icmp {test} i32 {count}, 0")

    # ---- threads that return

    def _print_living(self) -> None:
        """No thread has returned."""
        printer, threads = self._printer, self._threads
        living = self.slots.array("i8", Group.BLOCK)

        def run() -> None:
            printer.line(f"store i8 1, ptr {living.place(printer)}")

        threads.print_threads([], Group.BLOCK, Tail([], self._kernel, run))
        threads.living = living

    def _leave(self, operation: scf.IfOp) -> Tail:
        """Runs the arm of the threads that return, and notes them."""
        printer, living = self._printer, self._threads.living
        number = leaving_arm(operation)
        assert living is not None and number is not None
        arm = operation.regions[number].block
        some = self._any = printer.alloca("i32", 4, "some")
        printer.line(f"store i32 0, ptr {some}, align 4")

        def run() -> None:
            labels = [printer.new_label(stem) for stem in ("returns", "stays", "noted")]
            returns, stays, noted = labels
            condition = printer.values[operation.cond]
            printer.branch_if(condition, *((returns, stays) if number == 0 else (stays, returns)))
            printer.start(returns)
            printer.print_block(arm)
            printer.place(None)
            printer.line(f"store i8 0, ptr {living.place(printer)}")
            printer.branch(noted)
            printer.start(stays)
            printer.line(f"store i32 1, ptr {some}, align 4")
            printer.branch(noted)
            printer.start(noted)

        return Tail([operation.cond, *needed_values(list(arm.ops))], operation, run)

    def _print_stayed(self, operation: scf.IfOp, group: Group) -> None:
        """The arm of the threads that have not returned; without any, the block has ended."""
        printer = self._printer
        some = printer.let(f"load i32, ptr {self._any}, align 4")
        stays = printer.new_label("stays")
        printer.branch_if(printer.let(f"icmp ne i32 {some}, 0"), stays, "exited")
        printer.start(stays)
        number = leaving_arm(operation)
        assert number is not None
        self._print_arm(operation, operation.regions[1 - number].block, group)

    # ---- branches

    def _print_arm(self, operation: scf.IfOp, block: Block, group: Group) -> list[str]:
        """Prints an arm; returns the parts of the results that the group shares."""
        end = end_of(block)
        pairs: list[tuple[SSAValue, SSAValue]] = []
        for number in self._places.kept_results(operation, group):
            result, value = operation.results[number], end.operands[number]
            self._places.settle(value, result, block, group, ())
            pairs.append((result, value))
        with self._threads.scope():
            self.print_region(block.ops, group, self._places.copies(pairs, end))
            shared = [
                end.operands[number]
                for number, result in enumerate(operation.results)
                if self._sharing.of(result) <= group
            ]
            for value in shared:
                self._threads.take(value)
            return self._printer.parts(shared)

    def _print_if(self, operation: scf.IfOp, group: Group) -> None:
        printer = self._printer
        condition = self._threads.text(operation.cond)
        labels = [printer.new_label(stem) for stem in ("then", "else")]
        end = printer.new_label("endif")
        printer.branch_if(condition, *labels)
        arms: list[tuple[list[str], str]] = []
        for region, label in zip(operation.regions, labels, strict=True):
            printer.start(label)
            parts = self._print_arm(operation, region.block, group) if region.blocks else []
            arms.append((parts, printer.label))
            printer.branch(end)
        printer.start(end)
        shared = [result for result in operation.results if self._sharing.of(result) <= group]
        merged = [
            printer.phi(kind, [(parts[index], label) for parts, label in arms], stem)
            for index, (kind, stem) in enumerate(printer.part_types(shared))
        ]
        printer.take(shared, merged)

    # ---- loops

    def _iteration(self) -> None:
        print_work(self._printer, "4")
        print_cancellation_check(self._printer)

    def _print_for(self, loop: scf.ForOp, group: Group) -> None:
        printer, threads = self._printer, self._threads
        block = loop.body.block
        carried = block.args[1:]
        shared = [n for n, argument in enumerate(carried) if self._sharing.of(argument) <= group]
        for value in (loop.lb, loop.ub, loop.step, *(loop.iter_args[n] for n in shared)):
            threads.take(value)
        location, end = loop.location, end_of(block)
        trips = Trips(printer, loop, shared)
        header = trips.header(trips.starts)
        end_label = trips.enter(header)
        pairs: list[tuple[SSAValue, SSAValue]] = []
        for number, argument in enumerate(carried):
            if number not in shared:
                self._places.settle(end.operands[number], argument, block, group, (argument,))
                pairs.append((argument, end.operands[number]))
        with threads.scope():
            self.print_region(block.ops, group, self._places.copies(pairs, end))
            for number in shared:
                threads.take(end.operands[number])
            printer.place(location)
            following = header.following(trips.next_values())
            self._iteration()
            header.jump(following, "")
        printer.start(end_label)
        for number, (argument, result) in enumerate(zip(carried, loop.results, strict=True)):
            if number in shared:
                printer.take([result], printer.parts([argument]))
            else:
                self.slots.share(result, argument)

    def _print_while(self, loop: scf.WhileOp, group: Group) -> None:
        printer, threads = self._printer, self._threads
        before, after = loop.before_region.block, loop.after_region.block
        shared = [n for n, arg in enumerate(before.args) if self._sharing.of(arg) <= group]
        for number in shared:
            threads.take(loop.operands[number])
        location = loop.location
        starts = printer.parts(loop.operands[number] for number in shared)
        header = LoopHeader(printer, [before.args[number] for number in shared], starts)
        condition, *passed = end_of(before).operands
        with threads.scope():
            tail = self._places.pass_on(loop, passed, group)
            self.print_region(before.ops, group, tail)
            common = [n for n, arg in enumerate(after.args) if self._sharing.of(arg) <= group]
            for number in common:
                threads.take(passed[number])
            parts = [printer.parts([passed[number]]) for number in common]
            body, end_label = printer.new_label("body"), printer.new_label("endloop")
            printer.branch_if(threads.text(condition), body, end_label)
        printer.start(body)
        pairs: list[tuple[SSAValue, SSAValue]] = []
        end = end_of(after)
        for number, argument in enumerate(before.args):
            if number not in shared:
                alike = [arg for arg in after.args if self.slots.are_same(arg, argument)]
                self._places.settle(end.operands[number], argument, after, group, alike)
                pairs.append((argument, end.operands[number]))
        with threads.scope():
            for number, texts in zip(common, parts, strict=True):
                printer.take([after.args[number]], texts)
            self.print_region(after.ops, group, self._places.copies(pairs, end))
            values = [end.operands[number] for number in shared]
            for value in values:
                threads.take(value)
            printer.place(location)
            following = header.following(printer.parts(values))
            self._iteration()
            header.jump(following, "")
        printer.start(end_label)
        for number, texts in zip(common, parts, strict=True):
            printer.take([loop.results[number]], texts)


class Places:
    """Chooses them, for one kernel.

    Args:
        printer: of the kernel.
        threads: likewise.
        splits: whether a group comes to an operation together.
    """

    def __init__(
        self,
        printer: FunctionPrinter,
        threads: ThreadsPrinter,
        splits: Callable[[Operation, Group], bool],
    ) -> None:
        self._printer, self._threads, self._splits = printer, threads, splits
        self._sharing, self._slots = threads.sharing, threads.slots

    def kept_results(self, operation: Operation, group: Group) -> list[int]:
        """The numbers of the results that differ between the group's threads and are read; makes their slots."""
        numbers = [
            number
            for number, result in enumerate(operation.results)
            if self._sharing.of(result) > group and result.uses
        ]
        for number in numbers:
            self._threads.keep(operation.results[number], group)
        return numbers

    def enter(
        self,
        arguments: Sequence[SSAValue],
        initial: Sequence[SSAValue],
        loop: Operation,
        group: Group,
    ) -> Tail | None:
        """Keeps the initial loop-carried values of each thread."""
        pairs: list[tuple[SSAValue, SSAValue]] = []
        for argument, value in zip(arguments, initial, strict=True):
            if self._sharing.of(argument) > group:
                self._settle_argument(argument, value, loop, group)
                pairs.append((argument, value))
        return self.copies(pairs, loop)

    def _settle_argument(
        self, argument: SSAValue, first: SSAValue, loop: Operation, group: Group
    ) -> None:
        """Chooses where a loop's variable is kept: where its first value is, if that is not read any more."""
        block = loop.parent
        assert block is not None
        is_here = first.owner is block
        if is_here and first in self._slots and not _is_read_after(first, loop, block):
            only = sum(operand is first for operand in loop.operands) == 1
            inside = any(
                use.operation is not loop and enclosing(use.operation, block) is loop
                for use in first.uses
            )
            needed = self._threads.group_of_slot([argument, *loop.results], group)
            if only and not inside and self._slots[first][0].group <= needed:
                self._slots.share(argument, first)
                return
        self._threads.keep(argument, group, loop.results)

    def pass_on(self, loop: scf.WhileOp, passed: Sequence[SSAValue], group: Group) -> Tail | None:
        """Lets the body, and code after the loop, read the values of the condition's region."""
        before, after = loop.before_region.block, loop.after_region.block
        pairs: list[tuple[SSAValue, SSAValue]] = []
        for argument, result, value in zip(after.args, loop.results, passed, strict=True):
            if self._sharing.of(argument) <= group or not (
                bool(argument.uses) or bool(result.uses)
            ):
                continue
            is_own = value in before.args or (
                not isinstance(value.owner, Block) and value.owner.parent is before
            )
            if (
                is_own
                and not self._threads.computes_again(value)
                and self._sharing.of(value) > group
            ):
                if value not in self._slots:
                    self._threads.keep(value, group, [result])
                self._slots.share(argument, value)
            else:
                self._threads.keep(argument, group, [result])
                pairs.append((argument, value))
            self._slots.share(result, argument)
        return self.copies(pairs, end_of(before))

    def settle(
        self,
        value: SSAValue,
        target: SSAValue,
        block: Block,
        group: Group,
        readers: Sequence[SSAValue],
    ) -> None:
        """Keeps a block's yielded values where they are read, if none of the readers needs the old value after that."""
        owner = value.owner
        if value in self._slots or self._sharing.of(value) <= group:
            return
        if isinstance(owner, Block) or owner.parent is not block:
            return
        if owner.regions and self._splits(owner, group):
            return
        if self._threads.computes_again(value):
            return
        if not any(_is_read_after(reader, owner, block) for reader in readers):
            self._slots.share(value, target)

    def copies(self, pairs: Sequence[tuple[SSAValue, SSAValue]], user: Operation) -> Tail | None:
        """Moves each thread's values to where they are read."""
        moved = [
            (target, value)
            for target, value in pairs
            if target is value or not self._slots.are_same(target, value)
        ]
        if not moved:
            return None
        printer = self._printer

        def run() -> None:
            parts = [printer.parts([value]) for _, value in moved]
            for (target, _), texts in zip(moved, parts, strict=True):
                self._slots.store(target, texts)

        return Tail([value for _, value in moved], user, run)


def _is_read_after(value: SSAValue, operation: Operation, block: Block) -> bool:
    """Whether a value is used in a block after one of its operations."""
    order = {inner: number for number, inner in enumerate(block.ops)}
    return any(order[enclosing(use.operation, block)] > order[operation] for use in value.uses)
