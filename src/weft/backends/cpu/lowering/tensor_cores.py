# SPDX-License-Identifier: Apache-2.0
"""Fragments and MMAs on the CPU: vectors of adjacent elements; threads suspend, and the scheduler multiplies.

In: operations on fragments, nvgpu.mma, operations of `wgmma`. Out: LLVM text; a function of elements is a loop over
them in memory. For a warp's mma (native/cpu/mma.cpp) the fragments in memory, their addresses in the slot, a
suspension; for a warpgroup's (native/cpu/wgmma.cpp) each thread's operands in its frame
(native/include/weft/cpu_wgmma.h), a suspension, the sums or the number of their wgmma in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from weft import _native
from weft.backends.cpu.lowering.coroutine_printer import COLLECTIVE, WARPGROUP, CoroutinePrinter
from weft.codegen.llvm.types import FLOAT_NAMES, fragment_chunks, memory_type, size_in_bytes
from weft.codegen.operations.memory import as_value, fragment_rows, in_memory, print_region
from weft.dialects.nvgpu.mma import (
    LoadMatrixOp,
    MmaOp,
    WgmmaAccumulatorOp,
    WgmmaHoldsSumsOp,
    WgmmaMmaOp,
    WgmmaWaitOp,
)
from weft.dialects.simt.fragment import (
    FragmentBitcastOp,
    FragmentFillOp,
    FragmentLoadOp,
    FragmentMapOp,
    FragmentPartOp,
    FragmentRedAddOp,
    FragmentStoreOp,
    FragmentType,
    fragment_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

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
    """Defines a fragment as the elements in memory; no wgmma of it is in flight."""
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
    """Defines a fragment as these elements; no wgmma of it is in flight."""
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


def _words(printer: FunctionPrinter, fragment: SSAValue) -> list[str]:
    """A thread's elements as i32, small ones packed."""
    found: list[str] = []
    for chunk, vector, words in _chunks_of_words(printer, fragment):
        text = printer.let(f"bitcast {vector} {chunk} to {words}")
        for place in range(_count(words)):
            found.append(printer.let(f"extractelement {words} {text}, i32 {place}"))
    return found


def _define_words(printer: FunctionPrinter, result: SSAValue, texts: Sequence[str]) -> None:
    """Defines a fragment as such; no wgmma of it is in flight."""
    kind: Any = result.type
    chunks, remaining = fragment_chunks(kind), iter(texts)
    parts: list[str] = ["0"] * (len(printer.fragment_parts(kind)) - len(chunks))
    for _, vector in chunks:
        words, chunk = _of_words(vector), "poison"
        for place in range(_count(words)):
            chunk = printer.let(
                f"insertelement {words} {chunk}, i32 {next(remaining)}, i32 {place}"
            )
        parts.append(printer.let(f"bitcast {words} {chunk} to {vector}"))
    printer.fragments[result] = parts


def _chunks_of_words(printer: FunctionPrinter, fragment: SSAValue) -> list[tuple[str, str, str]]:
    """The chunks of a fragment, each with its type and that of the same bits as words."""
    kind: Any = fragment.type
    chunks = fragment_chunks(kind)
    texts = printer.fragments[fragment][-len(chunks) :]
    return [
        (chunk, vector, _of_words(vector)) for (_, vector), chunk in zip(chunks, texts, strict=True)
    ]


def _of_words(vector: str) -> str:
    """The vector of i32 with the bits of a vector."""
    element = vector[vector.index("x ") + 2 : -1]
    return f"<{_count(vector) * size_in_bytes(element) // 4} x i32>"


def _print_bitcast(printer: FunctionPrinter, op: FragmentBitcastOp) -> None:
    kind: Any = op.result.type
    chunks = fragment_chunks(kind)
    parts: list[str] = ["0"] * (len(printer.fragment_parts(kind)) - len(chunks))
    for (chunk, vector, _), (_, text) in zip(
        _chunks_of_words(printer, op.source), chunks, strict=True
    ):
        parts.append(printer.let(f"bitcast {vector} {chunk} to {text}"))
    printer.fragments[op.result] = parts


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
        distances = places.along()
        for start, distance in zip(op.origin, distances, strict=True):
            arguments.append(printer.let(f"add i32 {printer.values[start]}, {distance}"))
        printer.values.update(zip(op.body.block.args, arguments, strict=True))
        printer.print_block(op.body.block)

    for_each(printer, kind.layout.elements, run)
    release(printer, (memory,))


