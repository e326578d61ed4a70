# SPDX-License-Identifier: Apache-2.0
"""Text that Python does not keep: typed at the prompt, given with ``-c``, or read from standard input.

In: the code of a function without a file. Out: its source lines, verified by compiling them.
"""

from __future__ import annotations

import ast
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, Final

from weft.language.source_text import SourceText

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType

_COMMAND_LINE: Final = "<string>"
_STANDARD_INPUT: Final = "<stdin>"
_LONGEST_STATEMENT: Final = 1000  # lines tried as one statement of the prompt
_LONGEST_HISTORY: Final = 5000
_MOST_BYTES: Final = 1 << 24
_GOES_ON: Final = (
    " ",
    "\t",
    "else:",
    "elif ",
    "except",
    "finally:",
)  # a line that cannot begin a statement


def find_unsaved(code: CodeType) -> Sequence[str]:
    """The lines of the text that defines this code, which has no file; empty if they are gone."""
    name = code.co_filename
    if name == _COMMAND_LINE:
        candidates = _given_with_c()
    elif name == _STANDARD_INPUT:
        candidates = [*_standard_input(), *_typed(code)] if not _is_prompt() else _typed(code)
    else:
        return []
    for candidate in candidates:
        text = SourceText(name, candidate.splitlines(keepends=True))
        if text.has(code):
            return text.lines
    return []


def _given_with_c() -> list[str]:
    arguments = sys.orig_argv
    if "-c" not in arguments[:-1]:
        return []
    return [arguments[arguments.index("-c") + 1] + "\n"]


def _is_prompt() -> bool:
    return hasattr(sys, "ps1")


def _standard_input() -> list[str]:
    """All of standard input, if it is a file that can be read again."""
    try:
        if not stat.S_ISREG(os.fstat(0).st_mode):
            return []
        return [os.pread(0, _MOST_BYTES, 0).decode()]
    except (OSError, UnicodeDecodeError):
        return []


def _typed(code: CodeType) -> Iterator[str]:
    """Statements in the prompt's history that may define this code, newest first.

    The prompt counts the lines of each statement from 1. Parsing shows which lines form a statement.
    """
    history = _history()
    first = code.co_firstlineno - 1
    for start in range(len(history) - 1 - first, -1, -1):
        line = history[start + first].lstrip()
        if not line.startswith(("@", "def ", "async ")) and "lambda" not in line:
            continue
        text = _statement(history, start, start + first + 1)
        if text is not None:
            yield text


def _statement(history: list[str], start: int, least: int) -> str | None:
    """The statement that begins at a line of the history and contains a line before `least`."""
    for end in range(least, min(len(history), start + _LONGEST_STATEMENT) + 1):
        if end < len(history) and history[end].startswith(_GOES_ON):
            continue
        text = "\n".join(history[start:end]) + "\n"
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            continue  # a decorator without its function, or an open bracket
        return text
    return None


def _history() -> list[str]:
    readline: Any = sys.modules.get("readline")
    if readline is None:
        return []
    count = readline.get_current_history_length()
    first = max(1, count - _LONGEST_HISTORY)
    lines = (readline.get_history_item(index) for index in range(first, count + 1))
    return [line or "" for line in lines]
