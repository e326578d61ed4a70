# SPDX-License-Identifier: Apache-2.0
"""Fragments on the CPU: vectors of adjacent elements; a function of elements is a loop over them in memory.

In: the operations of dialects/simt/fragment. Out: LLVM text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.types import fragment_chunks, memory_type
from weft.codegen.operations.fragments import as_value, fragment_rows, in_memory, print_element
from weft.dialects.nvgpu.mma import LoadMatrixOp
from weft.dialects.simt.fragment import (
    FragmentFillOp,
    FragmentMapOp,
    FragmentPartOp,
    FragmentRedAddOp,
    FragmentStoreOp,
    FragmentType,
    fragment_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

_ALIGNMENT: Final = 32


def memory_for(printer: FunctionPrinter, kind: FragmentType) -> str:
    """Memory for a thread's elements, in order; `release` ends its life, so that a frame need not keep it."""
    text = memory_type(kind.element_type)
    pointer = printer.alloca(f"[{kind.layout.elements} x {text}]", _ALIGNMENT, "elements")
    printer.line(f"call void {printer.module.intrinsic('llvm.lifetime.start')}.p0(ptr {pointer})")
    return pointer


def release(printer: FunctionPrinter, pointers: Iterable[str]) -> None:
    """Ends the life of memory that `memory_for` began."""
    for pointer in pointers:
        printer.line(f"call void {printer.module.intrinsic('llvm.lifetime.end')}.p0(ptr {pointer})")


def stored_elements(printer: FunctionPrinter, fragment: SSAValue) -> str:
    """Memory with a fragment's elements."""
    kind: Any = fragment.type
    pointer = memory_for(printer, kind)
    chunks = fragment_chunks(kind)
    texts = printer.fragments[fragment][-len(chunks) :]
    for (first, text), chunk in zip(chunks, texts, strict=True):
        place = element_pointer(printer, pointer, kind, str(first))
        printer.line(f"store {text} {chunk}, ptr {place}, align {_ALIGNMENT}")
    return pointer


def load_elements(printer: FunctionPrinter, result: SSAValue, pointer: str) -> None:
    """Defines a fragment as the elements in memory; no product of it is in flight."""
    kind: Any = result.type
    chunks = fragment_chunks(kind)
    parts: list[str] = ["0"] * (len(printer.fragment_parts(kind)) - len(chunks))
    for first, text in chunks:
        place = element_pointer(printer, pointer, kind, str(first))
        parts.append(printer.let(f"load {text}, ptr {place}, align {_ALIGNMENT}"))
    printer.fragments[result] = parts


def element_pointer(printer: FunctionPrinter, pointer: str, kind: FragmentType, number: str) -> str:
    """The place of an element in such memory."""
    if number == "0":
        return pointer
    text = memory_type(kind.element_type)
    return printer.let(f"getelementptr inbounds {text}, ptr {pointer}, i32 {number}", "at")


def _print_fill(printer: FunctionPrinter, op: FragmentFillOp) -> None:
    kind: Any = op.result.type
    text = memory_type(kind.element_type)
    value = in_memory(printer, printer.values[op.value], kind.element_type)
    parts: list[str] = ["0"] * (len(printer.fragment_parts(kind)) - len(fragment_chunks(kind)))
    for _, vector in fragment_chunks(kind):
        one = printer.let(f"insertelement {vector} poison, {text} {value}, i32 0")
        zeros = f"<{_count(vector)} x i32> zeroinitializer"
        parts.append(printer.let(f"shufflevector {vector} {one}, {vector} poison, {zeros}"))
    printer.fragments[op.result] = parts


def elements(printer: FunctionPrinter, fragment: SSAValue) -> list[str]:
    """A thread's elements."""
    kind: Any = fragment.type
    chunks = fragment_chunks(kind)
    found: list[str] = []
    texts = printer.fragments[fragment][-len(chunks) :]
    for (_, vector), chunk in zip(chunks, texts, strict=True):
        for place in range(_count(vector)):
            one = printer.let(f"extractelement {vector} {chunk}, i32 {place}")
            found.append(as_value(printer, one, kind.element_type))
    return found


def define_elements(printer: FunctionPrinter, result: SSAValue, texts: Sequence[str]) -> None:
    """Defines a fragment as these elements; no product of it is in flight."""
    kind: Any = result.type
    chunks, element = fragment_chunks(kind), memory_type(kind.element_type)
    parts: list[str] = ["0"] * (len(printer.fragment_parts(kind)) - len(chunks))
    for first, vector in chunks:
        chunk = "poison"
        for place in range(_count(vector)):
            one = in_memory(printer, texts[first + place], kind.element_type)
            chunk = printer.let(f"insertelement {vector} {chunk}, {element} {one}, i32 {place}")
        parts.append(chunk)
    printer.fragments[result] = parts


def _count(vector: str) -> int:
    """The length of a vector of this type."""
    return int(vector[1 : vector.index(" ")])


def _print_part(printer: FunctionPrinter, op: FragmentPartOp) -> None:
    if len(op.elements) == fragment_type(op.source).layout.elements:
        printer.fragments[op.result] = printer.fragments[op.source]
        return
    texts = elements(printer, op.source)
    define_elements(printer, op.result, [texts[number] for number in op.elements])


