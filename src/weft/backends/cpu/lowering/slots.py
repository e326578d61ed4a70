# SPDX-License-Identifier: Apache-2.0
"""Values that a thread keeps while other threads run: an array with one element per thread, or per lane.

In: the parts of SSA values. Out: stores and loads; the bytes of all arrays of a block, which lie in scratch memory. The
arrays of one warp are on the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from weft.backends.cpu.lowering.sharing import Group
from weft.codegen.llvm.types import size_in_bytes
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

ALIGNMENT: Final = 64  # of each array
_MOST_ON_STACK: Final = 16 * 1024  # bytes of all arrays of a warp
_PLACES: Final = {Group.BLOCK: "thread", Group.WARP: "lane"}


class Slot(NamedTuple):
    """An array of one part of a value.

    Attributes:
        pointer: its name.
        kind: of an element, LLVM text; an i1 is kept as i8.
        group: whose threads have an element each: a block's or a warp's.
    """

    pointer: str
    kind: str
    group: Group

    def place(self, printer: FunctionPrinter) -> str:
        """The address of the running thread's element."""
        index = printer.coordinates[_PLACES[self.group]]
        return printer.let(
            f"getelementptr inbounds {self.kind}, ptr {self.pointer}, i64 {index}", "kept"
        )

    def store(self, printer: FunctionPrinter, kind: str, text: str) -> None:
        """Keeps a value of an LLVM type for the running thread."""
        if kind == "i1":
            text = {"true": "1", "false": "0"}.get(text) or printer.let(f"zext i1 {text} to i8")
        printer.line(f"store {self.kind} {text}, ptr {self.place(printer)}")


class Slots:
    """The arrays of a kernel."""

    def __init__(self, printer: FunctionPrinter) -> None:
        self._printer = printer
        self._slots: dict[SSAValue, list[Slot]] = {}
        self._stack_bytes = 0
        # Names and bytes per thread of the block's arrays, in order: parameters of the block's function.
        self.arrays: list[tuple[str, int]] = []

    def __contains__(self, value: SSAValue) -> bool:
        return value in self._slots

    def __getitem__(self, value: SSAValue) -> list[Slot]:
        return self._slots[value]

    def make(self, value: SSAValue, group: Group) -> None:
        """Makes the arrays of a value."""
        kinds = [kind for kind, _ in self._printer.part_types([value])]
        self._slots[value] = [self.array(kind, group) for kind in kinds]

    def share(self, value: SSAValue, other: SSAValue) -> None:
        """Keeps a value where another is kept."""
        self._slots[value] = self._slots[other]

    def are_same(self, value: SSAValue, other: SSAValue) -> bool:
        """Whether two values are kept at one place."""
        return self._slots.get(value) is not None and self._slots[value] == self._slots.get(other)

    def array(self, kind: str, group: Group) -> Slot:
        """A new array; a warp's is the block's if the stack has many already."""
        kept = "i8" if kind == "i1" else kind
        size = WARP_SIZE * _bytes(kept)
        if group is Group.WARP and self._stack_bytes + size <= _MOST_ON_STACK:
            self._stack_bytes += size
            pointer = self._printer.alloca(f"[{WARP_SIZE} x {kept}]", ALIGNMENT, "lanes")
            return Slot(pointer, kept, group)
        return Slot(self.memory(_bytes(kept)), kept, Group.BLOCK)

    def memory(self, bytes_per_thread: int) -> str:
        """New memory of the block, of so many bytes per thread: its name."""
        name = self._printer.fresh("kept")
        self.arrays.append((name, bytes_per_thread))
        return name

    def store(self, value: SSAValue, parts: list[str]) -> None:
        """Keeps the parts of a value for the running thread."""
        printer = self._printer
        for slot, part, (kind, _) in zip(
            self._slots[value], parts, printer.part_types([value]), strict=True
        ):
            slot.store(printer, kind, part)

    def load(self, value: SSAValue) -> None:
        """Defines a value as what the running thread has kept."""
        printer = self._printer
        parts: list[str] = []
        for slot, (kind, stem) in zip(self._slots[value], printer.part_types([value]), strict=True):
            part = printer.let(f"load {slot.kind}, ptr {slot.place(printer)}", stem)
            parts.append(printer.let(f"icmp ne i8 {part}, 0", stem) if kind == "i1" else part)
        printer.take([value], parts)


def _bytes(kind: str) -> int:
    """Bytes of an element, a scalar or a vector such as `<4 x float>`."""
    if not kind.startswith("<"):
        return size_in_bytes(kind)
    count, _, element = kind[1:-1].partition(" x ")
    return int(count) * size_in_bytes(element)
