# SPDX-License-Identifier: Apache-2.0
"""A module as text, up to three times as fast as `str`, since every compilation keeps one; parsing it; users' hooks.

In: a module. Out: the same text as `str`, also available in MLIR's generic form; which line comes from which operation.
Post-compile hooks are users' functions that see the module after the passes, and may change it: it is verified after
each; if a changed module cannot be compiled, the error names the hook, not weft.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind

from weft.blame import is_of_a_handler
from weft.dialects.context import make_context
from weft.errors import CompileError, InternalCompilerError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

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


if TYPE_CHECKING:
    PostCompileHook = Callable[[ModuleOp], object]


class Hooks:
    """The hooks of one compilation.

    Args:
        functions: called in order with the module.
    """

    def __init__(self, functions: Sequence[PostCompileHook] = ()) -> None:
        self.functions = tuple(functions)
        self._changed_by: list[str] = []

    def run(self, module: ModuleOp) -> None:
        """Calls each hook, and verifies the module after it.

        Raises:
            CompileError: if the module is invalid.
        """
        before = module_text(module) if self.functions else ""
        for function in self.functions:
            name = f"the post-compile hook {getattr(function, '__name__', function)!s}"
            function(module)
            try:
                module.verify()
            except Exception as error:
                if is_of_a_handler(error):
                    raise
                raise CompileError(
                    "HOOK_BROKE_MODULE", f"{name} left an invalid module: {error}"
                ) from error
            after = module_text(module)
            if after != before:
                self._changed_by.append(name)
            before = after

    @contextlib.contextmanager
    def blamed(self) -> Generator[None]:
        """Attributes failures in the `with` block to the hooks, if one changed the module.

        Raises:
            CompileError: instead of an `InternalCompilerError`.
        """
        try:
            yield
        except InternalCompilerError as error:
            if not self._changed_by:
                raise
            raise CompileError(
                "HOOK_BROKE_MODULE",
                f"{' and '.join(self._changed_by)} left a module that cannot be compiled: {error.message}",
                hint="if it also fails without the hook, it is a defect of weft",
            ) from error
