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
    from xdsl.dialects.builtin import ModuleOp

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.types import TensorType


def print_scratch(printer: FunctionPrinter, op: ScratchOp) -> None:
    """`simt.scratch`: its sizes and its address on the stack; leaves the host function where there is no memory."""
    kind: TensorType = op.result.type
    dims = [
        printer.values[op.size(number)] if dim == DYNAMIC else str(dim)
        for number, dim in enumerate(kind.dims)
    ]
    sizes = printer.alloca(f"[{max(kind.rank, 1)} x i64]", 8, "sizes")
    for number, dim in enumerate(dims):
        slot = printer.let(f"getelementptr i64, ptr {sizes}, i64 {number}")
        wide = widened(printer, dim, kind.dim_bits.data, 64)
        printer.line(f"store i64 {wide}, ptr {slot}, align 8")
    memory = printer.alloca("ptr", 8, "memory")
    code = call_row(
        printer,
        table_of_frame(printer),
        "take_scratch",
        "ptr %frame",
        f"ptr {stream_text(printer, op.stream)}",
        f"ptr {printer.module.string(_place(op))}",
        f"i64 {array_bytes((), kind.element_type)}",
        f"ptr {sizes}",
        f"i64 {kind.rank}",
        f"ptr {memory}",
    )
    print_return_on_failure(printer, code)
    pointer = printer.let(f"load ptr, ptr {memory}, align 8", "scratch")
    printer.tensors[op.result] = TensorValue(kind, pointer, dims)


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
