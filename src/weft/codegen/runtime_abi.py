# SPDX-License-Identifier: Apache-2.0
"""Offsets in the structures of native/include/weft/runtime_table.h.

In: the rows of the runtime table, from the extension. Out: offsets and function types for generated code.
A test compares each offset with the header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft import _native

if TYPE_CHECKING:
    from weft.codegen.llvm.function_printer import FunctionPrinter

# weft_state
STATE_TABLE: Final = 0
# weft_call_frame
FRAME_STATE: Final = 0
FRAME_STREAM: Final = 8
FRAME_SCRATCH: Final = 56
FRAME_TENSORS: Final = 64
# weft_launch
LAUNCH_GRID: Final = 0
LAUNCH_BLOCK: Final = 24
LAUNCH_SHARED_MEMORY: Final = 48
LAUNCH_ATTRIBUTES: Final = 56
LAUNCH_ATTRIBUTE_COUNT: Final = 64
LAUNCH_KERNEL_NAME: Final = 72
LAUNCH_CORESIDENCY: Final = 80
LAUNCH_MOST_THREADS: Final = 88
LAUNCH_CLUSTER: Final = 96
LAUNCH_BYTES: Final = 120
# weft_cpu_launch
CPU_LAUNCH_TABLE: Final = 0
CPU_LAUNCH_GRID: Final = 8
CPU_LAUNCH_BLOCK: Final = 20
CPU_LAUNCH_SHARED_MEMORY: Final = 32

# name -> (offset in bytes of the function pointer in the table, LLVM function type)
ROWS: Final = {
    name: (8 + 8 * index, llvm_type)
    for index, (name, llvm_type) in enumerate(_native.RUNTIME_TABLE)
}


def call_row(printer: FunctionPrinter, table: str, row: str, *arguments: str) -> str:
    """Calls a function of the runtime table.

    Args:
        printer: where the call goes.
        table: name of the `RuntimeTable*`.
        row: the function, such as ``"launch_cpu"``.
        arguments: with their types.
    Returns:
        The name of the result; an empty string for void.
    """
    offset, function_type = ROWS[row]
    slot = printer.let(f"getelementptr i8, ptr {table}, i64 {offset}")
    function = printer.let(f"load ptr, ptr {slot}, align 8", row)
    result = function_type.partition(" ")[0]
    call = f"call {result} {function}({', '.join(arguments)})"
    if result == "void":
        printer.line(call)
        return ""
    return printer.let(call, "rc")


def table_of_frame(printer: FunctionPrinter, frame: str = "%frame") -> str:
    """The runtime table of a call's frame."""
    state = printer.let(f"load ptr, ptr {frame}, align 8", "state")
    return printer.let(f"load ptr, ptr {state}, align 8", "table")
