# SPDX-License-Identifier: Apache-2.0
"""Tensor accesses: addresses, loads, stores, dims, local arrays, views, vectors; fragments by their elements.

In: simt.load, simt.store, simt.dim, simt.stride, simt.address, simt.alloca, simt.view, simt.load_vector,
simt.store_vector; regions that compute an element of a fragment. Out: LLVM memory instructions, aligned to the element
or the vector; the region's operations. Only accesses of restricted arguments are marked: users' tensors may overlap.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.builtin import DenseArrayBase

from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import llvm_type, local_stem, memory_type, quoted, size_in_bytes
from weft.codegen.operations.control_flow import print_nothing
from weft.dialects.simt.fragment import (
    FragmentOfOp,
    FragmentReduceOp,
    FragmentValuesOp,
    FragmentYieldOp,
    all_yielded,
    are_registers,
)
from weft.dialects.simt.kernel import CONSTANT, DISTINCT, RESTRICTED, kernel_of
from weft.dialects.simt.memory import (
    WORD_BYTES,
    AddressOp,
    AdvanceOp,
    AllocaOp,
    DimOp,
    LoadOp,
    LoadVectorOp,
    ReinterpretOp,
    ReshapeOp,
    StoreOp,
    StoreVectorOp,
    StrideOp,
    TableOp,
    ViewOp,
)
from weft.dialects.simt.types import DYNAMIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xdsl.ir import Attribute, Block, Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.types import TensorType


if TYPE_CHECKING:
    # Prints a load of a type from an address with its type, aligned to some bytes; its result's name.
    Load = Callable[[FunctionPrinter, str, str, int], str]


def print_load(printer: FunctionPrinter, op: Operation) -> None:
    """`simt.load`; a bool is any nonzero byte."""
    tensor, *indices = op.operands
    value = printer.tensors[tensor]
    address = value.address(printer, indices)
    element = memory_type(value.type.element_type)
    pointer = printer.module.target.pointer(value.type.space.data)
    result = op.results[0]
    kept = " volatile" if op.properties.get("volatile") else ""
    text = f"load{kept} {element}, {pointer} {address}, align {size_in_bytes(element)}"
    text += restrictions(printer, op)
    if is_bool(value.type):
        byte = printer.let(text)
        printer.define(result, f"icmp ne i8 {byte}, 0")
    else:
        printer.define(result, text)


def print_store(printer: FunctionPrinter, op: Operation) -> None:
    """`simt.store`; a bool is written as the byte 0 or 1."""
    stored, tensor, *indices = op.operands
    value = printer.tensors[tensor]
    text = printer.values[stored]
    address = value.address(printer, indices)
    element = memory_type(value.type.element_type)
    if is_bool(value.type):
        text = byte_of_bool(printer, text)
    pointer = printer.module.target.pointer(value.type.space.data)
    kept = " volatile" if op.properties.get("volatile") else ""
    printer.line(
        f"store{kept} {element} {text}, {pointer} {address}, align {size_in_bytes(element)}"
        f"{restrictions(printer, op)}"
    )


def restrictions(printer: FunctionPrinter, op: Operation) -> str:
    """The suffix of an access: its alias scopes; on a GPU also that the elements do not change."""
    noted = op.attributes
    if not noted:
        return ""
    suffix = ""
    for attribute, name in ((RESTRICTED, "alias.scope"), (DISTINCT, "noalias")):
        numbers = noted.get(attribute)
        if isinstance(numbers, DenseArrayBase):
            kernel = kernel_of(op).sym_name.data
            scopes = [f'!{{!"{kernel}.{n}", !{{!"{kernel}"}}}}' for n in numbers.get_values()]
            suffix += f", !{name} !{{{', '.join(scopes)}}}"
    if CONSTANT in noted and printer.module.target.coordinates:
        suffix += ", !invariant.load !{}"
    return suffix


def byte_of_bool(printer: FunctionPrinter, text: str) -> str:
    """A bool as its byte in memory."""
    if text in ("true", "false"):
        return "1" if text == "true" else "0"
    return printer.let(f"zext i1 {text} to i8")


def is_bool(tensor_type: TensorType) -> bool:
    """Whether the elements are bools, a byte each in memory."""
    width = getattr(tensor_type.element_type, "width", None)
    return width is not None and width.data == 1


def print_dim(printer: FunctionPrinter, op: Any) -> None:
    """`simt.dim`: a parameter or a constant, and its known divisor."""
    dimension = op.properties["dimension"].value.data
    text = printer.values[op.results[0]] = printer.tensors[op.operands[0]].dim(dimension)
    multiple = op.properties.get("multiple")
    if multiple is None:
        return
    kind = llvm_type(op.results[0].type)
    rest = printer.let(f"and {kind} {text}, {multiple.value.data - 1}")
    is_multiple = printer.let(f"icmp eq {kind} {rest}, 0")
    callee = printer.module.declare("llvm.assume", "void (i1)")
    printer.line(f"call void {callee}(i1 {is_multiple})")


def print_stride(printer: FunctionPrinter, op: Any) -> None:
    """`simt.stride`: a parameter, or computed from the following dims."""
    tensor = printer.tensors[op.operands[0]]
    dimension = op.properties["dimension"].value.data
    printer.values[op.results[0]] = tensor.stride(printer, dimension)


def print_address(printer: FunctionPrinter, op: Operation) -> None:
    """`simt.address`."""
    tensor, *indices = op.operands
    value = printer.tensors[tensor]
    pointer = printer.module.target.pointer(value.type.space.data)
    address = value.address(printer, indices)
    printer.define(op.results[0], f"ptrtoint {pointer} {address} to i64")


def print_alloca(printer: FunctionPrinter, op: Operation) -> None:
    """`simt.alloca`: stack memory of the thread, aligned for vector accesses."""
    result = op.results[0]
    tensor_type: TensorType = result.type  # pyright: ignore[reportAssignmentType]
    element = memory_type(tensor_type.element_type)
    count = max(math.prod(tensor_type.dims), 1)
    alignment = 16 if count * size_in_bytes(element) >= 16 else size_in_bytes(element)
    pointer = printer.alloca(f"[{count} x {element}]", alignment, local_stem(result, "local"))
    printer.tensors[result] = TensorValue(tensor_type, pointer)


def print_table(printer: FunctionPrinter, op: TableOp) -> None:
    """`simt.table`: a constant of the module."""
    if op.result in printer.tensors:  # where operations are printed several times
        return
    module = printer.module
    kind: TensorType = op.result.type
    data = bytes.fromhex(op.data.data)
    number = module.target.address_spaces["global"]
    space = f"addrspace({number}) " if number else ""
    constant = f"private unnamed_addr {space}constant [{len(data)} x i8] c{quoted(data)}, align 16"
    printer.tensors[op.result] = TensorValue(kind, module.add_global(constant, "table"))


def print_view(printer: FunctionPrinter, op: ViewOp) -> None:
    """`simt.view`: an address; strides only if the layout class leaves them open."""
    source = printer.tensors[op.source]
    view = op.result_type
    pointer = source.linear_address(printer, list(op.starts))
    dims = [
        printer.values[op.size(number)] if dim == DYNAMIC else str(dim)
        for number, dim in enumerate(view.dims)
    ]
    strides = [
        _scaled(printer, source.stride(printer, dimension), step)
        for dimension, step in op.dimensions[: view.open_strides]
    ]
    printer.tensors[op.result] = TensorValue(view, pointer, dims, strides, is_place=source.is_place)


def print_reshape(printer: FunctionPrinter, op: ReshapeOp) -> None:
    """`simt.reshape`: the same address; strides follow from the dimensions."""
    source, kind = printer.tensors[op.source], op.result_type
    dims = [
        printer.values[op.size(number)] if dim == DYNAMIC else str(dim)
        for number, dim in enumerate(kind.dims)
    ]
    printer.tensors[op.result] = TensorValue(kind, source.pointer, dims, is_place=source.is_place)


def print_reinterpret(printer: FunctionPrinter, op: ReinterpretOp) -> None:
    """`simt.reinterpret`: the same address; strides in the other elements."""
    source, kind = printer.tensors[op.source], op.result_type
    before, after = op.bits
    dims = [
        printer.values[op.size(number)] if dim == DYNAMIC else str(dim)
        for number, dim in enumerate(kind.dims)
    ]
    strides = [source.stride(printer, dimension) for dimension in range(kind.open_strides)]
    shared = math.gcd(before, after)  # rows take whole elements of the result
    strides = [
        _divided(printer, _scaled(printer, stride, before // shared), after // shared)
        for stride in strides
    ]
    printer.tensors[op.result] = TensorValue(
        kind, source.pointer, dims, strides, is_place=source.is_place
    )


def print_advance(printer: FunctionPrinter, op: AdvanceOp) -> None:
    """`simt.advance`: an address, which need only be valid where it is accessed."""
    source = printer.tensors[op.source]
    kind = op.result.type
    wide = TensorValue(kind, source.pointer, source.dims, source.strides, is_place=False)
    pointer = wide.linear_address(printer, list(op.indices))
    printer.tensors[op.result] = TensorValue(
        kind, pointer, source.dims, source.strides, is_place=False
    )


def _scaled(printer: FunctionPrinter, stride: str, step: int) -> str:
    if step == 1:
        return stride
    return printer.let(f"mul nsw i64 {stride}, {step}")


def _divided(printer: FunctionPrinter, stride: str, divisor: int) -> str:
    """A stride divided by one of its divisors."""
    if divisor == 1:
        return stride
    if divisor & (divisor - 1):
        return printer.let(f"sdiv exact i64 {stride}, {divisor}")
    return printer.let(f"ashr exact i64 {stride}, {divisor.bit_length() - 1}")


def _vector_place(
    printer: FunctionPrinter, tensor: SSAValue, indices: Sequence[SSAValue], count: int
) -> tuple[str, str, int]:
    """The element's type in memory, the address with its type, and the alignment in bytes."""
    value = printer.tensors[tensor]
    element = memory_type(value.type.element_type)
    pointer = printer.module.target.pointer(value.type.space.data)
    address = value.address(printer, indices)
    return element, f"{pointer} {address}", count * size_in_bytes(element)


