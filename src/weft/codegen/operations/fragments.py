# SPDX-License-Identifier: Apache-2.0
"""A function of a fragment's elements, printed for one of them.

In: a region, and the texts of its arguments at one place. Out: its operations, and its value's text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.llvm.types import llvm_type
from weft.dialects.simt.fragment import yielded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Attribute, Block

    from weft.codegen.llvm.function_printer import FunctionPrinter


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
