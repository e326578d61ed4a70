# SPDX-License-Identifier: Apache-2.0
"""Writes docs/errors.md: every message of compile time and of call time, with its cause and its cure.

In: the source of weft, where each error is raised with code and message; compile_errors.txt and call_errors.txt,
which say why and what to do. Out: the page; `python -m docs.generate_errors` writes it, and tests/docs compares.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).parent / "errors.md"
CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")

# Rooms in the order in which a compilation meets them; the first match takes the file.
ROOMS = (
    ("Decorators, compile and its options", ("api.py", "compiler/")),
    ("Arguments and annotations", ("arguments/", "types/")),
    ("The autotuner", ("autotuner/",)),
    ("Names, syntax and control flow", ("frontend/", "language/functions.py")),
    ("Values and operations", ("language/", "dialects/")),
    ("Machine code and loading", ("backends/", "codegen/", "passes/", "ffi_wrapper", "ffi/")),
    ("Running", ("runtime/", "driver/", "config.py", "errors.py", "location.py", "__init__.py")),
)

HEAD = """\
# Errors

## While compiling

A message has the place in your file, the line with a caret, a stable code in brackets, one sentence, and a hint. Where
a function was called from another one, each call has its place. The exceptions are subclasses of `weft.WeftError`; see
[their reference](reference/errors.md). `error.code`, `error.message`, `error.hint` and `error.location` hold the parts.

```text
saxpy.py:9, in saxpy_kernel:
    y[i] = a * x[i] + y
           ^^^^^^^^^^^^
[TYPE_NOT_A_NUMBER] f32 + Tensor[f32, (?,)]: expected a number, got Tensor[f32, (?,)]
  hint: read an element: tensor[index]
```

In the tables, `…` stands for text that the message fills in. Most messages have a hint with the names of the case at
hand; the last column is its general form.
"""

CALL = """
## While calling

A call raises Python's own exceptions: `TypeError` for a wrong count or kind of arguments, `ValueError` for a value that
the compiled function refuses, `weft.CudaError` (a `RuntimeError`) for the driver, `AssertionError` for an `assert` in a
kernel. The message begins with the function's signature and names the argument, what was received and what was expected:

```text
add_one(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)]): argument #1 'b': shape[0] is 12, expected 10 to match a.shape[0]
```

Nothing has been launched and nothing was written when an argument is refused. The tables have what follows that
beginning. A direct call compiles first, so that it may raise an error of the tables above instead; those of arguments
are a `TypeError`, or a `ValueError` where the kind was right.
"""

TAIL = """
*Written by `python -m docs.generate_errors` from the source, `docs/compile_errors.txt` and `docs/call_errors.txt`.*
"""


class Cause(NamedTuple):
    """Why a code is raised, and what to do about it."""

    cause: str
    cure: str


class CallError(NamedTuple):
    """One message of a call: its key, its exception, its text with `…` for variable parts, cause and cure."""

    key: str
    exception: str
    message: str
    cause: str
    cure: str


class Entry(NamedTuple):
    """One place that raises an error: its code, its message and its hint, with holes as `…`."""

    code: str
    message: str
    hint: str


def text_of(node: ast.AST | None) -> str:
    """A message as the source has it, with `…` for variable parts; empty if it is not a string."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) for part in parts)
        case ast.FormattedValue() | ast.Name() | ast.Attribute() | ast.Call():
            return "…"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left) + text_of(right)
        case ast.IfExp(body=body):
            return text_of(body)
        case _:
            return ""


def is_code(node: ast.AST) -> bool:
    """Whether a node is a string that looks like a code."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and len(node.value) > 2
        and CODE.fullmatch(node.value) is not None
    )


def entry_of(node: ast.AST) -> Entry | None:
    """The error that a call or a row of a table describes, or None."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[code, message, *_]):
            if not is_code(code) or not name.lower().endswith(("error", "refuse", "refused")):
                return None
            hints = [keyword.value for keyword in node.keywords if keyword.arg == "hint"]
            return Entry(text_of(code), text_of(message), text_of(hints[0]) if hints else "")
        case ast.Tuple(elts=[code, message, hint]) if is_code(code) and not is_code(message):
            return Entry(text_of(code), text_of(message), text_of(hint))
        case _:
            return None


@functools.cache  # the tests of this page read every file three times
def entries(path: Path) -> list[Entry]:
    """The errors that a file raises, in its order, each once."""
    found = (entry_of(node) for node in ast.walk(ast.parse(path.read_text())))
    return list(dict.fromkeys(entry for entry in found if entry is not None and entry.message))


def room_of(path: Path) -> str:
    """The heading under which a file's errors stand."""
    place = str(path.relative_to(ROOT / "src" / "weft"))
    return next((title for title, starts in ROOMS if place.startswith(starts)), ROOMS[-1][0])


def cell(text: str) -> str:
    """A text as a table's cell."""
    return " ".join(text.replace("|", "\\|").split())


def rows_of(name: str) -> list[list[str]]:
    """The rows of a table beside this file, split into cells; a heading `== text` is a row of one."""
    lines = (Path(__file__).parent / name).read_text().splitlines()
    return [line.split(" | ") for line in lines if line.strip() and not line.startswith("#")]


def causes() -> dict[str, Cause]:
    """Code → cause and cure."""
    return {code: Cause(*rest) for code, *rest in rows_of("compile_errors.txt")}


def call_errors() -> dict[str, list[CallError]]:
    """Heading → errors of a call."""
    found: dict[str, list[CallError]] = {}
    for row in rows_of("call_errors.txt"):
        if row[0].startswith("=="):
            found[row[0].removeprefix("==").strip()] = []
        else:
            found[next(reversed(found))].append(CallError(*row))
    return found


def call_tables() -> str:
    """The tables of call time."""
    parts = [CALL]
    for title, found in call_errors().items():
        parts.append(
            f"\n### {title}\n\n| exception | message | why | what to do |\n|---|---|---|---|\n"
        )
        for error in found:
            cells = map(cell, (f"`{error.exception}`", *error[2:]))
            parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def page() -> str:
    """The page as it should be."""
    rooms: dict[str, list[Entry]] = {title: [] for title, _ in ROOMS}
    for path in sorted((ROOT / "src" / "weft").rglob("*.py")):
        rooms[room_of(path)] += entries(path)
    why = causes()
    lacking = {entry.code for found in rooms.values() for entry in found} - why.keys()
    if lacking:
        raise SystemExit(f"docs/compile_errors.txt has no row for {', '.join(sorted(lacking))}")
    parts = [HEAD]
    for title, found in rooms.items():
        if not found:
            continue
        parts.append(f"\n### {title}\n\n| code | message | why | what to do |\n|---|---|---|---|\n")
        messages: dict[str, list[str]] = {}
        for entry in sorted(dict.fromkeys(found)):
            messages.setdefault(entry.code, []).append(cell(entry.message))
        for code, texts in messages.items():
            said = "<br>".join(dict.fromkeys(text for text in texts if text != "…")) or "…"
            parts.append(f"| `{code}` | {said} | {' | '.join(map(cell, why[code]))} |\n")
    return "".join(parts) + call_tables() + TAIL


if __name__ == "__main__":
    PAGE.write_text(page())
