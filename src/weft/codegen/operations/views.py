# SPDX-License-Identifier: Apache-2.0
"""Views and vector accesses.

In: simt.view, simt.load_vector, simt.store_vector. Out: an address with the view's dims and strides, LLVM vectors,
aligned to their size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import memory_type, size_in_bytes
from weft.codegen.operations.memory import byte_of_bool, is_bool
from weft.dialects.simt.types import DYNAMIC
from weft.dialects.simt.views import LoadVectorOp, StoreVectorOp, ViewOp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


def print_view(printer: FunctionPrinter, op: ViewOp) -> None:
    """`simt.view`: an address; strides only if the layout class leaves them open."""
    source = printer.tensors[op.source]
    view = op.result_type
    pointer = source.address(printer, list(op.starts))
    dims = [
        printer.values[op.size(number)] if dim == DYNAMIC else str(dim)
        for number, dim in enumerate(view.dims)
    ]
    strides = [
        _scaled(printer, source.stride(printer, dimension), step)
        for dimension, step in op.dimensions[: view.open_strides]
    ]
    printer.tensors[op.result] = TensorValue(view, pointer, dims, strides)


def _scaled(printer: FunctionPrinter, stride: str, step: int) -> str:
    if step == 1:
        return stride
    return printer.let(f"mul nsw i64 {stride}, {step}")


def _vector_place(
    printer: FunctionPrinter, tensor: SSAValue, indices: Sequence[SSAValue], count: int
) -> tuple[str, str, int]:
    """The element's type in memory, the address with its type, and the alignment in bytes."""
    value = printer.tensors[tensor]
    element = memory_type(value.type.element_type)
    pointer = printer.module.target.pointer(value.type.space.data)
    address = value.address(printer, indices)
    return element, f"{pointer} {address}", count * size_in_bytes(element)


def print_load_vector(printer: FunctionPrinter, op: LoadVectorOp) -> None:
    """`simt.load_vector`: one load, and its elements."""
    count = len(op.elements)
    element, place, alignment = _vector_place(printer, op.tensor, op.indices, count)
    whole = f"<{count} x {element}>"
    vector = printer.let(f"load {whole}, {place}, align {alignment}", "vector")
    for lane, result in enumerate(op.elements):
        text = f"extractelement {whole} {vector}, i32 {lane}"
        if is_bool(printer.tensors[op.tensor].type):
            byte = printer.let(text)
            text = f"icmp ne i8 {byte}, 0"
        printer.define(result, text)


def print_store_vector(printer: FunctionPrinter, op: StoreVectorOp) -> None:
    """`simt.store_vector`: one store of the combined elements."""
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
    printer.line(f"store {whole} {vector}, {place}, align {alignment}")


VIEWS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ViewOp: print_view,
    LoadVectorOp: print_load_vector,
    StoreVectorOp: print_store_vector,
}
