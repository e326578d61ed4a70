# SPDX-License-Identifier: Apache-2.0
"""Fragments by their elements: what is the same on every target.

In: regions that compute an element, the texts of a thread's elements. Out: the region's operations; rows of a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.codegen.llvm.types import llvm_type
from weft.codegen.operations.control_flow import print_nothing
from weft.dialects.simt.fragment import (
    FragmentReduceOp,
    FragmentValuesOp,
    FragmentYieldOp,
    yielded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xdsl.ir import Attribute, Block, Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

_SUMS = 4


def print_element(printer: FunctionPrinter, block: Block, arguments: Iterable[str]) -> str:
    """Prints a region with these arguments; returns its value."""
    printer.values.update(zip(block.args, arguments, strict=True))
    printer.print_block(block)
    return printer.values[yielded(block)]


def in_memory(printer: FunctionPrinter, text: str, kind: Attribute) -> str:
    """An element as it is held: a bool is a byte."""
    return printer.let(f"zext i1 {text} to i8") if llvm_type(kind) == "i1" else text


def as_value(printer: FunctionPrinter, text: str, kind: Attribute) -> str:
    """An element as operations take it."""
    return printer.let(f"trunc i8 {text} to i1") if llvm_type(kind) == "i1" else text


def fragment_rows(
    elements: Callable[[FunctionPrinter, SSAValue], list[str]],
    define: Callable[[FunctionPrinter, SSAValue, Sequence[str]], None],
) -> dict[type[Operation], Callable[[FunctionPrinter, Any], None]]:
    """The rows that need only a thread's elements.

    Args:
        elements: the texts of a fragment's elements.
        define: defines a fragment as elements.
    """

    def print_values(printer: FunctionPrinter, op: FragmentValuesOp) -> None:
        printer.values.update(zip(op.elements, elements(printer, op.fragment), strict=True))

    def print_reduce(printer: FunctionPrinter, op: FragmentReduceOp) -> None:
        source: Any = op.source.type
        rows: dict[int, list[str]] = {}
        for number, text in enumerate(elements(printer, op.source)):
            rows.setdefault(source.layout.place(number).of_row, []).append(text)

        def both(one: str, other: str) -> str:
            return print_element(printer, op.body.block, (one, other))

        found: list[str] = []
        for _, texts in sorted(rows.items()):
            sums = texts[:_SUMS]
            for number, text in enumerate(texts[_SUMS:]):
                sums[number % _SUMS] = both(sums[number % _SUMS], text)
            while len(sums) > 1:
                pairs = [both(*sums[first : first + 2]) for first in range(0, len(sums) - 1, 2)]
                sums = pairs + sums[2 * len(pairs) :]
            found += sums
        define(printer, op.result, found)

    return {
        FragmentValuesOp: print_values,
        FragmentReduceOp: print_reduce,
        FragmentYieldOp: print_nothing,
    }