def _print_each(printer: FunctionPrinter, op: FragmentRedAddOp | FragmentStoreOp) -> None:
    kind: Any = op.fragment.type
    memory = stored_elements(printer, op.fragment)

    def run(number: str) -> None:
        places = Places(printer, kind, number)
        place, element = element_pointer(printer, memory, kind, number), kind.element_type
        one = printer.let(f"load {memory_type(element)}, ptr {place}")
        arguments = [as_value(printer, one, element)]
        distances = places.row(), places.column()
        for start, distance in zip(op.origin, distances, strict=True):
            arguments.append(printer.let(f"add i32 {printer.values[start]}, {distance}"))
        printer.values.update(zip(op.body.block.args, arguments, strict=True))
        printer.print_block(op.body.block)

    for_each(printer, kind.layout.elements, run)
    release(printer, (memory,))


def _print_map(printer: FunctionPrinter, op: FragmentMapOp | LoadMatrixOp) -> None:
    kind: Any = op.result.type
    inputs: list[tuple[Any, str]] = [(one.type, stored_elements(printer, one)) for one in op.inputs]
    target = memory_for(printer, kind)
    text = memory_type(kind.element_type)

    def run(number: str) -> None:
        places = Places(printer, kind, number)
        arguments: list[str] = []
        for of, pointer in inputs:
            which = number if of.role == kind.role else places.broadcast(of.role.data)
            place, element = element_pointer(printer, pointer, of, which), of.element_type
            one = printer.let(f"load {memory_type(element)}, ptr {place}")
            arguments.append(as_value(printer, one, element))
        if op.origin:
            distances = places.row(), places.column()
            for start, distance in zip(op.origin, distances, strict=True):
                arguments.append(printer.let(f"add i32 {printer.values[start]}, {distance}"))
        value = in_memory(
            printer, print_element(printer, op.body.block, arguments), kind.element_type
        )
        place = element_pointer(printer, target, kind, number)
        printer.line(f"store {text} {value}, ptr {place}")

    for_each(printer, kind.layout.elements, run)
    load_elements(printer, op.result, target)
    release(printer, (target, *(pointer for _, pointer in inputs)))


def for_each(printer: FunctionPrinter, count: int, run: Callable[[str], None]) -> None:
    """A loop whose body is given the number of its iteration, an i32."""
    before, loop, end = printer.label, printer.new_label("each"), printer.new_label("all")
    number, following = printer.fresh("number"), printer.fresh("next")
    printer.branch(loop)
    printer.start(loop)
    place = printer.reserve()
    run(number)
    latch = printer.label
    printer.line(f"{following} = add nuw nsw i32 {number}, 1")
    printer.branch_if(printer.let(f"icmp eq i32 {following}, {count}"), end, loop)
    printer.fill(place, [f"{number} = phi i32 [ 0, %{before} ], [ {following}, %{latch} ]"])
    printer.start(end)


class Places:
    """Where the element of a run-time number lies, as `FragmentLayout.place`; computes only what is asked."""

    def __init__(self, printer: FunctionPrinter, kind: FragmentType, number: str) -> None:
        self.printer, self.layout = printer, kind.layout
        _, across, halves, width = self.layout.blocks
        rest, self.within = self._split(number, width)
        rest, self.half = self._split(rest, halves)
        self.down, self.block = self._split(rest, across)

    def row(self) -> str:
        """From the origin."""
        if self.layout.role == "b":
            return self._along()
        return self._sum(self._times(self.down, 16 * self.layout.warps), self._times(self.half, 8))

    def column(self) -> str:
        """From the origin."""
        return self._times(self.down, 8) if self.layout.role == "b" else self._along()

    def broadcast(self, role: str) -> str:
        """The number of the element's row or column among the thread's."""
        if role == "row":
            return self._sum(self._times(self.down, 2), self.half)
        return self._sum(self._times(self.block, self.layout.blocks[3]), self.within)

    def _along(self) -> str:
        return self._sum(self._times(self.block, 4 * self.layout.pack), self.within)

    def _split(self, text: str, by: int) -> tuple[str, str]:
        if by == 1 or text == "0":
            return text, "0"
        rest = self.printer.let(f"udiv i32 {text}, {by}")
        return rest, self.printer.let(f"urem i32 {text}, {by}")

    def _times(self, text: str, factor: int) -> str:
        if text == "0" or factor == 1:
            return text
        return self.printer.let(f"mul nuw nsw i32 {text}, {factor}")

    def _sum(self, one: str, other: str) -> str:
        if "0" in (one, other):
            return other if one == "0" else one
        return self.printer.let(f"add nuw nsw i32 {one}, {other}")


FRAGMENTS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    **fragment_rows(elements, define_elements),
    FragmentFillOp: _print_fill,
    FragmentPartOp: _print_part,
    FragmentMapOp: _print_map,
    FragmentStoreOp: _print_each,
    FragmentRedAddOp: _print_each,
    LoadMatrixOp: _print_map,
}