def _print_map(printer: FunctionPrinter, op: FragmentMapOp | FragmentLoadOp | LoadMatrixOp) -> None:
    kind: Any = op.result.type
    inputs: list[tuple[Any, str]] = [(one.type, stored_elements(printer, one)) for one in op.inputs]
    target = memory_for(printer, kind)
    text = memory_type(kind.element_type)
    step = op.step if isinstance(op, FragmentMapOp) else 1

    def run(number: str) -> None:
        numbers = [number]
        if step == 2:
            first = printer.let(f"shl nuw nsw i32 {number}, 1")
            numbers = [first, printer.let(f"or disjoint i32 {first}, 1")]
        all_places = [Places(printer, kind, one) for one in numbers]
        places = all_places[0]
        arguments: list[str] = []
        for of, pointer in inputs:
            for own, of_number in zip(all_places, numbers, strict=True):
                which = of_number if of.role == kind.role else own.broadcast(of.role.data)
                place, element = element_pointer(printer, pointer, of, which), of.element_type
                one = printer.let(f"load {memory_type(element)}, ptr {place}")
                arguments.append(as_value(printer, one, element))
        if op.origin:
            distances = places.row(), places.column()
            for start, distance in zip(op.origin, distances, strict=True):
                arguments.append(printer.let(f"add i32 {printer.values[start]}, {distance}"))
        values = print_region(printer, op.body.block, arguments)
        for value, of_number in zip(values, numbers, strict=True):
            held = in_memory(printer, value, kind.element_type)
            place = element_pointer(printer, target, kind, of_number)
            printer.line(f"store {text} {held}, ptr {place}")

    for_each(printer, kind.layout.elements // step, run)
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
    """Location of the element of a run-time number, as `FragmentLayout.place`; computes only the requested parts."""

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

    def along(self) -> list[str]:
        """From the origin, in each of the fragment's dimensions."""
        places = {"row": (self.row,), "column": (self.column,)}
        return [place() for place in places.get(self.layout.role, (self.row, self.column))]

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
    **fragment_rows(elements, define_elements, _words, _define_words),
    FragmentBitcastOp: _print_bitcast,
    FragmentFillOp: _print_fill,
    FragmentPartOp: _print_part,
    FragmentMapOp: _print_map,
    FragmentLoadOp: _print_map,
    FragmentStoreOp: _print_each,
    FragmentRedAddOp: _print_each,
    LoadMatrixOp: _print_map,
}


_TYPES: Final = {name: code for code, name in enumerate(_native.MMA_TYPES)}
_OPERANDS: Final = "{ ptr, ptr, ptr, ptr, ptr, ptr }"  # weft_mma_operands


def _print_mma(printer: CoroutinePrinter, op: MmaOp) -> None:
    operands = (op.a, op.b, op.c)
    kinds: Any = [value.type for value in operands]
    (rows, _), (depth, columns), _ = (kind.dims for kind in kinds)
    sums = FLOAT_NAMES.get(type(cast("Attribute", kinds[2].element_type)), "i32")
    names = [*("tf32" if name == "f32" else name for name in op.kinds.data.split()), sums]
    numbers = ", ".join(
        f"i32 {n}"
        for n in (rows, columns, depth, *(_TYPES[name] for name in names), int(bool(op.metadata)))
    )
    shape = printer.module.add_global(
        f"private unnamed_addr constant {{ {', '.join(['i32'] * 7)} }} {{ {numbers} }}, align 4",
        "mma",
    )
    pointers = [stored_elements(printer, value) for value in operands]
    metadata = "null"
    if op.metadata:
        metadata = printer.alloca(f"[{len(op.metadata)} x i32]", 4, "metadata")
        for place, word in enumerate(op.metadata):
            at = printer.let(f"getelementptr i32, ptr {metadata}, i32 {place}")
            printer.line(f"store {printer.typed(word)}, ptr {at}, align 4")
    block = printer.alloca(_OPERANDS, 8, "operands")
    for place, pointer in enumerate((shape, *pointers, pointers[2], metadata)):
        at = printer.let(f"getelementptr {_OPERANDS}, ptr {block}, i32 0, i32 {place}")
        printer.line(f"store ptr {pointer}, ptr {at}, align 8")
    printer.post(mask="-1", pointer=block)
    printer.suspend(COLLECTIVE, printer.add_site("mma", op.location))
    load_elements(printer, op.result, pointers[2])
    release(printer, pointers)


MMA: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {MmaOp: _print_mma}


# weft_wgmma_operand, weft_wgmma_shape, weft_wgmma_start
_OPERAND: Final = "{ i64, i32, i32, i32, i32 }"
_SHAPE: Final = f"{{ i32, i32, i32, i32, {_OPERAND}, {_OPERAND} }}"
_WGMMA: Final = "{ ptr, ptr, ptr, ptr, i64, i32, i32 }"
_WGMMA_HANDLE: Final = 4
_EMPTY_HANDLE: Final = "-1"  # of a fragment that holds nothing
# What elements are then: NaN, also of f16, or the integer that is farthest from all sums.
_NOTHING: Final = {"float": "0x7FF8000000000000", "i16": "32256", "i32": "-2147483648"}


def _operand(value: SSAValue, name: str, *, is_b: bool) -> str:
    """The `weft_wgmma_operand` of a tile or a fragment."""
    kind: Any = value.type
    stride = atom = mask = k_is_row = 0
    if not isinstance(kind, FragmentType):
        swizzle, atom = kind.swizzle_atoms, kind.atom_columns
        stride, mask = swizzle.atom_stride.data, swizzle.mask
        k_is_row = int(bool(swizzle.is_transposed.data) != is_b)
    numbers = (_TYPES[name], atom, mask, k_is_row)
    return f"{_OPERAND} {{ i64 {stride}, {', '.join(f'i32 {number}' for number in numbers)} }}"


