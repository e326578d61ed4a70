# SPDX-License-Identifier: Apache-2.0
"""A launch on a GPU: the kernel's number, its launch structure and an array of pointers to its parameters.

In: simt.launch_ex in a host function. Out: a call of `table->launch_device`, on the call's stream or the one that the
launch names.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.names import quoted
from weft.codegen.operations.launch import (
    launched_kernel,
    print_launch_structure,
    print_parameter_buffer,
    print_return_on_failure,
    scratch_bytes,
)
from weft.codegen.runtime_abi import FRAME_STREAM, call_row, table_of_frame
from weft.dialects.simt.kernel import MAX_LAUNCH_ATTRIBUTE_BYTES, POINTER, LaunchExOp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.codegen.operations.kernel_parameters import KernelParameter
    from weft.dialects.simt.kernel import KernelOp

_GLOBAL_SCRATCH: Final = 0  # enum weft_scratch_kind
_SCRATCH_ALIGNMENT: Final = (
    256  # as all device memory, so that blocks of rounded sizes begin on cache lines
)


def _attribute_constant(printer: FunctionPrinter, attributes: Sequence[tuple[int, bytes]]) -> str:
    """An array of `weft_launch_attribute`."""
    if not attributes:
        return "null"
    padded = [
        (number, value.ljust(MAX_LAUNCH_ATTRIBUTE_BYTES, b"\0")) for number, value in attributes
    ]
    rows = ", ".join(
        f"{{ i32, i32, [64 x i8] }} {{ i32 {number}, i32 0, [64 x i8] c{quoted(value)} }}"
        for number, value in padded
    )
    return printer.module.add_global(
        f"private unnamed_addr constant [{len(attributes)} x {{ i32, i32, [64 x i8] }}] [{rows}], align 8",
        "attributes",
    )


def _scratch_arrays(
    kernel: KernelOp, parameters: Sequence[KernelParameter]
) -> list[tuple[int, int]]:
    """Each scratch array that is used: the parameter that is the pointer to it, and its bytes per block."""
    sizes = dict(zip(kernel.scratch_arguments, scratch_bytes(kernel), strict=True))
    arguments = kernel.body.block.args
    return [
        (index, sizes[arguments[parameter.argument]])
        for index, parameter in enumerate(parameters)
        if parameter.part == POINTER and sizes.get(arguments[parameter.argument])
    ]


def _scratch_constant(printer: FunctionPrinter, arrays: Sequence[tuple[int, int]]) -> str:
    """An array of `weft_scratch`; the runtime allocates each for all blocks and stores its address."""
    rows = ", ".join(
        f"{{ i64, i64, i32, i32 }} {{ i64 {size}, i64 {_SCRATCH_ALIGNMENT}, i32 {index}, i32 {_GLOBAL_SCRATCH} }}"
        for index, size in arrays
    )
    return printer.module.add_global(
        f"private unnamed_addr constant [{len(arrays)} x {{ i64, i64, i32, i32 }}] [{rows}], align 8",
        "scratch",
    )


def _print_launch(
    printer: FunctionPrinter, op: LaunchExOp, attributes: Sequence[tuple[int, bytes]]
) -> None:
    number, kernel = launched_kernel(op)
    buffer, parameters = print_parameter_buffer(
        printer, op, kernel, ["null"] * len(kernel.scratch_arguments)
    )
    pointers = "null"
    if parameters:
        pointers = printer.alloca(f"[{len(parameters)} x ptr]", 8, "pointers")
    for index, parameter in enumerate(parameters):
        value = printer.let(f"getelementptr i8, ptr {buffer}, i64 {parameter.offset_bytes}")
        slot = printer.let(f"getelementptr ptr, ptr {pointers}, i64 {index}")
        printer.line(f"store ptr {value}, ptr {slot}, align 8")
    constant = _attribute_constant(printer, attributes)
    launch = print_launch_structure(printer, op, constant, len(attributes))
    arrays = _scratch_arrays(kernel, parameters)
    row, operands = "launch_device", [f"ptr {pointers}"]
    if arrays:
        row = "launch_device_scratch"
        operands += [f"ptr {_scratch_constant(printer, arrays)}", f"i64 {len(arrays)}"]
    with _stream_of_launch(printer, op):
        code = call_row(
            printer,
            table_of_frame(printer),
            row,
            "ptr %frame",
            f"i32 {number}",
            f"ptr {launch}",
            *operands,
        )
    print_return_on_failure(printer, code)


@contextmanager
def _stream_of_launch(printer: FunctionPrinter, op: LaunchExOp) -> Generator[None]:
    """Puts a launch's own stream into the frame for the time of the call."""
    if op.stream is None:
        yield
        return
    slot = printer.let(f"getelementptr i8, ptr %frame, i64 {FRAME_STREAM}")
    before = printer.let(f"load ptr, ptr {slot}, align 8", "stream")
    printer.line(f"store ptr {printer.values[op.stream]}, ptr {slot}, align 8")
    yield
    printer.line(f"store ptr {before}, ptr {slot}, align 8")


def launch_rows(
    attributes: Callable[[LaunchExOp], Sequence[tuple[int, bytes]]],
) -> dict[type[Operation], Callable[[FunctionPrinter, Any], None]]:
    """The row of a launch.

    Args:
        attributes: (id, value of at most 64 bytes) of each attribute of a launch, as the driver takes it; raises for
            what it does not take.
    """
    return {LaunchExOp: lambda printer, op: _print_launch(printer, op, attributes(op))}
