# SPDX-License-Identifier: Apache-2.0
"""A block's shared memory on the CPU: offsets into the buffer that the block's worker holds.

In: cuda.shared, cuda.dynamic_shared. Out: tensors. The engine has named the buffer. Next: cooperation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.tensor_value import TensorValue
from weft.dialects.cuda.kernel import KernelOp
from weft.dialects.cuda.shared import DynamicSharedOp, SharedOp
from weft.dialects.cuda.types import DYNAMIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.function_printer import FunctionPrinter


def uses_shared_memory(kernel: KernelOp) -> bool:
    """Whether a kernel's threads share memory."""
    return any(isinstance(op, SharedOp | DynamicSharedOp) for op in kernel.walk())


def _print_shared(printer: FunctionPrinter, op: SharedOp) -> None:
    offset = op.offset.value.data if op.offset is not None else 0
    _define(printer, op, str(offset), [])


def _print_dynamic_shared(printer: FunctionPrinter, op: DynamicSharedOp) -> None:
    kernel: Operation | None = op
    while kernel is not None and not isinstance(kernel, KernelOp):
        kernel = kernel.parent_op()
    own = kernel.shared_memory_bytes if kernel is not None else 0
    offset = printer.values[op.operands[0]]
    if own:
        offset = printer.let(f"add i64 {offset}, {own}")
    _define(printer, op, offset, [printer.values[dim] for dim in op.operands[1:]])


def _define(
    printer: FunctionPrinter, op: SharedOp | DynamicSharedOp, offset: str, given: list[str]
) -> None:
    tensor_type: Any = op.results[0].type
    pointer = printer.coordinates["shared"]
    if offset != "0":
        pointer = printer.let(f"getelementptr i8, ptr {pointer}, i64 {offset}", "shared")
    dims = iter(given)
    passed = [next(dims) if dim == DYNAMIC else None for dim in tensor_type.dims]
    printer.tensors[op.results[0]] = TensorValue(tensor_type, pointer, passed)


SHARED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    SharedOp: _print_shared,
    DynamicSharedOp: _print_dynamic_shared,
}