def _load_part(suffix: str) -> Load:
    """Prints loads of a vector or of its words, from an address with its type."""

    def load(printer: FunctionPrinter, kind: str, place: str, alignment: int) -> str:
        return printer.let(f"load {kind}, {place}, align {alignment}{suffix}", "vector")

    return load


def print_load_vector(printer: FunctionPrinter, op: LoadVectorOp, load: Load | None = None) -> None:
    """`simt.load_vector`: one load, and its elements; `load` prints it."""
    load = load or _load_part(restrictions(printer, op))
    count = len(op.elements)
    element, place, size = _vector_place(printer, op.tensor, op.indices, count)
    whole = f"<{count} x {element}>"
    if op.unaligned is None or size == size_in_bytes(element):
        vector = load(printer, whole, place, size)
    else:
        vector = _load_unaligned(printer, whole, place, size, load)
    print_elements(printer, op, f"{whole} {vector}")


def _load_unaligned(printer: FunctionPrinter, whole: str, place: str, size: int, load: Load) -> str:
    """A vector by one load if it is aligned, else by words."""
    address = printer.let(f"ptrtoint {place} to i64")
    excess = printer.let(f"and i64 {address}, {size - 1}")
    is_aligned = printer.let(f"icmp eq i64 {excess}, 0")
    aligned, words, end = (printer.new_label(stem) for stem in ("aligned", "words", "vector"))
    printer.branch_if(is_aligned, aligned, words)
    printer.start(aligned)
    vector = load(printer, whole, place, size)
    printer.branch(end)
    printer.start(words)
    joined = _load_words(printer, whole, place, excess, size, load)
    printer.branch(end)
    printer.start(end)
    return printer.phi(whole, [(vector, aligned), (joined, words)], "vector")


