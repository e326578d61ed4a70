# SPDX-License-Identifier: Apache-2.0
"""A thread's own arrays on the CPU: small ones on the stack, the others in scratch memory.

In: the simt.alloca operations of a kernel. Out: the offsets of those in scratch memory; tensors. The stack is
the caller's for small grids, and may be a thread's or fiber's small one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import memory_type, size_in_bytes
from weft.codegen.operations.memory import print_alloca
from weft.dialects.simt.memory import AllocaOp
from weft.errors import ValueRangeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp

STACK_BYTES: Final = 16 * 1024  # of all arrays of a kernel that stay on the stack
SCRATCH_ALIGNMENT: Final = 64  # of what a worker's scratch memory holds
_MOST_BYTES: Final = 1 << 30  # of a thread in scratch memory; the runtime counts them in 32 bits


class LocalMemory:
    """The locations of a kernel's arrays.

    Attributes:
        offsets: of each array in the thread's part of the scratch memory; the others are on the stack.
        bytes: of that part, a multiple of 64.
    """

    def __init__(self, kernel: KernelOp) -> None:
        self.offsets: dict[AllocaOp, int] = {}
        self.bytes = 0
        arrays = sorted((op for op in kernel.walk() if isinstance(op, AllocaOp)), key=_size)
        on_stack = 0
        for array in arrays:  # the small ones first: those are in registers, as often as not
            size = -(-_size(array) // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
            on_stack += size
            if on_stack > STACK_BYTES:
                self.offsets[array] = self.bytes
                self.bytes += size
        if self.bytes > _MOST_BYTES:
            raise ValueRangeError(
                "LOCAL_TOO_LARGE",
                f"the weft.local arrays of kernel '{kernel.sym_name.data}' take {self.bytes} bytes per thread; at "
                f"most {_MOST_BYTES} are allowed",
                hint="keep large arrays in a tensor argument with one row per thread",
            )

    def print_arrays(self, printer: FunctionPrinter, memory: str) -> None:
        """Defines the arrays in the thread's part of the scratch memory, which begins there."""
        for array, offset in self.offsets.items():
            tensor_type: Any = array.results[0].type
            pointer = printer.let(f"getelementptr i8, ptr {memory}, i64 {offset}", "local")
            printer.tensors[array.results[0]] = TensorValue(tensor_type, pointer)


def _size(array: AllocaOp) -> int:
    tensor_type: Any = array.results[0].type
    size = size_in_bytes(memory_type(tensor_type.element_type))
    for dim in tensor_type.dims:
        size *= dim
    return size


def _print_local(printer: FunctionPrinter, op: AllocaOp) -> None:
    """`simt.alloca`, once, though the thread loop prints a kernel's operations several times."""
    if op.results[0] not in printer.tensors:
        print_alloca(printer, op)


LOCAL: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    AllocaOp: _print_local,
}
