# SPDX-License-Identifier: Apache-2.0
"""The scratch memory of a host function.

In: simt.scratch. Out: a call of `table->take_scratch`, which checks the sizes, and the rows of ``fn.scratch``. The
wrapper calls `release_scratch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.llvm.function_printer import TensorValue, widened
from weft.codegen.operations.launch import print_return_on_failure, stream_text
from weft.codegen.runtime_abi import call_row, table_of_frame
from weft.dialects.builder import source_location
from weft.dialects.simt.memory import ScratchOp
from weft.dialects.simt.types import DYNAMIC, array_bytes
from weft.dialects.walk import walk
from weft.location import UNKNOWN_LOCATION
from weft.runtime.object_code import ScratchInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.types import TensorType


def print_scratch(printer: FunctionPrinter, op: ScratchOp) -> None:
    """`simt.scratch`: an address; leaves the host function where there is no memory."""
    kind: TensorType = op.result.type
    dims = [
        printer.values[op.size(number)] if dim == DYNAMIC else str(dim)
        for number, dim in enumerate(kind.dims)
    ]
    sizes = [widened(printer, dim, kind.dim_bits.data, 64) for dim in dims]
    element_bytes = array_bytes((), kind.element_type)
    stream = stream_text(printer, op.stream)
    pointer = print_take(printer, stream, _place(op), element_bytes, sizes)
    printer.tensors[op.result] = TensorValue(kind, pointer, dims)


def print_take(
    printer: FunctionPrinter, stream: str, place: str, element_bytes: int, sizes: Sequence[str]
) -> str:
    """Takes an array until `release_scratch`, or leaves the host function; the name of its address.

    Args:
        printer: of the host function.
        stream: in whose order.
        place: what messages begin with.
        element_bytes: of each element.
        sizes: the shape, i64.
    """
    slots = printer.alloca(f"[{max(len(sizes), 1)} x i64]", 8, "sizes")
    for number, size in enumerate(sizes):
        slot = printer.let(f"getelementptr i64, ptr {slots}, i64 {number}")
        printer.line(f"store i64 {size}, ptr {slot}, align 8")
    memory = printer.alloca("ptr", 8, "memory")
    code = call_row(
        printer,
        table_of_frame(printer),
        "take_scratch",
        "ptr %frame",
        f"ptr {stream}",
        f"ptr {printer.module.string(place)}",
        f"i64 {element_bytes}",
        f"ptr {slots}",
        f"i64 {len(sizes)}",
        f"ptr {memory}",
    )
    print_return_on_failure(printer, code)
    return printer.let(f"load ptr, ptr {memory}, align 8", "scratch")


def scratch_arrays(module: ModuleOp) -> tuple[ScratchInfo, ...]:
    """Each array of a module's host function, in the order of the source."""
    return tuple(_described(op) for op in walk(module) if isinstance(op, ScratchOp))


def _described(op: ScratchOp) -> ScratchInfo:
    kind: TensorType = op.result.type
    dims = kind.dims
    size = None if DYNAMIC in dims else array_bytes(dims, kind.element_type)
    where = source_location(op.location) or UNKNOWN_LOCATION
    shape = tuple(None if dim == DYNAMIC else dim for dim in dims)
    return ScratchInfo(op.text.data, shape, size, where.file, where.line)


def _place(op: ScratchOp) -> str:
    """What messages begin with: ``sum_all (sums.py:12), weft.scratch(n, weft.f32)``."""
    where = source_location(op.location)
    return op.text.data if where is None else f"{where.function} ({where}), {op.text.data}"
