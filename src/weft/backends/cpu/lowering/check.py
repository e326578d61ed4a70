# SPDX-License-Identifier: Apache-2.0
"""The sanitizer's checks on the CPU.

In: simt.check. Out: a branch to the kernel's end, with what was found recorded through the runtime table. The source
line and the array's name are read here, from the user's file, since the object holds the whole report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.backends.cpu.lowering.debug import linear_thread
from weft.codegen.check_texts import array_text, places_text
from weft.codegen.runtime_abi import call_row
from weft.dialects.builder import source_location
from weft.dialects.simt.check import CheckOp
from weft.location import UNKNOWN_LOCATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_KINDS: Final = {name: number for number, name in enumerate(_native.CHECK_KINDS)}


def _print_check(printer: FunctionPrinter, op: CheckOp) -> None:
    good, bad = printer.new_label("checked"), printer.new_label("found")
    printer.branch_if(printer.values[op.condition], good, bad)
    printer.start(bad)
    site = _check_site(printer, op)
    values = printer.at_entry(f"alloca [{len(op.values)} x i64], align 8", "values")
    for number, value in enumerate(op.values):
        place = (
            printer.let(f"getelementptr i8, ptr {values}, i64 {8 * number}") if number else values
        )
        printer.line(f"store i64 {printer.values[value]}, ptr {place}, align 8")
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    call_row(
        printer,
        table,
        "sanitizer_fail",
        "ptr %launch",
        f"ptr {site}",
        f"i64 {printer.coordinates['block']}",
        f"i64 {linear_thread(printer)}",
        f"ptr {values}",
    )
    assert printer.failure_label is not None
    printer.branch(printer.failure_label)
    printer.start(good)


def _check_site(printer: FunctionPrinter, op: CheckOp) -> str:
    """A `weft_check_site`."""
    module, place = printer.module, source_location(op.location) or UNKNOWN_LOCATION
    texts = (
        place.excerpt(),
        places_text(place),
        op.array.data or array_text(place.span()) or "the array",
        op.access.data,
    )
    pointers = ", ".join(f"ptr {module.string(text)}" for text in texts)
    return module.add_global(
        "private unnamed_addr constant { ptr, ptr, ptr, ptr, i32, i32, i32, i32 } { "
        f"{pointers}, i32 {_KINDS[op.kind.data]}, i32 {len(op.values) // 2}, "
        f"i32 {op.count.value.data}, i32 0 }}, align 8",
        "site",
    )


CHECKS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    CheckOp: _print_check,
}
