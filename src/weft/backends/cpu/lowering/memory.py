# SPDX-License-Identifier: Apache-2.0
"""Memory on the CPU: a thread's own arrays, a block's shared memory, atomics.

In: simt.alloca, simt.shared, simt.dynamic_shared, simt.atomic_rmw, simt.atomic_cas. Out: tensors. Small arrays are on
the stack, which is the caller's for small grids, and may be a thread's or fiber's small one; the others have offsets in
scratch memory; shared ones have offsets in the worker's buffer, which the engine has named. Atomics are the machine's,
but a load and a store on shared memory: the threads of a block, and the blocks of a cluster, run on one thread of the
machine and switch only where they wait, so nothing comes between.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.debug import print_check
from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import f64_text, memory_type, size_in_bytes
from weft.codegen.operations.atomics import (
    AtomicAccess,
    atomic_rows,
    atomic_value,
    llvm_instruction,
    llvm_swap,
)
from weft.codegen.operations.memory import print_alloca
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.memory import AllocaOp, DynamicSharedOp, SharedOp
from weft.dialects.simt.types import DYNAMIC
from weft.errors import ValueRangeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp


STACK_BYTES: Final = 16 * 1024  # of all arrays of a kernel that stay on the stack
SCRATCH_ALIGNMENT: Final = 64  # of arrays in a worker's scratch memory
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


_TOO_LARGE: Final = "the dynamic_shared array fits into the launch's shared_memory_bytes"


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


_ON_ONE_THREAD: Final = ("shared", "cluster")
_EXTREMA: Final = {"max": "smax", "min": "smin", "umax": "umax", "umin": "umin"}


def _instruction(
    printer: FunctionPrinter, access: AtomicAccess, operation: str, text: str, value: str
) -> str:
    """One read-modify-write; returns the old value."""
    if access.space not in _ON_ONE_THREAD:
        return llvm_instruction(printer, access, operation, text, value)
    alignment = size_in_bytes(text)
    old = printer.let(f"load {text}, {access.pointer}, align {alignment}", "old")
    if operation == "xchg":
        new = value
    elif operation in _EXTREMA:
        new = printer.intrinsic(f"llvm.{_EXTREMA[operation]}", text, old, value)
    else:
        new = printer.let(f"{operation} {text} {old}, {value}")
    printer.line(f"store {text} {new}, {access.pointer}, align {alignment}")
    return old


def _swap(
    printer: FunctionPrinter, access: AtomicAccess, bits: str, expected: str, new: str
) -> tuple[str, str]:
    """One compare-and-swap: the value found, and whether it was the expected one."""
    if access.space not in _ON_ONE_THREAD:
        return llvm_swap(printer, access, bits, expected, new)
    alignment = size_in_bytes(bits)
    found = printer.let(f"load {bits}, {access.pointer}, align {alignment}", "found")
    same = printer.let(f"icmp eq {bits} {found}, {expected}")
    kept = printer.let(f"select i1 {same}, {bits} {new}, {bits} {found}")
    printer.line(f"store {bits} {kept}, {access.pointer}, align {alignment}")
    return found, same


ATOMICS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = atomic_rows(
    _instruction, atomic_value, _swap
)
