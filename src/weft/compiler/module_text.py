# SPDX-License-Identifier: Apache-2.0
"""A module as text, up to three times as fast as `str`, since every compilation keeps one; and parsing it.

In: a module. Out: the same text as `str`, also available in MLIR's generic form; which line comes from which operation.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind

from weft.dialects.context import make_context

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation


class IRText(str):
    """A module as text; ``generic()`` returns the form for other MLIR tools."""

    def generic(self) -> str:
        """The same module in MLIR's generic form, for ``mlir-opt --allow-unregistered-dialect``."""
        stream = io.StringIO()
        Printer(stream, print_generic_format=True).print_op(parse_module(self))
        return stream.getvalue()


# Operations that are printed as `%c = arith.addi %a, %b : i32` where they have no flags.
_BINARY: Final = frozenset(
    operation
    for operation in arith.Arith.operations
    if issubclass(
        operation,
        arith.SignlessIntegerBinaryOperation | arith.FloatingPointLikeBinaryOperation,
    )
)


class _QuickPrinter(Printer):
    """A printer that does not count columns, which xDSL needs only for underlining, and knows arithmetic by itself."""

    def __init__(self, stream: io.StringIO) -> None:
        super().__init__(stream)
        self._write = stream.write
        self._kind: tuple[Attribute | None, str] = (None, "")

    def print_op(self, op: Operation) -> None:
        if type(op) not in _BINARY or op.attributes or any(map(_flags, op.properties.values())):
            super().print_op(op)
            return
        (result,), (left, right) = op.results, op.operands
        kind = result.type
        if kind is not self._kind[0]:
            self._kind = (kind, str(kind))
        self.print_ssa_value(result)
        self._write(f" = {op.name} ")
        self.print_ssa_value(left)
        self._write(", ")
        self.print_ssa_value(right)
        self._write(f" : {self._kind[1]}")

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._write(text)


def _flags(flags: Any) -> object:
    """Text of a property of arithmetic, empty by default."""
    return flags.data


def module_text(module: Operation) -> str:
    """The module in the form read by xDSL's parser."""
    stream = io.StringIO()
    _QuickPrinter(stream).print_op(module)
    return stream.getvalue()


class _CountedStream(io.StringIO):
    """A text that knows the number of its last line, from 0."""

    line = 0

    def write(self, text: str) -> int:
        self.line += text.count("\n")
        return super().write(text)


class _PlacedPrinter(_QuickPrinter):
    """A printer that knows which operation began each line.

    Attributes:
        locations: by line; of several operations on one, the first one's.
    """

    def __init__(self, stream: _CountedStream) -> None:
        super().__init__(stream)
        self.locations: dict[int, Attribute] = {}
        self._counted = stream

    def print_op(self, op: Operation) -> None:
        self.locations.setdefault(self._counted.line, op.location)
        super().print_op(op)


def placed_lines(module: Operation) -> list[tuple[str, Attribute | None]]:
    """The lines of `module_text`, each with the location of the operation that begins there."""
    stream = _CountedStream()
    printer = _PlacedPrinter(stream)
    printer.print_op(module)
    lines = stream.getvalue().splitlines()
    return [(line, printer.locations.get(number)) for number, line in enumerate(lines)]


class _Parser(Parser):
    """A parser that keeps non-ASCII strings as text, where xDSL makes them bytes."""

    def parse_optional_str_literal(self) -> str | None:
        found = super().parse_optional_str_literal()
        if found is None and self._current_token.kind is MLIRTokenKind.BYTES_LIT:
            return self.parse_bytes_literal().decode()
        return found


def parse_module(text: str) -> ModuleOp:
    """The module of a text, which may contain a post-compile hook's own operations."""
    context = make_context()
    context.allow_unregistered = True
    return _Parser(context, text).parse_module()