def _load_words(
    printer: FunctionPrinter, whole: str, place: str, excess: str, size: int, load: Load
) -> str:
    """A vector from words of its elements' size, or shifted out of the words that it lies in."""
    element = size_in_bytes(whole.rsplit(maxsplit=1)[-1].rstrip(">"))
    bytes_each = max(element, min(WORD_BYTES, size))
    count, kind = size // bytes_each, f"i{8 * bytes_each}"
    if bytes_each == element:
        words = _load_consecutive(printer, kind, place, count, load)
    else:
        before = printer.let(f"and i64 {excess}, {bytes_each - 1}")
        back = printer.let(f"sub i64 0, {before}")
        around = _load_consecutive(printer, kind, _moved(printer, place, back), count + 1, load)
        bits = printer.let(f"trunc i64 {printer.let(f'shl i64 {before}, 3')} to {kind}")
        words = [
            printer.intrinsic("llvm.fshr", kind, following, word, bits)
            for word, following in pairwise(around)
        ]
    joined = "poison"
    for number, word in enumerate(words):
        joined = printer.let(
            f"insertelement <{count} x {kind}> {joined}, {kind} {word}, i32 {number}", "vector"
        )
    return printer.let(f"bitcast <{count} x {kind}> {joined} to {whole}", "vector")


def _load_consecutive(
    printer: FunctionPrinter, kind: str, place: str, count: int, load: Load
) -> list[str]:
    """Integers that lie side by side."""
    size = size_in_bytes(kind)
    places = [place, *(_moved(printer, place, str(size * n)) for n in range(1, count))]
    return [load(printer, kind, one, size) for one in places]


def _moved(printer: FunctionPrinter, place: str, offset: str) -> str:
    """An address some bytes on, with its type."""
    pointer = place.rsplit(" ", 1)[0]
    return f"{pointer} {printer.let(f'getelementptr i8, {place}, i64 {offset}', 'at')}"


def print_elements(printer: FunctionPrinter, op: LoadVectorOp, vector: str) -> None:
    """The elements of a loaded vector, which has its type."""
    for lane, result in enumerate(op.elements):
        text = f"extractelement {vector}, i32 {lane}"
        if is_bool(printer.tensors[op.tensor].type):
            byte = printer.let(text)
            text = f"icmp ne i8 {byte}, 0"
        printer.define(result, text)


