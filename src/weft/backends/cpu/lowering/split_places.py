# SPDX-License-Identifier: Apache-2.0
"""Where threads keep what branches yield and loops carry, while the group goes through them.

In: branches and loops that a group takes together. Out: one place for values that follow each other; what each thread
copies where that is not possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Block

from weft.backends.cpu.lowering.sharing import Group, enclosing
from weft.backends.cpu.lowering.split_threads import Tail
from weft.dialects.flow import end_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.dialects import scf
    from xdsl.ir import Operation, SSAValue

    from weft.backends.cpu.lowering.split_threads import ThreadsPrinter
    from weft.codegen.llvm.function_printer import FunctionPrinter


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
        """Keeps the first values of what a loop carries for each thread."""
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
        """Lets the body and what follows the loop read what the condition's region passes on."""
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
        """Keeps what a block yields where it is read, if none of the readers needs the old value after that."""
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
