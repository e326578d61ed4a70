# SPDX-License-Identifier: Apache-2.0
"""A module as text, a quarter quicker than by `str`, since every compilation keeps one; and the text as a module.

In: a module. Out: the very text that `str` gives, which users can have in MLIR's generic form too.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind

from weft.dialects.context import make_context

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation


class IRText(str):
    """A module as text; ``generic()`` gives the form that other MLIR tools read."""

    def generic(self) -> str:
        """The same module in MLIR's generic form, for ``mlir-opt --allow-unregistered-dialect``."""
        stream = io.StringIO()
        Printer(stream, print_generic_format=True).print_op(parse_module(self))
        return stream.getvalue()


class _QuickPrinter(Printer):
    """Does not count columns, which xDSL needs for underlining only; a text has fifteen pieces per operation."""

    def __init__(self, stream: io.StringIO) -> None:
        super().__init__(stream)
        self._write = stream.write

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._write(text)


def module_text(module: Operation) -> str:
    """The module in the form that xDSL's parser reads."""
    stream = io.StringIO()
    _QuickPrinter(stream).print_op(module)
    return stream.getvalue()


class _Parser(Parser):
    """Reads text in UTF-8 as a string, where xDSL has bytes as soon as a character is not ASCII."""

    def parse_optional_str_literal(self) -> str | None:
        found = super().parse_optional_str_literal()
        if found is None and self._current_token.kind is MLIRTokenKind.BYTES_LIT:
            return self.parse_bytes_literal().decode()
        return found


def parse_module(text: str) -> ModuleOp:
    """The module of a text, which may hold operations that a post-compile hook made up."""
    context = make_context()
    context.allow_unregistered = True
    return _Parser(context, text).parse_module()