def print_store_vector(printer: FunctionPrinter, op: StoreVectorOp) -> None:
    """`simt.store_vector`: one store of the combined elements."""
    whole, place, alignment = print_vector(printer, op)
    printer.line(f"store {whole}, {place}, align {alignment}{restrictions(printer, op)}")


def print_vector(printer: FunctionPrinter, op: Any) -> tuple[str, str, int]:
    """The combined elements of a store with their type, its address with its type, and its bytes."""
    count = len(op.elements)
    element, place, alignment = _vector_place(printer, op.tensor, op.indices, count)
    whole = f"<{count} x {element}>"
    vector = "poison"
    for lane, part in enumerate(op.elements):
        text = printer.values[part]
        if is_bool(printer.tensors[op.tensor].type):
            text = byte_of_bool(printer, text)
        vector = printer.let(
            f"insertelement {whole} {vector}, {element} {text}, i32 {lane}", "vector"
        )
    return f"{whole} {vector}", place, alignment


MEMORY: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    LoadOp: print_load,
    StoreOp: print_store,
    DimOp: print_dim,
    StrideOp: print_stride,
    AddressOp: print_address,
    AllocaOp: print_alloca,
    TableOp: print_table,
    ViewOp: print_view,
    ReinterpretOp: print_reinterpret,
    ReshapeOp: print_reshape,
    AdvanceOp: print_advance,
    LoadVectorOp: print_load_vector,
    StoreVectorOp: print_store_vector,
}


_SUMS = 4


def print_element(printer: FunctionPrinter, block: Block, arguments: Iterable[str]) -> str:
    """Prints a region with these arguments; returns its value."""
    return print_region(printer, block, arguments)[0]


def print_region(printer: FunctionPrinter, block: Block, arguments: Iterable[str]) -> list[str]:
    """Prints a region of one or more elements with these arguments; returns its values."""
    printer.values.update(zip(block.args, arguments, strict=True))
    printer.print_block(block)
    return [printer.values[one] for one in all_yielded(block)]


def in_memory(printer: FunctionPrinter, text: str, kind: Attribute) -> str:
    """An element as it is held: a bool is a byte."""
    return printer.let(f"zext i1 {text} to i8") if llvm_type(kind) == "i1" else text


def as_value(printer: FunctionPrinter, text: str, kind: Attribute) -> str:
    """An element as operations take it."""
    return printer.let(f"trunc i8 {text} to i1") if llvm_type(kind) == "i1" else text


def fragment_rows(
    elements: Callable[[FunctionPrinter, SSAValue], list[str]],
    define: Callable[[FunctionPrinter, SSAValue, Sequence[str]], None],
    words: Callable[[FunctionPrinter, SSAValue], list[str]],
    define_words: Callable[[FunctionPrinter, SSAValue, Sequence[str]], None],
) -> dict[type[Operation], Callable[[FunctionPrinter, Any], None]]:
    """The rows that need only a thread's elements or registers.

    Args:
        elements: the texts of a fragment's elements.
        define: defines a fragment as elements.
        words: the texts of a fragment's registers, of i32.
        define_words: defines a fragment as such.
    """

    def print_values(printer: FunctionPrinter, op: FragmentValuesOp) -> None:
        kind: Any = op.fragment.type
        found = (words if are_registers(kind, op.elements) else elements)(printer, op.fragment)
        printer.values.update(zip(op.elements, found, strict=True))

    def print_of(printer: FunctionPrinter, op: FragmentOfOp) -> None:
        kind: Any = op.result.type
        texts = [printer.values[one] for one in op.elements]
        (define_words if are_registers(kind, op.elements) else define)(printer, op.result, texts)

    def print_reduce(printer: FunctionPrinter, op: FragmentReduceOp) -> None:
        source: Any = op.source.type
        is_row = op.result.type.role.data == "row"
        rows: dict[int, list[str]] = {}
        for number, text in enumerate(elements(printer, op.source)):
            place = source.layout.place(number)
            rows.setdefault(place.of_row if is_row else place.of_column, []).append(text)

        def both(one: str, other: str) -> str:
            return print_element(printer, op.body.block, (one, other))

        found: list[str] = []
        for _, texts in sorted(rows.items()):
            sums = texts[:_SUMS]
            for number, text in enumerate(texts[_SUMS:]):
                sums[number % _SUMS] = both(sums[number % _SUMS], text)
            while len(sums) > 1:
                pairs = [both(*sums[first : first + 2]) for first in range(0, len(sums) - 1, 2)]
                sums = pairs + sums[2 * len(pairs) :]
            found += sums
        define(printer, op.result, found)

    return {
        FragmentValuesOp: print_values,
        FragmentOfOp: print_of,
        FragmentReduceOp: print_reduce,
        FragmentYieldOp: print_nothing,
    }