def _shape(printer: CoroutinePrinter, op: WgmmaMmaOp) -> str:
    """A constant `weft_wgmma_shape`."""
    kind: Any = op.result.type
    numbers = (*kind.dims, op.terms, _TYPES[op.sums])
    a, b = ("tf32" if name == "f32" else name for name in op.names)
    operands = _operand(op.a, a, is_b=False), _operand(op.b, b, is_b=True)
    body = ", ".join((*(f"i32 {number}" for number in numbers), *operands))
    return printer.module.add_global(
        f"private unnamed_addr constant {_SHAPE} {{ {body} }}, align 8", "mma"
    )


def _print_accumulator(printer: FunctionPrinter, op: WgmmaAccumulatorOp) -> None:
    """Elements that make results visibly wrong if they are read."""
    kind: Any = op.result.type
    text = memory_type(kind.element_type)
    parts = [_EMPTY_HANDLE]
    for _, vector in fragment_chunks(kind):
        count = int(vector[1 : vector.index(" ")])
        parts.append(f"<{', '.join([f'{text} {_NOTHING[text]}'] * count)}>")
    printer.fragments[op.result] = parts


def _print_holds_sums(printer: FunctionPrinter, op: WgmmaHoldsSumsOp) -> None:
    printer.define(op.result, f"icmp ne i64 {printer.fragments[op.fragment][0]}, {_EMPTY_HANDLE}")


def _print_wgmma(printer: CoroutinePrinter, op: WgmmaMmaOp) -> None:
    memory: list[str] = []
    if isinstance(op.a.type, FragmentType):
        a = stored_elements(printer, op.a)
        memory.append(a)
    else:
        a = printer.tensors[op.a].pointer
    sums, handle, flag = "null", "0", "0"
    if op.acc is not None:
        sums, handle = stored_elements(printer, op.acc), printer.fragments[op.acc][0]
        memory.append(sums)
        flag = "1"
        if op.accumulate is not None:
            flag = printer.let(f"zext i1 {printer.values[op.accumulate]} to i32")
    wgmma = printer.alloca(_WGMMA, 8, "mma")
    values = (
        f"ptr {_shape(printer, op)}",
        f"ptr {a}",
        f"ptr {printer.tensors[op.b].pointer}",
        f"ptr {sums}",
        f"i64 {handle}",
        f"i32 {flag}",
    )
    for number, value in enumerate(values):
        printer.line(f"store {value}, ptr {_member(printer, _WGMMA, wgmma, number)}, align 4")
    _meet(printer, op, wgmma, "wgmma_mma")
    place = _member(printer, _WGMMA, wgmma, _WGMMA_HANDLE)
    started = printer.let(f"load i64, ptr {place}, align 8", "mma")
    release(printer, memory)
    types = printer.fragment_parts(op.result.type)
    printer.fragments[op.result] = [started, *["poison"] * (len(types) - 1)]


def _print_wait(printer: CoroutinePrinter, op: WgmmaWaitOp) -> None:
    count = len(op.fragments)
    kind = f"{{ i32, i32, [{count} x {{ ptr, i64 }}] }}"
    wait = printer.alloca(kind, 8, "wait")
    printer.line(f"store i32 {op.pending.value.data}, ptr {wait}, align 8")
    printer.line(f"store i32 {count}, ptr {_member(printer, kind, wait, 1)}, align 4")
    memory = [stored_elements(printer, fragment) for fragment in op.fragments]
    for number, (fragment, sums) in enumerate(zip(op.fragments, memory, strict=True)):
        handle = printer.fragments[fragment][0]
        printer.line(f"store ptr {sums}, ptr {_member(printer, kind, wait, 2, number, 0)}, align 8")
        printer.line(
            f"store i64 {handle}, ptr {_member(printer, kind, wait, 2, number, 1)}, align 8"
        )
    _meet(printer, op, wait, "wgmma_wait")
    for number, (output, sums) in enumerate(zip(op.outputs, memory, strict=True)):
        load_elements(printer, output, sums)
        place = _member(printer, kind, wait, 2, number, 1)
        printer.fragments[output][0] = printer.let(f"load i64, ptr {place}, align 8", "mma")
    release(printer, memory)


def _meet(printer: CoroutinePrinter, op: Operation, parameters: str, operation: str) -> None:
    """Waits for the warpgroup's other threads, and for their collective operation."""
    printer.post(pointer=parameters)
    printer.suspend(WARPGROUP, printer.add_site(operation, op.location))


def _member(printer: CoroutinePrinter, kind: str, pointer: str, *path: int) -> str:
    """The address of a member of a struct."""
    places = ", ".join(f"i32 {number}" for number in (0, *path))
    return printer.let(f"getelementptr {kind}, ptr {pointer}, {places}")


ACCUMULATOR: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    WgmmaAccumulatorOp: _print_accumulator,
    WgmmaHoldsSumsOp: _print_holds_sums,
}
WGMMA: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    WgmmaMmaOp: _print_wgmma,
    WgmmaWaitOp: _print_wait,
}
