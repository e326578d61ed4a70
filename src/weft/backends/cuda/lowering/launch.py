# SPDX-License-Identifier: Apache-2.0
"""A launch on a GPU: the kernel's number, its launch structure and an array of pointers to its parameters.

In: cuda.launch_ex in a host function. Out: a call of `table->launch_cuda`, on the call's stream or the one that
the launch names. Next: stages.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from weft.codegen.launch import (
    launched_kernel,
    print_launch_structure,
    print_parameter_buffer,
    print_return_on_failure,
    scratch_bytes,
)
from weft.codegen.module_printer import quoted_bytes
from weft.codegen.runtime_abi import FRAME_STREAM, call_row, table_of_frame
from weft.dialects.builder import source_location
from weft.dialects.cuda.kernel import LaunchExOp
from weft.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.function_printer import FunctionPrinter

# CUlaunchAttributeID
_COOPERATIVE: Final = 2
_CLUSTER_DIMENSION: Final = 4
_PROGRAMMATIC_STREAM_SERIALIZATION: Final = 6


def launch_attributes(op: LaunchExOp) -> list[tuple[int, bytes]]:
    """(id, value of at most 64 bytes) of a launch's attributes, all constants."""
    found: list[tuple[int, bytes]] = []
    attributes: Any = op.attributes
    cluster = attributes.get("weft.cluster")
    if cluster is not None:
        found.append(
            (_CLUSTER_DIMENSION, struct.pack("<3I", *(v.value.data for v in cluster.data)))
        )
    if "weft.cooperative" in attributes:
        found.append((_COOPERATIVE, struct.pack("<i", 1)))
    if "weft.programmatic" in attributes:
        found.append((_PROGRAMMATIC_STREAM_SERIALIZATION, struct.pack("<i", 1)))
    others = attributes.get("weft.launch_attributes")
    for row in others.data if others is not None else ():
        found.append((row.data["id"].value.data, bytes.fromhex(row.data["value"].data)))
    return found


def _attribute_constant(printer: FunctionPrinter, attributes: list[tuple[int, bytes]]) -> str:
    """An array of `weft_launch_attribute`."""
    if not attributes:
        return "null"
    rows = ", ".join(
        f"{{ i32, i32, [64 x i8] }} {{ i32 {number}, i32 0, [64 x i8] c{quoted_bytes(value.ljust(64, bytes(1)))} }}"
        for number, value in attributes
    )
    return printer.module.add_global(
        f"private unnamed_addr constant [{len(attributes)} x {{ i32, i32, [64 x i8] }}] [{rows}], align 8",
        "attributes",
    )


def _print_launch(printer: FunctionPrinter, op: LaunchExOp) -> None:
    number, kernel = launched_kernel(op)
    if any(scratch_bytes(kernel)):
        raise UnavailableError(
            "TARGET_SCRATCH",
            f"'{kernel.sym_name.data}' uses weft.global_scratch, which launches on a GPU cannot allocate in this "
            "version",
            hint="pass a tensor with one row per block as an argument",
            location=source_location(op.location),
        )
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
    attributes = launch_attributes(op)
    constant = _attribute_constant(printer, attributes)
    launch = print_launch_structure(printer, op, constant, len(attributes))
    with _StreamOfLaunch(printer, op):
        code = call_row(
            printer,
            table_of_frame(printer),
            "launch_cuda",
            "ptr %frame",
            f"i32 {number}",
            f"ptr {launch}",
            f"ptr {pointers}",
        )
    print_return_on_failure(printer, code)


class _StreamOfLaunch:
    """Puts a launch's own stream into the frame for the time of the call."""

    __slots__ = ("_before", "_op", "_printer", "_slot")

    def __init__(self, printer: FunctionPrinter, op: LaunchExOp) -> None:
        self._printer = printer
        self._op = op

    def __enter__(self) -> None:
        if self._op.stream is None:
            return
        self._slot = self._printer.let(f"getelementptr i8, ptr %frame, i64 {FRAME_STREAM}")
        self._before = self._printer.let(f"load ptr, ptr {self._slot}, align 8", "stream")
        stream = self._printer.values[self._op.stream]
        self._printer.line(f"store ptr {stream}, ptr {self._slot}, align 8")

    def __exit__(self, *_: object) -> None:
        if self._op.stream is not None:
            self._printer.line(f"store ptr {self._before}, ptr {self._slot}, align 8")


LAUNCH: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    LaunchExOp: _print_launch,
}
