# SPDX-License-Identifier: Apache-2.0
"""Shared memory on a GPU: one dynamic buffer per block, which every array is a part of.

In: simt.shared with its offset, simt.dynamic_shared. Out: pointers into an external array of the shared address
space, whose size the launch gives; so 48 kB is not a limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.function_printer import TensorValue
from weft.dialects.builder import source_location
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.memory import DynamicSharedOp, SharedOp
from weft.dialects.simt.types import DYNAMIC, SWIZZLED_ALIGNMENT, TILE_ALIGNMENT
from weft.errors import REPORT_HINT, InternalCompilerError, ValueRangeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp

# Alignment of the buffer → its name: `$` is legal in PTX, and no user's kernel is called so.
_BUFFERS: Final = {
    16: "weft$shared",
    TILE_ALIGNMENT: "weft$tiles",
    SWIZZLED_ALIGNMENT: "weft$swizzled",
}


def check_shared_memory(kernel: KernelOp, most: int, architecture: str) -> None:
    """Refuses a kernel whose own shared arrays no block of the architecture can have.

    Args:
        kernel: laid out.
        most: bytes that a block may have.
        architecture: its name, for the message.
    Raises:
        ValueRangeError: with both numbers.
    """
    bytes_needed = kernel.shared_memory_bytes
    if bytes_needed > most:
        raise ValueRangeError(
            "SHARED_TOO_LARGE",
            f"the shared arrays of '{kernel.sym_name.data}' take {bytes_needed} bytes; "
            f"a block has at most {most} on {architecture}",
            hint="use smaller tiles or fewer of them",
            location=source_location(kernel.location),
        )


def _at(printer: FunctionPrinter, op: Operation, offset: int) -> str:
    """A pointer into the buffer; it is as aligned as one of the kernel's arrays needs it."""
    target = printer.module.target
    kind = target.pointer("shared")
    arrays = [other for other in kernel_of(op).body.block.ops if isinstance(other, SharedOp)]
    needed = max((array.result.type.alignment_bytes.data for array in arrays), default=1)
    alignment = next(each for each in _BUFFERS if each >= needed)
    definition = f"external {kind.removeprefix('ptr ')} global [0 x i8], align {alignment}"
    buffer = printer.module.declare_global(_BUFFERS[alignment], definition)
    if target.pointer_copy:
        copy = f"call align {alignment} {kind} {target.pointer_copy}({kind} {buffer})"
        buffer = printer.at_entry(copy, "buffer")
        advance = f"getelementptr i8, {kind} {buffer}, i64 {offset}"
        return printer.at_entry(advance, "shared") if offset else buffer
    return f"getelementptr (i8, {kind} {buffer}, i64 {offset})" if offset else buffer


def _print_shared(printer: FunctionPrinter, op: Any) -> None:
    offset = op.offset
    if offset is None:
        raise InternalCompilerError(
            "CODEGEN_SHARED", "a shared array was not laid out", hint=REPORT_HINT
        )
    pointer = _at(printer, op, offset.value.data)
    printer.tensors[op.results[0]] = TensorValue(op.results[0].type, pointer)


def _print_dynamic_shared(printer: FunctionPrinter, op: Any) -> None:
    tensor_type = op.results[0].type
    start = _at(printer, op, kernel_of(op).shared_memory_bytes)
    offset = printer.values[op.offset]
    pointer = start
    if offset != "0":
        buffer = f"{printer.module.target.pointer('shared')} {start}"
        pointer = printer.let(f"getelementptr i8, {buffer}, i64 {offset}", "dynamic")
    given = iter(op.dims)
    dims = [printer.values[next(given)] if dim == DYNAMIC else None for dim in tensor_type.dims]
    printer.tensors[op.results[0]] = TensorValue(tensor_type, pointer, dims)


SHARED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    SharedOp: _print_shared,
    DynamicSharedOp: _print_dynamic_shared,
}
