# SPDX-License-Identifier: Apache-2.0
"""Locations in users' source files.

In: file, line and columns of an AST node, and the call that inlined it. Out: the excerpt with a caret in every
compile-time error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNKNOWN_FILE: Final = "<unknown>"


class SourceLocation:
    """A span in a source file, with the chain of calls that inlined it.

    Attributes:
        file: path as Python knows it (``co_filename``).
        line: first line, from 1.
        column: first column, from 0, in characters.
        end_line, end_column: end of the span, exclusive; carets mark the part on the first line.
        function: name of the enclosing function.
        caller: the call that inlined this function, or None.
        lines: the file's lines when compiled; None: as they are when shown.
    """

    __slots__ = ("caller", "column", "end_column", "end_line", "file", "function", "line", "lines")

    def __init__(
        self,
        file: str,
        line: int,
        column: int = 0,
        end_line: int | None = None,
        end_column: int | None = None,
        function: str = "",
        caller: SourceLocation | None = None,
        lines: Sequence[str] | None = None,
    ) -> None:
        self.file = file
        self.line = line
        self.column = column
        self.end_line = line if end_line is None else end_line
        self.end_column = column + 1 if end_column is None else end_column
        self.function = function
        self.caller = caller
        self.lines = lines

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the lines: another process reads the file.
        span = (self.file, self.line, self.column, self.end_line, self.end_column)
        return SourceLocation, (*span, self.function, self.caller)

    def __repr__(self) -> str:
        return f"SourceLocation({self.file}:{self.line}:{self.column})"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def excerpt(self) -> str:
        """The place, its source line and a caret line, then the chain of calls.

        Example:
            >>> print(SourceLocation("missing.py", 3, function="add").excerpt())
            missing.py:3, in add
        """
        parts = [self._heading() + self._line_and_caret()]
        call = self.caller
        last, repeated = "", 0
        while call is not None:
            text = f"  called from {call._heading()}" + call._source_line(indent="      ")
            if text == last:  # recursion
                repeated += 1
            else:
                parts += [f"  ({repeated} more of these)", text] if repeated else [text]
                last, repeated = text, 0
            call = call.caller
        return "\n".join([*parts, f"  ({repeated} more of these)"] if repeated else parts)

    def _heading(self) -> str:
        return f"{self.file}:{self.line}" + (f", in {self.function}" if self.function else "")

    def span(self) -> str:
        """The text of the span, on one line; empty where the source cannot be read."""
        lines = [self._text(line) for line in range(self.line, self.end_line + 1)]
        lines[-1] = lines[-1][: self.end_column]
        lines[0] = lines[0][self.column :]
        return " ".join(" ".join(lines).split()).replace("( ", "(")

    def line_text(self) -> str:
        """The first line of the span, without its end; empty where the source cannot be read."""
        return self._text(self.line).rstrip("\r\n")

    def _text(self, line: int) -> str:
        if self.lines is None:
            import linecache  # 1 ms, with `tokenize`, which only a message needs

            return linecache.getline(self.file, line)
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def _source_line(self, indent: str) -> str:
        text = self._text(self.line).rstrip()
        return f"\n{indent}{text.strip()}" if text else ""

    def _line_and_caret(self) -> str:
        text = self._text(self.line).rstrip("\n")
        if not text.strip():
            return ""
        stripped = text.lstrip()
        removed = len(text) - len(stripped)
        end = self.end_column if self.end_line == self.line else len(text.rstrip())
        start = max(self.column - removed, 0)
        width = max(end - max(self.column, removed), 1)
        return f"\n    {stripped.rstrip()}\n    {' ' * start}{'^' * width}"


UNKNOWN_LOCATION: Final = SourceLocation(_UNKNOWN_FILE, 0)
