# SPDX-License-Identifier: Apache-2.0
"""A block's shared memory on the CPU: offsets into the worker's buffer.

In: simt.shared, simt.dynamic_shared. Out: tensors. The engine has named the buffer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.debug import print_check
from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import f64_text, memory_type, size_in_bytes
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.memory import DynamicSharedOp, SharedOp
from weft.dialects.simt.types import DYNAMIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp

_TOO_LARGE: Final = (
    "the dynamic_shared array ends within what the launch asks for with shared_memory_bytes"
)


def uses_shared_memory(kernel: KernelOp) -> bool:
    """Whether a kernel's threads share memory."""
    return any(isinstance(op, SharedOp | DynamicSharedOp) for op in walk(kernel))


def _print_shared(printer: FunctionPrinter, op: SharedOp) -> None:
    offset = op.offset.value.data if op.offset is not None else 0
    _define(printer, op, str(offset), [])


def _print_dynamic_shared(printer: FunctionPrinter, op: DynamicSharedOp) -> None:
    own = kernel_of(op).shared_memory_bytes
    offset = printer.values[op.operands[0]]
    dims = [printer.values[dim] for dim in op.operands[1:]]
    _print_end_check(printer, op, own, offset, dims)
    if own:
        offset = printer.let(f"add i64 {offset}, {own}")
    _define(printer, op, offset, dims)


def _print_end_check(
    printer: FunctionPrinter, op: DynamicSharedOp, own: int, offset: str, given: list[str]
) -> None:
    """Fails the launch if the array exceeds the block's memory, which is process memory here."""
    tensor_type: Any = op.results[0].type
    size = float(size_in_bytes(memory_type(tensor_type.element_type)))
    size *= math.prod(dim for dim in tensor_type.dims if dim != DYNAMIC)
    # As double, which does not wrap; a negative dimension or offset counts as a large one.
    end = f64_text(size)
    for dim in given:
        wide = printer.let(f"uitofp i32 {dim} to double")
        end = printer.let(f"fmul double {end}, {wide}")
    begin = printer.let(f"uitofp i64 {offset} to double")
    end = printer.let(f"fadd double {end}, {begin}")
    end = printer.let(f"fadd double {end}, {f64_text(float(own))}", "end")
    place = printer.let(f"getelementptr i8, ptr %launch, i64 {abi.CPU_LAUNCH_SHARED_MEMORY}")
    bytes_there = printer.let(f"load i32, ptr {place}, align 4")
    there = printer.let(f"uitofp i32 {bytes_there} to double")
    print_check(printer, op, printer.let(f"fcmp ole double {end}, {there}"), _TOO_LARGE)


def _define(
    printer: FunctionPrinter, op: SharedOp | DynamicSharedOp, offset: str, given: list[str]
) -> None:
    tensor_type: Any = op.results[0].type
    own = printer.coordinates.get(f"shared at {offset}")
    pointer = own or printer.coordinates["shared"]
    if own is None and offset != "0":
        pointer = printer.let(f"getelementptr i8, ptr {pointer}, i64 {offset}", "shared")
    dims = iter(given)
    passed = [next(dims) if dim == DYNAMIC else None for dim in tensor_type.dims]
    printer.tensors[op.results[0]] = TensorValue(tensor_type, pointer, passed)


SHARED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    SharedOp: _print_shared,
    DynamicSharedOp: _print_dynamic_shared,
}
