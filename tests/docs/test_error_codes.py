# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md has every code that weft raises, with its message."""

from __future__ import annotations

import re

from docs import generate_errors


def test_page_is_what_the_source_says():
    assert generate_errors.PAGE.read_text() == generate_errors.page(), "run: make docs"


def test_every_code_that_is_raised_has_a_row():
    source = generate_errors.ROOT / "src" / "weft"
    raised = set()
    for path in source.rglob("*.py"):
        # A code is the first argument of an error: SomeError("CODE", or on the line after.
        raised |= set(re.findall(r'Error\(\s*"([A-Z][A-Z0-9_]{2,})"', path.read_text()))
    rows = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", generate_errors.page(), re.MULTILINE))
    assert sorted(raised - rows) == []


def test_message_with_holes_is_readable():
    tree = generate_errors.ast.parse(
        'raise CompileError("TOO_LARGE", f"{a} is " f"too large: {b!r}", hint="shrink it")'
    )
    call = tree.body[0].exc
    assert generate_errors.entry_of(call) == ("TOO_LARGE", "… is too large: …", "shrink it")


def test_every_code_has_a_cause_and_a_cure():
    source = generate_errors.ROOT / "src" / "weft"
    codes = {entry.code for path in source.rglob("*.py") for entry in generate_errors.entries(path)}
    rows = generate_errors.rows_of("compile_errors.txt")
    assert [row for row in rows if len(row) != 3 or not all(row)] == []
    assert sorted(row[0] for row in rows) == sorted(codes), "add it to docs/compile_errors.txt"
